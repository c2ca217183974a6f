"""The sweep's figures beside those of other benchmarks, of one real server: python -m tests.vllm.agreement --help.

The same prompts, requests in flight and answer lengths, in short rounds that take turns, so that whatever else the
machine does meets all of them alike. Each round of each is one observation. ``vllm bench serve`` runs in vLLM's
environment, which ``tests/vllm/env.sh`` made; guidellm is a program of an environment of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Final, NamedTuple

from backends.sweep import imports
from backends.sweep.drive import Driver, Limits
from backends.sweep.model import BASELINE, Cell, Condition
from backends.sweep.prompts import Prompt, usual
from backends.sweep.servers import Place
from backends.sweep.stats import measured, percentile
from gateway.core.gain import student
from tests.vllm import servers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from backends.sweep.model import Sample

OURS: Final = "specroute sweep"
VLLM: Final = "vllm bench serve"
GUIDELLM: Final = "guidellm"
_VLLM: Final = """
import argparse, json, sys
from vllm.benchmarks.serve import add_cli_args, main
parser = argparse.ArgumentParser()
add_cli_args(parser)
for line in sys.stdin:
    main(parser.parse_args(json.loads(line)))
    print(flush=True)
    print("%s", flush=True)
"""
"""``vllm bench serve`` run after run in one process: most of a run would else be the import of vLLM."""
_OVER: Final = "this run is over"


class Figures(NamedTuple):
    """What one round of one benchmark says.

    Attributes:
        tokens_per_second: As it says.
        of_requests: Clients times output tokens over seconds of whole requests: a rate without start and end.
        ttft: Median time to the first token.
        tpot: Mean time of the others.
        prompt_tokens: Mean of a request.
        output_tokens: The same.
    """

    tokens_per_second: float
    of_requests: float
    ttft: float
    tpot: float
    prompt_tokens: float
    output_tokens: float


class Server(NamedTuple):
    """A server; the tokenizer is a folder, for those who count tokens themselves."""

    place: Place
    tokenizer: str


class Load(NamedTuple):
    """What every benchmark does."""

    in_flight: int
    requests: int
    tokens: tuple[int, int] = (16, 48)

    @property
    def condition(self) -> Condition:
        """As a sweep has it."""
        return Condition("chat", self.in_flight)


ALONE: Final = Load(1, 8)
"""Nothing waits for anything: what a first token and each other one takes."""

TOGETHER: Final = Load(4, 64)
"""Many enough for the end, when some clients of the others have nothing left to do, to count for little. What a first
token takes then is the client's too: who asks again before a step begins need not wait for its end."""


def asked(load: Load) -> list[tuple[str, int]]:
    """Prompts and lengths of answers, in order: the shipped prompts of one turn.

    Lengths differ, as clients that all begin together would else go on in step, and their prompts meet.
    """
    chats = [one.body["messages"] for one in usual(["chat"])["chat"]]
    alone = [messages[0]["content"] for messages in chats if len(messages) == 1]
    texts = (alone * math.ceil(load.requests / len(alone)))[: load.requests]
    low, high = load.tokens
    return [(text, low + 13 * place % (high - low + 1)) for place, text in enumerate(texts)]


def ours(server: Server, load: Load, number: int) -> Figures:
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
            await driver.round(server.place, cell, number, load.requests, samples.append)

    asyncio.run(run())
    found = measured(cell, samples)
    assert found.rate is not None
    assert found.tpot is not None
    assert not found.failures
    rate = found.rate.value
    lengths = found.prompt_tokens / found.requests, found.output_tokens / found.requests
    return Figures(rate, rate, percentile(found.ttft, 0.5) or 0.0, found.tpot.value, *lengths)


def others(text: str, load: Load) -> Figures:
    """What an import makes of a result, and the rate by its requests alone."""
    (run,) = imports.parse(text)
    assert (run.requests, run.failures) == (load.requests, 0)
    assert run.concurrency == load.in_flight
    found = json.loads(text)
    if run.source == imports.VLLM:
        tokens, seconds = sum(found["output_lens"]), sum(found["latencies"])
    else:
        good = found["benchmarks"][0]["requests"]["successful"]
        tokens, seconds = (sum(one[name] for one in good) for name in ("output_tokens", "request_latency"))
    rate = load.in_flight * tokens / seconds
    return Figures(
        run.tokens_per_second.value, rate, run.ttft_p50 or 0.0, run.tpot or 0.0,
        run.prompt_tokens or 0.0, run.output_tokens or 0.0,
    )  # fmt: skip


def prompts_file(path: Path, load: Load) -> None:
    """The prompts as both of the others read them."""
    lines = [
        json.dumps({"prompt": text, "output_tokens": tokens, "output_tokens_count": tokens}) + "\n"
        for text, tokens in asked(load)
    ]
    path.write_text("".join(lines), encoding="utf-8")


