"""A hosted model stands in for servers that are stopped, with every part a process of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

from tests.contract.provider import Provider
from tests.contract.stack import SECONDS, Loop, eventually, listening
from tests.e2e.test_serve import address, free_ports, started

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

FLEET = """\
version: 1
backends:
  - {{name: plain, url: "http://127.0.0.1:{}", model: Qwen/Qwen3-8B}}
  - {{name: hosted, url: "litellm://openai/hosted-1", model: Qwen/Qwen3-8B}}
"""
POLICY = (
    "version: 1\nmodels: {tiny: Qwen/Qwen3-8B}\nroutes: [{name: default, prefer: [any], stand_ins: true}]\n"
)
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}


def test_it_answers_while_all_servers_are_stopped_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (port,) = free_ports(1)
    fleet, policy = tmp_path / "fleet.yaml", tmp_path / "policy.yaml"
    fleet.write_text(FLEET.format(port))
    policy.write_text(POLICY)
    options, provider, loop = ("--fleet", str(fleet)), Provider(), Loop()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-own")
    monkeypatch.setenv("SPECROUTE_PROBE_INTERVAL", "0.2")
    with loop.entered(listening(provider)) as url:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{url}/v1")
        with (
            started("serve", *options, "--policy", str(policy), "--port", "0") as gateway,
            httpx.Client(base_url=address(gateway), trust_env=False, timeout=SECONDS) as http,
        ):

            def answered() -> tuple[int, str]:
                answer = http.post("/v1/chat/completions", json=CHAT)
                return answer.status_code, answer.headers.get("x-specroute-backend", "")

            assert eventually(answered, lambda found: found[0] == 200) == (200, "hosted")
            with started("sim", *options) as servers:
                assert eventually(answered, lambda found: found[1] == "plain") == (200, "plain")
                asked = len(provider.asked)
                wrong = http.post("/v1/chat/completions", json=CHAT | {"temperature": "hot"})
                assert (wrong.status_code, len(provider.asked)) == (400, asked)
                servers.kill()
            assert eventually(answered, lambda found: found == (200, "hosted"))
    loop.close()
