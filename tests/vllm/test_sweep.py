"""A sweep over real servers, unattended: killed half-way, gone on with, and its policy put into service."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from backends.fleet_file import write_fleet
from backends.sweep.model import Candidate
from gateway.policy.evidence import parse
from gateway.policy.load import Loaded, load
from tests.vllm import chain, servers
from tests.vllm.prompts import looping_and_unrepeated

if TYPE_CHECKING:
    from pathlib import Path

    from backends.spec import LaunchSpec

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(2400)]

ROUNDS_BEFORE_THE_KILL = 4
MAX_TOKENS = 64
PROMPTS = 12


def candidates(checkpoints: Path) -> list[LaunchSpec]:
    """None, prompt lookup with N 2, 4 and 8, and EAGLE-3 with N 1 to 3, which errs after a quarter of the words."""
    known = {one.name: one for one in servers.specs(checkpoints, "http://127.0.0.1:1", suffix=False)}
    port = servers.free_port()

    def own(name: str, tokens: int) -> LaunchSpec:
        args = {key: value for key, value in known[name].args.items() if key != "otlp-traces-endpoint"}
        return replace(known[name], name=f"{name}-{tokens}", draft_tokens=tokens, port=port, args=args)

    return [
        own("baseline", 0),
        *(own("ngram", tokens) for tokens in (2, 4, 8)),
        *(own("eagle3", tokens) for tokens in (1, 2, 3)),
    ]


def accepted_by_position(draft_tokens: int) -> list[float]:
    """What EAGLE-3 brings to the answers of chat, by the language itself."""
    known = [
        chain.acceptance(chain.UNREPEATED + 7 * place, MAX_TOKENS, draft_tokens) for place in range(PROMPTS)
    ]
    steps = sum(one.steps for one in known)
    return [
        sum(sum(one.histogram[position + 1 :]) for one in known) / steps for position in range(draft_tokens)
    ]


def rounds(samples: Path) -> int:
    return samples.read_bytes().count(b'{"kind":"round"') if samples.exists() else 0


def test_a_sweep_is_killed_goes_on_and_its_policy_routes_as_its_report_says(
    vllm_python: Path, checkpoints: Path, tmp_path: Path
) -> None:
    specs = candidates(checkpoints)
    # A fleet file wants a port for each; a sweep starts them one at a time on the first one's.
    placed = [replace(one, port=one.port + place) for place, one in enumerate(specs)]
    (tmp_path / "candidates.yaml").write_text(write_fleet(placed), encoding="utf-8")
    (tmp_path / "prompts.jsonl").write_text(looping_and_unrepeated(), encoding="utf-8")
    out = tmp_path / "sweep"
    command = [
        sys.executable, "-m", "gateway.cli", "sweep", "--launch", "--json",
        "--fleet", tmp_path / "candidates.yaml", "--python", vllm_python, "--prompts", tmp_path / "prompts.jsonl",
        "--concurrency", "1,4", "--max-tokens", str(MAX_TOKENS), "--requests", "12", "--rounds", "2", "--precision", "10%",
        "--servers", "2", "--out", out,
    ]  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="vllm-") as temporary:
        env = servers.environment(tmp_path, temporary)
        with (tmp_path / "first.log").open("wb") as log:
            first = subprocess.Popen(  # noqa: S603 - our own interpreter
                command,
                env=env,
                stdout=log,
                stderr=log,
                cwd=servers.ROOT,
            )
            while rounds(out / "samples.jsonl") < ROUNDS_BEFORE_THE_KILL:
                assert first.poll() is None, (tmp_path / "first.log").read_text(encoding="utf-8")
                time.sleep(0.2)
            os.kill(first.pid, signal.SIGKILL)
            first.wait()
        kept = rounds(out / "samples.jsonl")
        done = subprocess.run(  # noqa: S603 - our own interpreter
            command, env=env, capture_output=True, text=True, cwd=servers.ROOT, check=False, timeout=1800
        )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    lines = [
        json.loads(line) for line in (out / "samples.jsonl").read_bytes().splitlines() if line.endswith(b"}")
    ]
    numbers = [
        (one["candidate"], one["workload"], one["concurrency"], one["number"])
        for one in lines
        if one["kind"] == "round"
    ]
    assert len(numbers) == len(set(numbers)) > kept

    evidence = parse((out / "evidence.json").read_text(encoding="utf-8"))
    assert evidence.machine.platform == "cpu"
    assert re.match(r"\d+\.\d+", evidence.machine.vllm)
    assert evidence.failures == {}
    by_cell = {(one.label, one.workload, one.concurrency): one for one in evidence.measurements}
    for workload in ("code", "chat"):
        assert ("none", workload, 1) in by_cell
    for one in evidence.measurements:
        assert one.failures == 0
        assert one.different == 0, "speculation must not change greedy texts"
        if one.method == "ngram" and one.workload == "code":
            assert one.mean_accepted_length == pytest.approx(one.draft_tokens + 1, rel=0.15)
        if one.method == "eagle3" and one.workload == "chat":
            assert list(one.by_position) == pytest.approx(accepted_by_position(one.draft_tokens), abs=0.04)
    # Which one is the fastest is this machine's business; that it is the one with the highest rate is ours.
    for winner in told["winners"]:
        cells = {
            who: one
            for (who, *where), one in by_cell.items()
            if where == [winner["workload"], winner["concurrency"]]
        }
        fastest = max(cells.values(), key=lambda one: one.speedup.value)
        assert winner["candidate"] in (fastest.label, "none")
        if winner["candidate"] == "none" and fastest.label != "none":
            assert fastest.speedup.low is None or fastest.speedup.low <= 1.0

    loaded = load(
        (out / "fleet.yaml").read_text(encoding="utf-8"),
        (out / "policy.yaml").read_text(encoding="utf-8"),
        folder=out,
    )
    assert isinstance(loaded, Loaded)
    asked = subprocess.run(  # noqa: S603 - our own interpreter
        [
            sys.executable, "-m", "gateway.cli", "explain", "--fleet", out / "fleet.yaml", "--policy", out / "policy.yaml",
            "--model", specs[0].target, "--header", "x-specroute-workload: code", "--prompt", "x", "--json",
        ],
        capture_output=True, text=True, cwd=servers.ROOT, check=False, timeout=120,
    )  # fmt: skip
    assert asked.returncode == 0, asked.stderr
    middle = told["fleet"][len(told["fleet"]) // 2]
    first_choice = json.loads(asked.stdout)["candidates"][0]
    assert Candidate(first_choice["method"], first_choice["draft_tokens"]).label in middle["servers"]
    report = (out / "report.html").read_text(encoding="utf-8")
    assert "<svg" in report
