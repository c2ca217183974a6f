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
    problem = errors.refused(refusal, "m")
    assert problem.status == status
    assert ((b"retry-after", b"1") in problem.response_headers()) is retry
    assert "words" in problem.message


@pytest.mark.parametrize(("back_in", "told"), [(None, b"1"), (0.2, b"1"), (4.01, b"5")])
@pytest.mark.parametrize("busy", [True, False])
def test_a_refusal_says_when_to_come_back(busy, back_in, told):
    refusal = replace(no(reasons.ALL_REJECTED, busy=busy), back_in=back_in)
    assert (b"retry-after", told) in errors.refused(refusal, "m").response_headers()


def test_bodies_are_shaped_as_openai_clients_read_them():
    assert json.loads(errors.invalid("bad", param="n").body()) == {
        "error": {"message": "bad", "type": "invalid_request_error", "param": "n", "code": "invalid_request"}
    }


def test_a_body_for_clients_of_messages_says_that_it_is_an_error():
    assert json.loads(errors.invalid("bad").body("messages")) == {
        "type": "error",
        **json.loads(errors.invalid("bad").body("chat")),
    }


def test_an_event_is_one_event():
    event = errors.event(errors.broken_off("b1", "reset").body())
    assert event.startswith(b"data: {")
    assert event.endswith(b"}\n\n")
    assert json.loads(event[6:])["error"]["code"] == "upstream_broken_off"


BODY = b'{"error": {"message": "no",\n"type": "server_error", "param": null, "code": "c"}}'


def test_an_event_of_messages_has_the_name_without_which_clients_pass_it_over():
    name, data, *rest = errors.event(BODY, "messages", 3).split(b"\n")
    assert (name, rest) == (b"event: error", [b"", b""])
    assert json.loads(data.removeprefix(b"data: ")) == {"type": "error", **json.loads(BODY)}


def test_an_event_of_responses_has_a_number_and_says_it_both_ways():
    name, data, *rest = errors.event(BODY, "responses", 3).split(b"\n")
    assert (name, rest) == (b"event: error", [b"", b""])
    said = json.loads(data.removeprefix(b"data: "))
    assert said.pop("error") == json.loads(BODY)["error"]
    assert said == {"type": "error", "code": "c", "message": "no", "param": None, "sequence_number": 3}


@pytest.mark.parametrize("endpoint", ["chat", "completions", "other"])
def test_an_event_of_others_is_data_alone(endpoint):
    first, second = BODY.split(b"\n")
    assert errors.event(BODY, endpoint, 3) == b"data: " + first + b"\ndata: " + second + b"\n\n"


@pytest.mark.parametrize(
    ("body", "status", "message", "kind"),
    [
        (b"<html>Bad Gateway</html>", 502, "backend b answered with status 502", "server_error"),
        (b"", 503, "backend b answered with status 503", "server_error"),
        (b'{"detail": "nope"}', 404, "nope", "invalid_request_error"),
        (b'{"detail": [{"loc": 1}]}', 422, "backend b answered with status 422", "invalid_request_error"),
        (
            b'{"object": "error", "message": "old form", "code": 400}',
            400,
            "old form",
            "invalid_request_error",
        ),
        (b'{"error": "words"}', 500, "words", "server_error"),
        (b'{"error": {}}', 500, None, None),
        (b"[1]", 429, "backend b answered with status 429", "rate_limit_error"),
        (b"[" * 100_000, 500, "backend b answered with status 500", "server_error"),
        (b"\xff", 401, "backend b answered with status 401", "authentication_error"),
        (BODY, 500, "no", "server_error"),
    ],
)
def test_what_a_backend_says_of_its_error_becomes_an_error_for_every_client(body, status, message, kind):
    said = errors.said(body, status, "b")
    assert said == body or json.loads(said)["error"]["code"] == "upstream_error"
    error = json.loads(said)["error"]
    assert (error.get("message"), error.get("type")) == (message, kind)


def test_timeouts_are_gateway_timeouts():
    assert errors.unreachable("b", "timeout:first_byte").status == 504
    assert errors.unreachable("b", "reset").status == 502


@pytest.mark.parametrize(
    ("model", "told"),
    [("m/x", "The model `m/x` does not exist"), ("sk-4f9d2c71aa", "The model asked for does not exist")],
)
def test_a_model_that_looks_like_a_key_is_not_repeated(model: str, told: str) -> None:
    detail = f"The model `{model}` does not exist; there are: a"
    refusal = NoCandidate(reasons.UNKNOWN_MODEL, detail, False, None, (), "p", "f")
    assert errors.refused(refusal, model).message == f"{told}; there are: a"
