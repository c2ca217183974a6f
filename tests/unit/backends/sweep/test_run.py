from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from backends.sweep import log
from backends.sweep.model import BASELINE, Candidate, Cell, Condition
from backends.sweep.plan import Family, Plan, Settings
from backends.sweep.results import Results
from backends.sweep.run import NoBaselineError, Sweep, VirtualBench
from backends.sweep.servers import NoServerError
from backends.sweep.stall import DeadServerError, StalledServerError
from backends.sweep.virtual import VirtualServers
from tests.unit.backends.sweep.making import CODE, measured_round

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from backends.sweep.run import Keep, Measure, Progress

MTP = Candidate("mtp", 3)
RATES = {BASELINE: 50.0, MTP: 100.0, Candidate("mtp", 4): 70.0}


class Bench:
    """Servers of known speed, some of which die or are not there; each takes ten seconds to start."""

    def __init__(
        self,
        *,
        dying: dict[Candidate, int] | None = None,
        missing: tuple[Candidate, ...] = (),
        hanging: tuple[Cell, ...] = (),
    ) -> None:
        self.now = 0.0
        self.hanging = hanging
        self.dying = dict(dying or {})
        self.missing = missing
        self.visits: list[Candidate] = []

    @contextlib.asynccontextmanager
    async def at(self, candidate: Candidate) -> AsyncIterator[Measure]:
        self.visits.append(candidate)
        self.now += 10.0
        if candidate in self.missing:
            raise NoServerError("no GPU")

        async def measure(cell: Cell, number: int, requests: int, keep: Keep):
            self.now += 5.0
            finished, samples = measured_round(
                cell.candidate,
                cell.condition,
                number=number,
                rate=RATES[cell.candidate],
                requests=requests,
                spread=0.01,
            )
            keep(samples[0])
            if cell in self.hanging:
                raise StalledServerError("no first token for 360 s")
            if self.dying.get(cell.candidate, 0) > 0:
                self.dying[cell.candidate] -= 1
                raise DeadServerError("connection refused")
            for one in samples[1:]:
                keep(one)
            return finished

        yield measure


@contextlib.contextmanager
def swept(path: Path, bench: Bench, *, lengths: tuple[int, ...] = (3, 4), **more):
    said: list[Progress] = []
    made = Plan((CODE,), (Family("mtp", 3, lengths),), Results(), Settings(rounds=3))
    with log.Log(path) as file:
        file.begin({"target": "x"})
        yield Sweep(made, bench, file, lambda: bench.now, tell=said.append, **more), said


async def test_every_candidate_is_visited_once_and_all_is_in_the_file(tmp_path: Path) -> None:
    bench = Bench()
    with swept(tmp_path / "log", bench) as (sweep, said):
        assert await sweep.run()
    assert bench.visits == [BASELINE, MTP, Candidate("mtp", 4)]
    best = sweep.plan.best(CODE)
    assert best is not None
    assert best[0] == MTP
    read = log.read(tmp_path / "log")
    assert read is not None
    assert len(read.rounds) == sweep.plan.results.total_rounds == 4
    assert [one.doing for one in said][:2] == ["none: waiting for its server", "none: code c8, round 1"]
    assert said[0].seconds_left is None
    assert said[-1].seconds_left is not None


async def test_a_server_that_dies_once_is_started_again_and_its_broken_round_does_not_count(
    tmp_path: Path,
) -> None:
    bench = Bench(dying={MTP: 1})
    with swept(tmp_path / "log", bench) as (sweep, _):
        assert await sweep.run()
    assert bench.visits.count(MTP) == 2
    assert sweep.failures == {}
    read = log.read(tmp_path / "log")
    assert read is not None
    assert all(len(samples) == 16 for _, samples in read.rounds)


async def test_a_server_that_dies_again_and_again_is_given_up(tmp_path: Path) -> None:
    bench = Bench(dying={MTP: 9})
    with swept(tmp_path / "log", bench) as (sweep, _):
        assert await sweep.run()
    assert sweep.failures == {"mtp-3 code c8": "its server died 2 times: connection refused"}
    best = sweep.plan.best(CODE)
    assert best is not None
    assert best[0] == Candidate("mtp", 4)


async def test_a_server_that_dies_in_cell_after_cell_is_given_up_for_all_of_them(tmp_path: Path) -> None:
    bench = Bench(dying={MTP: 99})
    with swept(tmp_path / "samples.jsonl", bench, lengths=(3,)) as (sweep, _):
        sweep.plan.conditions = [Condition(name, 8) for name in ("code", "math", "chat", "tool_use")]
        assert await sweep.run()
        assert (
            sweep.failures["mtp-3"]
            == "its server died again and again without a round in between: connection refused"
        )
    assert bench.visits.count(MTP) == 4


