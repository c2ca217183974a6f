"""Sweeps over servers that speak HTTP: interrupted and resumed, with servers that die or change what is said."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backends.sim.exchange import Reporting
from backends.sim.fleet import Member, run_fleet
from backends.sim.server import Options
from backends.sweep import log, prompts
from backends.sweep.choose import choose
from backends.sweep.drive import Driver, Limits
from backends.sweep.evidence import evidence
from backends.sweep.model import BASELINE, Candidate, Cell, Condition
from backends.sweep.plan import Family, Plan, Settings
from backends.sweep.results import Results
from backends.sweep.run import NoBaselineError, RealBench, Sweep
from backends.sweep.servers import Given, Place
from gateway.policy.evidence import Machine, parse
from tests.contract.stack import eventually
from tests.e2e.test_sweep_interrupted import written
from tests.raw_server import gone, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from backends.sim.running import Running
    from backends.sweep.model import Sample
    from backends.sweep.run import Progress

ROOT = Path(__file__).parents[2]
TARGET = "Qwen/Qwen3.6-35B-A3B"
DFLASH, MTP = Candidate("dflash", 7), Candidate("mtp", 1)
CODE, MATH = Condition("code", 4), Condition("math", 4)
QUICK = Settings(precision=0.2, requests=8, rounds=2)


class OtherTexts(Driver):
    """Lets one server say something else: the simulator's greedy answers differ with the request's seed."""

    wrong = ""

    async def _ask(self, place, body, answer, watch):
        said = {**body, "seed": 5} if place.url == self.wrong else body
        return await super()._ask(place, said, answer, watch)


def member(candidate: Candidate, *, speed: float = 20.0) -> Member:
    reporting = Reporting(acceptance="off" if candidate.is_baseline else "summary")
    return Member(TARGET, *candidate, options=Options(speed=speed, reporting=reporting))


class Swept:
    """A sweep over simulated servers in this process."""

    def __init__(self, servers: Sequence[Running], driver: OtherTexts, file: log.Log) -> None:
        self.servers = {Candidate(one.member.method, one.member.draft_tokens): one for one in servers}
        places = {who: Place(one.url, TARGET) for who, one in self.servers.items()}
        families = (Family("dflash", 7, (7,)), Family("mtp", 1, (1,)))
        self.driver = driver
        self.said: list[str] = []
        self.saw_death = asyncio.Event()
        self.plan = Plan((CODE, MATH), families, Results(), QUICK)
        clock = asyncio.get_running_loop().time
        self.sweep = Sweep(
            self.plan,
            RealBench(Given(places, patience=3.0), driver),
            file,
            clock,
            tell=self.tell,
        )

    def tell(self, one: Progress) -> None:
        self.said.append(one.doing)
        if "its server died" in one.doing:
            self.saw_death.set()

    def evidence(self):
        return evidence(
            self.plan,
            TARGET,
            Machine(simulated=True),
            measured="2026-01-01",
            failures=self.sweep.failures,
            seconds=1.0,
        )


@asynccontextmanager
async def sweeping(path: Path, members: Sequence[Member]) -> AsyncIterator[Swept]:
    texts = {(name, "short"): those for name, those in prompts.usual(["code", "math"]).items()}
    async with (
        run_fleet(members) as servers,
        OtherTexts(texts, Limits(max_tokens=48, stall=2.0, timeout=20.0)) as driver,
    ):
        with log.Log(path) as file:
            file.begin({"target": TARGET})
            yield Swept(servers, driver, file)


async def test_a_sweep_over_http_finds_what_the_profiles_say(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    async with sweeping(path, [member(BASELINE), member(DFLASH), member(MTP)]) as swept:
        assert await swept.sweep.run()
        found = swept.evidence()
        choice = choose(found)
        assert choice.everywhere == DFLASH
        by_label = {(one.label, one.workload): one for one in found.measurements}
        dflash = by_label["dflash-7", "code"]
        assert dflash.by_position
        assert dflash.mean_accepted_length == pytest.approx(5.2, rel=0.5)  # of a few short answers
        assert (dflash.different, dflash.failures) == (0, 0)
        assert dflash.compared > 0
        # What answers tell of themselves and what the server counted are the same drafts.
        read = log.read(path)
        assert read is not None
        counted = [one for one, _ in read.rounds if one.cell == Cell(DFLASH, CODE)]
        assert all(one.drafts and one.by_position for one in counted)


async def test_a_server_that_dies_is_given_up_and_the_others_are_measured(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    async with sweeping(path, [member(BASELINE), member(DFLASH), member(MTP)]) as swept:
        await swept.servers[DFLASH].kill("reset")
        assert await swept.sweep.run()
        assert swept.sweep.failures == {"dflash-7": f"{swept.servers[DFLASH].url} does not answer"}
        assert any("dflash-7: given up" in one for one in swept.said)
        measured = {one.cell.candidate for one in swept.plan.results.cells()}
        assert measured == {BASELINE, MTP}
    kinds = [json.loads(line)["kind"] for line in path.read_bytes().splitlines()]
    assert kinds.count("failed") == 1


async def test_a_server_that_dies_within_a_round_and_comes_back_is_measured_after_all(tmp_path: Path) -> None:
    async with sweeping(tmp_path / "samples.jsonl", [member(BASELINE), member(DFLASH), member(MTP)]) as swept:
        dying = swept.servers[DFLASH]
        measure = swept.sweep.log.sample
        seen = 0

        def sample(one: Sample) -> None:
            nonlocal seen
            measure(one)
            if one.cell.candidate == DFLASH:
                seen += 1
                if seen == 2:
                    tasks.append(asyncio.get_running_loop().create_task(bounce()))

        async def bounce() -> None:
            await dying.kill("reset")
            await swept.saw_death.wait()
            await dying.revive()

        tasks: list[asyncio.Task[None]] = []
        swept.sweep.log.sample = sample  # type: ignore[method-assign]
        assert await swept.sweep.run()
        await asyncio.gather(*tasks)
        assert swept.sweep.failures == {}
        assert any("its server died, and is started again" in one for one in swept.said)
        found = swept.plan.results.get(Cell(DFLASH, CODE))
        assert found is not None
        assert found.requests > 0


async def test_a_server_that_hangs_within_a_round_is_left_and_the_others_are_measured(tmp_path: Path) -> None:
    async with sweeping(tmp_path / "samples.jsonl", [member(BASELINE), member(DFLASH), member(MTP)]) as swept:
        measure = swept.sweep.log.sample
        tasks: list[asyncio.Task[None]] = []

        def sample(one: Sample) -> None:
            measure(one)
            if one.cell.candidate == DFLASH and not tasks:
                hang = swept.servers[DFLASH].kill("stall")
                tasks.append(asyncio.get_running_loop().create_task(hang))

        swept.sweep.log.sample = sample  # type: ignore[method-assign]
        assert await swept.sweep.run()
        await asyncio.gather(*tasks)
        failures = swept.sweep.failures
        assert failures.pop("dflash-7 code c4").startswith("its server hung: no ")
        # It does not tell of its health any more either.
        assert failures == {"dflash-7": f"{swept.servers[DFLASH].url} does not answer"}
        assert {one.cell.candidate for one in swept.plan.results.cells()} == {BASELINE, MTP}


async def test_without_a_baseline_there_is_no_sweep(tmp_path: Path) -> None:
    async with sweeping(tmp_path / "samples.jsonl", [member(DFLASH), member(MTP)]) as swept:
        with pytest.raises(NoBaselineError, match="no server of none was named"):
            await swept.sweep.run()


async def test_a_draft_that_says_something_else_is_measured_and_not_chosen(tmp_path: Path) -> None:
    async with sweeping(tmp_path / "samples.jsonl", [member(BASELINE), member(DFLASH), member(MTP)]) as swept:
        swept.driver.wrong = swept.servers[DFLASH].url
        assert await swept.sweep.run()
        choice = choose(swept.evidence())
        assert choice.everywhere != DFLASH
        (left_out,) = choice.excluded
        assert left_out.candidate == DFLASH
        assert "its draft changes what the model says" in left_out.why


async def test_the_command_says_of_a_server_that_hangs_for_how_long_nothing_came(tmp_path: Path) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if b'"stream"' in server.requests[-1][1]:
            await gone(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        return True

    async with serving(script) as (server, url):
        fleet = tmp_path / "fleet.yaml"
        fleet.write_text(
            f"""\
