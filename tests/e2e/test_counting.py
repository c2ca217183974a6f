"""The check that real servers are held to, on simulated ones: it passes, and it fails where anything is miscounted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from backends.sim.exchange import Reporting
from backends.sim.fleet import Member, run_fleet
from backends.sim.server import Options
from backends.spec import LaunchSpec
from gateway.telemetry import metrics
from gateway.telemetry.metrics import Metrics
from tests.e2e.front import gateway
from tests.vllm import counting
from tests.vllm.servers import SERVED_MODEL

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from backends.measured import Run
    from gateway.core.outcome import Record

TARGET = "google/gemma-4-31B-it"
POLICY = """\
version: 1
allow_pin: true
routes: [{name: all, prefer: [any]}]
"""


async def count(folder: Path, method: str, draft_tokens: int, **more: Any) -> Run:
    reporting = Reporting(acceptance="summary" if draft_tokens else "off")
    options = Options(served_model=SERVED_MODEL, speed=1000.0, reporting=reporting)
    async with run_fleet([Member(TARGET, method, draft_tokens, options=options)]) as (server,):
        backend = {"name": "s", "url": server.url, "model": TARGET, "served_model": SERVED_MODEL}
        if draft_tokens:
            backend |= {"method": method, "draft_tokens": draft_tokens}
        port = int(server.url.rpartition(":")[2])
        spec = LaunchSpec("s", TARGET, SERVED_MODEL, method, draft_tokens, port=port)
        models = f"models: {{{SERVED_MODEL}: {TARGET}}}\n"
        async with gateway(folder, [backend], policy=POLICY + models) as url:
            return await asyncio.to_thread(counting.count, url, spec, **more)


@pytest.mark.parametrize(("method", "draft_tokens"), [("none", 0), ("gemma4-mtp", 4), ("ngram", 8)])
async def test_both_sides_count_the_same(tmp_path: Path, method: str, draft_tokens: int) -> None:
    run = await count(tmp_path, method, draft_tokens)
    assert run.differences == ()
    assert run.requests > 2 * counting.CONCURRENT
    assert len(run.server.by_position) == draft_tokens
    assert (run.server.steps is None) == (method == "none")


def take_histogram_for_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "accepted_by_position", lambda histogram: histogram[1:])


def lose_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Metrics.on_record

    def on_record(self: Metrics, record: Record, *, traced: bool) -> None:
        if record.outcome.ttft is None:
            right(self, record, traced=traced)

    monkeypatch.setattr(Metrics, "on_record", on_record)


ALL = {"tokens", "steps", "drafted", "accepted", "by position"}
FAULTS = {
    take_histogram_for_positions: {"by position"},
    lose_streams: ALL,
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_of_the_gateway_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Callable[[pytest.MonkeyPatch], None]
) -> None:
    fault(monkeypatch)
    run = await count(tmp_path, "gemma4-mtp", 4, within=0.5)
    assert {one.partition(":")[0] for one in run.differences} == FAULTS[fault]


async def test_a_request_past_the_gateway_is_found(tmp_path: Path) -> None:
    past = [{"max_tokens": 40, "extra_body": {"ignore_eos": True}}]
    run = await count(tmp_path, "gemma4-mtp", 4, more=past, within=0.5)
    assert {one.partition(":")[0] for one in run.differences} == ALL
    assert run.server.tokens == run.gateway.tokens + 40


async def test_drafts_that_one_side_does_not_count_are_no_zeros(tmp_path: Path) -> None:
    run = await count(tmp_path, "none", 0)
    odd = run.model_copy(update={"gateway": run.gateway.model_copy(update={"steps": 0})})
    assert odd.differences == ("steps: 0 in the gateway, None in the server",)
