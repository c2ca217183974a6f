from __future__ import annotations

from dataclasses import replace

import pytest

from backends.sim.configuration import Cell, Configuration, Curve
from backends.sim.engine import Acceptance, Emission, Engine, Job

CURVE = Curve(seconds=0.02, concurrency=32, growth=0.0, linear_share=0.2)
SPECULATIVE = Configuration(
    target="t",
    method="mtp",
    draft_tokens=3,
    draft=None,
    hardware="h",
    curve=CURVE,
    verify_scale=1.0,
    draft_cost=0.1,
    draft_floor=0.5,
    prefill_seconds=1e-4,
    request_spread=0.0,
    kv_tokens=1000,
    survival={"sure": (1.0, 1.0, 1.0), "never": (0.0, 0.0, 0.0), "chat": (0.8, 0.5, 0.3)},
)
BASELINE = replace(
    SPECULATIVE, method="none", draft_tokens=0, draft_cost=0.0, survival={"chat": (), "slow": ()},
    cells={"slow": Cell(1.0, 1.0, 1.0, step_scale=3.0)},
)  # fmt: skip


def job(name: str = "a", workload: str = "chat", prompt: int = 10, output: int = 5, cached: int = 0) -> Job:
    return Job(name, workload, prompt, output, cached)


def advance(engine: Engine) -> list[Emission]:
    step = engine.begin()
    assert step is not None
    return engine.finish(step)


def drain(engine: Engine) -> list[Emission]:
    emissions = []
    while (step := engine.begin()) is not None:
        emissions += engine.finish(step)
    return emissions


def test_idle_engine_has_no_step() -> None:
    assert Engine(SPECULATIVE, seed=1).begin() is None


def test_first_token_comes_from_prefill_and_has_no_draft() -> None:
    engine = Engine(SPECULATIVE, seed=1)
    engine.submit(job(workload="sure"))
    assert advance(engine) == [Emission("a", 1, 0, 0, finished=False)]
    assert engine.counters.prompt_tokens == 10
    assert engine.counters.drafts == 0


def test_a_step_that_accepts_all_drafts_gives_one_token_more() -> None:
    engine = Engine(SPECULATIVE, seed=1)
    engine.submit(job(workload="sure", output=9))
    assert drain(engine)[1:] == [
        Emission("a", 4, 3, 3, finished=False),
        Emission("a", 4, 3, 3, finished=True, acceptance=Acceptance(2, 6, 6, (0, 0, 0, 2))),
    ]
    assert engine.counters.accepted_by_position == [2, 2, 2]


def test_a_step_that_accepts_nothing_gives_one_token() -> None:
    engine = Engine(SPECULATIVE, seed=1)
    engine.submit(job(workload="never", output=3))
    emissions = drain(engine)
    assert [e.tokens for e in emissions] == [1, 1, 1]
    assert emissions[-1].acceptance == Acceptance(2, 6, 0, (2, 0, 0, 0))


def test_max_tokens_cuts_the_tokens_of_the_last_step_and_not_what_was_verified() -> None:
    engine = Engine(SPECULATIVE, seed=1)
    engine.submit(job(workload="sure", output=7))
    last = drain(engine)[-1]
    assert (last.tokens, last.accepted, last.finished) == (2, 3, True)
    assert engine.counters.generation_tokens == 7
    assert engine.counters.accepted_tokens == 6


def test_a_single_token_is_finished_by_prefill() -> None:
    engine = Engine(SPECULATIVE, seed=1)
    engine.submit(job(output=1))
    assert advance(engine) == [
        Emission("a", 1, 0, 0, finished=True, acceptance=Acceptance(0, 0, 0, (0, 0, 0, 0)))
    ]
    assert engine.running == 0