async def test_a_cell_in_which_a_server_hangs_is_given_up_at_once_and_what_was_measured_is_kept(
    tmp_path: Path,
) -> None:
    heavy = Condition("code", 32)
    bench = Bench(hanging=(Cell(MTP, heavy),))
    with swept(tmp_path / "log", bench) as (sweep, said):
        sweep.plan.conditions = [CODE, heavy]
        assert await sweep.run()
    assert sweep.failures == {"mtp-3 code c32": "its server hung: no first token for 360 s"}
    assert bench.visits == [BASELINE, MTP, Candidate("mtp", 4)]
    assert "mtp-3: its server hung, and is left" in [one.doing for one in said]
    best = [sweep.plan.best(one) for one in (CODE, heavy)]
    assert [one[0] for one in best if one] == [MTP, Candidate("mtp", 4)]
    # The next run tries it again, and measures nothing else anew.
    read = log.read(tmp_path / "log")
    assert read is not None
    again = Bench()
    with swept(tmp_path / "more", again) as (sweep, _):
        sweep.plan.conditions = [CODE, heavy]
        sweep.resume(read)
        before = sweep.plan.results.total_rounds
        assert await sweep.run()
        assert {MTP} <= set(again.visits) <= {MTP, Candidate("mtp", 4)}
        assert sweep.plan.results.get(Cell(MTP, heavy)) is not None
        assert sweep.plan.results.total_rounds > before
    assert sweep.failures == {}


async def test_a_server_that_hangs_in_two_cells_running_is_given_up_for_all_of_them(tmp_path: Path) -> None:
    under = [Condition(name, 8) for name in ("code", "math", "chat", "tool_use")]
    bench = Bench(hanging=tuple(Cell(MTP, one) for one in under))
    with swept(tmp_path / "log", bench) as (sweep, _):
        sweep.plan.conditions = under
        assert await sweep.run()
    why = "its server hung again, without a round in between: no first token for 360 s"
    assert sweep.failures["mtp-3"] == why
    assert bench.visits.count(MTP) == 2


async def test_a_server_that_cannot_be_had_is_said_and_the_others_are_measured(tmp_path: Path) -> None:
    with swept(tmp_path / "log", Bench(missing=(MTP,))) as (sweep, _):
        assert await sweep.run()
    assert sweep.failures == {"mtp-3": "no GPU"}


async def test_without_a_baseline_the_sweep_ends(tmp_path: Path) -> None:
    with (
        swept(tmp_path / "log", Bench(missing=(BASELINE,))) as (sweep, _),
        pytest.raises(NoBaselineError, match="no GPU"),
    ):
        await sweep.run()


async def test_a_baseline_that_is_lost_after_it_was_measured_still_counts(tmp_path: Path) -> None:
    bench = Bench()
    with swept(tmp_path / "log", bench) as (sweep, _):
        sweep.plan.results.add(*measured_round(spread=0.3))
        bench.missing = (BASELINE,)
        assert await sweep.run()
    best = sweep.plan.best(CODE)
    assert best is not None
    assert best[0] == MTP


async def test_the_budget_is_for_all_runs_together(tmp_path: Path) -> None:
    bench = Bench()
    with swept(tmp_path / "log", bench, budget=25.0) as (sweep, _):
        assert not await sweep.run()
    assert bench.visits == [BASELINE, MTP]
    read = log.read(tmp_path / "log")
    assert read is not None
    again = Bench()
    with swept(tmp_path / "more", again, budget=1e9) as (sweep, _):
        sweep.resume(read)
        assert await sweep.run()
    assert BASELINE not in again.visits


async def test_the_simulator_is_measured_in_virtual_time(tmp_path: Path) -> None:
    bench = VirtualBench(VirtualServers("Qwen/Qwen3.6-27B"))
    made = Plan((CODE,), (Family("mtp", 3, (3, 9)),), Results(), Settings(precision=0.1, rounds=1))
    with log.Log(tmp_path / "log") as file:
        file.begin({"target": "x"})
        sweep = Sweep(made, bench, file, lambda: 0.0)
        assert await sweep.run()
    assert sweep.failures == {"mtp-9": "nothing is known of mtp-9"}
    assert made.results.seconds > 1.0


def test_simulated_prompts_are_as_long_as_the_condition_says() -> None:
    servers = VirtualServers("Qwen/Qwen3.6-27B")
    found = {}
    for length in ("short", "8k"):
        _, samples = servers.measure(Cell(BASELINE, Condition("chat", 4, length)), 0, 8)
        found[length] = samples
    short, long = ([one.prompt_tokens for one in found[length]] for length in ("short", "8k"))
    assert min(long) > 8 * 1024
    assert max(short) < 8 * 1024
    first = [sum(one.ttft or 0.0 for one in samples) for samples in found.values()]
    assert first[1] > 2 * first[0]
