from __future__ import annotations

import pytest

from backends.sweep.model import BASELINE, Candidate
from backends.sweep.prior import model, prior
from gateway.core.predict import SAMPLED, Cell
from gateway.policy.evidence import Evidence, Range
from gateway.policy.learned import parse
from tests.unit.backends.sweep.test_choose import MTP, cell, evidence


def measured(who: Candidate, workload: str, level: int, *, step: float, length: float, prompt: float = 100.0):
    return cell(
        who, workload, 1.5, level=level, tpot=Range(value=step / length), output_tokens=200.0, prompt_tokens=prompt,
        mean_accepted_length=None if who.is_baseline else length, ttft_p50=1.5 * step + prompt * 1e-4,
    )  # fmt: skip


def swept() -> Evidence:
    return evidence(
        *(measured(BASELINE, "code", level, step=0.01 + 0.0002 * level, length=1.0) for level in (1, 8, 32)),
        *(measured(MTP, "code", level, step=0.012 + 0.0004 * level, length=3.0) for level in (1, 8, 32)),
        measured(MTP, "chat", 1, step=0.0124, length=2.0, prompt=300.0),
    )


def test_what_was_measured_of_a_server_is_what_its_model_says() -> None:
    found = model(swept(), MTP)
    assert found is not None
    assert found.steps_per_token[Cell("code", 0, SAMPLED)] == pytest.approx(1 / 3)
    assert found.steps_per_token[Cell("chat", 0, SAMPLED)] == pytest.approx(1 / 2)
    for batch in (1, 4, 8, 32):
        assert found.step(batch) == pytest.approx(0.012 + 0.0004 * batch, rel=0.01)
    assert found.prefill_seconds == pytest.approx(1e-4, rel=0.05)
    assert found.output_tokens == {"code": 200.0, "chat": 200.0}
    assert found.evidence == {"code": 192.0, "chat": 64.0}


def test_a_baseline_yields_a_token_a_step() -> None:
    found = model(swept(), BASELINE)
    assert found is not None
    assert found.steps_per_token == {Cell("code", 0, SAMPLED): 1.0}


def test_the_file_is_read_by_a_gateway() -> None:
    text = prior(swept(), {"a": BASELINE, "b": MTP, "c": MTP})
    assert text is not None
    known = parse(text)
    assert set(known) == {"a", "b", "c"}
    assert known["b"].step(8) == pytest.approx(0.0152, rel=0.01)
    assert known["b"].fingerprint == known["c"].fingerprint


def test_what_was_not_measured_is_not_made_up() -> None:
    assert prior(swept(), {"a": BASELINE, "b": Candidate("dflash", 7)}) is None
    assert prior(swept(), {}) is None
    silent = evidence(cell(BASELINE, "code", 1.0), cell(MTP, "code", 2.0, tpot=Range(value=0.01)))
    assert model(silent, MTP) is None
