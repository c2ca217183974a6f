import json

import pytest

from gateway.core.fleet import Backend
from gateway.core.outcome import Usage, accepted_by_position
from gateway.wire.chunks import carries_token, decode
from gateway.wire.reading import Reading

SPECULATIVE = Backend("b", "http://b", "t", "t", method="dflash", draft_tokens=3)


def read(**fields):
    reading = Reading()
    take(reading, json.dumps(fields).encode())
    return reading


def take(reading, data):
    body = decode(data)
    assert body is not None
    reading.take(body, data)


def spoken(**fields):
    numbers = {
        "num_spec_steps": 4,
        "num_draft_tokens": 12,
        "num_accepted_draft_tokens": 5,
        "acceptance_histogram": [1, 2, 0, 1],
    }
    return read(metrics={"speculative_decoding": numbers | fields})


def test_usage_and_identity_are_read():
    reading = read(
        id="x", model="m", usage={"prompt_tokens": 3, "completion_tokens": 5, "prompt_tokens_details": None}
    )
    assert reading.usage == Usage(3, 5, None)
    assert (reading.response_id, reading.response_model) == ("x", "m")


@pytest.mark.parametrize(
    ("kind", "ended", "error"),
    [
        ("message_stop", True, ""),
        ("response.completed", True, ""),
        ("response.incomplete", True, ""),
        ("response.failed", True, "error_event"),
        ("error", False, "error_event"),
        ("message_delta", False, ""),
        (7, False, ""),
        (["error"], False, ""),
    ],
)
def test_the_type_of_an_event_tells_whether_it_is_the_last_and_whether_it_went_well(kind, ended, error):
    reading = read(type=kind, sequence_number=4)
    assert (reading.ended, reading.error) == (ended, error)
    assert reading.sequence == (5 if isinstance(kind, str) else 0)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"code": 400}, "error_event:4xx"),
        ({"code": 429}, "error_event"),
        ({"code": 500, "type": "invalid_request_error"}, "error_event"),
        ({"type": "invalid_request_error"}, "error_event:4xx"),
        ({"code": "x", "type": "invalid_request_error"}, "error_event:4xx"),
        ({"type": "overloaded_error"}, "error_event"),
        ("words", "error_event"),
    ],
)
def test_whose_fault_an_error_is(error, expected):
    assert read(type="error", error=error).error == expected


def test_each_choice_ends_once():
    end = {"finish_reason": "stop", "delta": {}}
    assert read(choices=[end, {**end, "index": 1}, {**end, "index": 1}]).finished == {0, 1}


def test_exact_numbers_are_taken_when_they_agree():
    speculation = spoken().speculation(SPECULATIVE)
    assert speculation.grade == "exact"
    assert accepted_by_position(speculation.histogram) == (3, 1, 1)
    assert speculation.mean_accepted_length == pytest.approx(1 + 5 / 4)


@pytest.mark.parametrize(
    "contradiction",
    [
        {"num_spec_steps": 5},
        {"num_accepted_draft_tokens": 6},
        {"num_draft_tokens": 4},
        {"acceptance_histogram": [3, -1, 0, 2]},
        {"acceptance_histogram": [1, 2, 0, 1] + [0] * 1000},
    ],
    ids=["steps", "accepted", "drafted", "negative", "endless"],
)
def test_numbers_that_contradict_each_other_are_not_measured(contradiction):
    assert spoken(**contradiction).speculation(SPECULATIVE).grade == "not_measured"


def test_a_baseline_has_nothing_to_measure():
    assert spoken().speculation(Backend("b", "http://b", "t", "t")).grade == "none"


def test_a_server_that_does_not_say_is_not_measured():
    assert read(metrics=None).speculation(SPECULATIVE).grade == "not_measured"
    assert read(metrics={"speculative_decoding": None}).speculation(SPECULATIVE).grade == "not_measured"


def test_what_is_nested_too_deeply_reads_as_nothing():
    assert decode(b'{"metrics":' + b"[" * 100_000 + b"]" * 100_000 + b"}") is None


def test_what_is_no_object_reads_as_nothing():
    assert decode(b"[1]") is None
    assert decode(b"\xff") is None
    assert decode(b"") is None


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"delta": {"role": "assistant", "content": ""}}, False),
        ({"delta": {"role": "assistant", "content": "Hi"}}, True),
        ({"delta": {"content": ""}}, True),
        ({"delta": {}}, False),
        ({"delta": {"reasoning": "hm"}}, True),
        ({"delta": {"tool_calls": [{"index": 0}]}}, True),
        ({"text": ""}, True),
        ({"delta": {"role": "assistant"}, "token_ids": [4]}, True),
    ],
)
def test_which_chunks_carry_a_token(choice, expected):
    body = decode(json.dumps({"choices": [choice]}).encode())
    assert body is not None
    assert carries_token(body) is expected


def test_an_empty_list_of_tool_calls_is_none():
    assert not read(choices=[{"message": {"content": "a", "tool_calls": []}}]).tool_calls
    assert read(
        choices=[{"message": {"tool_calls": [{"id": "1"}]}, "finish_reason": "tool_calls"}]
    ).tool_calls


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"code": 400}, "error_event:4xx"),
        ({"code": 422, "message": "x"}, "error_event:4xx"),
        ({"code": 429}, "error_event"),
        ({"code": 500}, "error_event"),
        ({"code": "400"}, "error_event"),
        ({}, "error_event"),
        ("engine died", "error_event"),
    ],
)
def test_an_error_within_an_answer_says_whose_fault_it_is(error, expected):
    assert read(error=error).error == expected


def test_usage_in_each_event_tells_the_most_tokens_of_one() -> None:
    reading = Reading()
    for tokens in (1, 3, 8, 9, 9):
        take(reading, json.dumps({"usage": {"completion_tokens": tokens}}).encode())
    assert reading.most_tokens == 5
    assert read(usage={"completion_tokens": 9}).most_tokens == 0


def test_the_opening_is_that_of_the_first_choice_without_reasoning():
    assert read(choices=[{"message": {"content": "Hi", "reasoning": "hm"}}, {"text": "x"}]).opening() == "Hi"
    assert read(choices=[{"text": "Once"}]).opening() == "Once"
    assert read(choices=[{"delta": {"content": None}}]).opening() == ""
    assert read(choices=[]).opening() == ""


def test_kept_events_are_part_of_the_opening_in_their_order():
    reading = read(choices=[{"delta": {"content": "a"}}])
    reading.keep(b'{"choices":[{"delta":{"content":"b"}}]}')
    reading.keep(b"no JSON")
    take(reading, b'{"choices":[{"delta":{"content":"c"}}]}')
    assert reading.opening() == "abc"


def test_the_opening_is_short_however_long_the_answer():
    reading = read(choices=[{"text": "x" * 10_000}])
    for _ in range(10_000):
        reading.keep(b'{"choices":[{"text":"y"}]}')
        take(reading, b'{"choices":[{"text":"z"}]}')
    assert reading.opening() == "x" * 600
    assert len(reading._opening) < 100
