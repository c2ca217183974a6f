"""Every method side by side on one GPU, behind the gateway: python -m tests.vllm.gpu --out FOLDER.

Runs where vLLM 0.29 or newer, PyTorch and the gateway's packages are on the path of this interpreter; takes about six
minutes. Writes ``gpu.json``, which becomes backends/evidence/gpu.json, and the servers' logs. Older versions of vLLM do
not tell the acceptance of requests, so that the gateway's metrics hold none of it to be compared.
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
from dataclasses import replace
from importlib.metadata import requires
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import openai
import torch
import vllm

from backends import render
from backends.commands import Command, Event
from backends.fleet_file import write_fleet
from backends.machine import Engine, Machine
from backends.measured import Evidence, Run
from backends.methods import methods
from backends.preflight import preflight
from backends.supervise import Patience, Supervisor
from backends.verify import Verifier
from backends.versions import at_least
from gateway.app import Gateway
from gateway.cli.running import serving
from gateway.policy.load import Invalid
from gateway.runtime.reload import load_files
from gateway.settings import Settings
from tests.vllm import counting, matrix, servers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backends.spec import LaunchSpec

ROOT: Final = Path(__file__).parents[2]
POLICY: Final = "version: 1\nallow_pin: true\nroutes: [{name: all, prefer: [any]}]\n"
READY_WITHIN: Final = 200.0


def specs(checkpoints: Path) -> list[LaunchSpec]:
    """The fleet of the CPU tests on the GPU, DSpark, which needs one, and an N that changes."""
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
    every = [*usual, dspark]
    every += [servers.by_batch(one) for one in every if one.known.schedule]
    every += [adaptive(one) for one in [*usual, dspark] if can_verify_adaptively(one)]
    return [replace(one, port=8101 + place) for place, one in enumerate(every)]


def can_verify_adaptively(spec: LaunchSpec) -> bool:
    known = spec.known.adaptive
    return known is not None and at_least(vllm.__version__, known.since)


def adaptive(spec: LaunchSpec) -> LaunchSpec:
    """The same server with adaptive verification, which weighs drafts by what steps of captured graphs take."""
    graphs = {"compilation-config": json.dumps({"mode": 0})}
    return replace(
        spec,
        name=f"{spec.name}-adaptive",
        args={key: value for key, value in spec.args.items() if key != "enforce-eager"} | graphs,
        # Without it graphs would need a compiled model.
        env={"VLLM_USE_BREAKABLE_CUDAGRAPH": "1"},
        speculative={"enable_adaptive_verification": True},
    )


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


def parameters(running: Sequence[LaunchSpec]) -> dict[str, dict[str, str]]:
    """What becomes of each parameter, by server; nothing without a server to compare with."""
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
            found.setdefault(spec.name, {})[name] = verdict
    return found


async def run(out: Path) -> None:
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
        if not ready:
            sys.exit(f"no server started: {failures}")
        await exercise([spec for spec in wanted if spec.name in ready], out, failures)


async def exercise(running: Sequence[LaunchSpec], out: Path, failures: dict[str, str]) -> None:
    settings = Settings(fleet=out / "fleet.yaml", policy=out / "policy.yaml", port=0, counter_lag=1.0)
    settings.fleet.write_text(write_fleet(replace(one, target=servers.SERVED_MODEL) for one in running))
    settings.policy.write_text(POLICY)
    loaded = load_files(settings.fleet, settings.policy, os.environ)
    assert not isinstance(loaded, Invalid), loaded.problems
    runs: dict[str, Run] = {}
    gateway = Gateway(settings, loaded)
    async with serving(gateway, settings) as url, Verifier(launched=vllm.__version__) as verifier:
        for spec in running:
            for finding in await verifier.verify(spec):
                print(f"  {finding}")
            try:
                told = await asyncio.to_thread(counting.count, url, spec, within=5.0)
            except (httpx.HTTPError, openai.OpenAIError, RuntimeError) as error:
                failures[spec.name] = f"{type(error).__name__}: {error}"[:300]
                traceback.print_exc()
                continue
            runs[spec.name] = told
            print(f"  {spec.name}: {told.server}, known: {told.known}, {told.differences}", flush=True)
        for spec in running[:2]:
            # So that it is seen to fail where it must.
            past = [{"max_tokens": 30}]
            faulty = await asyncio.to_thread(counting.count, url, spec, more=past, within=1.0)
            print(f"  {spec.name}, with a request past the gateway: {faulty.differences}", flush=True)
        async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
            (out / "gateway-metrics.txt").write_text((await client.get(f"{url}/metrics")).text)
    found = Evidence(
        version=vllm.__version__,
        device=torch.cuda.get_device_name(0) if torch.cuda.is_available() else "CPU",
        date=dt.datetime.now(tz=dt.UTC).date().isoformat(),
        command="python -m tests.vllm.gpu --out FOLDER",
        runs=runs,
        parameters={},
        failures=failures,
        note=note(),
    )
    # What was counted is kept whatever becomes of the rest.
    save(found, out)
    verdicts = await asyncio.to_thread(parameters, [spec for spec in running if spec.name in runs])
    save(found.model_copy(update={"parameters": verdicts}), out)


def save(found: Evidence, out: Path) -> None:
    (out / "gpu.json").write_text(found.model_dump_json(indent=1) + "\n")


def note() -> str:
    """What is unusual about this environment."""
    wanted = next((one for one in requires("vllm") or () if one.startswith("torch==")), "")
    here = torch.__version__.partition("+")[0]
    if not wanted or wanted.partition("==")[2] == here:
        return ""
    return f"PyTorch was {here}, where this version asks for {wanted.partition('==')[2]}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the evidence and the logs")
    out: Path = parser.parse_args().out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    asyncio.run(run(out))


if __name__ == "__main__":
    main()
