"""Hosted models through LiteLLM, one more implementation of the seam to backends.

LiteLLM takes seven seconds and 225 MB to import, so it is imported once a fleet has a stand-in, in a thread.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Any, Final

import httpx

from gateway.adapters import openai_form
from gateway.adapters.openai_form import DONE, Refusal
from gateway.runtime import tasks
from gateway.wire import headers as names
from gateway.wire.pulled import PulledResponse
from gateway.wire.upstream import CLOSE_SECONDS, UpstreamError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from types import ModuleType

    from gateway.adapters.openai_form import Call
    from gateway.core.fleet import Backend
    from gateway.wire.headers import Headers
    from gateway.wire.upstream import UpstreamRequest

_log = logging.getLogger(__name__)

_LONGEST: Final = 86_400.0
"""Seconds that LiteLLM is given: the gateway's own limits end a request long before."""

_JSON: Final = [(b"content-type", b"application/json")]
_EVENTS: Final = [(b"content-type", b"text/event-stream; charset=utf-8")]
_LOGGERS: Final = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")


class LiteLlmUpstream:
    """Asks hosted models. Connections are LiteLLM's own."""

    def __init__(self) -> None:
        self._loading: asyncio.Task[ModuleType] | None = None

    def prepare(self, stand_ins: Sequence[Backend]) -> None:
        """Begin to import LiteLLM where a fleet has stand-ins, so that no request has to wait for it."""
        if stand_ins:
            self._library()

    async def send(self, request: UpstreamRequest, connect_timeout: float) -> LiteLlmResponse:
        """See :class:`~gateway.wire.upstream.Upstream`."""
        try:
            library = await asyncio.shield(self._library())
        except ImportError as error:
            raise UpstreamError("sent", "protocol", f"LiteLLM cannot be imported: {error}") from error
        try:
            call = openai_form.call(request.url, request.body)
        except openai_form.UnfitError as error:
            return LiteLlmResponse.of(openai_form.unfit(str(error)))
        if call is None:
            raise UpstreamError("sent", "protocol", "a stand-in answers chat and text completions only")
        if lacking := call.lacking(library.get_supported_openai_params(model=call.model)):
            return LiteLlmResponse.of(openai_form.unsupported(lacking))
        request.sent.done = True
        try:
            answer = await _ask(library, call, _key(request.headers), connect_timeout)
        except Exception as error:  # noqa: BLE001 - LiteLLM's own have no class in common
            return LiteLlmResponse.of(_failed(call, error))
        if not call.stream:
            return LiteLlmResponse(200, _JSON, whole=openai_form.document(answer.model_dump()))
        return await _begun(call, answer)

    async def close(self) -> None:
        """See :class:`~gateway.wire.upstream.Upstream`. An import under way ends by itself."""

    def _library(self) -> asyncio.Task[ModuleType]:
        if self._loading is None:
            self._loading = tasks.spawn(asyncio.to_thread(_import), name="import LiteLLM")
        return self._loading


class LiteLlmResponse(PulledResponse):
    """See :class:`~gateway.wire.upstream.UpstreamResponse`."""

    def __init__(
        self,
        status: int,
        headers: Headers,
        *,
        whole: bytes = b"",
        stream: Any = None,  # noqa: ANN401 - LiteLLM's
        first: Any = None,  # noqa: ANN401 - LiteLLM's
    ) -> None:
        self._whole = whole
        self._stream = stream
        self._first = first
        super().__init__(status, [*headers], self._read())

    @classmethod
    def of(cls, refusal: Refusal) -> LiteLlmResponse:
        """An answer that is an error."""
        return cls(refusal.status, refusal.headers, whole=refusal.body)

    async def close(self) -> None:
        """See :class:`~gateway.wire.upstream.UpstreamResponse`."""
        if self._stream is not None:
            await _close(self._stream)

    async def _read(self) -> AsyncGenerator[bytes, None]:
        if self._stream is None:
            yield self._whole
            return
        if self._first is not None:
            yield openai_form.event(self._first.model_dump())
        try:
            async for chunk in self._stream:
                yield openai_form.event(chunk.model_dump())
        except Exception as error:
            raise UpstreamError("first_byte", "reset", type(error).__name__) from error
        yield DONE


async def _ask(library: ModuleType, call: Call, key: str | None, connect_timeout: float) -> Any:  # noqa: ANN401 - LiteLLM's
    ask = library.acompletion if call.chat else library.atext_completion
    return await ask(
        **call.fields,
        model=call.model,
        api_key=key,
        num_retries=0,  # whether another attempt follows is for the gateway to say
        timeout=httpx.Timeout(_LONGEST, connect=connect_timeout),
        # What is left out then only shades the answer: what matters was looked at before.
        drop_params=True,
    )


async def _begun(call: Call, stream: Any) -> LiteLlmResponse:  # noqa: ANN401 - LiteLLM's
    """The stream once its first chunk is there: some providers say only then that they refuse."""
    try:
        first = await anext(stream, None)
    except asyncio.CancelledError:
        await _close(stream)
        raise
    except Exception as error:  # noqa: BLE001 - LiteLLM's own have no class in common
        return LiteLlmResponse.of(_failed(call, error))
    return LiteLlmResponse(200, _EVENTS, stream=stream, first=first)


def _failed(call: Call, error: Exception) -> Refusal:
    """What a failure is to the client; the log has the rest, without what the provider says of it."""
    refusal = openai_form.refusal(error)
    if refusal.status >= 500:
        status = getattr(error, "status_code", "none")
        _log.warning("stand-in %s failed: %s, status %s", call.model, type(error).__name__, status)
    return refusal


async def _close(stream: Any) -> None:  # noqa: ANN401 - LiteLLM's
    """End a stream at its provider; that of text completions has it within."""
    closing = getattr(stream, "aclose", None) or getattr(stream.completion_stream, "aclose", None)
    if closing is not None:
        await tasks.bounded(closing(), within=CLOSE_SECONDS, name="close a stream of a stand-in")


def _key(headers: Headers) -> str | None:
    """The stand-in's own key; LiteLLM looks for one in the environment where there is none."""
    value = names.first(headers, b"authorization")
    return None if value is None else value.decode("latin-1").removeprefix("Bearer ")


def _import() -> ModuleType:
    """LiteLLM, told to keep to itself."""
    # Prices, and what Anthropic takes, are shipped with it; it would fetch them from elsewhere.
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ["LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS"] = "True"
    # Else it reads a file .env of the folder into the environment.
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
    import litellm  # noqa: PLC0415 - seven seconds that only stand-ins need

    litellm.telemetry = False
    litellm.suppress_debug_info = True  # it prints advice otherwise
    for name in _LOGGERS:  # the gateway's log has a form of its own
        logging.getLogger(name).handlers.clear()
    library: ModuleType = litellm
    return library
