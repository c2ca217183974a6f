"""Asking a running gateway how it is."""

from __future__ import annotations

from typing import Any, Final

from gateway.cli.files import refuse

GATEWAY: Final = "http://127.0.0.1:8000"
WITHIN: Final = 10.0
"""Seconds in which the gateway must answer."""


def status(gateway: str, part: str) -> dict[str, Any]:
    """A part of a gateway's ``/status``; the command ends with exit code 2 where that cannot be had.

    Args:
        gateway: Its address.
        part: Key of the part.
    """
    import httpx

    gateway = gateway.rstrip("/")
    try:
        answer = httpx.get(f"{gateway}/status", timeout=WITHIN, trust_env=False)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        refuse(f"{gateway} cannot be asked: {error}; give the address of a running gateway")
    if answer.status_code != httpx.codes.OK:
        refuse(f"{gateway}/status answers {answer.status_code}; give the address of a running gateway")
    try:
        found: dict[str, Any] = answer.json()[part]
    except (ValueError, KeyError, TypeError):
        refuse(f"{gateway}/status tells nothing of {part}; give the address of a running gateway")
    return found
