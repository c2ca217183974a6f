"""Every method side by side on one GPU, behind the gateway: python -m tests.vllm.gpu --out FOLDER.

Runs where vLLM, PyTorch and the gateway's packages are on the path of this interpreter; takes about six minutes.
Writes ``gpu.json``, which becomes backends/evidence/gpu.json, and the servers' logs.

Where vLLM tells the acceptance of each request (0.29 and newer), the gateway's own metrics are compared with the
server's counters. Older ones do not; then the steps that the events of the streams show, through the gateway, are.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import json
import os
import subprocess
import sys
import traceback
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import openai
import torch
import vllm

from backends import render
from backends.fleet_file import write_fleet
from backends.machine import Engine, Machine
from backends.methods import methods
from backends.preflight import preflight
from backends.supervise import Command, Event, Patience, Supervisor
from backends.verify import Verifier
from backends.versions import at_least
from gateway.app import Gateway
from gateway.cli.running import serving
from gateway.core.counters import Counters, Window, between, parse_counters
from gateway.policy.load import Invalid
from gateway.runtime.reload import load_files
from gateway.settings import Settings
from tests.vllm import chain, matrix, servers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backends.spec import LaunchSpec
    from gateway.core.outcome import Record

ROOT: Final = Path(__file__).parents[2]
POLICY: Final = "version: 1\nallow_pin: true\nroutes: [{name: all, prefer: [any]}]\n"
READY_WITHIN: Final = 240.0
TOKENS: Final = 200
TRIES: Final = 12
LOOKUP: Final = ("ngram", "suffix")
"""Methods that do not draft in each step, so that events do not tell which steps the counters know of."""
EXACT: Final = at_least(vllm.__version__, render.REQUEST_METRICS_SINCE)
"""Whether answers tell the acceptance of their request."""
NOTE: Final = (
    "This version tells no acceptance of single requests, so the steps that the events of the streams show, read "
    "through the gateway, were compared with the server's counters. Streams with merged events or a last step cut "
    "short were asked again."
)


def specs(checkpoints: Path) -> list[LaunchSpec]:
    """The fleet of the CPU tests on the GPU, and DSpark, which needs one."""
    small: dict[str, Any] = {
        "dtype": "bfloat16",
        "enforce-eager": True,
        "max-num-seqs": 16,
        # So many servers share the GPU, and none of them measures its memory.
        "gpu-memory-utilization": 0.05,
        "kv-cache-memory-bytes": 1 << 30,
        "enable-auto-tool-choice": True,
        "tool-call-parser": "hermes",
    }
    usual = [
        replace(one, args=small | {key: value for key, value in one.args.items() if key == "tokenizer"})
        for one in servers.specs(checkpoints, "", suffix=servers.has_suffix(Path(sys.executable)))
    ]
    dspark = replace(
        usual[0], name="dspark", method="dspark", draft_tokens=4, draft=str(checkpoints / "dspark")
    )
    return [replace(one, port=8101 + place) for place, one in enumerate([*usual, dspark])]


def commands(wanted: Sequence[LaunchSpec], out: Path) -> list[Command]:
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join([*os.environ.get("PYTHONPATH", "").split(os.pathsep), str(ROOT)]),
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_PLUGINS": "",
        "OMP_NUM_THREADS": "2",
    }
    return [
        Command(
            spec.name,
            tuple(render.argv(spec, sys.executable, version=vllm.__version__)),
            env | render.environment(spec, "cuda", (0,)),
            spec.url,
            spec.served_model,
            out / f"{spec.name}.log",
        )
        for spec in wanted
    ]


async def counters(client: httpx.AsyncClient, spec: LaunchSpec) -> Counters:
    page = await client.get(f"{spec.url}/metrics")
    return parse_counters(page.content, asyncio.get_running_loop().time())


async def stream(client: httpx.AsyncClient, url: str, spec: LaunchSpec, last: int, tokens: int) -> list[int]:
    """Tokens of each event of an answer through the gateway."""
    body = {
        "model": servers.SERVED_MODEL, "prompt": chain.text([last]), "max_tokens": tokens, "temperature": 0,
        "stream": True, "stream_options": {"include_usage": True}, "return_token_ids": True,
    }  # fmt: skip
    headers = {"x-specroute-backend": spec.name}
    found, text = [], ""
    async with client.stream("POST", f"{url}/v1/completions", json=body, headers=headers) as answer:
        answer.raise_for_status()
        async for line in answer.aiter_lines():
            if not line.startswith("data: {"):
                continue
            event = json.loads(line.removeprefix("data: "))
            for choice in event["choices"]:
                text += choice["text"]
                found.append(len(choice["token_ids"] or ()))
    if text != chain.answer(last, tokens):
        print(f"  {spec.name}: another text than the target's after {last}: {text[:60]!r}")
    return found


async def settled(
    client: httpx.AsyncClient, spec: LaunchSpec, before: Counters, tokens: int
) -> Window | None:
    """What the server counted, as soon as it has counted so many tokens."""
    for _ in range(100):
        window = between(before, await counters(client, spec))
        if window is None or window.generated >= tokens:
            return window
        await asyncio.sleep(0.1)
    return window


async def drive(
    client: httpx.AsyncClient, url: str, spec: LaunchSpec, records: list[Record]
) -> dict[str, Any] | None:
    """Send requests to one server and compare; None for one that does not speculate."""
    ours, theirs = Counter[str](), Counter[str]()
    for last in [chain.LOOPING, chain.UNREPEATED, chain.MULTIBYTE] * 2:
        for tokens in range(TOKENS, TOKENS + TRIES):
            told, counted = await compared(client, url, spec, last, tokens, records)
            if EXACT or shows_all(told, counted, tokens) or spec.method in LOOKUP or not spec.speculates:
                break
        else:
            print(f"  {spec.name}: none of {TRIES} streams after {last} shows all its steps")
        ours.update(told)
        theirs.update(counted)
    if not spec.speculates:
        return None
    if not EXACT:
        ours["drafted"] = theirs["drafted"]  # events do not tell it
    print(f"  {spec.name}: ours {dict(ours)}, theirs {dict(theirs)}", flush=True)
    return {
        "draft_tokens": spec.draft_tokens,
        "requests": 6,
        "steps": theirs["steps"],
        "drafted": theirs["drafted"],
        "accepted": theirs["accepted"],
        "equal": +ours == +theirs,
    }


def shows_all(told: Counter[str], counted: Counter[str], tokens: int) -> bool:
    """Whether a stream shows each of its steps, and the last one whole.

    A server that is late puts two steps into one event, and the limit on tokens may cut the last step short. Both
    show in the totals; what was accepted at which place is not looked at.
    """
    return told["steps"] == counted["steps"] and 1 + counted["accepted"] + counted["steps"] == tokens


async def compared(
    client: httpx.AsyncClient, url: str, spec: LaunchSpec, last: int, tokens: int, records: list[Record]
) -> tuple[Counter[str], Counter[str]]:
    """What the gateway saw of one request, and what the server counted; nothing for one without speculation."""
    before, known = await counters(client, spec), len(records)
    events = await stream(client, url, spec, last, tokens)
    if not spec.speculates:
        return Counter(), Counter()
    window = await settled(client, spec, before, tokens)
    if window is None:
        raise RuntimeError(f"{spec.name}: its counters cannot be compared")
    async with asyncio.timeout(30):
        while len(records) == known:  # noqa: ASYNC110 - the gateway's consumer hands it over when it can
            await asyncio.sleep(0.05)
    return from_record(records[-1]) if EXACT else from_events(events), from_window(window)


def from_window(window: Window) -> Counter[str]:
    """What the server counted."""
    found = Counter(
        steps=round(window.drafts), drafted=round(window.drafted), accepted=round(window.accepted)
    )
    found.update({f"at {place}": round(value) for place, value in enumerate(window.by_position)})
    return found


def from_record(record: Record) -> Counter[str]:
    """What the gateway read in the answer."""
    told = record.outcome.speculation
    found = Counter(steps=told.steps, drafted=told.drafted, accepted=told.accepted)
    found.update({f"at {place}": value for place, value in enumerate(told.accepted_by_position)})
    return found


def from_events(events: Sequence[int]) -> Counter[str]:
    """The same from the tokens of each event: after the first, one is the target's and the others accepted."""
    steps = [tokens - 1 for tokens in [one for one in events if one][1:]]
    found = Counter(steps=len(steps), accepted=sum(steps))
    found.update(f"at {place}" for accepted in steps for place in range(accepted))
    return found


