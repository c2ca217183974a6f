"""Prompt lookup on real text: acceptance by workload of a small language model, where one is at hand."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest

import backends
from backends import prompts
from tests.vllm import scraping, servers
from tests.vllm.asking import eventually
from tests.vllm.conftest import fronting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.vllm.collector import Collector
    from tests.vllm.conftest import Front
    from tests.vllm.servers import Server

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]

CHECKPOINT: Final = "SPECROUTE_SMOLLM"
EVIDENCE: Final = Path(backends.__file__).parent / "evidence" / "real-text.json"
WORKLOADS: Final = ("code", "math", "chat", "grounded", "multilingual")
EACH: Final = 4
TOKENS: Final = 96
POLICY: Final = "version: 1\nallow_pin: true\nroutes: [{name: all, prefer: [any]}]\n"


@pytest.fixture(scope="module")
def real(
    vllm_python: Path, collector: Collector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Server]]:
    model = os.environ.get(CHECKPOINT)
    if not model:
        pytest.skip(f"{CHECKPOINT} names no checkpoint of a language model: tests/vllm/smollm.py makes one")
    tiny = servers.specs(Path(), f"{collector.url}/v1/traces", suffix=servers.has_suffix(vllm_python))
    wanted = [replace(one, target=model) for one in tiny if one.method in ("none", "ngram", "suffix")]
    with servers.running(vllm_python, wanted, tmp_path_factory.mktemp("real")) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def front(
    real: dict[str, Server], collector: Collector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Front]:
    with fronting(real.values(), POLICY, collector, tmp_path_factory.mktemp("front")) as front:
        yield front


def answer(front: Front, backend: str, prompt: prompts.Prompt) -> str:
    body: dict[str, Any] = {
        "model": servers.SERVED_MODEL, "messages": prompt.request["messages"], "max_tokens": TOKENS,
        "temperature": 0,
    }  # fmt: skip
    headers = {
        "x-specroute-backend": backend,
        "x-specroute-workload": prompt.workload,
        "x-request-id": f"{backend}-{prompt.id}",
    }
    told = httpx.post(
        f"{front.url}/v1/chat/completions", json=body, headers=headers, timeout=300, trust_env=False
    )
    assert told.status_code == 200, told.text
    text: str = told.json()["choices"][0]["message"]["content"]
    return text


def test_acceptance_of_prompt_lookup_depends_on_the_workload(real: dict[str, Server], front: Front) -> None:
    plain = {workload: chosen(workload) for workload in WORKLOADS}
    texts: dict[str, str] = {}
    lengths: dict[str, dict[str, float]] = {}
    differing = 0
    for name, server in real.items():
        before = scraping.samples(server.url)
        steps = accepted = 0
        for workload, asked in plain.items():
            own_steps = own_accepted = 0
            for prompt in asked:
                text = answer(front, name, prompt)
                differing += texts.setdefault(prompt.id, text) != text
                told = front.records.of(f"{name}-{prompt.id}", within=60.0).outcome.speculation
                own_steps += told.steps
                own_accepted += told.accepted
            if server.spec.speculates:
                lengths.setdefault(name, {})[workload] = 1 + own_accepted / max(own_steps, 1)
            steps, accepted = steps + own_steps, accepted + own_accepted
        if server.spec.speculates:
            grown = eventually(
                lambda url=server.url, old=before: scraping.growth(old, scraping.samples(url)),
                lambda now, total=steps: now[scraping.DRAFTS] == total,
            )
            assert (grown[scraping.DRAFTS], grown[scraping.ACCEPTED]) == (steps, accepted)
            assert accepted > 0
    # Batches of several tokens round otherwise than single ones: greedy answers may part, and that is counted.
    assert differing <= len(texts)
    if os.environ.get("SPECROUTE_EVIDENCE") == "write":
        document = {
            "model": "SmolLM2-135M-Instruct on vLLM's CPU build, greedy",
            "prompts": EACH,
            "tokens": TOKENS,
            "differing": differing,
            "answers": len(texts) * (len(real) - 1),
            "mean_accepted_length": {
                name: {workload: round(value, 2) for workload, value in found.items()}
                for name, found in lengths.items()
            },
        }
        EVIDENCE.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    assert all(max(found.values()) > min(found.values()) for found in lengths.values())


def chosen(workload: str) -> list[prompts.Prompt]:
    """The first prompts of a workload that are plain conversations."""
    usual = [
        one
        for one in prompts.load(workload)
        if "tools" not in one.request
        and all(isinstance(m.get("content"), str) for m in one.request["messages"])
    ]
    return usual[:EACH]
