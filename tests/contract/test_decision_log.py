"""The decision log of a gateway at work says what its clients saw, and its decisions can be made again."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from gateway.cli import running as serving
from gateway.core.classify import Classification
from gateway.core.decide import Decision, decide
from gateway.core.fleet import BackendState, Load, Snapshot
from gateway.policy.load import Loaded
from gateway.runtime.reload import load_files
from gateway.settings import Settings
from gateway.telemetry.decision_log import files_of
from gateway.telemetry.decision_schema import Entry, entries, features_of
from gateway.wire.identity import draw
from tests.contract.stack import POLICIES, running

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.policy.load import Config
    from tests.contract.stack import Loop

ASKED = ("Solve 3x + 4 = 19 for x.", "Write a Python function that sorts a list.", "Hello, how are you?")


def again(entry: Entry, config: Config) -> Decision:
    """The decision made anew from nothing but the log and the files."""
    backends = {backend.name: backend for backend in config.fleet.backends}
    states = [
        BackendState(
            backends[each.backend],
            in_flight=each.in_flight,
            since_load=each.since_load or 0,
            load=None
            if each.running is None or each.waiting is None
            else Load(each.running, each.waiting, each.kv_usage, at=-(each.load_age or 0.0)),
        )
        for each in entry.states
    ]
    label = Classification(entry.label, entry.confidence, entry.source)
    numbers = draw(entry.request_id, entry.seed)
    made = decide(
        features_of(entry), label, Snapshot.of(states, entry.choice.fleet), config.policy, numbers, 0.0
    )
    assert isinstance(made, Decision)
    return made


def test_a_line_a_request_from_which_its_decision_can_be_made_again(loop: Loop, tmp_path: Path) -> None:
    log = tmp_path / "decisions.jsonl"
    fleet, policy = ((POLICIES / name).read_text() for name in ("fleet.yaml", "policy.yaml"))
    with running(loop, tmp_path, fleet, policy, given={"seed": 3, "decision_log": log}) as stack:
        answers = [
            stack.http.post(
                "/v1/chat/completions",
                json={
                    "model": "gemma-4-31b",
                    "messages": [{"role": "user", "content": asked}],
                    "max_tokens": 16,
                },
            )
            for asked in (*ASKED, *ASKED)
        ]
        answers.append(stack.http.post("/v1/chat/completions", json={"model": "nobody"}))
    loaded = load_files(stack.fleet, stack.policy, {})
    assert isinstance(loaded, Loaded)
    lines = list(entries(files_of(log)))
    assert [line.request_id for line in lines] == [answer.headers["x-request-id"] for answer in answers]
    assert [line.backend for line in lines[:-1]] == [
        answer.headers["x-specroute-backend"] for answer in answers[:-1]
    ]
    assert (lines[-1].choice.reason, lines[-1].outcome.http_status) == ("unknown_model", 404)
    text = log.read_text()
    assert not any(asked in text for asked in ASKED)
    for line in lines[:-1]:
        made = again(line, loaded.value)
        assert [(each.backend, each.cost) for each in line.choice.candidates] == [
            (each.backend, pytest.approx(each.cost)) for each in made.candidates
        ]
        told = (line.choice.route, line.choice.target, line.choice.reason, line.choice.propensity)
        assert told == (made.route, made.target, made.reason, made.propensity)
        assert all(state.running is not None for state in line.states)
        assert line.outcome.output_tokens


def test_a_log_that_cannot_be_written_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A process' logging is not this test's to set.
    monkeypatch.setattr(serving, "logging_to_stderr", lambda *_: contextlib.nullcontext())
    (tmp_path / "file").write_text("")
    settings = Settings(
        fleet=POLICIES / "fleet.yaml", policy=POLICIES / "policy.yaml", decision_log=tmp_path / "file" / "log"
    )
    assert serving.run(settings) == 2
    assert f"cannot write {settings.decision_log}" in capsys.readouterr().err
