from __future__ import annotations

from pathlib import Path

import pytest

from backends.sweep.answer import Answer
from backends.sweep.model import BASELINE, Candidate, Cell, Sample
from tests.unit.backends.sweep.making import CODE

SPEC = Path(__file__).parents[4] / "tests" / "fixtures" / "vllm" / "spec"
CELL = Cell(Candidate("ngram", 4), CODE)


def read(stream: bytes, *, cell: Cell = CELL, piece: int = 0) -> Sample:
    answer = Answer(0.0)
    step = piece or len(stream) or 1
    for place in range(0, len(stream), step):
        answer.take(stream[place : place + step], 1.0 + place / 1e5)
    return answer.sample(cell, 0, "p", 9.0, measured=True)


@pytest.mark.parametrize("method", ["dflash", "draft_model", "eagle3", "mtp", "ngram", "suffix"])
def test_captured_streams_of_a_real_server_are_read(method: str) -> None:
    stream = (SPEC / f"{method}.sse").read_bytes()
    stream = stream[stream.index(b"data:") :]
    one = read(stream)
    assert one.error == ""
    assert one.output_tokens == 40
    assert one.decode_tokens == 39
    assert one.steps is not None
    assert sum(one.histogram) == one.steps
    assert one.finish == "length"
    assert one.digest
    # However the bytes come, the numbers and the text are the same.
    pieces = read(stream, piece=7)
    assert (pieces.steps, pieces.digest, pieces.output_tokens) == (one.steps, one.digest, one.output_tokens)
    assert pieces.ttft is not None
    assert 1.0 <= pieces.ttft < 1.2
    assert pieces.decode_seconds > 0.0


def test_a_baseline_has_no_acceptance_whatever_is_told() -> None:
    stream = (SPEC / "ngram.sse").read_bytes()
    assert read(stream, cell=Cell(BASELINE, CODE)).steps is None


def event(text: str) -> bytes:
    return f"data: {text}\n\n".encode()


ROLE = event('{"choices":[{"delta":{"role":"assistant","content":""}}]}')
WORD = event('{"choices":[{"delta":{"content":"a"}}]}')
USAGE = event('{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}')
DONE = event("[DONE]")


@pytest.mark.parametrize(
    ("stream", "error"),
    [
        (ROLE + WORD + USAGE, "the stream broke off"),
        (ROLE + WORD + DONE, "the answer holds no usage"),
        (ROLE + USAGE + DONE, "the answer holds no token"),
        (ROLE + event("{") + WORD + USAGE + DONE, "an event that is not JSON"),
        (ROLE + event('{"error":{"message":"dead","code":500}}') + DONE, "error event: {'message': 'dead'"),
        (b"", "the stream broke off"),
    ],
)
def test_what_is_wrong_with_an_answer_is_said(stream: bytes, error: str) -> None:
    assert read(stream).error.startswith(error)


def test_numbers_that_contradict_each_other_count_as_not_told() -> None:
    told = '{"num_spec_steps":3,"num_draft_tokens":6,"num_accepted_draft_tokens":9,"acceptance_histogram":[1,1,1]}'
    stream = (
        ROLE + WORD + USAGE + event('{"choices":[],"metrics":{"speculative_decoding":' + told + "}}") + DONE
    )
    one = read(stream)
    assert (one.error, one.steps, one.histogram) == ("", None, ())


def test_tool_calls_are_compared_without_their_ids() -> None:
    def call(number: int) -> bytes:
        tools = f'[{{"index":0,"id":"call-{number}","function":{{"name":"look","arguments":"{{}}"}}}}]'
        return ROLE + event('{"choices":[{"delta":{"tool_calls":' + tools + "}}]}") + USAGE + DONE

    assert read(call(1)).digest == read(call(2)).digest
    assert read(call(1)).error == ""
    assert read(call(1)).digest != read(ROLE + WORD + USAGE + DONE).digest


def test_reasoning_and_held_back_bytes_are_tokens() -> None:
    for text in ('{"reasoning":"hm"}', '{"reasoning_content":"hm"}', '{"content":""}'):
        one = read(ROLE + event('{"choices":[{"delta":' + text + "}]}") + USAGE + DONE)
        assert one.ttft is not None
