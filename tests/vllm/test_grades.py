"""Three grades of acceptance of the same real traffic, and a server that comes back as another one."""

from __future__ import annotations

import contextlib
import random
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest

from backends.verify import Verifier
from tests.vllm import chain, servers
from tests.vllm.asking import ask, eventually
from tests.vllm.conftest import fronting

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.vllm.collector import Collector
    from tests.vllm.conftest import Front
    from tests.vllm.servers import Server

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]  # the first test waits for servers of its own

WORDS: Final = {
    "math": range(chain.LOOPING, chain.LOOPS_END - 256),  # the others stand for bytes
    "code": range(chain.UNREPEATED, chain.UNREPEATED + 32),  # those that have faults ahead in every draft
}
"""What the prompts of a workload end in: all drafts of one are right, and a quarter of the other's is wrong, in each
request another one."""

ROUNDS: Final = 8
"""Of traffic, until all grades can tell."""

AT_ONCE: Final = 4
"""Requests in flight."""

_SERIES: Final = re.compile(r"^(specroute_\w+)(?:\{([^}]*)\})? (\S+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


def series(front: Front) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    page = httpx.get(f"{front.url}/metrics", trust_env=False, timeout=30).text
    return {
        (name, frozenset(_LABEL.findall(labels))): float(value)
        for name, labels, value in _SERIES.findall(page)
    }


def lengths(front: Front, backend: str) -> dict[tuple[str, str], float]:
    """Mean accepted lengths of a backend by workload and grade."""
    found = {}
    for (name, labels), value in series(front).items():
        told = dict(labels)
        if name == "specroute_backend_mean_accepted_length" and told["backend"] == backend:
            found[told["workload"], told["grade"]] = value
    return found


def acceptance(front: Front, backend: str) -> dict[str, Any]:
    """By workload and grade, what is known of a backend, and why not."""
    status = httpx.get(f"{front.url}/status", trust_env=False, timeout=30).json()
    told: dict[str, Any] = status["acceptance"][backend]
    return told


def send(front: Front, backend: str, workload: str, tokens: int, *, last: int, stream: bool = True) -> None:
    # With its usage so far each event tells its tokens, so that merged ones are known for what they are.
    told: Any = {"include_usage": True, "continuous_usage_stats": True}
    answer = ask(
        front.url, last, backend=backend, headers={"x-specroute-workload": workload},
        max_tokens=tokens, stream=stream, **({"stream_options": told} if stream else {}),
    )  # fmt: skip
    assert answer.status == 200


class Prompts:
    """Many of each workload, with answers of many lengths."""

    def __init__(self) -> None:
        self._draws = random.Random(5)  # noqa: S311 - no secret

    def of(self, workload: str) -> tuple[str, int, int]:
        """A workload, the last token of one of its prompts, and how long the answer is to be."""
        return workload, self._draws.choice(WORDS[workload]), self._draws.randint(80, 120)


def send_all(
    front: Front, backend: str, requests: Iterable[tuple[str, int, int]], *, stream: bool = True
) -> None:
    with ThreadPoolExecutor(AT_ONCE) as clients:
        for answered in [
            clients.submit(send, front, backend, workload, tokens, last=last, stream=stream)
            for workload, last, tokens in requests
        ]:
            answered.result()


@pytest.mark.parametrize("backend", ["eagle3", "mtp"])
def test_three_grades_of_the_same_traffic_agree(front: Front, backend: str) -> None:
    # One workload after the other for some windows each: mixes that differ are what counters are read by. Each
    # request accepts another part of its drafts, so it takes many until counters are sure enough to tell.
    wanted = {(workload, grade) for workload in WORDS for grade in ("exact", "counters")}
    found: dict[tuple[str, str], float] = {}
    prompts = Prompts()
    for _ in range(ROUNDS):
        for workload in WORDS:
            send_all(front, backend, [prompts.of(workload) for _ in range(24)])
        found = eventually(lambda: lengths(front, backend), lambda now: wanted <= set(now), within=6.0)
        if wanted <= set(found):
            break
    assert wanted <= set(found)
    told = acceptance(front, backend)
    for workload in WORDS:
        exact = found[workload, "exact"]
        # On a busy machine a server may be late with many of its events: then they are not judged by.
        if told[workload]["stream"] is None:
            assert told[workload]["why_not"]["stream"] == "merged_events"
        else:
            assert told[workload]["stream"] == pytest.approx(exact, rel=0.03)
        assert found[workload, "counters"] == pytest.approx(exact, rel=0.03)
    assert found["math", "exact"] > found["code", "exact"] + 0.2


def test_counters_say_nothing_wrong_of_a_mix_that_never_changes(front: Front) -> None:
    backend, few = "medusa", True
    for _ in range(ROUNDS):
        for _ in range(60):
            for workload, words in WORDS.items():
                send(front, backend, workload, 20, last=words[0], stream=False)
        told = acceptance(front, backend)
        few = any(told[workload]["why_not"].get("counters") == "too_few_windows" for workload in WORDS)
        if not few:  # as soon as servers are fast
            break
    assert not few
    found = eventually(
        lambda: lengths(front, backend), lambda now: {("math", "exact"), ("code", "exact")} <= set(now)
    )
    assert {("math", "exact"), ("code", "exact")} <= set(found)
    mismatches = eventually(
        lambda: [
            value
            for (name, labels), value in series(front).items()
            if name == "specroute_backend_counters_mismatch" and ("backend", backend) in labels
        ],
        bool,
    )
    assert mismatches  # so the counters were read and compared

    # The fewer requests a window holds, the more do mixes differ by where it ends: mostly by too little to tell.
    for told in (acceptance(front, backend)[workload] for workload in WORDS):
        if told["counters"] is None:
            assert told["why_not"]["counters"] in {"not_identifiable", "too_uncertain"}
        else:
            assert told["counters"] == pytest.approx(told["exact"], rel=0.03)


def test_a_number_from_counters_is_right_where_only_chance_changes_the_mix(front: Front) -> None:
    backend, prompts, given = "draft-model", Prompts(), 0
    for _ in range(6):
        send_all(front, backend, [prompts.of(workload) for _ in range(8) for workload in WORDS])
        found = lengths(front, backend)
        for workload in WORDS:
            if (workload, "counters") in found:
                given += 1
                assert found[workload, "counters"] == pytest.approx(found[workload, "exact"], rel=0.03)
    assert given or all(acceptance(front, backend)[one]["why_not"]["counters"] for one in WORDS)


POLICY: Final = """\
version: 1
routes: [{name: all, prefer: [any]}]
"""


async def fingerprint(server: Server) -> str:
    async with Verifier() as verifier:
        return (await verifier.observe(server.spec)).fingerprint


async def test_a_server_that_comes_back_with_another_n_is_another_server(
    vllm_python: Path, checkpoints: Path, collector: Collector, tmp_path: Path
) -> None:
    base = next(
        one
        for one in servers.specs(checkpoints, f"{collector.url}/v1/traces", suffix=False)
        if one.name == "draft-model"
    )
    spec = replace(base, name="changing", port=servers.free_port())
    with contextlib.ExitStack() as running:
        fleet = running.enter_context(servers.running(vllm_python, [spec], tmp_path))
        first = await fingerprint(fleet["changing"])
        with fronting(fleet.values(), POLICY, collector, tmp_path) as front:
            drive(front)
            before = series(front)
            assert lengths(front, "changing")["code", "exact"] == pytest.approx(expected(3), rel=1e-9)
            running.close()
            changed = replace(spec, draft_tokens=1)
            with servers.running(vllm_python, [changed], tmp_path) as again:
                second = await fingerprint(again["changing"])
                restarts = ("specroute_backend_restarts_total", frozenset({("backend", "changing")}))
                seen = eventually(lambda: series(front), lambda now: now.get(restarts) == 1.0, within=60.0)
                assert seen[restarts] == 1.0
                eventually(lambda: ask(front.url).status, lambda status: status == 200, within=60.0)
                drive(front)
                after = series(front)
                found = lengths(front, "changing")
    assert first != second
    # Only what the new server did: no draft of three tokens is left in it.
    assert found["code", "exact"] == pytest.approx(expected(1), rel=1e-9)
    assert found["code", "stream"] <= 2.0
    mean = next(
        value
        for (name, labels), value in after.items()
        if name == "specroute_mean_accepted_length"
        and {("workload", "code"), ("weighting", "steps")} <= labels
    )
    assert mean == pytest.approx(expected(1), rel=1e-9)
    assert not {name for (name, _), value in after.items() if value < 0 and "mismatch" not in name}
    counters = {key: value for key, value in before.items() if key[0].endswith("_total")}
    assert all(after[key] >= value for key, value in counters.items())


def drive(front: Front) -> None:
    for _ in range(5):
        send(front, "", "code", 200, last=chain.UNREPEATED)


def expected(draft_tokens: int) -> float:
    told = chain.acceptance(chain.UNREPEATED, 200, draft_tokens)
    return 1.0 + told.accepted / told.steps
