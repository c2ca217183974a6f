from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from gateway.core.classify import Classification
from gateway.core.counters import Counters
from gateway.core.decide import NoCandidate
from gateway.core.outcome import Attempt, Outcome, Record, Speculation, Trace, Usage
from gateway.runtime.acceptance import Acceptance, Known
from tests.factories import features


class Served:
    """A server that counts what it serves, and the gateway that sees it: an answer each tenth of a second."""

    def __init__(self, **more: Any) -> None:
        self.restarted: list[str] = []
        self.acceptance = Acceptance(window=0.95, lag=0.0, on_restart=self.restarted.append, **more)
        self.now = 100.0
        self.started = 5.0
        self.positions = 3
        self.zero()

    def zero(self) -> None:
        self.totals = [0.0, 0.0, 0.0, 0.0]

    def answer(
        self,
        workload: str,
        length: int,
        *,
        exact: bool = True,
        ours: bool = True,
        stream: bool = True,
        most_tokens: int = 0,
    ) -> None:
        """Forty steps of so many tokens each, and one token before them."""
        accepted = 40 * (length - 1)
        for place, more in enumerate((40, 120, accepted, 40 * length + 1)):
            self.totals[place] += more
        start, self.now = self.now, self.now + 0.1
        if not ours:
            return
        histogram = tuple(40 if place == length - 1 else 0 for place in range(4))
        outcome = Outcome(
            "ok", 200, usage=Usage(10, 40 * length + 1, 0),
            ttft=0.01 if stream else None, decode_seconds=0.08 if stream else None, events=41 if stream else 0, most_tokens=most_tokens,
            speculation=Speculation("exact", 40, 120, accepted, histogram) if exact else Speculation("not_measured"),
        )  # fmt: skip
        self.acceptance.on_record(record(outcome, workload, start, self.now))

    def scrape(self) -> None:
        drafts, drafted, accepted, generated = self.totals
        by_position = tuple(accepted / self.positions for _ in range(self.positions))
        self.acceptance.counted(
            "b", Counters(self.now, drafts, drafted, accepted, by_position, generated, self.started)
        )

    def known(self) -> dict[tuple[str, str], Known]:
        return {(one.workload, one.grade): one for one in self.acceptance.known()}


def record(outcome: Outcome, workload: str, start: float, end: float, *, baseline: bool = False) -> Record:
    attempt = Attempt("b", "done", "", 200, start, end)
    return Record(
        "r", Trace("0" * 32, "0" * 16), start, 0, start, end, features(), Classification(workload, 0.9, "default"),
        NoCandidate("empty_pool", "", 0, None, (), "p", "f"), (attempt,), outcome, "b", "eagle3", 3, baseline,
    )  # fmt: skip


def test_three_grades_of_the_same_traffic_agree() -> None:
    served = Served()
    served.scrape()
    for second in range(30):
        for number in range(10):
            served.answer("math" if number < second % 8 else "chat", 4 if number < second % 8 else 2)
        served.scrape()
    known = served.known()
    for grade in ("exact", "stream", "counters"):
        assert known["math", grade].mean_accepted_length == pytest.approx(4.0, rel=0.03)
        assert known["chat", grade].mean_accepted_length == pytest.approx(2.0, rel=0.03)
    assert dict(served.acceptance.mismatches())["b"] == pytest.approx(0.0, abs=0.01)
    assert dict(served.acceptance.ages(served.now + 7)) == {"b": pytest.approx(7.0)}
    assert (("b", "math", "exact"), 4.0) in set(served.acceptance.lengths())


def test_a_mix_that_never_changes_tells_nothing_by_counters() -> None:
    served = Served()
    served.scrape()
    for _ in range(20):
        for number in range(10):
            served.answer("math" if number < 5 else "chat", 4 if number < 5 else 2)
        served.scrape()
    known = served.known()
    assert known["math", "counters"].why_not == known["chat", "counters"].why_not == "not_identifiable"
    assert ("b", "math", "counters") not in {labels for labels, _ in served.acceptance.lengths()}


