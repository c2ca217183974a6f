"""Numbers as people read them; a dash stands for what is not known."""

from __future__ import annotations


def number(value: float | None, digits: int) -> str:
    """With a narrow space between thousands."""
    return "–" if value is None else f"{value:,.{digits}f}".replace(",", "\u202f")


def percent(value: float | None, digits: int = 0) -> str:
    """A share, as hundredths."""
    return "–" if value is None else f"{value * 100:.{digits}f}\u202f%"


def milliseconds(value: float | None) -> str:
    """Seconds, as thousandths."""
    return "–" if value is None else f"{number(value * 1000, 0)}\u202fms"


def times(value: float | None) -> str:
    """A factor."""
    return "–" if value is None else f"{value:.2f}×"  # noqa: RUF001 - the sign of multiplication
