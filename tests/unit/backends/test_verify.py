from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx
import pytest

from backends.spec import LaunchSpec
from backends.verify import Observed, Verifier, compare, read
from gateway.core.counters import Counters

SPEC = LaunchSpec("s", "t/arget", "tiny", "eagle3", 3, "d/raft", max_model_len=2048)
COUNTERS = Counters(1.0, drafts=10, drafted=30, accepted=12, by_position=(6, 4, 2), generated=22)
GOOD = Observed("0.32.0", {"tiny": 2048}, COUNTERS, "vllm-0.32.0-abc", tells_acceptance=True)
BASELINE = Observed(
    "0.32.0", {"tiny": 2048}, Counters(1.0, generated=3), "vllm-0.32.0-def", tells_acceptance=False
)


def said(spec: LaunchSpec, observed: Observed) -> list[str]:
    return [str(one).removeprefix("s: ") for one in compare(spec, observed)]


def test_what_is_as_it_should_be_is_left_alone() -> None:
    assert said(SPEC, GOOD) == []
    assert said(LaunchSpec("s", "t/arget", "tiny", max_model_len=2048), BASELINE) == []
    assert said(replace(SPEC, max_model_len=None), replace(GOOD, models={"tiny": None})) == []


@pytest.mark.parametrize(
    ("spec", "observed", "message"),
    [
        (SPEC, Observed(), "http://127.0.0.1:8101 does not list its models; see its log, or start it again"),
        (
            SPEC, replace(GOOD, models={"other": 2048}),
            "it serves other and not tiny; start it with the served_model of the fleet file",
        ),
        (
            SPEC, replace(GOOD, models={"tiny": 1024}),
            "its context is 1024 tokens and not 2048; write 'max_model_len: 1024', or start it anew",
        ),
        (SPEC, replace(GOOD, counters=None), "it shows no metrics; let the gateway reach /metrics"),
        (
            SPEC, BASELINE,
            "it counts no drafts, so it does not speculate; start it as method eagle3, or change the fleet file",
        ),
        (
            LaunchSpec("s", "t/arget", "tiny"), GOOD,
            "it counts drafts, so it speculates; start it as method none, or change the fleet file",
        ),
        (
            replace(SPEC, draft_tokens=5), GOOD,
            "its drafts have 3 tokens and not 5; write 'draft_tokens: 3', or start it anew",
        ),
        (
            SPEC, replace(GOOD, counters=replace(COUNTERS, drafted=25)),
            "warning: its drafts have 2.50 tokens on average and not always 3; see whether it runs another method",
        ),
        (
            SPEC, replace(GOOD, tells_acceptance=False),
            (
                "warning: its answers do not tell the acceptance of the request; "
                "start it with --per-request-spec-decode-metrics summary"
            ),
        ),
    ],
)  # fmt: skip
def test_what_is_not_as_the_spec_says_is_told(spec: LaunchSpec, observed: Observed, message: str) -> None:
    assert said(spec, observed) == [message]


@pytest.mark.parametrize(
    "spec",
    [
        replace(SPEC, method="ngram", draft=None),
        replace(SPEC, speculative={"num_speculative_tokens_per_batch_size": [[1, 4, 3]]}),
        replace(SPEC, method="dspark", speculative={"enable_adaptive_verification": True}),
    ],
)
def test_drafts_of_changing_length_are_no_surprise(spec: LaunchSpec) -> None:
    assert said(spec, replace(GOOD, counters=replace(COUNTERS, drafted=25))) == []


def test_nothing_is_expected_before_the_first_draft() -> None:
    fresh = replace(COUNTERS, drafts=0, drafted=0, accepted=0, by_position=(0, 0, 0))
    assert said(SPEC, replace(GOOD, counters=fresh)) == []


@pytest.mark.parametrize(
    "other",
    [
        replace(GOOD, version="0.33.0"),
        replace(GOOD, models={"tiny": 4096}),
        replace(GOOD, counters=replace(COUNTERS, by_position=(6, 4, 2, 0))),
        replace(GOOD, system_fingerprint="vllm-0.32.0-xyz"),
    ],
)
def test_a_fingerprint_differs_with_what_was_started(other: Observed) -> None:
    assert len(GOOD.fingerprint) == 12
    assert other.fingerprint != GOOD.fingerprint
    assert replace(GOOD, counters=replace(COUNTERS, drafts=99)).fingerprint == GOOD.fingerprint


@pytest.mark.parametrize("odd", [None, [], "x", {"data": 3, "version": None, "metrics": 1}])
def test_odd_answers_count_as_not_said(odd: Any) -> None:
    found = read(odd, odd, None, odd, 1.0)
    assert (found.models, found.counters, found.system_fingerprint) == ({}, None, "")


PAGE = """\
vllm:generation_tokens_total{engine="0"} 8
vllm:spec_decode_num_drafts_total{engine="0"} 4
vllm:spec_decode_num_draft_tokens_total{engine="0"} 12
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 4
"""


class Shown:
    """A server as httpx sees it; ``n`` is its N."""

    def __init__(self) -> None:
        self.n = 3
        self.down = False

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if self.down:
            raise httpx.ConnectError("refused")
        positions = "".join(
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="{place}"}} 1\n'
            for place in range(self.n)
        )
        answers: dict[str, httpx.Response] = {
            "/version": httpx.Response(200, json={"version": "0.32.0"}),
            "/v1/models": httpx.Response(200, json={"data": [{"id": "tiny", "max_model_len": 2048}]}),
            "/metrics": httpx.Response(200, text=PAGE + positions),
            "/v1/completions": httpx.Response(
                200,
                json={
                    "system_fingerprint": f"vllm-{self.n}",
                    "metrics": {"speculative_decoding": {"num_spec_steps": 1}},
                },
            ),
        }
        return answers[request.url.path]


async def test_a_restart_with_another_n_is_seen() -> None:
    shown = Shown()
    async with Verifier(transport=httpx.MockTransport(shown)) as verifier:
        assert await verifier.verify(SPEC) == []
        before = (await verifier.observe(SPEC)).fingerprint
        shown.n = 5
        findings = list(map(str, await verifier.verify(SPEC)))
        after = (await verifier.observe(SPEC)).fingerprint
        assert findings == [
            "s: its drafts have 5 tokens and not 3; write 'draft_tokens: 5', or start it anew",
            (
                f"s: warning: it was started anew with something else: {before} became {after}; "
                "what was measured before does not count for it"
            ),
        ]


async def test_a_server_that_is_down_is_not_another_one() -> None:
    shown = Shown()
    async with Verifier(transport=httpx.MockTransport(shown)) as verifier:
        await verifier.verify(SPEC)
        shown.down = True
        assert [one.wrong for one in await verifier.verify(SPEC)] == [
            "http://127.0.0.1:8101 does not list its models"
        ]
        shown.down = False
        assert await verifier.verify(SPEC) == []