@pytest.mark.parametrize("stream", [True, False])
def test_counters_tell_where_answers_do_not(stream: bool) -> None:
    served = Served()
    served.scrape()
    for _ in range(12):
        for _ in range(10):
            served.answer("math", 3, exact=False, stream=stream)
        served.scrape()
    known = served.known()
    assert ("math", "exact") not in known
    assert ("math", "stream") in known or not stream
    assert known["math", "counters"].mean_accepted_length == pytest.approx(3.0, rel=0.03)
    assert list(served.acceptance.mismatches()) == []


def test_other_peoples_work_is_told_from_ours_and_raises_an_alarm(caplog: pytest.LogCaptureFixture) -> None:
    served = Served()
    served.scrape()
    for second in range(30):
        for number in range(10):
            mine = number >= second % 7
            served.answer("math", 4 if mine else 2, ours=mine)
        served.scrape()
    assert served.known()["math", "counters"].mean_accepted_length == pytest.approx(4.0, rel=0.03)
    assert served.known()["", "counters"].mean_accepted_length == pytest.approx(2.0, rel=0.05)
    assert "" not in {labels[1] for labels, _ in served.acceptance.lengths()}
    assert "its counters and its answers disagree on accepted tokens" in caplog.text


def test_all_grades_are_told_with_the_reason_where_one_cannot_tell() -> None:
    served = Served()
    served.scrape()
    for _ in range(30):
        for workload, length in (("math", 4), ("chat", 2)) * 3:
            served.answer(workload, length)
        served.scrape()
    assert served.acceptance.as_json() == {
        "b": {
            workload: {
                "exact": length,
                "stream": length,
                "counters": None,
                "why_not": {"counters": "not_identifiable"},
            }
            for workload, length in (("math", 4.0), ("chat", 2.0))
        }
    }


def test_each_grade_that_cannot_tell_has_its_reason() -> None:
    served = Served()
    served.scrape()
    for number in range(30):
        served.answer("math", 4, most_tokens=8 if number % 10 == 0 else 4)
    served.scrape()
    assert served.acceptance.as_json()["b"]["math"] == {
        "exact": 4.0,
        "stream": None,
        "counters": None,
        "why_not": {"stream": "merged_events", "counters": "too_few_windows"},
    }


def test_what_others_send_is_told_apart_and_a_grade_without_requests_is_absent() -> None:
    served = Served()
    served.scrape()
    for second in range(30):
        for number in range(10):
            served.answer("math", 4 if number >= second % 7 else 2, ours=number >= second % 7, exact=False)
        served.scrape()
    told = served.acceptance.as_json()["b"]
    assert told["math"] == {"stream": 4.0, "counters": pytest.approx(4.0, rel=0.03)}
    assert told["others"] == {"counters": pytest.approx(2.0, rel=0.05)}


def test_a_server_that_counts_nothing_of_what_answers_tell_raises_an_alarm(
    caplog: pytest.LogCaptureFixture,
) -> None:
    served = Served()
    served.scrape()
    for _ in range(5):
        for _ in range(10):
            served.answer("math", 4)
            served.totals[2] = 0.0
        served.scrape()
    assert dict(served.acceptance.mismatches()) == {"b": -1.0}
    assert "its counters and its answers disagree on accepted tokens by -100 %" in caplog.text


def test_a_restart_with_another_n_forgets_what_was_measured() -> None:
    served = Served()
    served.scrape()
    for _ in range(5):
        for _ in range(10):
            served.answer("math", 4)
        served.scrape()
    assert served.known()["math", "exact"].mean_accepted_length == 4.0
    served.zero()
    served.started, served.positions = 900.0, 1
    served.scrape()
    assert served.known() == {}
    assert served.acceptance.restarts == {("b",): 1}
    assert served.restarted == ["b"]
    for _ in range(12):
        for _ in range(10):
            served.answer("math", 2)
        served.scrape()
    known = served.known()
    assert {known["math", grade].mean_accepted_length for grade in ("exact", "stream")} == {2.0}
    assert known["math", "counters"].mean_accepted_length == pytest.approx(2.0, rel=0.03)


