from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.core.classify import Classification
from gateway.core.decide import NoCandidate
from gateway.core.learn import LOOKUP, MODEL, Arm, Learner
from gateway.core.observe import (
    Progress,
    Told,
    arm,
    fingerprint,
    finished,
    likely,
    probabilities,
    running,
    steps_per_event,
    tell,
)
from gateway.core.outcome import Attempt, Outcome, Record, Speculation, Trace, Usage
from tests.factories import backend, features

EXACT = Speculation("exact", steps=40, drafted=120, accepted=60)
OUTCOME = Outcome(
    "ok", 200, ttft=0.5, decode_seconds=4.0, events=41, usage=Usage(100, 101, 20), speculation=EXACT
)
MATH = Classification("math", 0.9, "rule:test")


class Five:
    """Five requests on every server at all times."""

    def mean(self, _backend: str, _since: float, _until: float, /) -> float:
        return 5.0

    def at(self, _backend: str, _moment: float, /) -> float:
        return 5.0


def record(outcome: Outcome = OUTCOME, *, draft_tokens: int = 3, tried: bool = True, **asked: Any) -> Record:
    attempts = (Attempt("b", "done", "", 200, 10.0, 14.5),) if tried else ()
    return Record(
        "r", Trace("0" * 32, "0" * 16), 9.0, 0, 9.5, 15.0, features(**asked), MATH,
        NoCandidate("empty_pool", "", 0, None, (), "p", "f"), attempts, outcome, "b", "eagle3", draft_tokens,
    )  # fmt: skip


def test_a_finished_request_tells_all_at_once() -> None:
    sample = finished(record(), None, Five())
    assert sample is not None
    assert (sample.backend, sample.at, sample.classes) == ("b", 14.5, {"math": 1.0})
    assert (sample.steps, sample.decoded) == (40.0, 100.0)
    assert sample.drafted == OUTCOME.speculation.drafted > 0
    assert (sample.prompt_tokens, sample.prefill_tokens, sample.prefilled_at) == (100, 80, 10.5)
    assert sample.computed_tokens == 80
    assert (sample.ttft, sample.queue, sample.output_tokens) == (0.5, 4.0, 101)
    (span,) = sample.spans
    assert (span.batch, span.seconds, span.steps) == (5.0, 4.0, 40.0)


def test_steps_without_a_draft_are_what_is_left() -> None:
    usage = Usage(100, 111)
    sample = finished(record(replace(OUTCOME, usage=usage)), None, Five())
    assert sample is not None
    assert (sample.steps, sample.decoded) == (50.0, 110.0)


def test_without_a_draft_each_token_is_a_step() -> None:
    plain = replace(OUTCOME, speculation=Speculation("none"))
    sample = finished(record(plain, draft_tokens=0), None, Five())
    assert sample is not None
    assert (sample.steps, sample.decoded) == (100.0, 100.0)


def test_events_tell_steps_where_the_server_does_not() -> None:
    untold = replace(OUTCOME, speculation=Speculation("not_measured"))
    sample = finished(record(untold), None, Five())
    assert sample is not None
    assert (sample.steps, sample.decoded) == (40.0, 100.0)
    assert sample.drafted is None
    merged = finished(record(replace(untold, most_tokens=9)), None, Five())
    assert merged is not None
    assert (merged.steps, merged.spans) == (0.0, ())


@pytest.mark.parametrize(
    "silent",
    [
        record(tried=False),
        record(n=2),
        record(endpoint="embeddings"),
        record(replace(OUTCOME, status="upstream_error")),
    ],
)
def test_what_did_not_generate_or_went_wrong_tells_nothing(silent: Record) -> None:
    assert finished(silent, None, Five()) is None


def test_a_cancelled_request_tells_no_length() -> None:
    sample = finished(record(replace(OUTCOME, status="cancelled", usage=Usage())), None, Five())
    assert sample is not None
    assert (sample.output_tokens, sample.steps, sample.spans) == (None, 0.0, ())
    assert (sample.prefill_tokens, sample.computed_tokens) == (0, None)


@pytest.mark.parametrize("lacking", [{"ttft": None}, {"decode_seconds": None}, {"events": 1}])
def test_a_whole_answer_has_no_spans(lacking: dict[str, Any]) -> None:
    sample = finished(record(replace(OUTCOME, **lacking)), None, Five())
    assert sample is not None
    assert sample.spans == ()


def stream(events: int = 31, last: float = 13.5, **given: Any) -> Progress:
    return Progress("r", "b", features(prompt_chars=400), MATH, 10.0, 10.5, last, events, **given)


def test_a_running_stream_tells_what_is_new() -> None:
    first = running(stream(), None, 1.0, Five())
    assert first is not None
    assert (first.prefill_tokens, first.prefilled_at, first.ttft, first.queue) == (100, 10.5, 0.5, 4.0)
    (span,) = first.spans
    assert (span.seconds, span.steps) == (3.0, 30.0)
    assert (first.output_tokens, first.steps) == (None, 0.0)
    told = tell(stream(), None)
    assert told == Told(31, 13.5, 100)
    assert running(stream(40, 14.0), told, 1.0, Five()) is None, "too little"
    more = running(stream(71, 15.5), told, 0.5, Five())
    assert more is not None
    assert (more.prefill_tokens, more.ttft) == (0, None)
    assert (more.spans[0].seconds, more.spans[0].steps) == (2.0, 20.0)
    assert tell(stream(71, 15.5), told) == Told(71, 15.5, 100)


