from __future__ import annotations

from datetime import date

import pytest

from backends.sweep.advice import advise
from backends.sweep.seen import NotAGatewayError, Server, Traffic, read
from backends.sweep.stats import Interval
from gateway.policy.evidence import Evidence, Measurement, Range

TODAY = date(2026, 12, 1)
TARGET = "some/model"


def traffic(
    speedup: float | None = None,
    survival: tuple[float, ...] = (),
    *,
    tokens: float = 1e5,
    width: float = 1.02,
    requests: float = 500,
) -> Traffic:
    steps = 10_000.0 if survival else 0.0
    ratio = None if speedup is None else Interval(speedup, speedup / width, speedup * width)
    return Traffic(requests, tokens, steps, [one * steps for one in survival], ratio)


def server(name: str, method: str = "none", tokens: int = 0, **by: Traffic) -> Server:
    return Server(name, TARGET, method, tokens, by or {"code": traffic()})


BASE = server("base", code=traffic(), chat=traffic())


def falling(tokens: int, share: float) -> tuple[float, ...]:
    return tuple(share**place for place in range(1, tokens + 1))


def kinds(*servers: Server, evidence: Evidence | None = None) -> dict[str, str]:
    return {one.kind: one.words for one in advise(servers, evidence, TODAY)}


def evidence(*points: tuple[int, float, float], measured: str = "2026-11-01") -> Evidence:
    """Evidence of dflash: (N, share of each draft, cost of a step)."""
    cells = []
    for tokens, share, cost in points:
        survival = falling(tokens, share)
        length = 1 + sum(survival)
        cells.append(
            Measurement(
                method="dflash", draft_tokens=tokens, workload="code", concurrency=8, requests=99,
                tokens_per_second=Range(value=1.0), speedup=Range(value=length / cost), cost=cost,
                mean_accepted_length=length, by_position=survival,
            )
        )  # fmt: skip
    return Evidence(version=1, source="test", target=TARGET, measured=measured, measurements=tuple(cells))


def test_late_positions_that_bring_nothing_are_named_with_what_a_shorter_draft_would_gain() -> None:
    survival = falling(15, 0.7)
    cost = 1.0 + 15 * 0.1
    fast = server("fast", "dflash", 15, code=traffic((1 + sum(survival)) / cost, survival))
    found = advise([BASE, fast], evidence((7, 0.7, 1.7), (3, 0.7, 1.3)), TODAY)
    (one,) = [one for one in found if one.kind == "shorter"]
    assert one.words.startswith("positions 10–15 of dflash-15 (fast) give 2.5%")
    assert "try N=" in one.words
    assert one.expected is not None
    assert one.expected.low is not None
    assert one.expected.high is not None
    # Truth by the same costs: the best length and what it gains over 15.
    truth = {n: (1 + sum(survival[:n])) / (1 + 0.1 * n) for n in range(1, 16)}
    best = max(truth, key=lambda n: truth[n])
    assert f"try N={best}," in one.words
    assert one.expected.value == pytest.approx(truth[best] / truth[15] - 1, abs=0.02)
    assert one.expected.low < one.expected.value < one.expected.high


def test_one_late_position_is_named_as_one() -> None:
    fast = server("fast", "dflash", 11, code=traffic(2.0, (*falling(10, 0.95), 0.2)))
    assert kinds(BASE, fast)["shorter"].startswith("position 11 of dflash-11 (fast) gives 2.")


def test_without_another_length_the_gain_is_not_made_up() -> None:
    survival = falling(15, 0.6)
    fast = server("fast", "dflash", 15, code=traffic(1.5, survival))
    said = kinds(BASE, fast)["shorter"]
    assert "cannot be told before another N" in said


def test_a_draft_that_is_hardly_ever_wrong_may_be_longer() -> None:
    short = server("short", "mtp", 1, code=traffic(1.75, (0.95,)))
    longer = server("longer", "mtp", 2, code=traffic(2.35, (0.95, 0.9)))
    found = [one for one in advise([BASE, short, longer], None, TODAY) if one.kind == "longer"]
    assert {one.about for one in found} >= {("longer",)}
    assert "accept its last draft: try N=" in found[-1].words


def test_too_few_steps_say_nothing() -> None:
    young = Server("young", TARGET, "dflash", 15, {"code": Traffic(9, 900, 100, [1.0] * 15, None)})
    assert "shorter" not in kinds(BASE, young)


def test_a_backend_that_loses_to_no_speculation_is_named() -> None:
    slow = server("slow", "eagle3", 1, code=traffic(0.7, (0.8,)), chat=traffic(1.2, (0.8,)))
    assert "eagle3-1 (slow) is slower than no speculation on code (0.70 times)" in kinds(BASE, slow)["loses"]


def test_routing_that_does_not_pay_is_said_with_what_to_consolidate_on() -> None:
    one = server("one", "mtp", 3, code=traffic(2.0), chat=traffic(1.5))
    other = server("other", "dflash", 7, code=traffic(1.98), chat=traffic(1.51))
    assert "consolidate on mtp-3" in kinds(BASE, one, other)["consolidate"]


def test_a_gateway_that_learns_says_itself_whether_routing_pays() -> None:
    one = server("one", "mtp", 3, code=traffic(2.0), chat=traffic(1.5))
    other = server("other", "dflash", 7, code=traffic(1.98), chat=traffic(1.51))
    said = ("routing by workload does not pay here", "consolidate on b")
    found = [one.words for one in advise([BASE, one, other], None, TODAY, {TARGET: said})]
    assert found == [f"{TARGET}: {words}" for words in said]
    assert advise([BASE, one, other], None, TODAY, {"another": said})[0].kind == "consolidate"


