from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gateway.core.decide import NoCandidate
from gateway.core.outcome import Outcome
from gateway.telemetry.access_log import AccessLog, line_of

if TYPE_CHECKING:
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
        "tpot": 0.01, "input_tokens": 20, "output_tokens": 201, "accepted_length": 2.0,
    }  # fmt: skip


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


def test_lines_are_written_in_order_and_to_the_end(record: Record) -> None:
    out = io.BytesIO()
    log = AccessLog(out)
    log.start()
    for number in range(50):
        log.on_record(replace(record, request_id=str(number)))
    log.close()
    found = [json.loads(line)["request_id"] for line in out.getvalue().splitlines()]
    assert found == [str(number) for number in range(50)]


def test_lines_of_several_processes_do_not_mix_in_a_pipe(record: Record) -> None:
    """A pipe takes 4096 bytes whole, so no more are written at once, and whole lines only."""

    class Pipe(io.BytesIO):
        def __init__(self) -> None:
            super().__init__()
            self.writes: list[bytes] = []

        def write(self, data: Any) -> int:
            self.writes.append(bytes(data))
            return len(data)

    out = Pipe()
    log = AccessLog(out)
    long = replace(record, features=replace(record.features, model="m" * 9000))
    for each in (record,) * 20 + (long,) + (record,) * 20:
        log.on_record(each)
    log.start()
    log.close()
    assert b"".join(out.writes).count(b"\n") == 41
    assert all(each.endswith(b"\n") for each in out.writes)
    assert [len(each) > 4096 for each in out.writes].count(True) == 1
    assert len(out.writes) < 12


def test_they_go_to_stderr(record: Record, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    log = AccessLog()
    log.on_record(record)
    log.start()
    log.close()
    assert b'"request_id":"req-1"' in capfdbinary.readouterr().err


def test_what_a_closed_stream_does_not_take_is_counted(record: Record) -> None:
    out = io.BytesIO()
    out.close()
    log = AccessLog(out)
    log.on_record(record)
    log.start()
    log.close()
    assert log.dropped == 1