def parameters(running: Sequence[LaunchSpec]) -> dict[str, dict[str, str]]:
    """What becomes of each parameter, by method; nothing without a server to compare with."""
    found: dict[str, dict[str, str]] = {}
    baseline = next((one for one in running if not one.speculates), None)
    for name in matrix.PARAMETERS if baseline else ():
        right = matrix.request(name, baseline.url)
        for spec in running:
            try:
                verdict = matrix.verdict(name, matrix.request(name, spec.url), right)
            except openai.OpenAIError as error:
                print(f"  {spec.name}: {name}: {error}")
                verdict = matrix.FAILED
            found.setdefault(spec.method, {})[name] = verdict
    return found


async def run(out: Path) -> Mapping[str, Any]:
    checkpoints = out / "checkpoints"
    subprocess.run([sys.executable, "-m", "tests.vllm.checkpoints", checkpoints], cwd=ROOT, check=True)  # noqa: ASYNC221, S603 - our own interpreter, before anything runs
    wanted = specs(checkpoints)
    engine = Engine(
        sys.executable, vllm.__version__, "cuda",
        frozenset(one.engine for one in methods().values() if one.engine), frozenset({"arctic_inference"}),
    )  # fmt: skip
    for finding in preflight(wanted, Machine("cuda", engine)):
        print(f"  {finding}")
    failures: dict[str, str] = {}

    def tell(name: str, event: Event, detail: str) -> None:
        print(f"  {name}: {event.value}: {detail.splitlines()[0]}", flush=True)
        if event in (Event.FAILED, Event.ENDED):
            errors = [line for line in detail.splitlines() if "Error" in line]
            failures[name] = (errors or detail.splitlines())[-1][-300:]

    patience = Patience(ready=READY_WITHIN, stop=10.0)
    made = commands(wanted, out)
    async with Supervisor(made, tell=tell, at_once=len(made), patience=patience) as supervisor:
        ready = await supervisor.ready()
        running = [spec for spec in wanted if spec.name in ready]
        document = await exercise(running, out, failures)
    return document | {"failures": {by_method(wanted, name): why for name, why in failures.items()}}


