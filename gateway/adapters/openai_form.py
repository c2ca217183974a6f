"""Requests and answers of OpenAI's form to what a library takes and gives, and its failures to statuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from gateway.adapters.asked import FORMS, Chat
from gateway.runtime.foreign import UNREADABLE
from gateway.wire.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from gateway.wire.headers import Headers

_MATTER: Final = frozenset({
    "audio", "function_call", "functions", "logprobs", "modalities", "n", "response_format", "stop",
    "tool_choice", "tools", "top_logprobs",
})  # fmt: skip
"""Those without which an answer is not what was asked for; others are left out where a provider has none."""

_REFUSED: Final = frozenset({400, 413, 422})
"""Statuses with which a provider says that the request is at fault."""

_KEPT_NULL: Final = ("finish_reason", "logprobs")
"""Fields of a choice that are there, be it without a value."""

_LONGEST_REASON: Final = 200
"""Characters; a client might have the whole of its body come back."""

DONE: Final = b"data: [DONE]\n\n"


class Call(NamedTuple):
    """What the library is asked.

    Attributes:
        chat: Whether it is a chat, not a text completion.
        model: Provider and model.
        fields: Those of the request that are passed on.
    """

    chat: bool
    model: str
    fields: dict[str, Any]

    @property
    def stream(self) -> bool:
        """Whether the answer is asked for as a stream of events."""
        return self.fields.get("stream") is True

    def lacking(self, supported: Collection[str] | None) -> list[str]:
        """Fields of the request that matter and that the model's provider does not have.

        Args:
            supported: Those that it has; None where that is not known.
        """
        if supported is None:
            return []
        given = (
            name
            for name in sorted(_MATTER & self.fields.keys())
            if self.fields[name] not in (None, [], False)
        )
        return [name for name in given if name not in supported]


class UnfitError(ValueError):
    """A request that no hosted model is asked; the message says why."""


def call(url: str, body: bytes) -> Call | None:
    """What a request asks for; None where it is for another endpoint than hosted models have.

    Args:
        url: Scheme, provider, model, path and maybe a query.
        body: Of the request.

    Raises:
        UnfitError: It holds what may not be passed on, see :mod:`gateway.adapters.asked`.
    """
    address = url.partition("://")[2].partition("?")[0]
    for path, form in FORMS.items():
        if not address.endswith(path):
            continue
        try:
            asked = msgspec.json.decode(body, type=form)
        except UNREADABLE as error:
            raise UnfitError(_why(str(error))) from None
        return Call(form is Chat, address.removesuffix(path), msgspec.to_builtins(asked))
    return None


def _why(told: str) -> str:
    told = told[:_LONGEST_REASON]
    return (
        f"{told}; nothing is fetched by its address, so write it as a data: URL" if "^data:" in told else told
    )


def document(answer: Mapping[str, Any]) -> bytes:
    """A whole answer as a server sends it."""
    return msgspec.json.encode(_plain(answer))


def event(chunk: Mapping[str, Any]) -> bytes:
    """A chunk of a stream as a server sends it."""
    return b"data: " + document(chunk) + b"\n\n"


def _plain(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is empty or the library's own, but with all that clients of such a server read."""
    plain = _without_empty(answer)
    plain["choices"] = [_choice(one) for one in plain.get("choices") or ()]
    if isinstance(usage := plain.get("usage"), dict):
        usage.pop("cost", None)
    return plain


def _choice(choice: dict[str, Any]) -> dict[str, Any]:
    for name in _KEPT_NULL:
        choice.setdefault(name, None)
    if isinstance(message := choice.get("message"), dict):
        message.setdefault("content", None)
    elif "delta" not in choice:
        choice["text"] = choice.get("text") or ""
    return choice


def _without_empty(found: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, value in found.items():
        if value is None or name == "provider_specific_fields":
            continue
        if isinstance(value, dict):
            kept[name] = _without_empty(value)
        elif isinstance(value, list):
            kept[name] = [_without_empty(one) if isinstance(one, dict) else one for one in value]
        else:
            kept[name] = value
    return kept


class Refusal(NamedTuple):
    """An error answer: its status, headers and body."""

    status: int
    headers: Headers
    body: bytes


def refusal(error: Exception) -> Refusal:
    """What the library raised, as the answer of a server.

    What a provider says of a request goes to the client. That the key is wrong, the model unknown or the
    account empty is nothing that a client did, and what a provider says of it may hold the key.
    """
    status = getattr(error, "status_code", None)
    status = status if isinstance(status, int) and 400 <= status < 600 else 500
    if status in _REFUSED:
        problem = Problem(status, _said(error), "invalid_request_error", _code(error), _param(error))
        return _answer(problem)
    if status == 429:
        problem = Problem(
            429, "the stand-in's provider takes no more requests", "rate_limit_error", "rate_limited"
        )
        return _answer(problem, _retry_after(error))
    if status == 408:
        return _answer(
            Problem(504, "the stand-in did not answer in time", "server_error", "upstream_timeout")
        )
    told = f"the stand-in's provider failed ({type(error).__name__}, status {status})"
    return _answer(Problem(status if status >= 500 else 502, told, "server_error", "upstream_error"))


def unfit(why: str) -> Refusal:
    """The answer to a request that no hosted model is asked (501): servers may take it when they are back."""
    told = f"no server is available, and the stand-in cannot take this request: {why}"
    return _answer(Problem(501, told, "invalid_request_error", "unsupported_by_stand_in"))


def unsupported(names: Collection[str]) -> Refusal:
    """The answer to a request for what the provider does not have (501)."""
    told = f"the stand-in's provider does not have {', '.join(names)}"
    return _answer(Problem(501, told, "invalid_request_error", "unsupported_parameter"))


def _answer(problem: Problem, more: Headers | None = None) -> Refusal:
    return Refusal(problem.status, [*problem.response_headers(), *(more or [])], problem.body())


def _said(error: Exception) -> str:
    body = getattr(error, "body", None)
    message = body.get("message") if isinstance(body, dict) else None
    return message if isinstance(message, str) else str(error)


def _code(error: Exception) -> str:
    code = getattr(error, "code", None)
    return code if isinstance(code, str) else "invalid_request"


def _param(error: Exception) -> str | None:
    param = getattr(error, "param", None)
    return param if isinstance(param, str) else None


def _retry_after(error: Exception) -> Headers:
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    after = headers.get("retry-after")
    return [(b"retry-after", after.encode("latin-1", "replace"))] if isinstance(after, str) else []
