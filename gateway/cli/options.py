"""Values of options that are more than a word: lists, shares, times, mixes and limits."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gateway.cli.files import refuse

if TYPE_CHECKING:
    from collections.abc import Collection

    from backends.sweep.roles import Limit


def listed(text: str) -> list[str]:
    """Words with commas between them."""
    return [one.strip() for one in text.split(",") if one.strip()]


MOST_IN_FLIGHT: Final = 4096
"""No server holds more in one batch, and this process would be what is measured."""


def numbers(text: str) -> list[int]:
    """Concurrency levels, ascending."""
    found = listed(text)
    if not found or not all(one.isdecimal() and 0 < int(one) <= MOST_IN_FLIGHT for one in found):
        which = f"numbers up to {MOST_IN_FLIGHT} with commas, such as 1,8,32"
        refuse(f"{text!r} are no concurrency levels; write {which}")
    return sorted({int(one) for one in found})


def share(text: str) -> float:
    """A share such as 3%."""
    try:
        value = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        value = 0.0
    if not 0.0 < value < 1.0:
        refuse(f"{text!r} is no precision; write a share such as 3%")
    return value


def seconds(text: str) -> float:
    """A time such as 2h; endless if left out."""
    if not text:
        return float("inf")
    number, unit = text[:-1], {"s": 1.0, "m": 60.0, "h": 3600.0}.get(text[-1])
    if unit is None or not number.replace(".", "", 1).isdecimal():
        refuse(f"{text!r} is no budget; write a time such as 90m or 2h")
    return float(number) * unit


def mix(text: str, texts: Collection[str]) -> dict[str, float] | None:
    """Shares of requests by workload or kind of work; None if left out."""
    if not text:
        return None
    found: dict[str, float] = {}
    for part in listed(text):
        name, _, share = part.partition("=")
        if name not in texts or not share.replace(".", "", 1).isdecimal():
            refuse(f"{part!r} is no share of a workload; write code=3, of {', '.join(texts)}")
        found[name] = float(share)
    if not sum(found.values()):
        refuse(f"{text!r} has no share above 0; write code=3,chat=1")
    return found


_LIMIT = re.compile(r"(?P<workload>[^=]+)=(?P<number>\d+(?:\.\d+)?)(?P<unit>ms|s)@(?P<rate>\d+(?:\.\d+)?)")


def limit(text: str, texts: Collection[str]) -> Limit:
    """A limit on the time per token of a workload, such as chat=40ms@2.5."""
    from backends.sweep.roles import Limit

    found = _LIMIT.fullmatch(text)
    if found is None or found["workload"] not in texts:
        refuse(f"{text!r} is no limit of a workload; write chat=40ms@2.5, of {', '.join(texts)}")
    seconds = float(found["number"]) / (1e3 if found["unit"] == "ms" else 1.0)
    return Limit(found["workload"], seconds, float(found["rate"]))
