import asyncio
import subprocess
import sys

import pytest

from gateway.adapters import litellm_target
from gateway.adapters.litellm_target import LiteLlmUpstream
from gateway.wire.upstream import UpstreamError, UpstreamRequest


def request(path: str = "/v1/chat/completions") -> UpstreamRequest:
    return UpstreamRequest("POST", f"litellm://openai/x{path}", [], b"{}")


def test_a_gateway_without_stand_ins_does_not_import_litellm() -> None:
    code = "import sys, gateway.app; sys.exit('litellm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603 - our own code


async def test_only_a_fleet_with_stand_ins_has_it_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = asyncio.Event()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(litellm_target, "_import", lambda: loop.call_soon_threadsafe(imported.set))
    upstream = LiteLlmUpstream()
    upstream.prepare(())
    assert upstream._loading is None
    upstream.prepare((object(),))
    await imported.wait()
    await upstream._loading


async def test_a_library_that_cannot_be_imported_is_a_failure_of_the_stand_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing() -> None:
        raise ImportError("no litellm")

    monkeypatch.setattr(litellm_target, "_import", missing)
    with pytest.raises(UpstreamError, match="no litellm") as raised:
        await LiteLlmUpstream().send(request(), 1.0)
    assert (raised.value.phase, raised.value.error) == ("sent", "protocol")  # no phase that marks it down


async def test_what_is_no_completion_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(litellm_target, "_import", lambda: None)
    with pytest.raises(UpstreamError, match="completions only"):
        await LiteLlmUpstream().send(request("/v1/responses"), 1.0)


async def test_what_may_not_be_passed_on_is_refused_before_the_library_sees_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(litellm_target, "_import", lambda: None)  # on which any call would fail
    answer = await LiteLlmUpstream().send(request(), 1.0)
    assert answer.status == 501
