"""Control routes for operators, beside the model list for clients: everything that is not relayed."""

from __future__ import annotations

from asyncio import to_thread
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.requests import ClientDisconnect

from gateway.core.classes import kept_in, service_of
from gateway.core.classify import classify
from gateway.core.decide import NoCandidate, decide
from gateway.core.features import extract
from gateway.core.identifiers import is_model
from gateway.core.labels import without_suffix
from gateway.core.stand_in import instead
from gateway.policy.explain import explain
from gateway.policy.learned import dump
from gateway.policy.load import Invalid, load_policy
from gateway.runtime import clock
from gateway.wire import errors, holding, inbound
from gateway.wire.endpoints import path_of
from gateway.wire.exchange import CLIENT_CLOSED
from gateway.wire.headers import REQUEST_ID
from gateway.wire.identity import draw, request_id
from gateway.wire.model_list import ModelList
from gateway.wire.status import backend_status, policy_status, told

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gateway.core.classify import Classifier
    from gateway.policy.explain import Explanation
    from gateway.runtime.acceptance import Acceptance
    from gateway.runtime.agreement import Agreement
    from gateway.runtime.draft_latency import DraftLatency
    from gateway.runtime.fleet import Fleet
    from gateway.runtime.learning import Learning
    from gateway.runtime.reload import Configuration
    from gateway.runtime.sessions import Sessions

CONTROL_PATHS: Final = frozenset(
    {"/healthz", "/readyz", "/health", "/metrics", "/status", "/ui", "/docs", "/openapi.json", "/v1/models"}
)
CONTROL_PREFIXES: Final = ("/-/", "/ui/", "/v1/models/")


Responses: TypeAlias = dict[int | str, dict[str, Any]]
"""Answers of a route beside the good one, as its description has them."""

_NOT_READY: Final[Responses] = {
    503: {"description": "No backend is available", "content": {"text/plain": {}}}
}
_TOO_LARGE: Final[Responses] = {413: {"description": "The body is too large"}}
_BAD_FILES: Final[Responses] = {
    422: {"description": "A file has mistakes", "content": {"application/json": {}}}
}
_BAD_REQUEST: Final[Responses] = {400: {"description": "The body is no request"}}
_TAKES_YAML: Final = {
    "requestBody": {"required": True, "content": {"application/yaml": {"schema": {"type": "string"}}}}
}
_GIVES_YAML: Final[Responses] = {200: {"content": {"application/yaml": {"schema": {"type": "object"}}}}}
_TAKES_JSON: Final = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}
}


class _Yaml(PlainTextResponse):
    media_type = "application/yaml"


def is_control(path: str) -> bool:
    """Whether the path is answered here instead of being relayed."""
    return path in CONTROL_PATHS or path.startswith(CONTROL_PREFIXES)


