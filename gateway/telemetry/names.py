"""Every name that telemetry sends out: metrics with their labels, spans, events and attributes. One table.

The documentation and the dashboards are made from it. GenAI names follow the conventions of
open-telemetry/semantic-conventions-genai v0.1.0, or those of open-telemetry/semantic-conventions 1.41 from
before the move, see :data:`GENAI`; our own facts never go under ``gen_ai``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

SCOPE: Final = "specroute"
"""Instrumentation scope of all spans and meters."""

OTHER: Final = "other"
"""Label value that stands for everything outside a closed set."""

ESTIMATE: Final = "estimate"
"""Grade of what no server tells and other figures of it imply."""

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"

_UNITS: Final = {"s": "_seconds", "W": "_watts"}


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """One instrument.

    Attributes:
        name: OpenTelemetry name.
        kind: ``counter``, ``gauge`` or ``histogram``.
        unit: UCUM; what stands in braces is a note.
        help: What it counts, in one sentence.
        labels: Names of its labels.
        buckets: Upper bounds of a histogram.
    """

    name: str
    kind: str
    unit: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def prometheus(self) -> str:
        """Name at ``/metrics``; a histogram adds ``_bucket``, ``_sum`` and ``_count``."""
        return self.name.replace(".", "_") + _UNITS.get(self.unit, "") + "_total" * (self.kind == COUNTER)


# Labels. Values come from the fleet and policy files and from closed sets, never from a client.
WORKLOAD: Final = "workload"
BACKEND: Final = "backend"
METHOD: Final = "method"
STATUS: Final = "status"
POSITION: Final = "position"
GRADE: Final = "grade"
ERROR: Final = "error"
SOURCE: Final = "source"
NATURE: Final = "nature"
VALIDITY: Final = "validity"
LANGUAGE: Final = "language"
ROUTE: Final = "route"
SERVICE: Final = "class"
REASON: Final = "reason"
TARGET: Final = "target"
DRAFT_TOKENS: Final = "draft_tokens"
WEIGHTING: Final = "weighting"
REVISION: Final = "revision"

_STATUSES: Final = (
    "400", "401", "403", "404", "408", "409", "413", "422", "429", "499", "500", "501", "502", "503", "504",
    "529", "1xx", "2xx", "3xx", "4xx", "5xx",
)  # fmt: skip
"""HTTP statuses that servers of models and proxies answer errors with, and the classes of all others."""

_FAILURES: Final = (
    "connect", "reset", "protocol", "too_large", "ended_early", "cannot_go_on", "client_gone", "shutdown",
    "error_event", "error_event:4xx",
    "timeout:connect", "timeout:first_byte", "timeout:idle", "timeout:total", "timeout:deadline",
    "invalid_request", "request_too_large", "unknown_transfer_encoding", "request_timeout", "model_not_found",
    "no_route", "unknown_backend", "pin_not_allowed", "empty_pool", "all_rejected", "overloaded",
    "shutting_down", "internal_error",
)  # fmt: skip

ERRORS: Final = (*_FAILURES, *(f"status:{status}" for status in _STATUSES))
"""Error classes of attempts and of requests that reached no backend: all that a label can have."""

LABELS: Final[Mapping[str, str]] = {
    WORKLOAD: "Kind of work; `other` for a label that neither the built-in set nor the policy in force has.",
    BACKEND: "Name in the fleet; absent where the request reached none.",
    METHOD: "Speculative method of the backend; `none` is the baseline, `stand-in` a hosted model.",
    STATUS: "How the request ended: `ok`, `client_error`, `upstream_error`, `timeout`, `cancelled`, "
    "`rejected` or `truncated`.",
    POSITION: "Place of the draft token in its step, from 0.",
    GRADE: "How acceptance is known: `exact` (answers told), `stream` (from their events), `counters` (from "
    "those of the server), `none` (a baseline) or `not_measured`; of a draft's latency `estimate`.",
    ERROR: "Error class of the failed attempt: "
    + "".join(f"`{each}`, " for each in _FAILURES)
    + f"`other`, or `status:` and the HTTP status, of an unusual one the class: {', '.join(_STATUSES)}.",
    SOURCE: "What found the workload: `hint`, `policy`, `examples`, `rule:NAME`, `model:NAME`, "
    "`session`, `mix` or `default`.",
    VALIDITY: "`valid` if the arguments of every call are JSON objects, `invalid` if not",
    NATURE: "What the answer's beginning shows it to be: `tool_use`, `code`, `math`, `multilingual` or "
    "`text` (English prose, of a chat or from a given text).",
    LANGUAGE: "Language of the answer as far as the request shows it: ISO 639-1 code of one that is told "
    "apart, or `und`.",
    ROUTE: "Route of the policy; absent where none matched.",
    SERVICE: "Service class of the policy, or `default`.",
    REASON: "Reason code.",
    TARGET: "Target model.",
    DRAFT_TOKENS: "N, draft tokens a step.",
    WEIGHTING: "`steps`: from sums, every step weighs the same. `requests`: every request weighs the same.",
    REVISION: "Content hash of the policy file and of the examples it names.",
}

_PER_ROUTE: Final = (WORKLOAD, BACKEND, METHOD)

_TTFT_BUCKETS: Final = (
    0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0,
    60.0, 120.0,
)  # fmt: skip
_TPOT_BUCKETS: Final = (
    0.0002, 0.0005, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.005, 0.006, 0.008, 0.01, 0.0125, 0.015, 0.02, 0.025,
    0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5,
)  # fmt: skip
_DURATION_BUCKETS: Final = (
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0,
    600.0, 1800.0,
)  # fmt: skip
_TOKEN_BUCKETS: Final = tuple(float(4**power) for power in range(11))

REQUESTS: Final = Metric(
    "specroute.requests", COUNTER, "{request}", "Requests by how they ended.", (*_PER_ROUTE, STATUS)
)
DURATION: Final = Metric(
    "specroute.request.duration", HISTOGRAM, "s", "From the request's head to the last byte of the answer.",
    _PER_ROUTE, _DURATION_BUCKETS,
)  # fmt: skip
TTFT: Final = Metric(
    "specroute.ttft", HISTOGRAM, "s",
    "From dispatch of the last attempt to the first event with a token; streams only.",
    _PER_ROUTE, _TTFT_BUCKETS,
)  # fmt: skip
TPOT: Final = Metric(
    "specroute.tpot", HISTOGRAM, "s",
    "Time per output token after the first event, of good streams of one choice with at least 16 such "
    "tokens.", _PER_ROUTE, _TPOT_BUCKETS,
)  # fmt: skip
INPUT_TOKENS: Final = Metric(
    "specroute.input_tokens", COUNTER, "{token}", "Prompt tokens as backends reported them.", _PER_ROUTE
)
OUTPUT_TOKENS: Final = Metric(
    "specroute.output_tokens", COUNTER, "{token}", "Answer tokens as backends reported them.", _PER_ROUTE
)
DECODE_TOKENS: Final = Metric(
    "specroute.decode_tokens", COUNTER, "{token}",
    "Tokens after the first event, of the requests that `specroute.tpot` counts. "
    "Divided by the decode time: tokens per second of one stream.", _PER_ROUTE,
)  # fmt: skip
DECODE_TIME: Final = Metric(
    "specroute.decode_time", COUNTER, "s",
    "From the first to the last event with a token, of the requests that `specroute.tpot` counts.",
    _PER_ROUTE,
)  # fmt: skip
MEASURED: Final = Metric(
    "specroute.speculation.requests", COUNTER, "{request}", "Requests by how their acceptance was measured.",
    (*_PER_ROUTE, GRADE),
)  # fmt: skip
STEPS: Final = Metric(
    "specroute.speculation.steps", COUNTER, "{step}", "Verification steps with a draft, measured exactly.",
    _PER_ROUTE,
)  # fmt: skip
DRAFTED: Final = Metric(
    "specroute.speculation.drafted_tokens", COUNTER, "{token}", "Draft tokens proposed.", _PER_ROUTE
)
ACCEPTED: Final = Metric(
    "specroute.speculation.accepted_tokens", COUNTER, "{token}",
    "Draft tokens accepted. Divided by those drafted: acceptance rate. 1 + accepted / steps: mean accepted "
    "length.", _PER_ROUTE,
)  # fmt: skip
ACCEPTED_AT: Final = Metric(
    "specroute.speculation.accepted_at_position", COUNTER, "{token}",
    "Steps in which the draft token at this position was accepted.", (*_PER_ROUTE, POSITION),
)  # fmt: skip
FAILOVERS: Final = Metric(
    "specroute.failovers", COUNTER, "{attempt}",
    "Attempts after which the request went to another backend, by the backend that failed.", (BACKEND, ERROR),
)  # fmt: skip
CLASSIFICATIONS: Final = Metric(
    "specroute.classifications", COUNTER, "{request}", "Requests by workload and by what found it.",
    (WORKLOAD, SOURCE),
)  # fmt: skip
LANGUAGES: Final = Metric(
    "specroute.languages", COUNTER, "{request}", "Requests by workload and by language of the answer.",
    (WORKLOAD, LANGUAGE),
)  # fmt: skip
ANSWERS: Final = Metric(
    "specroute.answers", COUNTER, "{request}",
    "Good answers by workload as classified and by what their beginning shows: the live confusion matrix.",
    (WORKLOAD, NATURE),
)  # fmt: skip
AGREEMENT: Final = Metric(
    "specroute.classifier.agreement", GAUGE, "1",
    "Share of answers that are what their requests were taken for, of the last 200 of a workload that the "
    "classifier guessed.", (WORKLOAD,),
)  # fmt: skip
DRIFT: Final = Metric(
    "specroute.classifier.drift", GAUGE, "1",
    "1 while that share is below that of the first 500 by 0.05 and four standard errors, else 0.",
    (WORKLOAD,),
)  # fmt: skip
TOOL_CALLS: Final = Metric(
    "specroute.tool_calls", COUNTER, "{request}",
    "Answers that call tools, by whether the calls can be used: speculation was seen to break arguments.",
    (WORKLOAD, BACKEND, METHOD, VALIDITY),
)  # fmt: skip
RESUMES: Final = Metric(
    "specroute.resumes", COUNTER, "{stream}",
    "Times a backend went on with a stream that another one had broken off, by the backend that ended it.",
    (WORKLOAD, BACKEND, METHOD),
)  # fmt: skip
DECISIONS: Final = Metric(
    "specroute.decisions", COUNTER, "{request}",
    "Requests by route and by why the first candidate was first, or why there was none.", (ROUTE, REASON),
)  # fmt: skip
REJECTIONS: Final = Metric(
    "specroute.rejections", COUNTER, "{request}",
    "Requests for which a backend was ruled out, by backend and reason.", (BACKEND, REASON),
)  # fmt: skip

IN_FLIGHT: Final = Metric(
    "specroute.backend.in_flight", GAUGE, "{request}",
    "Requests that this gateway holds open, with several workers those of all, which each of them tells.",
    (BACKEND,),
)  # fmt: skip
RUNNING: Final = Metric(
    "specroute.backend.running", GAUGE, "{request}", "Requests in the batch at the last scrape.", (BACKEND,)
)
WAITING: Final = Metric(
    "specroute.backend.waiting", GAUGE, "{request}", "Requests queued at the last scrape.", (BACKEND,)
)
KV_USAGE: Final = Metric(
    "specroute.backend.kv_usage", GAUGE, "1", "Share of the KV cache in use at the last scrape.", (BACKEND,)
)
SCRAPE_AGE: Final = Metric(
    "specroute.backend.scrape_age", GAUGE, "s",
    "Time since the last scrape; before the first, since the backend was first seen.", (BACKEND,),
)  # fmt: skip
HEALTHY: Final = Metric(
    "specroute.backend.healthy", GAUGE, "1",
    "1 if the backend is well and serves its model, 0 if a probe found otherwise or nothing connects to it.",
    (BACKEND,),
)  # fmt: skip
AVAILABLE: Final = Metric(
    "specroute.backend.available", GAUGE, "1",
    "1 if the backend may get a request now: it is healthy, let through by its breaker, and not full.",
    (BACKEND,),
)  # fmt: skip
LIMIT: Final = Metric(
    "specroute.backend.limit", GAUGE, "{request}",
    "Requests that this gateway may hold open now; less than `max_in_flight` while it warms up.", (BACKEND,),
)  # fmt: skip
BREAKER_STATE: Final = Metric(
    "specroute.breaker.state", GAUGE, "1",
    "0: closed, all requests pass. 1: half-open, single ones try it. 2: open, none passes.", (BACKEND,),
)  # fmt: skip
BREAKER_TRIPS: Final = Metric(
    "specroute.breaker.trips", COUNTER, "{trip}", "Times that the breaker opened.", (BACKEND, REASON)
)
RETRIES_DENIED: Final = Metric(
    "specroute.retries.denied", COUNTER, "{request}",
    "Requests that failed because the budget of further attempts was spent.",
)  # fmt: skip
RETRIES_LEFT: Final = Metric(
    "specroute.retries.left", GAUGE, "{attempt}", "Further attempts that the budget allows now."
)
OPEN: Final = Metric(
    "specroute.requests.open", GAUGE, "{request}", "Requests that are open in this process now."
)
QUEUE_WAIT: Final = Metric(
    "specroute.queue.wait", HISTOGRAM, "s",
    "Time that a request waited because all backends that it might go to were busy; only of those that did.",
    _PER_ROUTE, _TTFT_BUCKETS,
)  # fmt: skip
QUEUED: Final = Metric(
    "specroute.queue.waiting", GAUGE, "{request}",
    "Requests that wait because all backends that could take them are busy.",
)  # fmt: skip
BACKEND_INFO: Final = Metric(
    "specroute.backend.info", GAUGE, "1", "Always 1: what the backend is.",
    (BACKEND, TARGET, METHOD, DRAFT_TOKENS),
)  # fmt: skip

BACKEND_LENGTH: Final = Metric(
    "specroute.backend.mean_accepted_length", GAUGE, "{token}",
    "Tokens a step yields since the backend's server was last started, by how it is known; a grade that "
    "cannot tell is absent.", (BACKEND, WORKLOAD, GRADE),
)  # fmt: skip
GPU_MEMORY: Final = Metric(
    "specroute.backend.gpu_memory", GAUGE, "1",
    "Share of the memory of the backend's GPUs that is taken; absent where no exporter shows it.", (BACKEND,),
)  # fmt: skip
GPU_ACTIVITY: Final = Metric(
    "specroute.backend.gpu_activity", GAUGE, "1",
    "Share of time in which the backend's GPUs computed; absent where no exporter shows it.", (BACKEND,),
)  # fmt: skip
GPU_POWER: Final = Metric(
    "specroute.backend.gpu_power", GAUGE, "W",
    "Power of the backend's GPUs together; absent where no exporter shows it.", (BACKEND,),
)  # fmt: skip
GPU_AGE: Final = Metric(
    "specroute.backend.gpu_age", GAUGE, "s", "Time since the backend's GPUs were last looked at.", (BACKEND,)
)
LEARNED_LENGTH: Final = Metric(
    "specroute.learned.mean_accepted_length", GAUGE, "{token}",
    "Tokens a step yields, bonus token included, as the learnt score reckons with for short prompts.",
    (BACKEND, WORKLOAD),
)  # fmt: skip
LEARNED_STEP: Final = Metric(
    "specroute.learned.step", GAUGE, "s",
    "Step of the engine at the server's load of now, as the learnt score reckons with.", (BACKEND,),
)  # fmt: skip
EXPLORED: Final = Metric(
    "specroute.explored", COUNTER, "{request}",
    "Requests that went where the most was to be learnt instead of where they were thought to be fastest.",
)  # fmt: skip
PLAN_ROLE: Final = Metric(
    "specroute.plan.role", GAUGE, "1", "1 for each server kept for a service class.", (BACKEND, SERVICE)
)
PLAN_KEPT: Final = Metric(
    "specroute.plan.kept", GAUGE, "1",
    "Share of the demand with limits, and a tenth more, that the servers can hold within them.", (TARGET,),
)  # fmt: skip
ROUTING_GAIN: Final = Metric(
    "specroute.advice.routing_gain", GAUGE, "1",
    "Output that telling workloads apart adds to spreading load alone, as a share; below 0.02 routing by "
    "workload does not pay.", (TARGET,),
)  # fmt: skip
CONSOLIDATION_GAIN: Final = Metric(
    "specroute.advice.consolidation_gain", GAUGE, "1",
    "Output that this backend's configuration on all servers would add, as a share.", (TARGET, BACKEND),
)  # fmt: skip
DRAFT_LATENCY: Final = Metric(
    "specroute.backend.draft_latency", GAUGE, "s",
    "Part of a step that the draft takes, at the batch the server was most at. No vLLM tells: its steps are "
    "compared with the baseline's. Absent until both were seen at fitting batches.", (BACKEND, GRADE),
)  # fmt: skip
DRAFT_LATENCY_LOW: Final = Metric(
    "specroute.backend.draft_latency.low", GAUGE, "s",
    "Lower bound of its 95 % interval, as far as chance goes.", (BACKEND, GRADE),
)  # fmt: skip
DRAFT_LATENCY_HIGH: Final = Metric(
    "specroute.backend.draft_latency.high", GAUGE, "s", "Upper bound of it.", (BACKEND, GRADE)
)
COUNTERS_AGE: Final = Metric(
    "specroute.backend.counters_age", GAUGE, "s",
    "Time since the server's own counters were read; absent before the first.", (BACKEND,),
)  # fmt: skip
COUNTERS_MISMATCH: Final = Metric(
    "specroute.backend.counters_mismatch", GAUGE, "1",
    "Share of the server's accepted tokens that no answer told of, in the last window that was compared. Far "
    "from 0: other clients use the server, or one of the two is wrong.", (BACKEND,),
)  # fmt: skip
RESTARTS: Final = Metric(
    "specroute.backend.restarts", COUNTER, "{restart}",
    "Times the server was seen to be started anew; what was measured of it before is forgotten.", (BACKEND,),
)  # fmt: skip

SPEEDUP: Final = Metric(
    "specroute.speedup", GAUGE, "1",
    "Decode rate relative to the baseline's for the same target and workload, over the last hour, or the "
    "last day where an hour has too few requests on either side; absent where the day has, too.", _PER_ROUTE,
)  # fmt: skip
SPEEDUP_LOW: Final = Metric(
    "specroute.speedup.low", GAUGE, "1", "Lower bound of the speed-up's 95 % interval.", _PER_ROUTE
)
SPEEDUP_HIGH: Final = Metric(
    "specroute.speedup.high", GAUGE, "1", "Upper bound of the speed-up's 95 % interval.", _PER_ROUTE
)
ACCEPTED_LENGTH: Final = Metric(
    "specroute.mean_accepted_length", GAUGE, "{token}",
    "Tokens a step yields, bonus token included, since the start.", (*_PER_ROUTE, WEIGHTING),
)  # fmt: skip

RECORDS_DROPPED: Final = Metric(
    "specroute.records.dropped", COUNTER, "{request}",
    "Requests that telemetry did not see because its queue was full: all other counts are short by these.",
)  # fmt: skip
SPANS_DROPPED: Final = Metric(
    "specroute.spans.dropped", COUNTER, "{span}",
    "Spans that were not exported: they came too fast, or the receiver did not take them. Absent where none "
    "is set.",
)  # fmt: skip
POINTS_DROPPED: Final = Metric(
    "specroute.metric_points.dropped", COUNTER, "{data_point}",
    "Data points of these metrics that were not exported: the OTLP receiver did not take them. Absent where "
    "none is set.",
)  # fmt: skip
DECISIONS_DROPPED: Final = Metric(
    "specroute.decision_log.dropped", COUNTER, "{request}",
    "Requests that are not in the decision log: they came too fast, or the disk took none. Absent where "
    "there is no log.",
)  # fmt: skip
ACCESS_DROPPED: Final = Metric(
    "specroute.access_log.dropped", COUNTER, "{request}",
    "Requests that are not in the access log: they came too fast, or nothing took the lines. Absent where "
    "there is no log.",
)  # fmt: skip
LOG_DROPPED: Final = Metric(
    "specroute.log.dropped", COUNTER, "{line}",
    "Lines that are not in the log: they came too fast, or nobody reads stderr.",
)  # fmt: skip
POLICY_LOADS: Final = Metric(
    "specroute.policy.loads", COUNTER, "{load}", "Times a policy came into force, the first included."
)
POLICY_CURRENT: Final = Metric(
    "specroute.policy.current", GAUGE, "1",
    "The policy in force: 1 if it is what the files say, 0 if they hold a mistake and it was kept.",
    (REVISION,),
)  # fmt: skip

METRICS: Final = (
    REQUESTS, DURATION, TTFT, TPOT, INPUT_TOKENS, OUTPUT_TOKENS, DECODE_TOKENS, DECODE_TIME,
    MEASURED, STEPS, DRAFTED, ACCEPTED, ACCEPTED_AT, FAILOVERS, CLASSIFICATIONS, LANGUAGES, ANSWERS,
    AGREEMENT, DRIFT, TOOL_CALLS, RESUMES, DECISIONS, REJECTIONS,
    IN_FLIGHT, RUNNING, WAITING, KV_USAGE, SCRAPE_AGE, HEALTHY, AVAILABLE, LIMIT, BACKEND_INFO,
    BREAKER_STATE, BREAKER_TRIPS, RETRIES_DENIED, RETRIES_LEFT, OPEN, QUEUED, QUEUE_WAIT,
    GPU_MEMORY, GPU_ACTIVITY, GPU_POWER, GPU_AGE, BACKEND_LENGTH,
    LEARNED_LENGTH, LEARNED_STEP, EXPLORED, PLAN_ROLE, PLAN_KEPT, ROUTING_GAIN, CONSOLIDATION_GAIN,
    DRAFT_LATENCY, DRAFT_LATENCY_LOW, DRAFT_LATENCY_HIGH, COUNTERS_AGE, COUNTERS_MISMATCH, RESTARTS,
    SPEEDUP, SPEEDUP_LOW, SPEEDUP_HIGH, ACCEPTED_LENGTH, RECORDS_DROPPED, SPANS_DROPPED, POINTS_DROPPED,
    DECISIONS_DROPPED, ACCESS_DROPPED, LOG_DROPPED, POLICY_LOADS, POLICY_CURRENT,
)  # fmt: skip
"""Our own metrics."""


OPERATIONS: Final[Mapping[str, str]] = {
    "chat": "chat",
    "responses": "chat",
    "messages": "chat",
    "completions": "text_completion",
    "embeddings": "embeddings",
}
"""GenAI operation by endpoint; what is not here is no GenAI operation."""

PROVIDER: Final = "vllm"
"""Our value of ``gen_ai.provider.name``; the conventions predefine none for vLLM."""
HOSTED: Final = "litellm"
"""The same of stand-ins, whoever is behind them: spans have their names."""


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """One attribute of spans (and, for ``gen_ai``, of metrics).

    Attributes:
        name: OpenTelemetry name.
        type: ``string``, ``int``, ``double``, ``boolean``, or one of these with ``[]``.
        help: What it says.
    """

    name: str
    type: str
    help: str


GEN_AI_OPERATION: Final = Attribute(
    "gen_ai.operation.name", "string", "`chat`, `text_completion`, `embeddings`, or the endpoint's name."
)
GEN_AI_PROVIDER: Final = Attribute("gen_ai.provider.name", "string", "`vllm`; `litellm` of a stand-in.")
GEN_AI_MODEL: Final = Attribute("gen_ai.request.model", "string",
    "On spans as the client sent it if there is such a model, in metrics the target model.",
)  # fmt: skip
GEN_AI_STREAM: Final = Attribute("gen_ai.request.stream", "boolean", "Whether a stream was asked for.")
GEN_AI_MAX_TOKENS: Final = Attribute("gen_ai.request.max_tokens", "int", "Limit the client set.")
GEN_AI_TEMPERATURE: Final = Attribute("gen_ai.request.temperature", "double", "As the client set it.")
GEN_AI_CHOICES: Final = Attribute("gen_ai.request.choice.count", "int", "Choices asked for, if not 1.")
GEN_AI_RESPONSE_ID: Final = Attribute("gen_ai.response.id", "string", "Id in the answer's body.")
GEN_AI_RESPONSE_MODEL: Final = Attribute("gen_ai.response.model", "string", "Model in the answer's body.")
GEN_AI_FINISH: Final = Attribute("gen_ai.response.finish_reasons", "string[]", "Why the answer ended.")
GEN_AI_FIRST_CHUNK: Final = Attribute(
    "gen_ai.response.time_to_first_chunk", "double", "Seconds to the first event with a token."
)
GEN_AI_INPUT_TOKENS: Final = Attribute("gen_ai.usage.input_tokens", "int", "Prompt tokens.")
GEN_AI_OUTPUT_TOKENS: Final = Attribute("gen_ai.usage.output_tokens", "int", "Answer tokens.")
GEN_AI_CACHED_TOKENS: Final = Attribute(
    "gen_ai.usage.cache_read.input_tokens", "int", "Prompt tokens found in the cache."
)
GEN_AI_TOKEN_TYPE: Final = Attribute("gen_ai.token.type", "string", "`input` or `output`; 1.41 only.")
SERVER_ADDRESS: Final = Attribute("server.address", "string", "Host of the backend.")
SERVER_PORT: Final = Attribute("server.port", "int", "Port of the backend.")
HTTP_STATUS: Final = Attribute(
    "http.response.status_code", "int", "What the client got, or on an attempt what the backend answered."
)
ERROR_TYPE: Final = Attribute(
    "error.type", "string", "As the label `error`; for an HTTP status the number alone, `_OTHER` for `other`."
)

ROUTE_REQUEST_ID: Final = Attribute("specroute.request.id", "string", "As in `x-request-id`.")
ROUTE_STATUS: Final = Attribute("specroute.status", "string", LABELS[STATUS])
ROUTE_WORKLOAD: Final = Attribute("specroute.workload", "string", "Kind of work as classified.")
ROUTE_CONFIDENCE: Final = Attribute("specroute.classification.confidence", "double", "0 to 1.")
ROUTE_SOURCE: Final = Attribute("specroute.classification.source", "string", LABELS[SOURCE])
ROUTE_NAME: Final = Attribute("specroute.route", "string", "Route of the policy.")
ROUTE_REASON: Final = Attribute(
    "specroute.decision.reason", "string", "Why the first candidate was first, or why there was none."
)
ROUTE_PROPENSITY: Final = Attribute(
    "specroute.decision.propensity", "double", "Probability of sending such a request there."
)
ROUTE_DECISION_TIME: Final = Attribute(
    "specroute.decision.duration", "double", "Seconds from the request's head to the decision."
)
ROUTE_CANDIDATES: Final = Attribute(
    "specroute.decision.candidates", "string[]", "`BACKEND=COST` in order, the first eight."
)
ROUTE_REJECTED: Final = Attribute(
    "specroute.decision.rejected", "string[]", "`BACKEND=REASON`, the first sixteen."
)
ROUTE_SERVICE: Final = Attribute("specroute.class", "string", LABELS[SERVICE])
ROUTE_SHADOW: Final = Attribute(
    "specroute.decision.shadow", "string",
    "Backend that the learnt score would take, where the routes' scores decide.",
)  # fmt: skip
ROUTE_POLICY: Final = Attribute(
    "specroute.policy.revision", "string", "Content hash of the policy file and of the examples it names."
)
ROUTE_FLEET: Final = Attribute("specroute.fleet.revision", "string", "Content hash of the fleet file.")
ROUTE_BACKEND: Final = Attribute("specroute.backend", "string", "Backend that answered, or was tried last.")
ROUTE_METHOD: Final = Attribute("specroute.method", "string", LABELS[METHOD])
ROUTE_DRAFT_TOKENS: Final = Attribute("specroute.draft_tokens", "int", LABELS[DRAFT_TOKENS])
ROUTE_ATTEMPTS: Final = Attribute("specroute.attempts", "int", "Backends tried.")
ROUTE_TTFT: Final = Attribute("specroute.ttft", "double", "Seconds from dispatch to the first token.")
ROUTE_TPOT: Final = Attribute(
    "specroute.tpot", "double", "Seconds per output token after the first event; one choice only."
)
ROUTE_PREDICTED_TTFT: Final = Attribute(
    "specroute.predicted.ttft", "double", "What the decision reckoned with; where speed there was learnt."
)
ROUTE_PREDICTED_TPOT: Final = Attribute(
    "specroute.predicted.tpot", "double", "What the decision reckoned with; where speed there was learnt."
)
ROUTE_KEPT: Final = Attribute(
    "specroute.trace.kept", "string",
    "Why a trace outside the sampled share is here: `failed`, `slow` or `explored`. The backend's own spans "
    "are not in it.",
)  # fmt: skip
ROUTE_GRADE: Final = Attribute("specroute.measurement.grade", "string", LABELS[GRADE])
ROUTE_LENGTH: Final = Attribute(
    "specroute.mean_accepted_length", "double", "Tokens a step yields: 1 + accepted / steps."
)
ROUTE_ACCEPTANCE: Final = Attribute("specroute.acceptance_rate", "double", "Accepted / drafted.")
ROUTE_HISTOGRAM: Final = Attribute(
    "specroute.accepted_histogram", "int[]", "Steps by number of accepted draft tokens, from 0."
)
ROUTE_PER_EVENT: Final = Attribute(
    "specroute.tokens_per_event", "double", "Output tokens per event: above 1, speculation bunches them."
)
ATTEMPT_NUMBER: Final = Attribute("specroute.attempt.number", "int", "From 1.")
ATTEMPT_PHASE: Final = Attribute(
    "specroute.attempt.phase", "string", "`connect`, `sent`, `headers`, `first_byte` or `done`."
)
ATTEMPT_ERROR: Final = Attribute(
    "specroute.attempt.error", "string", "Error class as the label `error`, with whatever HTTP status it was."
)
QUEUED_SECONDS: Final = Attribute("specroute.queue.wait", "double", "Seconds that the request waited.")
FAILOVER_FROM: Final = Attribute("specroute.failover.from", "string", "Backend that failed.")
FAILOVER_TO: Final = Attribute("specroute.failover.to", "string", "Backend tried next.")

SERVER_SPAN: Final = (
    GEN_AI_OPERATION, GEN_AI_MODEL, GEN_AI_STREAM, GEN_AI_MAX_TOKENS, GEN_AI_TEMPERATURE, GEN_AI_CHOICES,
    HTTP_STATUS, ERROR_TYPE, ROUTE_REQUEST_ID, ROUTE_STATUS, ROUTE_WORKLOAD, ROUTE_CONFIDENCE,
    ROUTE_SOURCE, ROUTE_NAME, ROUTE_SERVICE, ROUTE_SHADOW, ROUTE_REASON, ROUTE_PROPENSITY,
    ROUTE_DECISION_TIME, ROUTE_CANDIDATES, ROUTE_REJECTED, ROUTE_POLICY, ROUTE_FLEET, ROUTE_BACKEND,
    ROUTE_METHOD, ROUTE_DRAFT_TOKENS, ROUTE_ATTEMPTS, ROUTE_TTFT, ROUTE_TPOT, ROUTE_PREDICTED_TTFT,
    ROUTE_PREDICTED_TPOT, ROUTE_KEPT, ROUTE_GRADE, ROUTE_LENGTH,
    ROUTE_ACCEPTANCE, ROUTE_HISTOGRAM, ROUTE_PER_EVENT,
)  # fmt: skip
"""Attributes of the span `{operation} {model}` of kind SERVER: the whole request and why it went where."""

ATTEMPT_SPAN: Final = (
    GEN_AI_OPERATION, GEN_AI_PROVIDER, GEN_AI_MODEL, GEN_AI_STREAM, GEN_AI_MAX_TOKENS, GEN_AI_TEMPERATURE,
    GEN_AI_CHOICES, GEN_AI_RESPONSE_ID, GEN_AI_RESPONSE_MODEL, GEN_AI_FINISH, GEN_AI_FIRST_CHUNK,
    GEN_AI_INPUT_TOKENS, GEN_AI_OUTPUT_TOKENS, GEN_AI_CACHED_TOKENS, SERVER_ADDRESS, SERVER_PORT, HTTP_STATUS,
    ERROR_TYPE, ROUTE_BACKEND, ATTEMPT_NUMBER, ATTEMPT_PHASE, ATTEMPT_ERROR,
)  # fmt: skip
"""Attributes of the span `{operation} {model}` of kind CLIENT: one backend tried. Usage is on the one that
answered, and nowhere else, so that sums over spans are right."""

EVENT_FIRST_TOKEN: Final = "first_token"  # noqa: S105 - of text, not of access
EVENT_QUEUED: Final = "queued"
EVENT_FAILOVER: Final = "failover"
EVENT_RESUME: Final = "resume"
EVENT_DISCONNECTED: Final = "client_disconnected"

EVENTS: Final[Mapping[str, str]] = {
    EVENT_FIRST_TOKEN: "On the attempt: the first event with a token arrived.",
    EVENT_QUEUED: "On the request, with `specroute.queue.wait`: all that it might go to were busy.",
    EVENT_FAILOVER: "On the request, with `specroute.failover.from`, `.to` and `error.type`.",
    EVENT_RESUME: "The same where the client had part of the answer, and the next backend went on with it.",
    EVENT_DISCONNECTED: "On the request: the client left. The attempt ends when the backend was let go.",
}


@dataclass(frozen=True, slots=True)
class GenAi:
    """The GenAI metrics under one version of the conventions.

    Attributes:
        usage: Counters of input, output and cached tokens; empty where the version has none.
        input_tokens: Histogram over requests.
        output_tokens: The same; in 1.41 one instrument holds both, told apart by ``gen_ai.token.type``.
    """

    duration: Metric
    first_chunk: Metric
    input_tokens: Metric
    output_tokens: Metric
    usage: tuple[Metric, ...]
    server_duration: Metric
    server_first_token: Metric
    server_per_token: Metric

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """All of them, each once."""
        return tuple(
            dict.fromkeys((
                self.duration, self.first_chunk, self.input_tokens, self.output_tokens, *self.usage,
                self.server_duration, self.server_first_token, self.server_per_token,
            ))
        )  # fmt: skip


GEN_AI_LABELS: Final = (GEN_AI_OPERATION.name, GEN_AI_PROVIDER.name, GEN_AI_MODEL.name)
_GEN_AI_ERROR: Final = (*GEN_AI_LABELS, ERROR_TYPE.name)


def _gen_ai_histogram(
    name: str, text: str, buckets: tuple[float, ...], labels: tuple[str, ...] = GEN_AI_LABELS, unit: str = "s"
) -> Metric:
    return Metric(f"gen_ai.{name}", HISTOGRAM, unit, text, labels, buckets)


_SERVER: Final = (
    _gen_ai_histogram(
        "server.request.duration", "Request as the gateway's client saw it.", _DURATION_BUCKETS, _GEN_AI_ERROR
    ),
    _gen_ai_histogram(
        "server.time_to_first_token", "From the request's head to the first token.", _TTFT_BUCKETS
    ),
    _gen_ai_histogram("server.time_per_output_token", "As `specroute.tpot`.", _TPOT_BUCKETS),
)
_DURATION_TEXT: Final = "The attempt that answered or was the last."
_CHUNK_TEXT: Final = "From dispatch of that attempt to the first event with a token."
_TOKENS_OLD: Final = _gen_ai_histogram(
    "client.token.usage", "Tokens of a request.", _TOKEN_BUCKETS, (*GEN_AI_LABELS, GEN_AI_TOKEN_TYPE.name),
    unit="{token}",
)  # fmt: skip

GENAI: Final[Mapping[str, GenAi]] = {
    "0.1.0": GenAi(
        _gen_ai_histogram("client.inference.duration", _DURATION_TEXT, _DURATION_BUCKETS, _GEN_AI_ERROR),
        _gen_ai_histogram("client.inference.time_to_first_chunk", _CHUNK_TEXT, _TTFT_BUCKETS),
        _gen_ai_histogram(
            "client.inference.operation.input_tokens", "Prompt tokens of a request.", _TOKEN_BUCKETS,
            unit="{token}",
        ),
        _gen_ai_histogram(
            "client.inference.operation.output_tokens", "Answer tokens of a request.", _TOKEN_BUCKETS,
            unit="{token}",
        ),
        tuple(
            Metric(f"gen_ai.client.inference.usage.{name}", COUNTER, "{token}", text, GEN_AI_LABELS)
            for name, text in (
                ("input_tokens", "Prompt tokens."),
                ("output_tokens", "Answer tokens."),
                ("cache_read.input_tokens", "Prompt tokens found in the cache."),
            )
        ),
        *_SERVER,
    ),
    "1.41": GenAi(
        _gen_ai_histogram("client.operation.duration", _DURATION_TEXT, _DURATION_BUCKETS, _GEN_AI_ERROR),
        _gen_ai_histogram("client.operation.time_to_first_chunk", _CHUNK_TEXT, _TTFT_BUCKETS),
        _TOKENS_OLD,
        _TOKENS_OLD,
        (),
        *_SERVER,
    ),
}  # fmt: skip
"""GenAI metrics by version of the conventions."""