class VllmBench:
    """``vllm bench serve`` with a server."""

    def __init__(self, process: subprocess.Popen[str], server: Server, load: Load, folder: Path) -> None:
        self._process = process
        self._load = load
        self._result = folder / "vllm.json"
        self._arguments = [
            "--backend", "openai-chat", "--endpoint", "/v1/chat/completions", "--base-url", server.place.url,
            "--model", server.place.model, "--tokenizer", server.tokenizer, "--dataset-name", "custom",
            "--dataset-path", str(folder / "prompts.jsonl"), "--skip-chat-template", "--disable-shuffle",
            "--custom-output-len", "-1", "--num-prompts", str(load.requests), "--max-concurrency", str(load.in_flight),
            "--temperature", "0", "--ignore-eos", "--save-result", "--save-detailed", "--result-dir", str(folder),
            "--result-filename", self._result.name, "--disable-tqdm",
        ]  # fmt: skip

    def run(self) -> Figures:
        """One run of it."""
        self._result.unlink(missing_ok=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(self._arguments), file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            if line.strip() == _OVER:
                return others(self._result.read_text(encoding="utf-8"), self._load)
        raise RuntimeError(f"{VLLM} ended with {self._process.wait()}")


@contextlib.contextmanager
def vllm_bench(python: Path, server: Server, load: Load, folder: Path) -> Iterator[VllmBench]:
    """Start ``vllm bench serve``."""
    with subprocess.Popen(  # noqa: S603 - named by whoever runs this
        [python, "-c", _VLLM % _OVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_env()
    ) as process:
        yield VllmBench(process, server, load, folder)


def guidellm(program: Path, server: Server, load: Load, folder: Path) -> Figures:
    """One run of guidellm."""
    url, model = server.place.url, server.place.model
    backend = f"kind=openai_http,target={url},request_format=/v1/chat/completions,model={model}"
    command = [
        program, "run", "--backend", backend, "--profile", f"kind=concurrent,streams={load.in_flight}",
        "--constraint", f"kind=max_requests,count={load.requests}",
        "--data", f"kind=json_file,path={folder / 'prompts.jsonl'}",
        "--tokenizer", f"kind=huggingface_auto,model={server.tokenizer}",
        "--output", f"kind=json,path={folder / 'guidellm.json'}", "--disable-console",
    ]  # fmt: skip
    done = subprocess.run(  # noqa: S603 - named by whoever runs this
        list(map(str, command)), env=_env(), capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode:
        raise RuntimeError(f"{GUIDELLM} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return others((folder / "guidellm.json").read_text(encoding="utf-8"), load)


def _env() -> dict[str, str]:
    return os.environ | {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}


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
    lines = ["| | tokens/s (95 %) | of requests | TTFT p50, ms | TPOT, ms |", "|---|---:|---:|---:|---:|"]
    for name, figures in found.items():
        rates, alone, ttfts, tpots, _, _ = zip(*figures, strict=True)
        milli = [[1e3 * one for one in of] for of in (ttfts, tpots)]
        lines.append(
            f"| {name} | {interval(rates):.0f} | {interval(alone):.0f} | {interval(milli[0]):.1f} "
            f"| {interval(milli[1]):.2f} |"
        )
    for name in found.keys() - {OURS}:
        over = (
            ratio(*both)
            for both in zip(*(zip(*found[which], strict=True) for which in (OURS, name)), strict=True)
        )
        lines.append(" | ".join([f"| sweep over {name}", *(f"{one:.3f}" for one in islice(over, 4))]) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", type=Path, required=True, help="interpreter with vLLM")
    parser.add_argument("--guidellm", type=Path, help="its program; left out, it is not run")
    parser.add_argument(
        "--model", type=Path, required=True, help="checkpoint of tests.vllm.smollm or tests.vllm.checkpoints"
    )
    parser.add_argument(
        "--url", default="", help="a server that runs already, instead of one of that checkpoint"
    )
    parser.add_argument("--served-model", default="", help="what that one answers to")
    parser.add_argument("--rounds", type=int, default=12)
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        server = Server(Place(args.url, args.served_model), str(args.model))
        if not args.url:
            server = stack.enter_context(serving(args.model, args.python))
        for load in (ALONE, TOGETHER):
            print(f"{load.in_flight} in flight, {load.requests} requests a round\n")
            print(table(take_turns(server, load, args.rounds, args.python, args.guidellm)), end="\n\n")


@contextlib.contextmanager
def serving(model: Path, python: Path) -> Iterator[Server]:
    """Run a server of a model without speculation."""
    base = servers.specs(model, "", suffix=False)[0]
    given = {key: value for key, value in base.args.items() if key != "otlp-traces-endpoint"}
    # All have the same prompts: what one leaves in the prefix cache would be the next one's.
    own = {"kv-cache-memory-bytes": 256 << 20, "enable-prefix-caching": False}
    spec = replace(base, target=str(model), args={**given, **own})
    with tempfile.TemporaryDirectory() as name, servers.running(python, [spec], Path(name)) as fleet:
        (server,) = fleet.values()
        yield Server(Place(server.url, servers.SERVED_MODEL), str(model))


def take_turns(
    server: Server, load: Load, rounds: int, python: Path, program: Path | None = None
) -> dict[str, list[Figures]]:
    """Let the benchmarks take turns at a server; guidellm where there is its program."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prompts_file(folder / "prompts.jsonl", load)
        with vllm_bench(python, server, load, folder) as vllm:
            runs: dict[str, Callable[[int], Figures]] = {
                OURS: lambda number: ours(server, load, number),
                VLLM: lambda _: vllm.run(),
            }
            if program is not None:
                runs[GUIDELLM] = lambda _: guidellm(program, server, load, folder)
            for run in runs.values():  # whatever is imported or compiled at first
                run(0)
            return compare(runs, rounds, lambda said: print(said, file=sys.stderr))


if __name__ == "__main__":
    main()
