"""Refusals that no table foresees: real servers refuse, the gateway asks the server without speculation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gateway.core.refused import TIMES
from tests.vllm import chain, servers
from tests.vllm.asking import ask
from tests.vllm.conftest import fronting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.vllm.collector import Collector
    from tests.vllm.conftest import Front
    from tests.vllm.servers import Server

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

POLICY = """\
version: 1
models: {defaulted: tiny, bare: tiny}
routes:
  - {name: defaulted, match: {model: defaulted}, prefer: [defaulted, baseline]}
  - {name: bare, match: {model: bare}, prefer: [bare, baseline]}
"""
_TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture(scope="module")
def three(
    vllm_python: Path, checkpoints: Path, collector: Collector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Server]]:
    """A baseline, a server with a default that speculation refuses, and one that lacks what the others have."""
    known = {one.name: one for one in servers.specs(checkpoints, f"{collector.url}/v1/traces", suffix=False)}
    ngram = known["ngram"]
    lacking = {
        flag: value
        for flag, value in ngram.args.items()
        if flag not in ("enable-auto-tool-choice", "tool-call-parser")
    }
    wanted = [
        known["baseline"],
        replace(ngram, name="defaulted", args={**ngram.args, "override-generation-config": '{"min_p": 0.1}'}),
        # What it says of itself is what any server with a draft refuses, so that nothing is foreseen.
        replace(ngram, name="bare", args={**lacking, "max-logprobs": 0}, refused=("logit_bias", "min_p")),
    ]
    with servers.running(vllm_python, wanted, tmp_path_factory.mktemp("three")) as fleet:
        ask(fleet["bare"].url, chain.LOOPING)
        yield fleet


@pytest.fixture(scope="module")
def before_three(
    three: dict[str, Server], collector: Collector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Front]:
    with fronting(three.values(), POLICY, collector, tmp_path_factory.mktemp("gateway")) as front:
        yield front


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("endpoint", ["chat", "completions"])
@pytest.mark.parametrize(
    ("backend", "fields"),
    [
        ("defaulted", {"temperature": 0.7}),
        ("bare", {"tools": [_TOOL]}),
        ("bare", {"logprobs": True, "top_logprobs": 2}),
    ],
)
def test_what_a_server_refuses_unforeseen_is_answered_by_one_that_takes_it(
    three: dict[str, Server],
    before_three: Front,
    backend: str,
    fields: dict[str, Any],
    endpoint: str,
    stream: bool,
) -> None:
    if endpoint == "completions":
        if "tools" in fields:
            pytest.skip("text completions have no tools")
        fields = {"logprobs": 2} if "logprobs" in fields else fields
    asked = {"endpoint": endpoint, "stream": stream, "max_tokens": 8, **fields}
    refused = ask(three[backend].url, **asked)
    assert refused.status == 400 or b'"code": 400' in refused.body or b'"code":400' in refused.body
    answers = [ask(before_three.url, model=backend, **asked) for _ in range(TIMES + 1)]
    for answer in answers:
        assert (answer.status, answer.headers["x-specroute-backend"]) == (200, "baseline")
        assert b'"error"' not in answer.body
    tried = [
        [one.backend for one in before_three.records.of(answer.headers["x-request-id"]).attempts]
        for answer in answers
    ]
    # The streams come second, and it is known by then.
    first = [["baseline"]] if stream else [[backend, "baseline"]]
    assert tried == first * TIMES + [["baseline"]]


def test_what_it_takes_still_goes_there(before_three: Front) -> None:
    for backend in ("bare", "defaulted"):
        answer = ask(before_three.url, model=backend, max_tokens=8, seed=7)
        assert (answer.status, answer.headers["x-specroute-backend"]) == (200, backend)
