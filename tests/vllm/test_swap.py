"""Real servers of two methods behind a gateway that knows nothing of them: it learns which suits what, and anew.

Prompt lookup predicts text that loops perfectly and text that does not repeat not at all; EAGLE-3 drafts both.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import httpx
import pytest

from tests.vllm import chain, servers
from tests.vllm.asking import ask, eventually, question
from tests.vllm.conftest import fleet_file, fronting

if TYPE_CHECKING:
    from backends.spec import LaunchSpec
    from tests.vllm.collector import Collector

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]  # servers start twice

POLICY: Final = """\
version: 1
allow_pin: true
learning: {mode: auto, explore: 10%}
routes:
  - {name: default, prefer: [any]}
"""
LOOPING: Final = "grounded"
UNREPEATED: Final = "chat"
TOKENS: Final = 120
AT_A_TIME: Final = 1
"""More would be spread over both by load: on few cores the servers slow each other down."""

COUNTED: Final = 40
"""Requests of each kind in a round."""

TURNS: Final = 4
"""Parts in which a round is measured beside another one."""

ROUNDS: Final = 6
"""Rounds until which it must have found out: 200 requests of each kind and backend are allowed to a cold start."""


@dataclass(slots=True)
class Driver:
    """Requests of both kinds, each prompt another one."""

    url: str
    sent: int = 0

    def gain(self) -> float:
        """How much longer requests take that go to both in turn, as a share; in turns, as machines are busy."""
        routed = turned = 0.0
        for _ in range(TURNS):
            begun = time.monotonic()
            self.drive(COUNTED // TURNS)
            between = time.monotonic()
            self.drive(COUNTED // TURNS, pinned=("left", "right"))
            routed += between - begun
            turned += time.monotonic() - between
        return turned / routed - 1.0

    def drive(self, count: int, *, pinned: tuple[str, ...] = ("",)) -> dict[str, Counter[str]]:
        """Send so many requests of each kind; gives the backends that each kind went to.

        Args:
            count: Requests of each kind.
            pinned: Backends that are chosen in turn; "" lets the gateway choose.
        """
        return asyncio.run(self._all(count, pinned))

    async def _all(self, count: int, pinned: tuple[str, ...]) -> dict[str, Counter[str]]:
        went: dict[str, Counter[str]] = {LOOPING: Counter(), UNREPEATED: Counter()}
        turns = ((kind, pinned[turn % len(pinned)]) for turn in range(count) for kind in went)
        async with aiohttp.ClientSession(self.url) as session:

            async def work() -> None:
                for kind, backend in turns:
                    went[kind][await self._ask(session, kind, backend)] += 1

            await asyncio.gather(*(work() for _ in range(AT_A_TIME)))
        return went

    async def _ask(self, session: aiohttp.ClientSession, kind: str, backend: str) -> str:
        self.sent += 1
        first, words = (chain.LOOPING, 900) if kind == LOOPING else (chain.LOOPS_END, 800)
        asked = question(first + self.sent * 7 % words, max_tokens=TOKENS, stream=True)
        sent = {"x-specroute-workload": kind, "x-specroute-backend": backend}
        headers = asked.pop("extra_headers") | {name: value for name, value in sent.items() if value}
        async with session.post("/v1/chat/completions", json=asked, headers=headers) as response:
            assert response.status == 200, await response.text()
            await response.read()
            return response.headers["x-specroute-backend"]


def test_traffic_finds_its_servers_and_follows_when_they_swap_methods(
    vllm_python: Path,
    checkpoints: Path,
    collector: Collector,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    known = {one.name: one for one in servers.specs(checkpoints, f"{collector.url}/v1/traces", suffix=False)}
    lookup, eagle = replace(known["ngram"], draft_tokens=8), known["eagle3"]
    ports = servers.free_ports()
    left, right = next(ports), next(ports)

    def fleet(one: LaunchSpec, other: LaunchSpec) -> list[servers.Server]:
        specs = replace(one, name="left", port=left), replace(other, name="right", port=right)
        return [servers.Server(spec, spec.url, Path()) for spec in specs]

    first, then = fleet(lookup, eagle), fleet(eagle, lookup)
    with fronting(first, POLICY, collector, tmp_path) as front:
        driver = Driver(front.url)
        for number, (now, looping, unrepeated) in enumerate(
            ((first, "left", "right"), (then, "right", "left"))
        ):
            (tmp_path / "fleet.yaml").write_text(fleet_file(now), encoding="utf-8")
            scratch = tmp_path / str(number)
            scratch.mkdir()
            with servers.running(vllm_python, [one.spec for one in now], scratch):
                up = eventually(
                    lambda now=now: states(front.url), lambda found, now=now: found == wanted(now)
                )
                assert up == wanted(now)
                for one in now:  # prompt lookup is compiled when it first finds something
                    ask(one.url, chain.LOOPING)
                for _ in range(ROUNDS):
                    went = driver.drive(COUNTED)
                    if suits(went, looping, unrepeated):
                        break
                gain = driver.gain()
                with capsys.disabled():
                    print(f"\n{went}: {gain:+.0%} over taking turns")
                    print("\n".join(statements(front.url)))
            assert suits(went, looping, unrepeated), went


def suits(went: dict[str, Counter[str]], looping: str, unrepeated: str) -> bool:
    """Whether most of each kind is where it is done soonest; some goes elsewhere to measure."""
    return min(went[LOOPING][looping], went[UNREPEATED][unrepeated]) > 0.6 * COUNTED


def status(url: str) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{url}/status", timeout=10, trust_env=False).json()
    return found


def states(url: str) -> dict[str, tuple[str, int, bool]]:
    """Method, N and whether it is up, by backend."""
    found = status(url)["fleet"]["backends"]
    return {one["name"]: (one["method"], one["draft_tokens"], one["available"]) for one in found}


def wanted(fleet: list[servers.Server]) -> dict[str, tuple[str, int, bool]]:
    return {one.spec.name: (one.spec.method, one.spec.draft_tokens, True) for one in fleet}


def statements(url: str) -> list[str]:
    """What the gateway says of routing, as soon as it has something to say."""

    def read() -> list[str]:
        found: dict[str, list[str]] = status(url)["learning"]["statements"]
        return found.get(servers.SERVED_MODEL, [])

    return eventually(read, bool)
