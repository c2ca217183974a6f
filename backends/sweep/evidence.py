"""From the results of a sweep to the file that policies rest on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backends.sweep.cost import Point
from backends.sweep.stats import percentile
from gateway.policy.evidence import Effort, Evidence, Machine, Measurement, Range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backends.sweep.plan import Plan
    from backends.sweep.results import Results
    from backends.sweep.stats import Interval, Measured

SOURCE = "specroute sweep"


def evidence(
    plan: Plan, target: str, machine: Machine, *, measured: str, failures: Mapping[str, str], seconds: float
) -> Evidence:
    """All that a sweep found.

    Args:
        plan: With its results.
        target: The target model.
        machine: What the servers ran on.
        measured: Day, as ISO 8601 has it.
        failures: What could not be measured, and why.
        seconds: What the sweep took.
    """
    results = plan.results
    return Evidence(
        version=1,
        source=SOURCE,
        target=target,
        measured=measured,
        machine=machine,
        precision=plan.settings.precision,
        effort=Effort(
            requests=results.requests,
            rounds=results.total_rounds,
            grid_rounds=round(plan.grid_rounds(), 1),
            seconds=round(seconds, 1),
        ),
        failures={**_refused(results), **failures},
        measurements=tuple(
            found for one in results.cells() if (found := measurement(one, results)) is not None
        ),
    )


def _refused(results: Results) -> dict[str, str]:
    """Cells of which no request went well, with the reason of most."""
    return {
        f"{one.cell.candidate.label} {one.cell.condition.label}": max(
            one.failures,
            key=lambda why, by=one.failures: by[why],  # type: ignore[misc]
        )
        for one in results.cells()
        if one.failures and not one.requests
    }


def measurement(measured: Measured, results: Results) -> Measurement | None:
    """What the file says of one cell; None where no request went well."""
    candidate, condition = measured.cell
    rate, speedup, tpot = (of(measured.cell) for of in (results.rate, results.speedup, results.tpot))
    if rate is None:
        return None
    agreement = results.agreement(measured.cell)
    point = Point(candidate.draft_tokens, measured.survival, speedup) if speedup is not None else None
    return Measurement(
        method=candidate.method,
        draft_tokens=candidate.draft_tokens,
        workload=condition.workload,
        concurrency=condition.concurrency,
        prompt=condition.prompt,
        sampling=condition.sampling,
        requests=measured.requests,
        failures=sum(measured.failures.values()),
        tokens_per_second=_range(rate),
        speedup=None if speedup is None else _range(speedup),
        ttft_p50=_rounded(percentile(measured.ttft, 0.5)),
        ttft_p99=_rounded(percentile(measured.ttft, 0.99)),
        tpot=None if tpot is None else _range(tpot),
        output_tokens=_rounded(measured.output_tokens / measured.requests),
        prompt_tokens=_rounded(measured.prompt_tokens / measured.requests),
        mean_accepted_length=_rounded(measured.mean_accepted_length),
        acceptance_rate=_rounded(measured.acceptance_rate),
        by_position=tuple(round(one, 4) for one in measured.survival),
        steps=round(measured.steps),
        cost=None if point is None or candidate.is_baseline else _rounded(point.cost),
        memory=measured.memory,
        compared=0 if agreement is None or candidate.is_baseline else agreement.compared,
        different=0 if agreement is None or candidate.is_baseline else agreement.different,
        surely_different=0.0 if agreement is None else round(agreement.surely_different, 4),
    )


def _range(found: Interval) -> Range:
    return Range(value=_digits(found.value), low=_rounded(found.low), high=_rounded(found.high))


def _rounded(value: float | None) -> float | None:
    return None if value is None else _digits(value)


def _digits(value: float) -> float:
    """Five significant digits: more than any measurement has."""
    return float(f"{value:.5g}")