def test_what_is_likely_in_the_cache_was_not_computed() -> None:
    first = running(stream(cached=60.0), None, 1.0, Five())
    assert first is not None
    assert first.prefill_tokens == 40


def test_at_its_end_it_tells_the_rest_and_puts_the_estimate_right() -> None:
    sample = finished(record(), Told(31, 13.5, 100), Five())
    assert sample is not None
    assert (sample.prefill_tokens, sample.computed_tokens, sample.ttft) == (-20, 80, 0.5)
    (span,) = sample.spans
    assert (span.seconds, span.steps) == (1.0, 10.0)
    assert finished(record(), Told(41, 14.5, 100), Five()).spans == ()  # type: ignore[union-attr]


def test_steps_for_an_event_are_known_where_steps_are() -> None:
    assert steps_per_event(record()) == 1.0
    assert steps_per_event(record(replace(OUTCOME, events=21))) == 2.0
    assert steps_per_event(record(replace(OUTCOME, events=5))) is None
    assert steps_per_event(record(replace(OUTCOME, usage=Usage()))) is None
    assert steps_per_event(record(endpoint="responses")) is None, "its events leave out steps"


def test_events_that_leave_out_steps_do_not_tell_them() -> None:
    untold = replace(OUTCOME, speculation=Speculation("not_measured"))
    for endpoint in ("responses", "messages"):
        sample = finished(record(untold, endpoint=endpoint), None, Five())
        assert sample is not None
        assert (sample.steps, sample.spans) == (0.0, ())
        assert (sample.ttft, sample.output_tokens) == (0.5, 101)


def test_labels_that_somebody_set_are_certain() -> None:
    doubtful = {"math": 0.6, "code": 0.2}
    assert probabilities(Classification("math", 0.6, "model:m", doubtful)) == {
        "math": pytest.approx(0.75),
        "code": pytest.approx(0.25),
    }
    assert probabilities(Classification("math", 1.0, "hint", doubtful)) == {"math": 1.0}


def test_only_likely_labels_are_learnt_of() -> None:
    doubtful = Classification("math", 0.72, "model:m", {"math": 0.72, "code": 0.24, "chat": 0.04})
    told = finished(replace(record(), classification=doubtful), None, Five())
    under_way = running(replace(stream(), classification=doubtful), None, 1.0, Five())
    for sample in (told, under_way):
        assert sample is not None
        assert sample.classes == {"math": pytest.approx(0.75), "code": pytest.approx(0.25)}
    many = {f"label-{number}": 0.04 for number in range(25)}
    assert likely(Classification("label-0", 0.04, "model:m", many)) == pytest.approx(many)


def test_backends_of_one_configuration_learn_together() -> None:
    one, two = backend("a", method="mtp", draft_tokens=3), backend("b", method="mtp", draft_tokens=3)
    assert fingerprint(one) == fingerprint(two)
    assert fingerprint(one) != fingerprint(replace(two, draft_tokens=4))
    assert fingerprint(one) != fingerprint(replace(two, labels={"hardware": "slow"}))
    assert arm(one, None).family == MODEL
    assert arm(backend(method="ngram", draft_tokens=3), None).family == LOOKUP
    assert arm(one, None).draft_tokens == 3


@pytest.mark.parametrize(("prompt", "cached"), [(1818, 0), (6000, 0), (1200, 0), (1500, 1400)])
def test_streams_that_told_a_guess_at_their_prompt_teach_what_it_was(prompt: int, cached: int) -> None:
    price, step, learner = 2e-4, 0.02, Learner()
    learner.arm("b", Arm("plain"))
    asked = {"prompt_chars": 6000}
    for number in range(300):
        at = number * 10.0
        ttft = step + (prompt - cached) * price
        one = replace(stream(), features=features(**asked), started=at, first=at + ttft)
        one = replace(one, last=one.first + 100 * step, events=101)
        early = running(one, None, 1.0, Five())
        assert early is not None
        learner.update(early)
        outcome = Outcome(
            "ok", 200, ttft=ttft, decode_seconds=200 * step, events=201, usage=Usage(prompt, 201, cached)
        )
        done = replace(record(outcome, draft_tokens=0, **asked), ended=one.first + 200 * step)
        done = replace(done, attempts=(Attempt("b", "done", "", 200, at, done.ended),))
        late = finished(done, tell(one, None), Five())
        assert late is not None
        learner.update(late)
        learner.publish(done.ended)
    model = learner.publish(3000.0)["b"]
    assert model.prompt_tokens == {"math": pytest.approx(prompt - cached)}
    assert model.chars_per_token == pytest.approx(6000 / prompt, rel=0.03)
    if prompt - cached > 1000:
        assert model.prefill_seconds == pytest.approx(price, rel=0.1)
