from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gateway.core.curve import crowding
from gateway.core.predict import GREEDY, SAMPLED, Cell, ServerModel
from gateway.policy.learned import UnusableLearnedError, dump, parse
from tests.factories import SERVER_MODEL

MODEL = replace(
    SERVER_MODEL,
    steps_per_token={
        Cell("code", 0, SAMPLED): 0.25,
        Cell("code", 0, GREEDY): 0.2501,
        Cell("code", 2, GREEDY): 0.5,
    },
    output_tokens={"code": 400.0},
    evidence={"code": 12.0},
)


def test_what_is_written_is_read_again() -> None:
    (name, found), *more = parse(dump({"a": MODEL})).items()
    assert (name, more) == ("a", [])
    assert found.fingerprint == "one"
    assert found.steps_per_token[Cell("code", 2, GREEDY)] == 0.5
    others = {rate for cell, rate in found.steps_per_token.items() if cell != Cell("code", 2, GREEDY)}
    assert others == {0.25}, "what is not written is like what is usual"
    assert found.other_steps_per_token == pytest.approx(0.4)
    assert found.step_seconds == pytest.approx(MODEL.step_seconds, rel=1e-3)
    assert found.crowding == crowding(found.step_seconds)  # the price that the learner takes
    assert (found.prefill_seconds, found.output_tokens, found.other_output_tokens) == (
        1e-5,
        {"code": 400.0},
        300.0,
    )
    assert (found.prompt_tokens, found.evidence) == ({"chat": 300.0, "code": 300.0}, {"code": 12.0})


def test_what_is_usual_of_a_workload_is_of_short_prompts_and_sampled() -> None:
    cells = {Cell("code", 0, GREEDY): 0.4, Cell("code", 0, SAMPLED): 0.25, Cell("code", 2, SAMPLED): 0.5}
    (found,) = parse(dump({"a": replace(MODEL, steps_per_token=cells)})).values()
    assert {cell: found.steps_per_token[cell] for cell in cells} == cells
    assert found.steps_per_token[Cell("code", 1, GREEDY)] == 0.25


def test_the_file_says_what_it_is() -> None:
    text = dump({"a": ServerModel("x", prompt_tokens={"chat": 0.0})}, "mine.yaml")
    assert text.startswith("# What a gateway has learnt")
    assert "mine.yaml" in text
    assert "other: 1.0" in text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "no YAML"),
        ("version: 2\nservers: {}\n", "version: Input should be 1"),
        ("3", "the file: "),
        ("version: 1\nservers: {a: {fingerprint: x}}", "servers.a.steps_per_token: Field required"),
        (dump({"a": MODEL}).replace("code/8192/greedy", "code/8192/how"), "is no WORKLOAD/FROM/SAMPLING"),
        (dump({"a": MODEL}).replace("code/8192/greedy", "code/8192"), "is no WORKLOAD/FROM/SAMPLING"),
    ],
)
def test_what_is_no_such_file_is_told(text: str, why: str) -> None:
    with pytest.raises(UnusableLearnedError, match=why):
        parse(text)


def test_what_decides_is_in_the_file() -> None:
    model = replace(
        MODEL,
        request_spread=0.35,
        stretch=1.2,
        max_running=64,
        measured=120.0,
        spread={"code": 0.02},
        other_spread=0.1,
    )
    found = parse(dump({"a": model}))["a"]
    for name in ("request_spread", "stretch", "max_running", "measured", "spread", "other_spread"):
        assert getattr(found, name) == getattr(model, name), name


@pytest.mark.parametrize("last", [8, 50, 96, 200])
def test_a_cliff_of_the_step_times_is_where_it_was(last: int) -> None:
    steps = np.array(SERVER_MODEL.step_seconds)
    steps[last + 1 :] *= 1.6
    model = replace(MODEL, step_seconds=tuple(steps.tolist()))
    found = parse(dump({"a": model}))["a"]
    for batch in range(1, 257):
        assert found.step(batch) == pytest.approx(model.step(batch), rel=0.011), batch
    assert dump({"a": MODEL}).count("\n") < 60, "and nothing more is written where there is none"
