"""An N that follows the batch: real servers that draft less the more requests they have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from backends.verify import Verifier
from tests.vllm import counting, evidence, servers
from tests.vllm.conftest import fronting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.vllm.collector import Collector
    from tests.vllm.servers import Server

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]  # the first test waits for servers of its own

METHODS = ("eagle", "eagle3", "dflash")
POLICY = """\
version: 1
allow_pin: true
routes: [{name: all, prefer: [any]}]
"""


@pytest.fixture(scope="module")
def scheduled(
    vllm_python: Path, checkpoints: Path, collector: Collector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Server]]:
    usual = servers.specs(checkpoints, f"{collector.url}/v1/traces", suffix=False)
    wanted = [servers.by_batch(one) for one in usual if one.name in METHODS]
    with servers.running(vllm_python, wanted, tmp_path_factory.mktemp("by-batch")) as fleet:
        yield fleet


@pytest.mark.parametrize("method", METHODS)
def test_drafts_are_counted_as_long_as_the_batch_lets_them_be(
    scheduled: dict[str, Server], collector: Collector, tmp_path: Path, method: str
) -> None:
    running = scheduled[f"{method}-by-batch"]
    with fronting(scheduled.values(), POLICY, collector, tmp_path) as front:
        run = counting.count(front.url, running.spec)
    version = httpx.get(f"{running.url}/version", trust_env=False).json()["version"]
    evidence.keep(version, runs={running.spec.name: run.model_dump()})
    assert run.differences == ()
    # Alone a request gets all drafts, which is what is foreseen; beside others one.
    assert run.known
    assert run.server.steps is not None
    assert run.server.drafted is not None
    assert 1.0 < run.server.drafted / run.server.steps < running.spec.draft_tokens


async def test_such_a_server_is_recognised(scheduled: dict[str, Server]) -> None:
    async with Verifier() as verifier:
        for running in scheduled.values():
            assert await verifier.verify(running.spec) == []