def test_a_page_without_counters_is_a_gap_and_no_restart() -> None:
    served = Served()
    served.scrape()
    served.answer("math", 4)
    served.acceptance.counted(
        "b", Counters(served.now + 2, 40.0, 120.0, None, (40.0, 40.0, 40.0), 161.0, 5.0)
    )
    served.now += 4
    served.scrape()
    assert served.acceptance.restarts == {}
    assert served.known()["math", "exact"].mean_accepted_length == 4.0


@pytest.mark.parametrize("status", ["cancelled", "upstream_error"])
def test_only_good_answers_count(status: str) -> None:
    acceptance = Acceptance()
    acceptance.on_record(record(Outcome(status, 200), "math", 1.0, 2.0))
    assert list(acceptance.known()) == []


def test_baselines_and_answers_without_usage_have_nothing_to_tell() -> None:
    acceptance = Acceptance()
    acceptance.on_record(record(Outcome("ok", 200), "math", 1.0, 2.0, baseline=True))
    acceptance.on_record(record(Outcome("ok", 200), "math", 1.0, 2.0))
    assert list(acceptance.known()) == []


def test_a_window_waits_until_its_requests_have_ended() -> None:
    served = Served()
    served.acceptance = Acceptance(window=0.95, lag=5.0)
    served.scrape()
    for _ in range(10):
        served.answer("math", 4)
    served.scrape()
    assert list(served.acceptance.mismatches()) == []
    served.now += 6.0
    served.scrape()
    assert dict(served.acceptance.mismatches())["b"] == pytest.approx(0.0, abs=0.01)


def test_all_tokens_at_one_moment_lie_in_its_window() -> None:
    served = Served()
    served.scrape()
    outcome = Outcome("ok", 200, ttft=0.0, decode_seconds=0.0, usage=Usage(1, 5, 0), events=2)
    for moment in (100.5, 300.0):
        served.acceptance.on_record(record(outcome, "math", moment, moment))
    served.totals = [2.0, 6.0, 3.0, 6.0]
    served.now = 101.5
    served.scrape()
    assert served.known()["math", "counters"].why_not == "too_few_windows"


class Answers:
    """A server whose every token is ours: requests that may overlap, counted as their tokens are written."""

    def __init__(self) -> None:
        self.open: dict[float, float] = {}
        self.acceptance = Acceptance(
            window=10.0, lag=60.0, open_since=lambda _backend: min(self.open, default=math.inf)
        )
        self.steps = 0.0

    def run(self, seconds: int, every: int, lasts: int, *, status: str = "ok", usage: bool = True) -> None:
        """A request each so many seconds, 20 steps of 3 tokens a second, faster in its second half."""
        for now in range(seconds):
            for start in list(self.open):
                steps = 30 if now - start >= lasts / 2 else 10
                self.steps += steps
                self.open[start] += steps
                if now + 1 - start >= lasts:
                    self._end(start, now + 1.0, int(self.open.pop(start)), status=status, usage=usage)
            if now % every == 0:
                self.open[float(now)] = 0.0
            steps = self.steps
            counted = Counters(float(now), steps, 3 * steps, 2 * steps, (1.0, 1.0, 1.0), 3 * steps, 5.0)
            self.acceptance.counted("b", counted)

    def _end(self, start: float, now: float, steps: int, *, status: str, usage: bool) -> None:
        outcome = Outcome(
            status, 200, usage=Usage(10, 3 * steps if usage else None), ttft=0.0, decode_seconds=now - start,
            events=steps, first_tokens=0,
            speculation=Speculation("exact", steps, 3 * steps, 2 * steps) if status == "ok" else Speculation("not_measured"),
        )  # fmt: skip
        self.acceptance.on_record(record(outcome, "code", start, now))


