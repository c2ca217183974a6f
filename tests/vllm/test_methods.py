"""Every method on a real server started from our spec: what we count of it, what it is, what it refuses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest

from backends.verify import Verifier
from gateway.core.counters import parse_counters
from gateway.core.draft_latency import window
from tests.vllm import chain, scraping
from tests.vllm.asking import ask, eventually

if TYPE_CHECKING:
    from gateway.core.counters import Counters
    from tests.vllm.conftest import Front
    from tests.vllm.servers import Server

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]  # the first test waits for the servers

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
_OURS: Final = re.compile(r"^specroute_speculation_(\w+?)_total\{([^}]*)\} (\S+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')

EXPECTED: Final[dict[str, dict[str, Any]]] = {
    "draft-model": {},
    "eagle3": {},
    "medusa": {},
    "gemma4-mtp": {},
    # These cannot err after as many tokens as the others.
    "eagle": {"believed": chain.mostly_right()},
    "mtp": {"believed": chain.mostly_right()},
    # Its second token and those after it are the first once more.
    "dflash": {"depth": 1},
}
"""How the drafts whose acceptance is known beforehand differ from the faulty one."""


def server(fleet: dict[str, Server], name: str) -> Server:
    if name not in fleet:
        pytest.skip("arctic-inference, which suffix decoding needs, is not there or not compiled")
    return fleet[name]


def counted_by_the_gateway(url: str, backend: str) -> dict[str, float]:
    """The gateway's own metrics of a backend, summed over workloads, by the names that servers use."""
    names = {
        "steps": scraping.DRAFTS,
        "drafted_tokens": scraping.DRAFTED,
        "accepted_tokens": scraping.ACCEPTED,
    }
    found: dict[str, float] = {}
    for metric, written, value in _OURS.findall(httpx.get(f"{url}/metrics", trust_env=False).text):
        labels = dict(_LABEL.findall(written))
        if labels.get("backend") != backend:
            continue
        name = names.get(metric)
        if metric == "accepted_at_position":
            name = f"{scraping.ACCEPTED_AT}@{labels['position']}"
        if name is not None:
            found[name] = found.get(name, 0.0) + float(value)
    return found


def growth(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    return {name: value - before.get(name, 0.0) for name, value in after.items()}


@pytest.mark.parametrize("name", DRAFTING)
def test_our_metrics_equal_the_servers_counters_by_position(
    fleet: dict[str, Server], front: Front, name: str
) -> None:
    running = server(fleet, name)
    ours, theirs = counted_by_the_gateway(front.url, name), scraping.samples(running.url)
    asked = [
        (last, endpoint, stream)
        for last in (chain.LOOPING, chain.UNREPEATED, chain.MULTIBYTE)
        for endpoint in ("chat", "completions")
        for stream in (False, True)
    ]
    for number, (last, endpoint, stream) in enumerate(asked):
        request_id = f"counted-{name}-{number}"
        more = {"endpoint": endpoint, "stream": stream, "max_tokens": 60 + number, "request_id": request_id}
        answer = ask(front.url, last, backend=name, **more)
        assert answer.status == 200
        assert front.records.of(request_id).outcome.speculation.grade == "exact"
    tokens = sum(60 + number for number in range(len(asked)))
    counted = eventually(
        lambda: growth(dict(theirs), dict(scraping.samples(running.url))),
        lambda grown: grown[scraping.GENERATED] == tokens,
    )
    spoken = {key: value for key, value in counted.items() if key.startswith("spec_decode")}
    grown = eventually(
        lambda: growth(ours, counted_by_the_gateway(front.url, name)), lambda grown: grown == spoken
    )
    assert grown == spoken
    assert spoken[scraping.ACCEPTED] > 0
    assert sum(value for key, value in spoken.items() if "@" in key) == spoken[scraping.ACCEPTED]
    assert len([key for key in spoken if "@" in key]) == running.spec.draft_tokens


@pytest.mark.parametrize("last", [chain.LOOPING, chain.UNREPEATED])
@pytest.mark.parametrize("name", list(EXPECTED))
def test_acceptance_is_what_was_known_beforehand(
    fleet: dict[str, Server], front: Front, name: str, last: int
) -> None:
    request_id = f"known-{name}-{last}"
    answer = ask(front.url, last, backend=name, request_id=request_id, max_tokens=150)
    expected = chain.acceptance(last, 150, fleet[name].spec.draft_tokens, **EXPECTED[name])
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
    answer = ask(running.url, chain.UNREPEATED, max_tokens=150)
    assert answer.status == 200
    after = eventually(lambda: counters(100.0), lambda now: now.generated == (before.generated or 0.0) + 150)
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
