import json
from dataclasses import replace

import pytest

from gateway.core import reasons
from gateway.core.decide import NoCandidate
from gateway.wire import errors


def no(kind, *, busy=False):
    return NoCandidate(kind, "words", busy, None, (), "p", "f")


@pytest.mark.parametrize(
    ("refusal", "status", "retry"),
    [
        (no(reasons.UNKNOWN_MODEL), 404, False),
        (no(reasons.NO_ROUTE), 404, False),
        (no(reasons.UNKNOWN_BACKEND), 400, False),
        (no(reasons.PIN_NOT_ALLOWED), 403, False),
        (no(reasons.ALL_REJECTED, busy=True), 429, True),
        (no(reasons.ALL_REJECTED), 503, True),
        (no(reasons.EMPTY_POOL), 503, True),
    ],
)
def test_refusals_become_the_status_a_client_expects(refusal, status, retry):
    problem = errors.refused(refusal)
    assert problem.status == status
    assert ((b"retry-after", b"1") in problem.response_headers()) is retry
    assert "words" in problem.message


@pytest.mark.parametrize(("back_in", "told"), [(None, b"1"), (0.2, b"1"), (4.01, b"5")])
@pytest.mark.parametrize("busy", [True, False])
def test_a_refusal_says_when_to_come_back(busy, back_in, told):
    refusal = replace(no(reasons.ALL_REJECTED, busy=busy), back_in=back_in)
    assert (b"retry-after", told) in errors.refused(refusal).response_headers()


def test_bodies_are_shaped_as_openai_clients_read_them():
    assert json.loads(errors.invalid("bad", param="n").body()) == {
        "error": {"message": "bad", "type": "invalid_request_error", "param": "n", "code": "invalid_request"}
    }


def test_an_event_is_one_event():
    event = errors.broken_off("b1", "reset").event()
    assert event.startswith(b"data: {")
    assert event.endswith(b"}\n\n")
    assert json.loads(event[6:])["error"]["code"] == "upstream_broken_off"


def test_timeouts_are_gateway_timeouts():
    assert errors.unreachable("b", "timeout:first_byte").status == 504
    assert errors.unreachable("b", "reset").status == 502
