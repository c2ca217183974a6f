"""The serving process of a real server is killed mid-stream: another goes on, and nobody can tell."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import tempfile
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from backends import render
from tests.e2e.front import POLICY, gateway, idle
from tests.vllm import chain, servers
from tests.vllm.asking import question

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backends.spec import LaunchSpec
    from gateway.core.outcome import Record
    from tests.vllm.collector import Collector

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

LENGTH = 800
READY = 420.0
FIRST_THEN_SECOND = (
    "  - {name: all, prefer: [victim, heir], score: {preference: 1.0}}\nresume: {mode: exact}\n"
)


@dataclass
class Said:
    """What a stream said."""

    text: str = ""
    reasons: list[str] = field(default_factory=list)
    usages: list[Any] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    done: int = 0
    errors: list[Any] = field(default_factory=list)

    def hear(self, line: bytes) -> None:
        data = line.strip().removeprefix(b"data: ")
        if data == b"[DONE]":
            self.done += 1
            return
        if not data or data.startswith(b":"):
            return
        event = json.loads(data)
        if "error" in event:
            self.errors.append(event)
            return
        self.ids.add(event["id"])
        if event.get("usage"):
            self.usages.append(
                {name: event["usage"][name] for name in ("prompt_tokens", "completion_tokens")}
            )
        for choice in event["choices"]:
            self.text += (choice["text"] if "text" in choice else choice["delta"].get("content")) or ""
            if choice["finish_reason"]:
                self.reasons.append(choice["finish_reason"])


@contextlib.contextmanager
def process(
    spec: LaunchSpec, python: Path, scratch: Path, temporary: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A server that nobody watches over, so that it may be killed."""
    env = servers.environment(scratch, temporary) | render.environment(spec, "cpu")
    with (
        (scratch / f"{spec.name}.log").open("wb") as log,
        subprocess.Popen(render.argv(spec, str(python)), env=env, stdout=log, stderr=log) as running,  # noqa: S603 - our own
    ):
        try:
            yield running
        finally:
            running.kill()


async def ready(spec: LaunchSpec, running: subprocess.Popen[bytes]) -> None:
    async with asyncio.timeout(READY), aiohttp.ClientSession(spec.url) as session:
        while True:
            assert running.poll() is None, f"{spec.name} ended"
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get("/health") as response:
                    if response.status == 200:
                        return
            await asyncio.sleep(0.5)


async def ask(
    url: str, last: int, endpoint: str, identity: str = "", begun: asyncio.Event | None = None
) -> Said:
    """Stream an answer; ``begun`` is set after some of it."""
    asked = question(
        last, endpoint=endpoint, max_tokens=LENGTH, stream=True, stream_options={"include_usage": True}
    )
    asked.pop("extra_headers")
    path = "/v1/completions" if endpoint == "completions" else "/v1/chat/completions"
    said = Said()
    headers = {"x-request-id": identity} if identity else {}
    async with (
        aiohttp.ClientSession(url) as session,
        session.post(path, json=asked, headers=headers) as response,
    ):
        assert response.status == 200, await response.text()
        heard = 0
        async for line in response.content:
            said.hear(line)
            heard += line.startswith(b"data: ")
            if begun is not None and heard > 10 + last % 7:
                begun.set()
    return said


ASKED = [
    (last, endpoint)
    for last in (chain.LOOPING, chain.MULTIBYTE, chain.UNREPEATED)
    for endpoint in ("chat", "completions")
]


async def test_a_killed_servers_streams_end_as_if_nothing_had_happened(
    vllm_python: Path, checkpoints: Path, collector: Collector, tmp_path: Path
) -> None:
    specs = {one.name: one for one in servers.specs(checkpoints, f"{collector.url}/v1/traces", suffix=False)}
    ports = servers.free_ports()
    victim = replace(specs["baseline"], name="victim", port=next(ports))
    heir = replace(specs["ngram"], name="heir", port=next(ports))
    backends = [{"name": one.name, "url": one.url, "model": servers.SERVED_MODEL} for one in (victim, heir)]
    policy = POLICY[: POLICY.index("  - ")] + FIRST_THEN_SECOND
    records: dict[str, Record] = {}
    with (
        tempfile.TemporaryDirectory(prefix="vllm-") as temporary,
        process(victim, vllm_python, tmp_path, temporary) as dying,
        process(heir, vllm_python, tmp_path, temporary) as living,
    ):
        await asyncio.gather(ready(victim, dying), ready(heir, living))
        undisturbed = [await ask(victim.url, *one) for one in ASKED]
        async with gateway(
            tmp_path,
            backends,
            policy=policy,
            on_record=[lambda record: records.update({record.request_id: record})],
        ) as url:
            await idle(url)
            begun = [asyncio.Event() for _ in ASKED]
            streams = [
                asyncio.create_task(ask(url, *one, f"resumed-{number}", begun[number]))
                for number, one in enumerate(ASKED)
            ]
            await asyncio.gather(*(one.wait() for one in begun))
            assert not any(one.done() for one in streams)
            dying.kill()
            said = await asyncio.gather(*streams)
    for (last, _), before, after in zip(ASKED, undisturbed, said, strict=True):
        assert after.text == before.text == chain.answer(last, LENGTH)
        assert (after.reasons, after.usages, after.errors) == (before.reasons, before.usages, [])
        assert (len(after.ids), after.done) == (1, 1)
    assert [records[f"resumed-{number}"].outcome.resumed for number in range(len(ASKED))] == [1] * len(ASKED)
    assert {record.backend for record in records.values()} == {"heir"}
