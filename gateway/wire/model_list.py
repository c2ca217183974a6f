"""The models that clients may name, and who may read of them in a browser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from gateway.core.identifiers import is_model
from gateway.wire import errors
from gateway.wire.headers import FOR_ANY_ORIGIN, ORIGIN

if TYPE_CHECKING:
    from gateway.runtime.reload import Configuration

_ORIGIN: Final = ORIGIN.decode()
_SHARED: Final = {FOR_ANY_ORIGIN[0].decode(): FOR_ANY_ORIGIN[1].decode()}
_PREFLIGHT_SECONDS: Final = 600
_NO_MODEL: Final[dict[int | str, dict[str, Any]]] = {404: {"description": "There is no such model"}}


@dataclass(frozen=True, slots=True)
class ModelList:
    """The routes of the models, which are the same whichever server answers.

    Pages of other sites may read them, as they may at a vLLM server that was not told otherwise.
    """

    configuration: Configuration

    def router(self) -> APIRouter:
        """All of them."""
        routes = APIRouter()
        routes.get("/v1/models")(self.models)
        routes.get("/v1/models/{name:path}", responses=_NO_MODEL)(self.model)
        for path in ("/v1/models", "/v1/models/{name:path}"):
            routes.options(path, include_in_schema=False)(self.preflight)
        return routes

    async def models(self, request: Request) -> Response:
        """Names that clients may send as ``model``."""
        data = [self._model(name) for name in self.names()]
        return JSONResponse({"object": "list", "data": data}, headers=_shared(request))

    async def model(self, name: str, request: Request) -> Response:
        """One of them."""
        if name in self.names():
            return JSONResponse(self._model(name), headers=_shared(request))
        named = f"`{name}`" if is_model(name) else "asked for"
        problem = errors.no_such_model(f"The model {named} does not exist")
        return Response(problem.body(), problem.status, _shared(request), media_type="application/json")

    async def preflight(self, request: Request) -> Response:
        """What a browser wants to know before it asks for a page of another site."""
        wanted = request.headers.get("access-control-request-headers", "*")
        allowed = {
            "access-control-allow-methods": "GET",
            "access-control-allow-headers": wanted,
            "access-control-max-age": str(_PREFLIGHT_SECONDS),
        }
        return Response(headers=_shared(request) | allowed)

    def names(self) -> list[str]:
        """Names that clients may send as ``model``."""
        config = self.configuration.config
        targets = {backend.target for backend in config.fleet.backends}
        return [*config.policy.aliases, *sorted(targets - config.policy.aliases.keys())]

    def _model(self, name: str) -> dict[str, Any]:
        config = self.configuration.config
        target = config.policy.aliases.get(name, name)
        lengths = [
            backend.max_model_len
            for backend in config.fleet.backends
            if backend.target == target and backend.max_model_len is not None
        ]
        return {
            "id": name,
            "object": "model",
            "created": 0,
            "owned_by": "specroute",
            "root": target,
            "parent": None,
            "max_model_len": max(lengths, default=None),
        }


def _shared(request: Request) -> dict[str, str]:
    return _SHARED if _ORIGIN in request.headers else {}
