from __future__ import annotations

import pytest

from gateway.core import failover, reasons
from gateway.core.decide import NoCandidate
from gateway.telemetry import names
from gateway.telemetry.failures import error_class, error_type
from gateway.wire import errors


@pytest.mark.parametrize(
    ("error", "told", "kind"),
    [
        ("status:503", "status:503", "503"), ("status:418", "status:4xx", "4xx"), ("status:599", "status:5xx", "5xx"),
        ("status:302", "status:3xx", "3xx"), ("timeout:idle", "timeout:idle", "timeout:idle"), ("reset", "reset", "reset"),
        ("status:999", "other", "_OTHER"), ("made up", "other", "_OTHER"), ("status:", "other", "_OTHER"),
    ],
)  # fmt: skip
def test_each_error_has_a_class_of_a_closed_set(error: str, told: str, kind: str) -> None:
    assert error_class(error) == told
    assert error_type(error) == kind


def test_where_there_is_no_error_there_is_no_type() -> None:
    assert error_type("") == ""


def refused(kind: str) -> errors.Problem:
    return errors.refused(NoCandidate(kind, "", False, None, (), "", ""), "m")


@pytest.mark.parametrize(
    "error",
    [
        *dict.fromkeys(error for error, _ in failover.RULES),
        *(refused(kind).code for kind in reasons.REFUSALS if kind != reasons.UNREADABLE),
        *(each.code for each in (errors.INTERNAL, errors.GOING_DOWN, errors.OVERLOADED, errors.TOO_SLOW)),
        *(each("x").code for each in (errors.invalid, errors.unknown_coding, errors.no_such_model)),
        errors.too_large(1).code, errors.head_too_large(414, "").code,
    ],
)  # fmt: skip
def test_whatever_the_gateway_tells_is_in_it(error: str) -> None:
    assert error_class(error) != names.OTHER
