"""The sweep's figures beside those of other benchmarks, of one real server: python -m tests.vllm.agreement --help.

The same prompts, requests in flight and answer lengths, in rounds that take turns, so that whatever else the machine
does meets all of them alike. Each round of each is one observation. ``vllm bench serve`` needs pandas beside vLLM, which
``--beside`` names a folder of; guidellm is a program of an environment of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Final, NamedTuple

from backends.sweep import imports
from backends.sweep.drive import Driver, Limits
from backends.sweep.model import BASELINE, Cell, Condition
from backends.sweep.prompts import parse
from backends.sweep.stats import measured, percentile
from gateway.core.gain import student
from tests.vllm import servers
from tests.vllm.prompts import looping_and_unrepeated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from backends.sweep.model import Sample
    from tests.vllm.servers import Server

OURS: Final = "specroute sweep"
VLLM: Final = "vllm bench serve"
GUIDELLM: Final = "guidellm"
_VLLM: Final = (
    "import argparse; from vllm.benchmarks.serve import add_cli_args, main; "
    "parser = argparse.ArgumentParser(); add_cli_args(parser); main(parser.parse_args())"
)
"""The command line of the same name, which the CPU build's package has no entry point for."""


class Figures(NamedTuple):
    """What one round of one benchmark says: tokens a second, median time to the first one and mean time of the others."""

    tokens_per_second: float
    ttft: float
    tpot: float


class Load(NamedTuple):
    """What every benchmark does."""

    in_flight: int = 4
    requests: int = 48
    tokens: int = 64

    @property
    def condition(self) -> Condition:
        """As a sweep has it."""
        return Condition("chat", self.in_flight)


def ours(server: Server, load: Load, number: int) -> Figures:
    """One round of a sweep."""
    samples: list[Sample] = []
    cell = Cell(BASELINE, load.condition)
    prompts = parse(looping_and_unrepeated(), "prompts")

    async def run() -> None:
        async with Driver({("chat", "short"): prompts["chat"]}, Limits(load.tokens)) as driver:
            await driver.round(server.url, servers.SERVED_MODEL, cell, number, load.requests, samples.append)

    asyncio.run(run())
    found = measured(cell, samples)
    assert found.rate is not None
    assert found.tpot is not None
    return Figures(found.rate.value, percentile(found.ttft, 0.5) or 0.0, found.tpot.value)


def others(found: Sequence[imports.Imported]) -> Figures:
    """What an imported run says."""
    (run,) = found
    assert run.failures == 0
    return Figures(run.tokens_per_second.value, run.ttft_p50 or 0.0, run.tpot or 0.0)


def prompts_file(path: Path, load: Load) -> None:
    """The prompts as both of the others read them."""
    lines = [json.loads(line) for line in looping_and_unrepeated().splitlines()]
    chats = [one["messages"][0]["content"] for one in lines if one["workload"] == "chat"]
    path.write_text(
        "".join(
            json.dumps({"prompt": text, "output_tokens": load.tokens, "output_tokens_count": load.tokens})
            + "\n"
            for text in (chats * math.ceil(load.requests / len(chats)))[: load.requests]
        ),
        encoding="utf-8",
    )


def vllm_bench(python: Path, beside: str, server: Server, load: Load, folder: Path) -> Figures:
    """One run of ``vllm bench serve``."""
    command = [
        python, "-c", _VLLM, "--backend", "openai-chat", "--endpoint", "/v1/chat/completions",
        "--base-url", server.url, "--model", servers.SERVED_MODEL, "--tokenizer", server.spec.target,
        "--dataset-name", "custom", "--dataset-path", folder / "prompts.jsonl", "--skip-chat-template",
        "--disable-shuffle", "--custom-output-len", str(load.tokens), "--num-prompts", str(load.requests),
        "--max-concurrency", str(load.in_flight), "--temperature", "0", "--save-result", "--save-detailed",
        "--result-dir", folder, "--result-filename", "vllm.json", "--disable-tqdm",
    ]  # fmt: skip
    _run(command, {"PYTHONPATH": beside})
    return others(imports.parse((folder / "vllm.json").read_text(encoding="utf-8")))