@pytest.mark.parametrize(("every", "lasts"), [(400, 300), (20, 100), (20, 150), (50, 300), (7, 20)])
def test_long_answers_are_no_other_peoples_work(
    every: int, lasts: int, caplog: pytest.LogCaptureFixture
) -> None:
    answers = Answers()
    answers.run(6000, every, lasts)
    assert "others" not in answers.acceptance.as_json()["b"]
    assert caplog.text == ""
    assert list(answers.acceptance.mismatches())


@pytest.mark.parametrize("usage", [True, False])
@pytest.mark.parametrize("status", ["cancelled", "truncated", "timeout"])
def test_what_an_answer_cut_short_generated_is_nobody_elses(
    status: str, usage: bool, caplog: pytest.LogCaptureFixture
) -> None:
    answers = Answers()
    answers.run(600, 5, 20, status=status, usage=usage)
    assert set(answers.acceptance.as_json().get("b", {})) <= {"code"}
    assert caplog.text == ""
    assert list(answers.acceptance.mismatches()) == []


def test_what_a_failed_attempt_may_have_generated_is_nobody_elses() -> None:
    served = Served()
    served.scrape()
    for second in range(30):
        start = served.now
        for number in range(10):
            served.answer("math", 4, ours=number >= second % 7)
        tried = record(Outcome("ok", 200), "math", start, served.now)
        other = replace(tried.attempts[0], backend="c")
        served.acceptance.on_record(
            replace(tried, attempts=(*tried.attempts, other), backend="c", baseline=True)
        )
        served.scrape()
    assert set(served.acceptance.as_json()["b"]) == {"math"}
    assert served.known()["math", "counters"].mean_accepted_length == pytest.approx(4.0, rel=0.03)
    assert list(served.acceptance.mismatches()) == []


def test_a_request_that_generates_nothing_hides_nothing() -> None:
    served = Served()
    served.scrape()
    for _ in range(12):
        start = served.now
        for _ in range(10):
            served.answer("math", 4)
        counted = record(Outcome("ok", 200), "", start, served.now)
        served.acceptance.on_record(replace(counted, features=features(endpoint="tokenize")))
        served.scrape()
    assert dict(served.acceptance.mismatches()) == {"b": pytest.approx(0.0, abs=0.01)}


def test_what_other_workers_of_this_gateway_send_is_no_other_peoples_work(
    caplog: pytest.LogCaptureFixture,
) -> None:
    served = Served(alone=False)
    served.scrape()
    for second in range(30):
        for number in range(10):
            mine = number >= second % 7
            served.answer("math", 4 if mine else 2, ours=mine)
        served.scrape()
    assert served.known()["math", "counters"].mean_accepted_length == pytest.approx(4.0, rel=0.03)
    assert set(served.acceptance.as_json()["b"]) == {"math"}
    assert list(served.acceptance.mismatches()) == []
    assert caplog.text == ""


@pytest.mark.parametrize("changes", [{"phase": "connect"}, {"status": 503}])
def test_an_attempt_that_generated_nothing_hides_nothing(changes: dict[str, Any]) -> None:
    served = Served()
    served.scrape()
    for _ in range(12):
        start = served.now
        for number in range(10):
            served.answer("math", 4, ours=number < 7)
        tried = record(Outcome("upstream_error", 503), "math", start, served.now)
        served.acceptance.on_record(replace(tried, attempts=(replace(tried.attempts[0], **changes),)))
        served.scrape()
    assert set(served.acceptance.as_json()["b"]) == {"math", "others"}


def test_windows_are_passed_over_when_more_requests_ended_in_them_than_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.runtime.acceptance.MOST_SPANS", 5)
    served = Served()
    served.scrape()
    for _ in range(3):
        for _ in range(10):
            served.answer("math", 4)
        served.scrape()
    assert list(served.acceptance.mismatches()) == []
    assert ("math", "counters") not in served.known()


def test_other_peoples_work_that_begins_later_is_found() -> None:
    served = Served()
    served.scrape()
    for second in range(60):
        for number in range(10):
            served.answer("math", 4, ours=second < 30 or number >= second % 7)
        served.scrape()
    assert "others" in served.acceptance.as_json()["b"]
