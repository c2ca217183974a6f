"""HTML from Python: elements whose text is escaped, whatever it is."""

from __future__ import annotations

from html import escape


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, *children: str | float | None, **attributes: str | bool | float | None) -> Html:
    """One element.

    Args:
        name: Its name.
        children: What is in it; everything but :class:`Html` is escaped, None is nothing.
        attributes: Values are escaped; True is the name alone, False and None are left out. ``_`` in a name
            is ``-``, and one at its end is dropped, as in ``class_``.
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    inside = "".join(map(_child, children))
    return Html(f"<{name}{written}>{inside}</{name}>")


def join(*parts: Html) -> Html:
    """Several elements, one after the other."""
    return Html("".join(parts))


def _attribute(key: str, value: str | bool | float | None) -> str:  # noqa: FBT001 - as HTML has them
    if value is None or value is False:
        return ""
    key = key.rstrip("_").replace("_", "-")
    return f" {key}" if value is True else f' {key}="{escape(str(value))}"'


def _child(child: str | float | None) -> str:
    if child is None:
        return ""
    return child if isinstance(child, Html) else escape(str(child))
