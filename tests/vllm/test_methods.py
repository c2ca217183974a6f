"""Every method on a real server started from our spec: what we count of it, what it is, what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import httpx
import pytest

from backends.verify import Verifier
from gateway.core.counters import parse_counters
from gateway.core.draft_latency import window
from tests.vllm import chain, counting, evidence
from tests.vllm.asking import ask, eventually

if TYPE_CHECKING:
    from gateway.core.counters import Counters
    from tests.vllm.conftest import Front
    from tests.vllm.servers import Server

pytestmark = pytest.mark.vllm

DRAFTING: Final = [
    "ngram",
    "draft-model",
    "eagle",
    "eagle3",
    "medusa",
    "mtp",
    "gemma4-mtp",
    "dflash",
    "suffix",
]
ALL: Final = ["baseline", *DRAFTING]


def server(fleet: dict[str, Server], name: str) -> Server:
    if name not in fleet:
        pytest.skip("arctic-inference, which suffix decoding needs, is not there or not compiled")
    return fleet[name]


def version_of(running: Server) -> str:
    version: str = httpx.get(f"{running.url}/version", trust_env=False).json()["version"]
    return version


@pytest.mark.parametrize("name", ALL)
def test_our_metrics_equal_the_servers_counters_by_position(
    fleet: dict[str, Server], front: Front, name: str
) -> None:
    running = server(fleet, name)
    run = counting.count(front.url, running.spec)
    evidence.keep(version_of(running), runs={name: run.model_dump()})
    assert run.differences == ()
    assert run.untold == 0
    assert run.known is (True if name in counting.BELIEFS else None)
    assert len(run.server.by_position) == running.spec.draft_tokens
    if running.spec.speculates:
        assert sum(run.server.by_position) == run.server.accepted
        assert run.server.accepted
    else:
        assert run.server.steps is None


@pytest.mark.parametrize("name", ["baseline", "draft-model"])
def test_a_request_past_the_gateway_makes_the_counts_differ(
    fleet: dict[str, Server], front: Front, name: str
) -> None:
    past = [{"last": chain.LOOPING, "max_tokens": 30}]
    run = counting.count(front.url, server(fleet, name).spec, more=past, within=3.0)
    assert run.server.tokens == run.gateway.tokens + 30
    if name == "draft-model":
        # All drafts are right after this word: 29 tokens in eight steps, the last one cut short.
        assert {one.partition(":")[0] for one in run.differences} == {
            "tokens", "steps", "drafted", "accepted", "by position",
        }  # fmt: skip


@pytest.mark.parametrize("last", [chain.LOOPING, chain.UNREPEATED])
@pytest.mark.parametrize("name", [name for name in DRAFTING if name in counting.BELIEFS])
def test_acceptance_is_what_was_known_beforehand(
    fleet: dict[str, Server], front: Front, name: str, last: int
) -> None:
    request_id = f"known-{name}-{last}"
    answer = ask(front.url, last, backend=name, request_id=request_id, max_tokens=150)
    expected = chain.acceptance(last, 150, fleet[name].spec.draft_tokens, **counting.BELIEFS[name])
    measured = front.records.of(request_id).outcome.speculation
    assert answer.json()["choices"][0]["message"]["content"] == chain.answer(last, 150)
    assert (measured.steps, measured.drafted, measured.accepted, measured.histogram) == (
        expected.steps, expected.drafted, expected.accepted, expected.histogram,
    )  # fmt: skip


@pytest.mark.parametrize("name", ALL)
async def test_a_server_is_recognised_as_what_it_was_started_as(fleet: dict[str, Server], name: str) -> None:
    running = server(fleet, name)
    async with Verifier() as verifier:
        assert await verifier.verify(running.spec) == []
        observed = await verifier.observe(running.spec)
    assert observed.draft_tokens == running.spec.draft_tokens
    assert observed.version.startswith("0.")
    assert observed.system_fingerprint.startswith("vllm-")


async def test_no_two_servers_have_the_same_fingerprint(fleet: dict[str, Server]) -> None:
    async with Verifier() as verifier:
        prints = {name: (await verifier.observe(one.spec)).fingerprint for name, one in fleet.items()}
    assert len(set(prints.values())) == len(prints)


@pytest.mark.parametrize("name", ALL)
def test_what_steps_took_is_read_of_the_servers_counters(fleet: dict[str, Server], name: str) -> None:
    running = server(fleet, name)

    def counters(at: float) -> Counters:
        page = httpx.get(f"{running.url}/metrics", trust_env=False).content
        return parse_counters(page, at)

    before = counters(0.0)
    # Long enough for a window also where all of an answer is remembered, eight tokens a step.
    answer = ask(running.url, chain.UNREPEATED, max_tokens=400)
    assert answer.status == 200
    after = eventually(lambda: counters(100.0), lambda now: now.generated == (before.generated or 0.0) + 400)
    found = window(before, after)
    assert found is not None
    # Alone on the server; n-grams find nothing to repeat here, so nothing is drafted. Suffix decoding remembers
    # what others were answered.
    assert found.batch == pytest.approx(1.0, abs=0.1)
    assert found.width is not None
    if running.spec.method == "suffix":
        assert 1.0 <= found.width <= 1.0 + running.spec.draft_tokens
    else:
        width = 1.0 if running.spec.method == "ngram" else 1.0 + running.spec.draft_tokens
        assert found.width == pytest.approx(width)
    assert found.seconds > 0.0