def guidellm(program: Path, server: Server, load: Load, folder: Path) -> Figures:
    """One run of guidellm."""
    backend = f"kind=openai_http,target={server.url},request_format=/v1/chat/completions,model={servers.SERVED_MODEL}"
    command = [
        program, "run", "--backend", backend, "--profile", f"kind=concurrent,streams={load.in_flight}",
        "--constraint", f"kind=max_requests,count={load.requests}",
        "--data", f"kind=json_file,path={folder / 'prompts.jsonl'}",
        "--tokenizer", f"kind=huggingface_auto,model={server.spec.target}",
        "--output", f"kind=json,path={folder / 'guidellm.json'}", "--disable-console",
    ]  # fmt: skip
    _run(command, {})
    return others(imports.parse((folder / "guidellm.json").read_text(encoding="utf-8")))


def _run(command: Sequence[object], more: Mapping[str, str]) -> None:
    env = os.environ | {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"} | more
    done = subprocess.run(  # noqa: S603 - named by whoever runs this
        list(map(str, command)), env=env, capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")


class Interval(NamedTuple):
    """A mean over rounds with its 95 % interval, on a logarithmic scale."""

    value: float
    low: float
    high: float

    def __format__(self, digits: str) -> str:
        return f"{self.value:{digits}} ({self.low:{digits}}–{self.high:{digits}})"


def interval(values: Sequence[float]) -> Interval:
    """Over rounds as the units."""
    logs = list(map(math.log, values))
    half = student(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    return Interval(*(math.exp(fmean(logs) + side) for side in (0.0, -half, half)))


def ratio(one: Sequence[float], other: Sequence[float]) -> Interval:
    """Of two benchmarks, round by round."""
    return interval([first / second for first, second in zip(one, other, strict=True)])


def compare(
    runs: Mapping[str, Callable[[int], Figures]], rounds: int, tell: Callable[[str], None] = lambda _: None
) -> dict[str, list[Figures]]:
    """Let benchmarks take turns; every other round in the opposite order."""
    found: dict[str, list[Figures]] = {name: [] for name in runs}
    for number in range(rounds):
        for name in list(runs)[:: 1 if number % 2 else -1]:
            found[name].append(runs[name](number))
            tell(f"round {number + 1}, {name}: {found[name][-1]}")
    return found


def table(found: Mapping[str, Sequence[Figures]]) -> str:
    """Means with intervals, and our figures over the others'."""
    lines = ["| | tokens/s (95 %) | TTFT p50, ms | TPOT, ms |", "|---|---:|---:|---:|"]
    for name, figures in found.items():
        rates, ttfts, tpots = zip(*figures, strict=True)
        milli = [[1e3 * one for one in of] for of in (ttfts, tpots)]
        lines.append(
            f"| {name} | {interval(rates):.0f} | {interval(milli[0]):.1f} | {interval(milli[1]):.2f} |"
        )
    for name in found.keys() - {OURS}:
        sides = (zip(*found[which], strict=True) for which in (OURS, name))
        over = [ratio(*both) for both in zip(*sides, strict=True)]
        lines.append(f"| sweep over {name} | {over[0]:.3f} | {over[1]:.3f} | {over[2]:.3f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", type=Path, required=True, help="interpreter with vLLM")
    parser.add_argument("--beside", default="", help="folder with pandas, for vllm bench serve")
    parser.add_argument("--guidellm", type=Path, help="its program; left out, it is not run")
    parser.add_argument("--rounds", type=int, default=8)
    args = parser.parse_args()
    load = Load()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checkpoints = folder / "checkpoints"
        subprocess.run(  # noqa: S603 - our own interpreter
            [args.python, "-m", "tests.vllm.checkpoints", checkpoints], cwd=servers.ROOT, check=True
        )
        prompts_file(folder / "prompts.jsonl", load)
        base = servers.specs(checkpoints, "", suffix=False)[0]
        args_of = {key: value for key, value in base.args.items() if key != "otlp-traces-endpoint"}
        with servers.running(args.python, [replace(base, args=args_of)], folder) as fleet:
            server = fleet["baseline"]
            runs: dict[str, Callable[[int], Figures]] = {
                OURS: lambda number: ours(server, load, number),
                VLLM: lambda _: vllm_bench(args.python, args.beside, server, load, folder),
            }
            if args.guidellm:
                runs[GUIDELLM] = lambda _: guidellm(args.guidellm, server, load, folder)
            ours(server, load, 0)  # whatever is compiled at first
            print(table(compare(runs, args.rounds, lambda said: print(said, file=sys.stderr))))


if __name__ == "__main__":
    main()
