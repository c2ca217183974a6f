from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from backends import verify
from backends.observed import Observed, read
from backends.spec import LaunchSpec
from backends.verify import Verifier, compare
from gateway.core.counters import Counters

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CERTIFICATE = Path(__file__).parents[2] / "fixtures/tls/localhost.pem"
SPEC = LaunchSpec("s", "t/arget", "tiny", "eagle3", 3, "d/raft", max_model_len=2048)
COUNTERS = Counters(1.0, drafts=10, drafted=30, accepted=12, by_position=(6, 4, 2), generated=22)
GOOD = Observed("0.32.0", {"tiny": 2048}, COUNTERS, "vllm-0.32.0-abc", tells_acceptance=True)
BASELINE = Observed(
    "0.32.0", {"tiny": 2048}, Counters(1.0, generated=3), "vllm-0.32.0-def", tells_acceptance=False
)


@pytest.fixture(autouse=True)
def compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said of a version does not hang on what was run last."""
    monkeypatch.setattr(verify, "compared_versions", lambda _: ("0.32.0",))


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
            SPEC, replace(GOOD, counters=Counters(1.0)),
            "its /metrics has no counters of vLLM; start it without --disable-log-stats",
        ),
        (
            SPEC, replace(GOOD, counters=replace(COUNTERS, by_position=())),
            "its /metrics has some counters of drafts and lacks others; see whether something cuts the page short",
        ),
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
        (
            SPEC, replace(GOOD, version="0.26.0", tells_acceptance=False),
            (
                "warning: its answers do not tell the acceptance of the request, and vLLM 0.26.0 cannot; "
                "use vLLM 0.29.0 or newer"
            ),
        ),
        (
            SPEC, replace(GOOD, version="0.29.0"),
            "warning: vLLM 0.29.0 loses the acceptance of some streams; use vLLM 0.32.0 or newer",
        ),
        (
            replace(SPEC, method="dflash"), replace(GOOD, version="0.18.1", tells_acceptance=None),
            "warning: it is vLLM 0.18.1, and dflash is known from 0.19.0 on; use vLLM 0.19.0 or newer",
        ),
        (
            replace(SPEC, method="dspark", speculative={"enable_adaptive_verification": True}),
            replace(GOOD, version="0.27.0", tells_acceptance=None),
            (
                "warning: it is vLLM 0.27.0, and adaptive verification is known from 0.28.0 on; "
                "use vLLM 0.28.0 or newer\n"
                "warning: vLLM 0.27.0 may refuse logprobs and top_logprobs beside adaptive verification; "
                "use vLLM 0.29.0 or newer, or write 'refuses: [logit_bias, logprobs, min_p, top_logprobs]'"
            ),
        ),
        (
            replace(SPEC, image="vllm/vllm-openai:v0.31.0"), GOOD,
            "it is vLLM 0.32.0 and its image is of 0.31.0; start it from its image, or name the one it runs",
        ),
    ],
)  # fmt: skip
def test_what_is_not_as_the_spec_says_is_told(spec: LaunchSpec, observed: Observed, message: str) -> None:
    assert said(spec, observed) == message.splitlines()


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
        replace(GOOD, cache={"enable_prefix_caching": "False"}),
    ],
)
def test_a_fingerprint_differs_with_what_was_started(other: Observed) -> None:
    assert len(GOOD.fingerprint) == 12
    assert other.fingerprint != GOOD.fingerprint
    assert replace(GOOD, counters=replace(COUNTERS, drafts=99)).fingerprint == GOOD.fingerprint


@pytest.mark.parametrize(
    "image", ["vllm/vllm-openai:v0.32.0", "vllm/vllm-openai:latest", "own/image", "a@sha256:0"]
)
def test_an_image_that_tells_no_other_version_is_left_alone(image: str) -> None:
    assert said(replace(SPEC, image=image), GOOD) == []


@pytest.mark.parametrize("version", [None, "", "dev"])
def test_a_version_that_cannot_be_read_is_left_alone(version: str | None) -> None:
    assert said(SPEC, replace(GOOD, version=version)) == []


@pytest.mark.parametrize(
    "odd",
    [
        None, [], "x", 3, {"data": 3, "version": None, "metrics": 1},
        {"data": [{"id": ["a"]}, {"id": {}}, {"id": None}, 7, {}], "version": {"a": 1}, "metrics": []},
    ],
)  # fmt: skip
def test_odd_answers_count_as_not_said(odd: Any) -> None:
    found = read(odd, odd, None, odd, 1.0)
    assert (found.version, dict(found.models), found.counters) == (None, {}, None)
    assert not found.system_fingerprint
    assert len(found.fingerprint) == 12


@pytest.mark.parametrize("length", ["2048", None, [1], {}, True, 2.5])
def test_an_odd_context_length_counts_as_not_said(length: Any) -> None:
    listed = {"data": [{"id": "tiny", "max_model_len": length}, {"id": "other", "max_model_len": 7}]}
    found = read({"version": "0.32.0"}, listed, None, None, 1.0)
    assert found.models == {"tiny": None, "other": 7}
    assert len(found.fingerprint) == 12


def test_an_adapter_that_is_loaded_later_makes_no_other_server() -> None:
    target = {"id": "tiny", "max_model_len": 2048, "parent": None}
    before = read({}, {"data": [target]}, None, None, 1.0)
    after = read({}, {"data": [target, {"id": "adapter", "parent": "tiny"}]}, None, None, 2.0)
    assert after.fingerprint == before.fingerprint


PAGE = """\
vllm:cache_config_info{block_size="16",enable_prefix_caching="True",engine="0",num_gpu_blocks="256"} 1.0
vllm:generation_tokens_total{engine="0"} 8
vllm:spec_decode_num_drafts_total{engine="0"} 4
vllm:spec_decode_num_draft_tokens_total{engine="0"} 12
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 4
"""
PATHS = ("/version", "/v1/models", "/metrics", "/v1/completions")


class Shown:
    """A server as httpx sees it; ``n`` is its N, and what is in ``instead`` is answered in place of a page."""

    def __init__(self) -> None:
        self.n = 3
        self.started = 100.0
        self.page = PAGE
        self.instead: dict[str, httpx.Response | Exception] = {}

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        positions = "".join(
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="{place}"}} 1\n'
            for place in range(self.n)
        )
        born = f'vllm:generation_tokens_created{{engine="0"}} {self.started}\n'
        answers: dict[str, httpx.Response | Exception] = {
            "/version": httpx.Response(200, json={"version": "0.32.0"}),
            "/v1/models": httpx.Response(200, json={"data": [{"id": "tiny", "max_model_len": 2048}]}),
            "/metrics": httpx.Response(200, text=self.page + born + positions),
            "/v1/completions": httpx.Response(
                200,
                json={
                    "system_fingerprint": f"vllm-{self.n}",
                    "metrics": {"speculative_decoding": {"num_spec_steps": 1}},
                },
            ),
        } | self.instead
        answer = answers[path]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def breaks(self, how: httpx.Response | Exception, *paths: str) -> None:
        self.instead = dict.fromkeys(paths or PATHS, how)


async def test_a_restart_with_another_n_is_seen() -> None:
    shown = Shown()
    async with Verifier(transport=httpx.MockTransport(shown)) as verifier:
        assert await verifier.verify(SPEC) == []
        before = (await verifier.observe(SPEC)).fingerprint
        shown.n = 5
        findings = list(map(str, await verifier.verify(SPEC)))
        after = (await verifier.observe(SPEC)).fingerprint
        assert before != after
        assert findings == [
            "s: its drafts have 5 tokens and not 3; write 'draft_tokens: 5', or start it anew",
            (
                "s: warning: it was started anew with something else: its draft tokens and system fingerprint "
                f"changed ({before} became {after}); what was measured before does not count for it"
            ),
        ]
        assert "started anew" not in "".join(map(str, await verifier.verify(SPEC)))


async def test_a_restart_that_shows_nothing_else_is_told_as_such() -> None:
    shown = Shown()
    async with Verifier(transport=httpx.MockTransport(shown)) as verifier:
        assert await verifier.verify(SPEC) == []
        alike = (await verifier.observe(SPEC)).fingerprint
        shown.started = 200.0
        assert list(map(str, await verifier.verify(SPEC))) == [
            (
                f"s: warning: it was started anew and shows the same as before ({alike}), as it does with other "
                "settings of its method; what was measured before counts only if it was started as before"
            )
        ]
        assert (await verifier.observe(SPEC)).fingerprint == alike
        assert await verifier.verify(SPEC) == []


async def test_counters_that_begin_again_tell_of_a_restart_without_a_time() -> None:
    shown = Shown()
    shown.page = PAGE.replace("8\n", "80\n")
    shown.started = math.nan
    async with Verifier(transport=httpx.MockTransport(shown)) as verifier:
        await verifier.verify(SPEC)
        shown.page = PAGE
        assert "it was started anew" in "".join(map(str, await verifier.verify(SPEC)))


async def test_a_restart_with_other_cache_settings_is_one_with_something_else() -> None:
    shown = Shown()
    async with Verifier(transport=httpx.MockTransport(shown)) as verifier:
        await verifier.verify(SPEC)
        shown.started, shown.page = 200.0, PAGE.replace('caching="True"', 'caching="False"')
        found = "".join(map(str, await verifier.verify(SPEC)))
        assert "it was started anew with something else: its cache changed" in found
        assert found.count("started anew") == 1
        shown.page = shown.page.replace("256", "255")  # as many as memory has room for
        assert await verifier.verify(SPEC) == []


BROKEN = [
    httpx.Response(503, text="starting"),
    httpx.Response(200, text=""),
    httpx.Response(200, text="<html>busy</html>"),
    httpx.Response(200, text="[" * 100_000),
    httpx.Response(200, content=b"\xff\xfe"),
    httpx.Response(200, json={}),
    httpx.Response(200, json={"error": {"message": "busy"}}),
    httpx.Response(200, json={"data": [], "version": "", "system_fingerprint": None}),
    httpx.Response(302, headers={"location": "/elsewhere"}),
    httpx.ConnectError("refused"),
    httpx.ReadTimeout("slow"),
    httpx.InvalidURL("odd"),
    TimeoutError(),
]


@pytest.mark.parametrize("how", BROKEN, ids=repr)
@pytest.mark.parametrize("path", [*PATHS, "all of them"])
async def test_what_does_not_answer_makes_no_other_server(path: str, how: httpx.Response | Exception) -> None:
    shown = Shown()
    async with Verifier(transport=httpx.MockTransport(shown)) as verifier:
        await verifier.verify(SPEC)
        shown.breaks(how, *([path] if path in PATHS else PATHS))
        assert "started anew" not in "".join(map(str, await verifier.verify(SPEC)))
        shown.instead = {}
        assert await verifier.verify(SPEC) == []


@pytest.mark.parametrize("path", PATHS)
async def test_a_gap_hides_no_restart(path: str) -> None:
    shown = Shown()
    async with Verifier(transport=httpx.MockTransport(shown)) as verifier:
        await verifier.verify(SPEC)
        shown.breaks(httpx.Response(503), path)
        await verifier.verify(SPEC)
        shown.instead, shown.n = {}, 5
        assert "it was started anew with something else" in "".join(map(str, await verifier.verify(SPEC)))


async def test_a_server_that_is_down_is_told_so_and_nothing_else() -> None:
    shown = Shown()
    async with Verifier(transport=httpx.MockTransport(shown)) as verifier:
        shown.breaks(httpx.ConnectError("refused"))
        assert [one.wrong for one in await verifier.verify(SPEC)] == [
            "http://127.0.0.1:8101 does not list its models"
        ]


async def test_a_server_without_end_is_given_up() -> None:
    async def trickle() -> AsyncIterator[bytes]:
        while True:
            yield b"# still here\n"
            await asyncio.sleep(0)

    shown = Shown()
    shown.breaks(httpx.Response(200, content=trickle()), "/metrics")
    async with Verifier(timeout=0.05, transport=httpx.MockTransport(shown)) as verifier:
        assert (await verifier.observe(SPEC)).counters is None


async def test_a_server_with_a_key_and_a_certificate_is_read_with_them(tmp_path: Path) -> None:
    keys = []

    def shown(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers.get("authorization"))
        return httpx.Response(200, json={"data": [{"id": "tiny"}]})

    spec = replace(SPEC, api_key_env="KEY", args={"ssl_certfile": str(CERTIFICATE)})
    env = {"KEY": "sk-hidden"}
    async with Verifier(env=env, transport=httpx.MockTransport(shown)) as verifier:
        assert (await verifier.observe(spec)).models == {"tiny": None}
        assert set(keys) == {"Bearer sk-hidden"}
        assert "sk-hidden" not in repr(await verifier.verify(spec))
        await verifier.observe(replace(SPEC, name="other"))
        assert keys[-1] is None
        gone = replace(spec, name="gone", args={"ssl_certfile": str(tmp_path / "gone")})
        assert (await verifier.observe(gone)).models == {}


async def test_a_server_of_another_version_than_was_launched_is_told() -> None:
    async with Verifier(launched="0.31.0", transport=httpx.MockTransport(Shown())) as verifier:
        assert [str(one) for one in await verifier.verify(SPEC)] == [
            ("s: it is vLLM 0.32.0 and 0.31.0 was started; see whether another server has its port")
        ]
    async with Verifier(launched="0.32.0+cpu", transport=httpx.MockTransport(Shown())) as verifier:
        assert await verifier.verify(SPEC) == []