@dataclass(frozen=True, slots=True)
class Control:
    """The control routes over the objects of one gateway.

    Attributes:
        sessions: Tells what the answers before a request were.
        learning: What was learnt of the servers.
        agreement: How well the classifier does.
        acceptance: How far drafts are accepted, by grade.
        draft_latency: What drafting takes.
        exposition: Gives all metrics and their content type, in the format an ``Accept`` header asks for.
        seed: Of the routing draws.
        body_limit: Largest request body, in bytes.
    """

    configuration: Configuration
    fleet: Fleet
    classifier: Classifier
    sessions: Sessions
    learning: Learning
    agreement: Agreement
    acceptance: Acceptance
    draft_latency: DraftLatency
    exposition: Callable[[str], tuple[bytes, str]]
    seed: int
    body_limit: int

    def router(self) -> APIRouter:
        """All of them."""
        routes = APIRouter()
        routes.get("/healthz", response_class=PlainTextResponse)(self.healthz)
        routes.get("/health", include_in_schema=False)(self.healthz)
        routes.get("/readyz", response_class=PlainTextResponse, responses=_NOT_READY)(self.readyz)
        routes.get("/metrics", response_class=PlainTextResponse)(self.metrics)
        routes.get("/status")(self.status)
        routes.get("/-/policy")(self.policy)
        routes.post("/-/policy/check", openapi_extra=_TAKES_YAML, responses=_BAD_FILES | _TOO_LARGE)(
            self.check_policy
        )
        routes.get("/-/learned", response_class=_Yaml, responses=_GIVES_YAML)(self.learned)
        routes.post("/-/reload", responses=_BAD_FILES)(self.reload)
        routes.post("/-/decide", openapi_extra=_TAKES_JSON, responses=_BAD_REQUEST | _TOO_LARGE)(self.decide)
        routes.include_router(ModelList(self.configuration).router())
        return routes

    async def healthz(self) -> PlainTextResponse:
        """The process lives."""
        return PlainTextResponse("ok\n")

    async def readyz(self) -> PlainTextResponse:
        """At least one backend can take a request, at once or from the queue.

        One that is full or asked for a pause counts: whoever may wait must not be turned away before. So does
        a stand-in that any route asks for: it is there for the time when no server is.
        """
        now, snapshot = clock.monotonic(), self.fleet.snapshot
        asked = any(route.stand_ins for route in self.configuration.config.policy.routes)
        able = snapshot.everybody if asked else snapshot.states
        ready = any(state.healthy and state.breaker.until <= now for state in able)
        return PlainTextResponse("ready\n" if ready else "no backend is available\n", 200 if ready else 503)

    def metrics(self, request: Request) -> Response:
        """All metrics in Prometheus' text format, or as OpenMetrics with exemplars if asked for."""
        page, content_type = self.exposition(request.headers.get("accept", ""))
        return Response(page, media_type=content_type)

    async def status(self) -> dict[str, Any]:
        """What is in force and how every backend is."""
        return self.state()

    def state(self) -> dict[str, Any]:
        """What :meth:`status` answers."""
        now = clock.monotonic()
        snapshot = self.fleet.snapshot
        return {
            "policy": policy_status(self.configuration),
            "fleet": {
                "revision": snapshot.revision,
                "backends": [backend_status(state, now) for state in snapshot.states],
                "stand_ins": [backend_status(state, now) for state in snapshot.stand_ins],
            },
            "classifier": self.agreement.as_json(),
            "acceptance": self.acceptance.as_json(),
            "draft_latency": self.draft_latency.as_json(),
            "draft_latency_wanting": self.draft_latency.wanting(),
            "learning": self.learning.as_json(),
            "retries": {"left": round(self.fleet.retries_left, 1), "denied": self.fleet.denied},
        }

    async def policy(self) -> dict[str, Any]:
        """The policy in force, and why the file on disk is not, if it is not."""
        return policy_status(self.configuration)

    async def learned(self) -> _Yaml:
        """What was learnt of the servers, as a file that a policy can name."""
        return _Yaml(dump(self.learning.models))

    async def check_policy(self, request: Request, file: str = "policy.yaml") -> Response:
        """Check a policy, sent as the body, against the fleet in force; reads no file, changes nothing."""
        body = await self._body(request)
        if isinstance(body, errors.Problem):
            return _answer(body)
        text = body.decode(errors="replace")
        named = file if is_model(file) else "policy.yaml"
        loaded = await to_thread(load_policy, text, named, self.configuration.config.fleet)
        if isinstance(loaded, Invalid):
            return JSONResponse(
                {"ok": False, "problems": told(loaded.problems), "warnings": told(loaded.warnings)}, 422
            )
        revision = loaded.value.revision
        return JSONResponse(
            {"ok": True, "revision": revision, "problems": [], "warnings": told(loaded.warnings)}
        )

    async def reload(self) -> JSONResponse:
        """Read both files again now."""
        good = await self.configuration.reload()
        return JSONResponse(policy_status(self.configuration), 200 if good else 422)

    async def decide(self, request: Request, endpoint: str = "chat", path: str = "") -> Response:
        """Where a request with this body and these headers would go now, and why; nothing is sent.

        Without a path it counts as sent to the usual one of the endpoint.
        """
        body = await self._body(request)
        if isinstance(body, errors.Problem):
            return _answer(body)
        found = await self.explained(endpoint, path, body, dict(request.headers.raw))
        return _answer(found) if isinstance(found, errors.Problem) else JSONResponse(asdict(found))

    async def explained(
        self, endpoint: str, path: str, body: bytes, headers: Mapping[bytes, bytes]
    ) -> Explanation | errors.Problem:
        """What :meth:`decide` answers.

        Args:
            endpoint: Name of the endpoint.
            path: Of the request; the usual one of the endpoint if empty.
            body: Of the request.
            headers: Of the request, by lower-cased name.
        """
        seen, _ = await inbound.received(endpoint, body, headers, path or path_of(endpoint))
        if isinstance(seen, inbound.Malformed):
            return errors.invalid(seen.message)
        policy, snapshot = self.configuration.config.policy, self.fleet.snapshot
        asked = without_suffix(seen, policy.classifier, policy.aliases)
        features = extract(asked)
        before = self.sessions.before(features.hints, clock.monotonic())
        classification = classify(asked, features, policy.classifier, self.classifier, before)
        features = holding.bound(features, asked.path, policy, self.fleet, self.learning.homes, ())
        numbers = draw(request_id(headers.get(REQUEST_ID), list(headers.items())), self.seed)
        service = service_of(asked, policy.classes, trust=policy.trust_class)
        features = kept_in(features, asked, service, policy.classes)
        home = self.learning.homes.of(features.hints, clock.monotonic())
        now = clock.monotonic()
        decision = decide(features, classification, snapshot, policy, numbers, now, home, service)
        if isinstance(decision, NoCandidate):
            decision = instead(decision, features, policy, snapshot, now)
        reasons = self.classifier.reasons(asked, features, classification.label)
        return explain(features, classification, decision, policy, snapshot, reasons)

    async def _body(self, request: Request) -> bytes | errors.Problem:
        """The whole request body; a problem as soon as it is known to be larger than it may be."""
        if int(request.headers.get("content-length", 0)) > self.body_limit:
            return errors.too_large(self.body_limit)
        parts = bytearray()
        async for part in request.stream():
            parts += part
            if len(parts) > self.body_limit:
                return errors.too_large(self.body_limit)
        return bytes(parts)

    def model_names(self) -> list[str]:
        """Names that clients may send as ``model``."""
        return ModelList(self.configuration).names()


async def _left(request: Request, error: Exception) -> Response:  # noqa: ARG001 - as FastAPI calls it
    """The client left while it sent its request: nobody reads this."""
    return Response(status_code=CLIENT_CLOSED)


async def _invalid(request: Request, error: RequestValidationError) -> Response:  # noqa: ARG001 - as above
    """What is wrong with a field of the query, without what was sent in it: that may be a key."""
    told = [{name: each[name] for name in ("type", "loc", "msg")} for each in error.errors()]
    return JSONResponse({"detail": told}, 422)


HANDLERS: Final[dict[int | type[Exception], Any]] = {
    ClientDisconnect: _left,
    RequestValidationError: _invalid,
}
"""What becomes of exceptions that are no failures of ours."""


def _answer(problem: errors.Problem) -> Response:
    return Response(problem.body(), problem.status, media_type="application/json")