def test_baseline_has_no_drafts_to_count() -> None:
    engine = Engine(BASELINE, seed=1)
    engine.submit(job(output=4))
    emissions = drain(engine)
    assert [e.tokens for e in emissions] == [1, 1, 1, 1]
    assert emissions[-1].acceptance == Acceptance(0, 0, 0, (0,))
    assert engine.counters.drafts == engine.counters.draft_tokens == 0
    assert engine.counters.steps == 4


def test_step_time_is_verification_drafting_and_prefill() -> None:
    engine = Engine(SPECULATIVE, seed=1)
    engine.submit(job("a", "never", output=50))
    engine.submit(job("b", "never", output=50))
    advance(engine)
    step = engine.begin()
    assert step is not None
    assert (step.decoding, step.prefill_tokens) == (2, 0)
    assert step.duration == pytest.approx(0.02 * (0.8 + 0.2 * 8 / 32) + 0.1 * 0.02 * (0.5 + 0.5 * 2 / 32))
    engine.finish(step)
    engine.submit(job("c", prompt=100))
    joined = engine.begin()
    assert joined is not None
    assert (joined.decoding, joined.prefill_tokens) == (2, 100)
    assert joined.duration == pytest.approx(step.duration + 100 * 1e-4)


def test_a_step_with_prompts_only_reads_the_weights_too() -> None:
    engine = Engine(SPECULATIVE, seed=1)
    engine.submit(job(prompt=10))
    step = engine.begin()
    assert step is not None
    assert step.duration == pytest.approx(SPECULATIVE.step(1) + 10 * 1e-4)


def test_step_scale_of_a_cell_is_averaged_over_the_batch() -> None:
    engine = Engine(BASELINE, seed=1)
    engine.submit(job("a", "slow"))
    engine.submit(job("b", "chat"))
    advance(engine)
    step = engine.begin()
    assert step is not None
    assert step.duration == pytest.approx(BASELINE.step(2) * 2.0)


def test_long_prompt_is_computed_in_chunks_beside_decoding() -> None:
    engine = Engine(SPECULATIVE, seed=1, max_batched_tokens=100)
    engine.submit(job("short", "never", prompt=20, output=50))
    engine.submit(job("long", prompt=150))
    engine.submit(job("next", prompt=60))
    chunks = []
    first_tokens: dict[str, int] = {}
    for number in range(4):
        step = engine.begin()
        assert step is not None
        chunks.append((step.decoding, step.prefill_tokens))
        for emission in engine.finish(step):
            first_tokens.setdefault(emission.job_id, number)
    assert chunks == [(0, 100), (1, 100), (2, 30), (3, 0)]
    assert first_tokens == {"short": 0, "long": 1, "next": 2}


def test_cached_prompt_tokens_are_not_computed_but_the_last_one_is() -> None:
    engine = Engine(SPECULATIVE, seed=1)
    engine.submit(job("a", prompt=50, cached=40))
    engine.submit(job("b", prompt=50, cached=50))
    step = engine.begin()
    assert step is not None
    assert step.prefill_tokens == 11
    engine.finish(step)
    assert engine.counters.prompt_tokens == 100
    assert engine.counters.cached_tokens == 89


def test_more_jobs_than_slots_wait_in_order() -> None:
    engine = Engine(BASELINE, seed=1, max_num_seqs=2)
    for name in "abcd":
        engine.submit(job(name, output=2))
    assert (engine.running, engine.waiting) == (0, 4)
    advance(engine)
    assert (engine.running, engine.waiting) == (2, 2)
    assert [e.job_id for e in drain(engine)] == ["a", "b", "c", "d", "c", "d"]
    assert (engine.running, engine.waiting) == (0, 0)


def test_cancel_frees_the_slot_at_once_also_during_a_step() -> None:
    engine = Engine(BASELINE, seed=1, max_num_seqs=1)
    engine.submit(job("a"))
    engine.submit(job("b", output=1))
    step = engine.begin()
    assert step is not None
    assert engine.cancel("a")
    assert engine.running == 0
    assert engine.finish(step) == []
    assert [e.job_id for e in advance(engine)] == ["b"]