def test_routing_that_pays_is_said_with_its_gain() -> None:
    one = server("one", "mtp", 3, code=traffic(3.0), chat=traffic(1.2))
    other = server("other", "dflash", 7, code=traffic(1.2), chat=traffic(3.0))
    assert "could give" in kinds(BASE, one, other)["routing_pays"]


def test_where_no_configuration_saw_every_workload_it_says_that_nothing_can_be_told() -> None:
    one = server("one", "mtp", 3, code=traffic(3.0))
    other = server("other", "dflash", 7, chat=traffic(3.0))
    idle = server("idle", "eagle3", 5, code=traffic())
    said = kinds(BASE, one, other, idle)
    assert "(dflash-7 not on code; eagle3-5 not on chat and code; mtp-3 not on chat)" in said["untold"]
    assert "`learning: {mode: auto}`" in said["untold"]
    assert not said.keys() & {"consolidate", "routing_pays"}


def test_where_one_configuration_alone_was_measured_nothing_can_be_told_either() -> None:
    one = server("one", "mtp", 3, code=traffic(3.0), chat=traffic(1.2))
    idle = server("idle", "eagle3", 5, code=traffic())
    assert "(eagle3-5 not on chat and code)" in kinds(BASE, one, idle)["untold"]
    assert "untold" not in kinds(BASE, one)


def test_chance_is_not_taken_for_a_gain() -> None:
    one = server("one", "mtp", 3, code=traffic(2.0, width=1.3), chat=traffic(1.5, width=1.3))
    other = server("other", "dflash", 7, code=traffic(1.8, width=1.3), chat=traffic(1.7, width=1.3))
    assert "consolidate" in kinds(BASE, one, other)


def test_what_cannot_be_told_for_want_of_a_baseline_is_said() -> None:
    alone = server("alone", "mtp", 3, code=traffic())
    assert "has no server without speculation" in kinds(alone)["no_baseline"]
    assert (
        "no speed-up is known for code and chat"
        in kinds(BASE, server("fast", "mtp", 3, code=traffic(), chat=traffic()))["no_baseline"]
    )


def test_old_evidence_and_evidence_that_traffic_contradicts_are_stale() -> None:
    fast = server("fast", "dflash", 7, code=traffic(1.5, falling(7, 0.5)))
    said = kinds(BASE, fast, evidence=evidence((7, 0.8, 1.7), measured="2026-01-01"))
    assert "the evidence is 334 days old" in said["stale"]
    assert "yields 1.99 tokens a step on code, the evidence says 4.16" in said["differs"]
    fresh = kinds(BASE, fast, evidence=evidence((7, 0.5, 1.7)))
    assert not {"stale", "differs"} & set(fresh)


PAGE = """\
# TYPE specroute_backend_info gauge
specroute_backend_info{backend="base",target="some/model",method="none",draft_tokens="0"} 1
specroute_backend_info{backend="fast",target="some/model",method="mtp",draft_tokens="2"} 1
# TYPE specroute_requests_total counter
specroute_requests_total{workload="code",backend="fast",method="mtp",status="ok"} 10
specroute_requests_total{workload="code",backend="fast",method="mtp",status="timeout"} 2
# TYPE specroute_output_tokens_total counter
specroute_output_tokens_total{workload="code",backend="fast",method="mtp"} 1000
# TYPE specroute_speculation_steps_total counter
specroute_speculation_steps_total{workload="code",backend="fast",method="mtp"} 600
# TYPE specroute_speculation_accepted_at_position_total counter
specroute_speculation_accepted_at_position_total{workload="code",backend="fast",method="mtp",position="0"} 540
specroute_speculation_accepted_at_position_total{workload="code",backend="fast",method="mtp",position="1"} 300
# TYPE specroute_speedup gauge
specroute_speedup{workload="code",backend="fast",method="mtp"} 1.8
# TYPE specroute_speedup_low gauge
specroute_speedup_low{workload="code",backend="fast",method="mtp"} 1.7
# TYPE specroute_speedup_high gauge
specroute_speedup_high{workload="code",backend="fast",method="mtp"} 1.9
"""


def test_the_metrics_of_a_gateway_are_read() -> None:
    base, fast = read(PAGE)
    assert (base.is_baseline, base.label, fast.label) == (True, "none", "mtp-2")
    code = fast.traffic["code"]
    assert (code.requests, code.output_tokens, code.survival) == (12, 1000, (0.9, 0.5))
    assert code.speedup == Interval(1.8, 1.7, 1.9)
    assert fast.survival == (0.9, 0.5)
    assert base.survival == ()


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("", "no specroute_backend_info"),
        ("{", "this is no page of metrics"),
        ('specroute_backend_info{backend="a"} 1', "a label 'target' is missing"),
        (PAGE + "specroute_requests_total 3", "a label 'backend' is missing"),
        (
            PAGE.replace('draft_tokens="2"', 'draft_tokens="two"'),
            "these are no metrics of a gateway: invalid",
        ),
    ],
)
def test_another_page_is_refused(page: str, said: str) -> None:
    with pytest.raises(NotAGatewayError, match=said):
        read(page)