version: 1
backends:
  - {{name: plain, url: "{url}", model: {TARGET}}}
  - {{name: fast, url: "{url}", model: {TARGET}, method: dflash, draft_tokens: 7}}
""",
            encoding="utf-8",
        )
        command = (
            sys.executable,
            "-m",
            "gateway.cli",
            "sweep",
            "--fleet",
            fleet,
            "--out",
            tmp_path / "sweep",
        )
        done = await asyncio.create_subprocess_exec(
            *command, "--workloads", "code,math", "--stall", "1", cwd=ROOT, stderr=asyncio.subprocess.PIPE
        )
        _, told = await done.communicate()
    assert done.returncode == 1
    why = "nothing can be compared: its server hung again, without a round in between: no first token for 3 s"
    assert why in told.decode()


def free_ports(number: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Path]:
    """A fleet file whose simulated servers run in a process of their own."""
    first, second = free_ports(2)
    path = tmp_path / "fleet.yaml"
    path.write_text(
        f"""\
version: 1
backends:
  - {{name: plain, url: "http://127.0.0.1:{first}", model: {TARGET}}}
  - {{name: fast, url: "http://127.0.0.1:{second}", model: {TARGET}, method: dflash, draft_tokens: 7}}
""",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "gateway.cli", "sim", "--fleet", path, "--speed", "10"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as servers:  # noqa: S603 - our own command
        assert servers.stdout is not None
        try:
            assert any("Simulated servers are up" in line for line in servers.stdout)
            yield path
        finally:
            servers.terminate()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_sweep_goes_on_where_it_was(fleet: Path, tmp_path: Path, how: signal.Signals) -> None:
    out = tmp_path / "sweep"
    command = [
        sys.executable, "-m", "gateway.cli", "sweep", "--fleet", fleet, "--workloads", "code,math", "--concurrency", "2,8",
        "--max-tokens", "64", "--requests", "8", "--rounds", "2", "--precision", "20%", "--out", out,
    ]  # fmt: skip
    env = os.environ | {"COLUMNS": "200"}
    with subprocess.Popen(command, cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True) as first:  # noqa: S603 - our own command
        assert first.stderr is not None
        eventually(lambda: written(out), lambda lines: lines >= 30)  # some rounds
        os.kill(first.pid, how)
        said = first.stderr.read()
    if how == signal.SIGINT:
        assert first.returncode == 1
        assert "run it again to go on" in said
    before = log.read(out / "samples.jsonl")
    assert before is not None
    done = subprocess.run(  # noqa: S603 - our own command
        [*command, "--json"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    after = log.read(out / "samples.jsonl")
    assert after is not None
    assert after.rounds[: len(before.rounds)] == before.rounds
    assert len({(one.cell, one.number) for one, _ in after.rounds}) == len(after.rounds)
    found = parse((out / "evidence.json").read_text(encoding="utf-8"))
    assert {one.label for one in found.measurements} == {"none", "dflash-7"}
    assert found.machine.simulated
    # Two rounds of a busy machine may leave it open whether the draft is faster.
    assert json.loads(done.stdout)["everywhere"] in {"none", "dflash-7"}
    # The policy that it wrote is right for the fleet that it measured, but for what it rests on.
    checked = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "gateway.cli", "check", "--fleet", fleet, "--policy", out / "policy.yaml"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout
    assert "file: learned.yaml" in (out / "policy.yaml").read_text(encoding="utf-8")


@pytest.mark.timeout(240)
def test_other_prompts_are_not_mixed_with_what_was_measured(fleet: Path, tmp_path: Path) -> None:
    mine, out = tmp_path / "mine.jsonl", tmp_path / "sweep"
    mine.write_text('{"workload": "code", "prompt": "Write a loop."}\n', encoding="utf-8")
    command = [
        sys.executable, "-m", "gateway.cli", "sweep", "--fleet", fleet, "--prompts", mine, "--concurrency", "2",
        "--max-tokens", "16", "--requests", "8", "--rounds", "1", "--out", out,
    ]  # fmt: skip

    def again() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)  # noqa: S603 - our own command

    assert again().returncode == 0
    with mine.open("a", encoding="utf-8") as file:
        file.write('{"workload": "chat", "prompt": "Tell me a story."}\n')
    done = again()
    assert done.returncode == 0, done.stderr
    for changed in ("code", "chat"):
        text = mine.read_text(encoding="utf-8")
        mine.write_text(
            text.replace(f'"{changed}", "prompt": "', f'"{changed}", "prompt": "Please: '), encoding="utf-8"
        )
        done = again()
        assert (done.returncode, f"holds measurements of other prompts of {changed}" in done.stderr) == (
            2,
            True,
        )
        mine.write_text(text, encoding="utf-8")
    assert again().returncode == 0


def ran(*arguments: object) -> str:
    command = [sys.executable, "-m", "gateway.cli", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=200)  # noqa: S603 - our own command
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.timeout(300)
def test_a_policy_follows_the_load_where_the_best_configuration_does(tmp_path: Path) -> None:
    """DFlash is the fastest with one request in flight, MTP with 32: what comes first moves with the load.

    Neither is preferred so long that the servers behind it would have given more.
    """
    target = "Qwen/Qwen3.6-27B"
    ran(
        "sweep", "--simulate", target, "--workloads", "code", "--concurrency", "1,32", "--precision", "10%",
        "--rounds", "3", "--out", tmp_path,
    )  # fmt: skip
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(
        f"""\
version: 1
backends:
  - {{name: plain, url: "http://h:1", model: {target}}}
  - {{name: dflash11, url: "http://h:2", model: {target}, method: dflash, draft_tokens: 11}}
  - {{name: dflash15, url: "http://h:3", model: {target}, method: dflash, draft_tokens: 15}}
  - {{name: mtp4, url: "http://h:4", model: {target}, method: mtp, draft_tokens: 4}}
  - {{name: mtp5, url: "http://h:5", model: {target}, method: mtp, draft_tokens: 5}}
""",
        encoding="utf-8",
    )
    by_load = {}
    for clients in (1, 32):
        simulated = json.loads(
            ran(
                "simulate",
                fleet,
                "--policy",
                tmp_path / "policy.yaml",
                "--mix",
                "code",
                "--clients",
                clients,
                "--seconds",
                "60",
                "--warm-up",
                "10",
                "--json",
            )
        )
        ours, least = simulated[:2]
        by_load[clients] = ours["shares"]["mtp4"] + ours["shares"]["mtp5"]
        assert ours["shares"]["plain"] < 0.15
        assert ours["tokens_per_second"] > 0.97 * least["tokens_per_second"]
    assert by_load[1] < 0.1
    assert by_load[32] > 0.4