def by_method(wanted: Sequence[LaunchSpec], name: str) -> str:
    return next(one.method for one in wanted if one.name == name)


async def exercise(running: Sequence[LaunchSpec], out: Path, failures: dict[str, str]) -> dict[str, Any]:
    settings = Settings(fleet=out / "fleet.yaml", policy=out / "policy.yaml", port=0, counter_lag=1.0)
    settings.fleet.write_text(write_fleet(replace(one, target=servers.SERVED_MODEL) for one in running))
    settings.policy.write_text(POLICY)
    loaded = load_files(settings.fleet, settings.policy, os.environ)
    assert not isinstance(loaded, Invalid), loaded.problems
    records: list[Record] = []
    runs: dict[str, dict[str, Any]] = {}
    verified: list[str] = []
    gateway = Gateway(settings, loaded, on_record=[records.append])
    async with serving(gateway, settings) as url, httpx.AsyncClient(timeout=60, trust_env=False) as client:
        async with Verifier() as verifier:
            for spec in running:
                for finding in await verifier.verify(spec):
                    print(f"  {finding}")
                try:
                    told = await drive(client, url, spec, records)
                except (httpx.HTTPError, RuntimeError, TimeoutError) as error:
                    failures[spec.name] = f"{type(error).__name__}: {error}"
                    traceback.print_exc()
                    continue
                if told is not None:
                    runs[spec.method] = told
                if told is None or told["equal"]:
                    verified.append(spec.method)
                elif spec.method in LOOKUP and not EXACT:
                    failures[spec.name] = (
                        "it serves, but this version does not tell which of its steps had a draft"
                    )
                else:
                    failures[spec.name] = "its counters and what the gateway saw are not the same"
        page = (await client.get(f"{url}/metrics")).text
        (out / "gateway-metrics.txt").write_text(page)
    device = torch.cuda.get_device_name(0)
    return {
        "engine": f"vLLM {vllm.__version__} on {device}",
        "command": "python -m tests.vllm.gpu --out FOLDER",
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "methods": sorted(verified),
        "parameters": await asyncio.to_thread(parameters, running),
        "runs": runs,
        "note": "" if EXACT else NOTE,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the evidence and the logs")
    out: Path = parser.parse_args().out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    document = asyncio.run(run(out))
    (out / "gpu.json").write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
