"""The sweep's figures beside those of other benchmarks, of one real server: python -m tests.vllm.agreement --help.

The same prompts, requests in flight and answer lengths, in rounds that take turns, so that whatever else the machine
does meets all of them alike. Each round of each is one observation. The model must be slow beside a client: one of
``tests.vllm.smollm``. ``vllm bench serve`` needs pandas beside vLLM, which ``--beside`` names a folder of (pip install
--target FOLDER --no-deps pandas python-dateutil pytz tzdata six); guidellm is a program of an environment of its own.
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
from backends.sweep.prompts import Prompt, usual
from backends.sweep.stats import measured, percentile
from gateway.core.gain import student
from tests.vllm import servers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from backends.sweep.model import Sample

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


class Place(NamedTuple):
    """A server; the tokenizer is a folder, for those who count tokens themselves."""

    url: str
    model: str
    tokenizer: str


class Load(NamedTuple):
    """What every benchmark does."""

    in_flight: int = 4
    requests: int = 24
    tokens: tuple[int, int] = (16, 48)

    @property
    def condition(self) -> Condition:
        """As a sweep has it."""
        return Condition("chat", self.in_flight)


def asked(load: Load) -> list[tuple[str, int]]:
    """Prompts and lengths of answers, in order: the shipped prompts of one turn.

    Lengths differ, as clients that all begin together would else go on in step, and their prompts meet.
    """
    chats = [one.body["messages"] for one in usual(["chat"])["chat"]]
    alone = [messages[0]["content"] for messages in chats if len(messages) == 1]
    texts = (alone * math.ceil(load.requests / len(alone)))[: load.requests]
    low, high = load.tokens
    return [(text, low + 13 * place % (high - low + 1)) for place, text in enumerate(texts)]


def ours(server: Place, load: Load, number: int) -> Figures:
    """One round of a sweep."""
    samples: list[Sample] = []
    cell = Cell(BASELINE, load.condition)
    prompts = [
        Prompt(
            str(place),
            {"messages": [{"role": "user", "content": text}], "ignore_eos": True, "max_tokens": tokens},
        )
        for place, (text, tokens) in enumerate(asked(load))
    ]

    async def run() -> None:
        async with Driver({("chat", "short"): prompts}, Limits(load.tokens[1])) as driver:
            await driver.round(server.url, server.model, cell, number, load.requests, samples.append)

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
    lines = [
        json.dumps({"prompt": text, "output_tokens": tokens, "output_tokens_count": tokens}) + "\n"
        for text, tokens in asked(load)
    ]
    path.write_text("".join(lines), encoding="utf-8")


def vllm_bench(python: Path, beside: str, server: Place, load: Load, folder: Path) -> Figures:
    """One run of ``vllm bench serve``."""
    command = [
        python, "-c", _VLLM, "--backend", "openai-chat", "--endpoint", "/v1/chat/completions",
        "--base-url", server.url, "--model", server.model, "--tokenizer", server.tokenizer,
        "--dataset-name", "custom", "--dataset-path", folder / "prompts.jsonl", "--skip-chat-template",
        "--disable-shuffle", "--custom-output-len", "-1", "--num-prompts", str(load.requests),
        "--max-concurrency", str(load.in_flight), "--temperature", "0", "--ignore-eos", "--save-result", "--save-detailed",
        "--result-dir", folder, "--result-filename", "vllm.json", "--disable-tqdm",
    ]  # fmt: skip
    _run(command, {"PYTHONPATH": beside})
    return others(imports.parse((folder / "vllm.json").read_text(encoding="utf-8")))


def guidellm(program: Path, server: Place, load: Load, folder: Path) -> Figures:
    """One run of guidellm."""
    backend = f"kind=openai_http,target={server.url},request_format=/v1/chat/completions,model={server.model}"
    command = [
        program, "run", "--backend", backend, "--profile", f"kind=concurrent,streams={load.in_flight}",
        "--constraint", f"kind=max_requests,count={load.requests}",
        "--data", f"kind=json_file,path={folder / 'prompts.jsonl'}",
        "--tokenizer", f"kind=huggingface_auto,model={server.tokenizer}",
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
    parser.add_argument("--model", type=Path, required=True, help="checkpoint of tests.vllm.smollm")
    parser.add_argument(
        "--url", default="", help="a server that runs already, instead of one of that checkpoint"
    )
    parser.add_argument("--served-model", default="", help="what that one answers to")
    parser.add_argument("--rounds", type=int, default=8)
    args = parser.parse_args()
    others_at = args.python, args.beside, args.guidellm
    if args.url:
        found = take_turns(Place(args.url, args.served_model, str(args.model)), args.rounds, *others_at)
    else:
        found = measure(args.model, args.rounds, *others_at)
    print(table(found))


def measure(
    model: Path, rounds: int, python: Path, beside: str = "", program: Path | None = None
) -> dict[str, list[Figures]]:
    """Start a server of a model without speculation and let the benchmarks take turns."""
    base = servers.specs(model, "", suffix=False)[0]
    given = {key: value for key, value in base.args.items() if key != "otlp-traces-endpoint"}
    spec = replace(base, target=str(model), args={**given, "kv-cache-memory-bytes": 256 << 20})
    with tempfile.TemporaryDirectory() as name, servers.running(python, [spec], Path(name)) as fleet:
        (server,) = fleet.values()
        place = Place(server.url, servers.SERVED_MODEL, str(model))
        return take_turns(place, rounds, python, beside, program)


def take_turns(
    server: Place, rounds: int, python: Path, beside: str = "", program: Path | None = None
) -> dict[str, list[Figures]]:
    """Let the benchmarks take turns at a server; guidellm where there is its program."""
    load = Load()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prompts_file(folder / "prompts.jsonl", load)
        runs: dict[str, Callable[[int], Figures]] = {
            OURS: lambda number: ours(server, load, number),
            VLLM: lambda _: vllm_bench(python, beside, server, load, folder),
        }
        if program is not None:
            runs[GUIDELLM] = lambda _: guidellm(program, server, load, folder)
        ours(server, load, 0)  # whatever is compiled at first
        return compare(runs, rounds, lambda said: print(said, file=sys.stderr))


if __name__ == "__main__":
    main()