def test_cancel_of_a_decoding_job_gives_it_nothing_more() -> None:
    engine = Engine(BASELINE, seed=1)
    engine.submit(job("a"))
    engine.submit(job("b"))
    advance(engine)
    step = engine.begin()
    assert step is not None
    engine.cancel("a")
    assert [e.job_id for e in engine.finish(step)] == ["b"]


def test_cancel_reaches_waiting_jobs_and_says_what_it_did() -> None:
    engine = Engine(BASELINE, seed=1)
    engine.submit(job("a"))
    assert engine.cancel("a")
    assert not engine.cancel("a")
    assert engine.waiting == 0
    assert engine.begin() is None


def test_kv_usage_follows_what_running_jobs_hold() -> None:
    engine = Engine(SPECULATIVE, seed=1, max_batched_tokens=60)
    assert engine.kv_usage == 0.0
    engine.submit(job("a", "never", prompt=100, output=3, cached=20))
    advance(engine)
    assert engine.kv_usage == pytest.approx(80 / 1000)
    advance(engine)
    assert engine.kv_usage == pytest.approx(101 / 1000)
    drain(engine)
    assert engine.kv_usage == 0.0
    engine.submit(job("b", prompt=5000, output=3, cached=4990))
    advance(engine)
    assert engine.kv_usage == 1.0


def test_the_same_seed_and_calls_give_the_same_result() -> None:
    def trace(seed: int) -> list[Emission]:
        engine = Engine(replace(SPECULATIVE, request_spread=0.2), seed=seed)
        for name in "abcd":
            engine.submit(job(name, output=60))
        return drain(engine)

    assert trace(3) == trace(3)
    assert trace(3) != trace(4)


def test_counters_agree_with_the_histograms_of_jobs() -> None:
    engine = Engine(SPECULATIVE, seed=5)
    for number in range(20):
        engine.submit(job(str(number), output=40))
    emissions = drain(engine)
    totals = [e.acceptance for e in emissions if e.acceptance is not None]
    assert len(totals) == 20
    counters = engine.counters
    assert counters.drafts == sum(t.steps for t in totals)
    assert counters.draft_tokens == sum(t.drafted for t in totals) == 3 * counters.drafts
    assert counters.accepted_tokens == sum(t.accepted for t in totals) == sum(counters.accepted_by_position)
    assert counters.accepted_by_position[1] == sum(sum(t.histogram[2:]) for t in totals)
    assert counters.generation_tokens == sum(e.tokens for e in emissions) == 800


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (job(prompt=0), "at least one prompt token"),
        (job(output=0), "at least one prompt token and one output token"),
        (job(cached=-1), "at least one prompt token"),
        (job(workload="poetry"), "no acceptance is known for workload 'poetry'; there is sure, never, chat"),
    ],
)
def test_impossible_job_is_refused(bad: Job, says: str) -> None:
    engine = Engine(SPECULATIVE, seed=1)
    with pytest.raises(ValueError, match=says):
        engine.submit(bad)
    assert engine.waiting == 0


def test_an_id_may_be_used_again_only_once_it_is_free() -> None:
    engine = Engine(BASELINE, seed=1)
    engine.submit(job("a", output=1))
    with pytest.raises(ValueError, match="job 'a' is already here"):
        engine.submit(job("a"))
    step = engine.begin()
    assert step is not None
    with pytest.raises(ValueError, match="already here"):
        engine.submit(job("a"))
    engine.finish(step)
    engine.submit(job("a"))
    assert engine.waiting == 1


def test_steps_follow_one_another() -> None:
    engine = Engine(BASELINE, seed=1)
    engine.submit(job())
    step = engine.begin()
    assert step is not None
    with pytest.raises(RuntimeError, match="finish the step under way"):
        engine.begin()
    engine.finish(step)
    with pytest.raises(ValueError, match="not the step under way"):
        engine.finish(step)
