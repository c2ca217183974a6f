from __future__ import annotations

import json
import os
import threading
import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING

from gateway.core.features import Hints
from gateway.core.fleet import Snapshot
from gateway.core.marks import Marks
from gateway.telemetry import names
from gateway.telemetry.access_log import AccessLog
from gateway.telemetry.decision_log import DecisionLog
from gateway.telemetry.lines import Lines
from gateway.telemetry.setup import setup
from tests.unit.telemetry.conftest import SNAPSHOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pytest

    from gateway.core.outcome import Record

MOST = 32 * 2**20
REQUESTS = 3000
SERVERS = [
    replace(SNAPSHOT.states[1], backend=replace(SNAPSHOT.states[1].backend, name=name))
    for name in ("eagle", "dflash", *map(str, range(38)))
]


def of_a_large_fleet(record: Record) -> Iterator[Record]:
    """Requests that each saw 40 servers in a state of their own."""
    usual = replace(record, features=replace(record.features, marks=Marks(), hints=Hints()))
    for number in range(REQUESTS):
        states = [replace(state, in_flight=number) for state in SERVERS]
        yield replace(usual, request_id=f"req-{number}", snapshot=Snapshot.of(states, "f1"))


def test_beside_a_disk_and_a_pipe_that_block_memory_stays_small_and_drops_are_shown(
    record: Record,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    series: Callable[[bytes], dict[str, float]],
) -> None:
    free, reached = threading.Event(), threading.Event()
    decisions = DecisionLog(tmp_path / "decisions.jsonl", 7)
    append = decisions._put

    def blocked(lines: bytes) -> None:
        reached.set()
        assert free.wait(60)
        append(lines)

    monkeypatch.setattr(decisions, "_put", blocked)
    read, write = os.pipe()
    with open(read, "rb") as nobody, open(write, "wb", buffering=0) as full:  # noqa: PTH123 - of a pipe
        logs = (decisions, AccessLog(full.fileno()))
        telemetry = setup()
        telemetry.observe_dropped(names.DECISIONS_DROPPED, lambda: decisions.dropped)
        telemetry.observe_dropped(names.ACCESS_DROPPED, lambda: logs[1].dropped)
        for log in logs:
            log.start()
        tracemalloc.start()
        for each in of_a_large_fleet(record):
            for log in logs:
                log.put(each)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert reached.wait(20)
        shown = series(telemetry.exposition())
        assert held < MOST
        for log, metric in zip(logs, (names.DECISIONS_DROPPED, names.ACCESS_DROPPED), strict=True):
            assert shown[metric.prometheus] == log.dropped > 0
        free.set()
        reader = threading.Thread(target=lambda: lines.extend(nobody.readlines()))
        lines: list[bytes] = []
        reader.start()
        for log in logs:
            log.close(60)
        full.close()
        reader.join(20)
    written = (tmp_path / "decisions.jsonl").read_bytes().splitlines()
    for log, found in zip(logs, (written, lines), strict=True):
        numbers = [int(json.loads(line)["request_id"].removeprefix("req-")) for line in found]
        assert numbers == sorted(set(numbers))
        assert len(numbers) + log.dropped == REQUESTS


def test_a_queue_that_fills_is_written_before_its_turn(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.telemetry.lines._INTERVAL", 600.0)
    written = threading.Event()
    log = Lines("log", lambda _: b"\n", lambda _: written.set(), capacity=8)
    log.start()
    for _ in range(3):
        log.put(record)
    assert written.wait(20)
    log.close()
    assert log.dropped == 0
