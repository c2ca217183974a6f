"""The dashboard of speculation: what drafts yield, what they cost, and whether they gain."""

from __future__ import annotations

from typing import Final

from gateway.telemetry import names
from gateway.telemetry.dashboards import vllm
from gateway.telemetry.dashboards.expressions import (
    CHOSEN,
    DRAFTING,
    acceptance_rate,
    accepted_length,
    step_price,
    stream_speed,
    untold,
)
from gateway.telemetry.dashboards.panels import (
    BACKEND,
    WORKLOAD,
    Dashboard,
    Panel,
    Query,
    Row,
)
from gateway.telemetry.dashboards.promql import backends, growth, now, of_each, or_zero, per_second, ratio

_HERE: Final = 'backend=~"$backend"'
_ROUTE: Final = "{{workload}} on {{backend}}"

SPECULATION: Final = Dashboard(
    "speculation",
    "Speculation",
    "What drafts yield, what they cost, and whether they gain.",
    (
        Row(
            "Acceptance",
            (
                Panel(
                    "Acceptance rate",
                    "Accepted share of the draft tokens. High acceptance alone is no gain: look at "
                    "the speed-up.",
                    (Query(acceptance_rate("backend", "method", where=CHOSEN), "{{backend}}"),),
                    "percentunit",
                ),
                Panel(
                    "Mean accepted length",
                    "Tokens a step yields, bonus token included.",
                    (Query(accepted_length("backend", "method", where=CHOSEN), "{{backend}}"),),
                ),
                Panel(
                    "Acceptance by position",
                    "Share of steps in which the draft token at each position was accepted. "
                    "Where late positions give little, a shorter draft is cheaper.",
                    (
                        Query(
                            of_each(
                                per_second(names.ACCEPTED_AT, "backend", "position", where=CHOSEN),
                                per_second(names.STEPS, "backend", where=CHOSEN),
                                "backend",
                            )
                        ),
                    ),
                    "percentunit",
                    "matrix",
                    "backend",
                    "position",
                ),
                Panel(
                    "Mean accepted length by workload",
                    "The same draft fits some work better.",
                    (Query(accepted_length("workload", "backend", where=CHOSEN)),),
                    "short",
                    "matrix",
                    "workload",
                    "backend",
                ),
                Panel(
                    "The same as the servers count it",
                    "From vLLM's own counters; includes requests of others.",
                    (
                        Query(
                            ratio(
                                per_second(vllm.ACCEPTED, "backend", where=_HERE),
                                per_second(vllm.DRAFTED, "backend", where=_HERE),
                            ),
                            "{{backend}}",
                        ),
                    ),
                    "percentunit",
                ),
                Panel(
                    "By position, as the servers count it",
                    "From vLLM's own counters.",
                    (
                        Query(
                            of_each(
                                per_second(vllm.ACCEPTED_AT, "backend", "position", where=_HERE),
                                per_second(vllm.DRAFTS, "backend", where=_HERE),
                                "backend",
                            )
                        ),
                    ),
                    "percentunit",
                    "matrix",
                    "backend",
                    "position",
                ),
            ),
        ),
        Row(
            "Gain",
            (
                Panel(
                    "Speed-up over the baseline",
                    "With its 95 % interval. While the lower line is below 1 it may be chance.",
                    (
                        Query(now(names.SPEEDUP, "workload", "backend", where=CHOSEN), _ROUTE),
                        Query(now(names.SPEEDUP_LOW, "workload", "backend", where=CHOSEN), f"low {_ROUTE}"),
                        Query(now(names.SPEEDUP_HIGH, "workload", "backend", where=CHOSEN), f"high {_ROUTE}"),
                    ),
                ),
                Panel(
                    "Traffic as routed against its fastest backend",
                    "1: all of it runs as fast as on the best single backend for its target and workload.",
                    (
                        Query(
                            f"({stream_speed('target', 'workload', where=CHOSEN)}) / on (target, workload) "
                            "max by (target, workload) "
                            f"({stream_speed('target', 'workload', 'backend', where=CHOSEN)})",
                            "{{workload}} of {{target}}",
                        ),
                    ),
                ),
                Panel(
                    "Speed of a stream, tokens/s",
                    "",
                    (Query(stream_speed("workload", "backend", where=CHOSEN), _ROUTE),),
                ),
                Panel(
                    "Accepted length since the start",
                    "By steps and by requests: far apart, long answers differ from short ones.",
                    (
                        Query(
                            now(names.ACCEPTED_LENGTH, "backend", "weighting", where=CHOSEN),
                            "{{backend}} by {{weighting}}",
                        ),
                    ),
                ),
            ),
        ),
        Row(
            "Cost",
            (
                Panel(
                    "Price of a step, in steps of the baseline",
                    "A draft gains while this is below its accepted length.",
                    (Query(step_price(), _ROUTE),),
                ),
                Panel(
                    "Part of a step that drafting takes",
                    "Estimated from the steps of server and baseline, with its 95 % interval. Empty until "
                    "both were seen at fitting batches; a fleet without a baseline has none.",
                    (
                        Query(now(names.DRAFT_LATENCY, "backend", where=_HERE), "{{backend}}"),
                        Query(now(names.DRAFT_LATENCY_LOW, "backend", where=_HERE), "low {{backend}}"),
                        Query(now(names.DRAFT_LATENCY_HIGH, "backend", where=_HERE), "high {{backend}}"),
                    ),
                    "s",
                ),
                Panel(
                    "Draft tokens for each output token",
                    "Work that the target verifies; what is not accepted is waste.",
                    (
                        Query(
                            ratio(
                                per_second(names.DRAFTED, "backend", where=CHOSEN),
                                per_second(names.OUTPUT_TOKENS, "backend", where=f"{CHOSEN}, {DRAFTING}"),
                            ),
                            "{{backend}}",
                        ),
                    ),
                ),
                Panel(
                    "How acceptance is known",
                    "`exact` is told by answers. `not_measured` cannot be judged.",
                    (Query(per_second(names.MEASURED, "grade", where=CHOSEN), "{{grade}}"),),
                    "reqps",
                    stacked=True,
                ),
                Panel(
                    "Accepted length by how it is known",
                    "Grades that disagree say that one of them is wrong.",
                    (
                        Query(
                            now(names.BACKEND_LENGTH, "backend", "grade", how="avg", where=CHOSEN),
                            "{{backend}} {{grade}}",
                        ),
                    ),
                ),
                Panel(
                    "Accepted tokens that no answer told of",
                    "Far from 0: other clients use the server, or one of the two counts is wrong. Empty "
                    "where several gateways share the servers, as each takes the others for other clients.",
                    (Query(untold(where=_HERE), "{{backend}}"),),
                    "percentunit",
                ),
            ),
        ),
        Row(
            "Learnt, planned, advised",
            (
                Panel(
                    "Accepted length that the score reckons with",
                    "For short prompts.",
                    (Query(now(names.LEARNED_LENGTH, "workload", "backend", where=CHOSEN)),),
                    "short",
                    "matrix",
                    "workload",
                    "backend",
                ),
                Panel(
                    "Step time that the score reckons with",
                    "At the load of the moment.",
                    (Query(now(names.LEARNED_STEP, "backend", where=_HERE), "{{backend}}"),),
                    "s",
                ),
                Panel(
                    "Requests that went to learn, whole fleet",
                    "Where most was to be learnt rather than where they were thought to be fastest.",
                    (Query(growth(names.EXPLORED), "explored"),),
                ),
                Panel(
                    "Output that routing by workload adds, whole fleet",
                    "As a share. Below 0.02 it does not pay; 0 where nothing is advised yet.",
                    (Query(or_zero(now(names.ROUTING_GAIN, "target")), "{{target}}"),),
                    "percentunit",
                ),
                Panel(
                    "Output that one configuration on all servers would add",
                    "As a share. Above 0: consolidate. 0 where nothing is advised yet.",
                    (
                        Query(
                            or_zero(now(names.CONSOLIDATION_GAIN, "target", "backend", where=_HERE)),
                            "{{target}}: {{backend}}",
                        ),
                    ),
                    "percentunit",
                ),
                Panel(
                    "Servers kept for each class, whole fleet",
                    "Roles of the plan; 0 where there is none.",
                    (
                        Query(or_zero(backends(names.PLAN_ROLE, "class")), "{{class}}"),
                        Query(
                            or_zero(now(names.PLAN_KEPT, "target", how="min")),
                            "demand that is held, {{target}}",
                        ),
                    ),
                ),
            ),
        ),
    ),
    (WORKLOAD, BACKEND),
)
