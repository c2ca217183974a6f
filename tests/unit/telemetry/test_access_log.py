from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gateway.core.decide import NoCandidate
from gateway.core.outcome import Outcome
from gateway.telemetry.access_log import AccessLog, line_of

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from gateway.core.outcome import Record


def told(record: Record) -> dict[str, Any]:
    line = line_of(record)
    assert line.count(b"\n") == 1
    return json.loads(line)


def test_a_line_says_what_became_of_a_request(record: Record) -> None:
    assert told(record) == {
        "time": "2027-01-15T08:00:00.000Z", "level": "info", "logger": "specroute.access", "message": "request",
        "request_id": "req-1", "trace_id": "a" * 32, "span_id": "b" * 16, "endpoint": "chat", "model": "gemma",
        "stream": True, "http_status": 200, "status": "ok", "workload": "math", "route": "math",
        "reason": "lowest_cost", "backend": "eagle", "method": "eagle3", "attempts": 1, "seconds": 3.0, "ttft": 0.5,
        "first_token": 0.502, "tpot": 0.01, "input_tokens": 20, "output_tokens": 201, "accepted_length": 2.0,
    }  # fmt: skip
    assert told(replace(record, queued=12.4))["queued"] == 12.4


def test_what_a_client_made_up_stays_out(record: Record) -> None:
    refused = NoCandidate("unknown_model", "CANARY does not exist", False, None, (), "p1", "f1")
    line = told(
        replace(
            record, features=replace(record.features, model="CANARY"), decision=refused, attempts=(),
            outcome=Outcome("client_error", 404, error="unknown_model"), backend="", method="",
        )
    )  # fmt: skip
    assert "CANARY" not in json.dumps(line)
    assert (line["reason"], line["error"], line["http_status"]) == ("unknown_model", "unknown_model", 404)


def test_lines_are_written_in_order_and_to_the_end(record: Record, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w+b") as out:
        log = AccessLog(out.fileno())
        log.start()
        for number in range(50):
            log.put(replace(record, request_id=str(number)))
        log.close()
        out.seek(0)
        found = [json.loads(line)["request_id"] for line in out]
    assert found == [str(number) for number in range(50)]


def test_they_go_to_stderr(record: Record, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    log = AccessLog()
    log.put(record)
    log.start()
    log.close()
    assert b'"request_id":"req-1"' in capfdbinary.readouterr().err


def test_what_a_closed_pipe_does_not_take_is_counted(record: Record) -> None:
    read, write = os.pipe()
    os.close(read)
    log = AccessLog(write)
    log.put(record)
    log.start()
    log.close()
    os.close(write)
    assert log.dropped == 1
