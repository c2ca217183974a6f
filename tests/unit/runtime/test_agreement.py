from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from gateway.core.agreement import BLOCK, REFERENCE
from gateway.core.classify import Classification
from gateway.core.outcome import Outcome
from gateway.core.policy import ClassifierSettings
from gateway.runtime.agreement import Agreement
from tests import factories

SETTINGS = ClassifierSettings()


def judged(
    agreement: Agreement, nature: str, times: int = 1, *, label: str = "code", source: str = "model:m"
) -> None:
    record = factories.record(Outcome("ok", 200, nature=nature))
    record = replace(record, classification=Classification(label, 0.9, source))
    for _ in range(times):
        agreement.on_record(record)


def test_answers_are_counted_by_what_they_were_taken_for_and_show() -> None:
    agreement = Agreement(SETTINGS)
    judged(agreement, "code", 3)
    judged(agreement, "text")
    judged(agreement, "text", label="grounded")
    judged(agreement, "text", label="legal", source="policy")
    judged(agreement, "")
    told = agreement.as_json()
    assert told["answers"] == {
        "code": {"code": 3, "text": 1}, "grounded": {"text": 1}, "legal": {"text": 1},
    }  # fmt: skip
    assert dict(agreement.rates()) == {"code": 0.75, "grounded": 1.0}
    assert told["agreement"]["code"] == {
        "reference": {"answers": 4, "share": 0.75},
        "last": {"answers": 0, "share": None},
        "standard_errors": 0.0,
        "drifted": False,
    }


@pytest.mark.parametrize("source", ["hint", "policy", "examples", "default"])
def test_what_was_said_and_not_guessed_is_not_judged(source: str) -> None:
    agreement = Agreement(SETTINGS)
    judged(agreement, "text", source=source)
    assert agreement.as_json()["answers"] == {"code": {"text": 1}}
    assert list(agreement.drifts()) == []


@pytest.mark.parametrize("source", ["model:m", "rule:tool_name", "session", "mix"])
def test_guesses_are_judged(source: str) -> None:
    agreement = Agreement(SETTINGS)
    judged(agreement, "text", source=source)
    assert list(agreement.drifts()) == [("code", False)]
    assert list(agreement.rates()) == [("code", 0.0)]


def test_drift_is_said_when_it_begins_and_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="gateway.runtime.agreement")
    agreement = Agreement(SETTINGS)
    judged(agreement, "code", REFERENCE)
    judged(agreement, "math", 2 * BLOCK)
    assert list(agreement.drifts()) == [("code", True)]
    assert list(agreement.rates()) == [("code", 0.0)]
    assert len(caplog.messages) == 1
    assert "requests taken for code: 0 % of their answers are that, no longer 100 %" in caplog.messages[0]
    judged(agreement, "code", BLOCK)
    assert list(agreement.drifts()) == [("code", False)]
    assert caplog.messages[1:] == ["requests taken for code: their answers agree again, 100 %"]


def test_a_policy_that_classifies_otherwise_begins_anew() -> None:
    agreement = Agreement(SETTINGS)
    judged(agreement, "code")
    agreement.govern(ClassifierSettings())
    assert list(agreement.rates()) == [("code", 1.0)]
    agreement.govern(ClassifierSettings(threshold=0.7))
    assert agreement.as_json() == {"answers": {}, "agreement": {}}
