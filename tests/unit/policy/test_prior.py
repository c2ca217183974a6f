from __future__ import annotations

from typing import Any

import pytest

from gateway.core.predict import GREEDY, SAMPLED, Cell
from gateway.policy.evidence import Evidence, Measurement, Range
from gateway.policy.prior import priors
from tests.factories import TARGET, backend

PLAIN = backend("plain")
DRAFT = backend("draft", method="mtp", draft_tokens=3)


def measured(method: str = "mtp", draft_tokens: int = 3, concurrency: int = 1, **given: Any) -> Measurement:
    fields: dict[str, Any] = {
        "workload": "code", "requests": 50, "tokens_per_second": Range(value=100.0),
        "tpot": Range(value=0.01), "mean_accepted_length": 2.0, "ttft_p50": 0.13, "prompt_tokens": 500.0,
        "output_tokens": 200.0,
    }  # fmt: skip
    return Measurement(method=method, draft_tokens=draft_tokens, concurrency=concurrency, **fields | given)


def evidence(*measurements: Measurement, target: str = TARGET) -> Evidence:
    return Evidence(version=1, source="t", target=target, measured="2026-11-30", measurements=measurements)


def test_steps_acceptance_prompts_and_lengths_follow_from_what_was_measured() -> None:
    found = priors(
        evidence(
            measured(),
            measured(concurrency=16, tpot=Range(value=0.02)),
            measured(workload="chat", mean_accepted_length=1.25, tpot=Range(value=0.016), sampling="default"),
            measured("none", 0, mean_accepted_length=None, tpot=Range(value=0.015)),
        ),
        [PLAIN, DRAFT, backend("other", method="eagle3", draft_tokens=3), backend("far", target="org/Other")],
    )
    assert set(found) == {"plain", "draft"}
    draft = found["draft"]
    assert draft.step(1) == pytest.approx(0.02)
    assert draft.step(16) == pytest.approx(0.04)
    assert 0.02 < draft.step(4) < 0.04 * 1.5 < draft.step(64)
    assert draft.steps_per_token[Cell("code", 0, GREEDY)] == 0.5
    assert draft.steps_per_token[Cell("code", 0, SAMPLED)] == 0.5
    assert draft.steps_per_token[Cell("chat", 0, SAMPLED)] == 0.8
    assert draft.prefill_seconds == pytest.approx(0.1 / 500)
    assert draft.output_tokens == {"code": 200.0, "chat": 200.0}
    plain = found["plain"]
    assert (plain.steps_per_token, plain.other_steps_per_token) == ({}, 1.0)
    assert plain.step(1) == pytest.approx(0.015)


def test_what_was_not_measured_is_guessed() -> None:
    found = priors(
        evidence(measured(workload="", concurrency=256, ttft_p50=None, output_tokens=None)), [DRAFT]
    )
    assert found["draft"].steps_per_token == {}
    assert found["draft"].prefill_seconds > 0.0
    assert found["draft"].output_tokens == {}


@pytest.mark.parametrize("lacking", [{"tpot": None}, {"mean_accepted_length": None}])
def test_without_a_speed_or_an_acceptance_nothing_is_claimed(lacking: dict[str, Any]) -> None:
    assert priors(evidence(measured(**lacking)), [DRAFT]) == {}
    assert priors(evidence(measured(), target="org/Other"), [DRAFT]) == {}
