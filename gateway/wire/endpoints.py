"""Which endpoint a request is for."""

from __future__ import annotations

from typing import Final

OTHER: Final = "other"
"""Name of all that are not known."""

_BY_PATH: Final = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "completions",
    "/v1/responses": "responses",
    "/v1/messages": "messages",
    "/v1/embeddings": "embeddings",
    "/pooling": "embeddings",
    "/tokenize": "tokenize",
    "/v1/messages/count_tokens": "tokenize",
    "/detokenize": "detokenize",
    "/rerank": "rerank",
    "/v1/rerank": "rerank",
    "/v2/rerank": "rerank",
    "/score": "score",
    "/v1/score": "score",
    "/classify": "score",
}


_USUAL: Final = {endpoint: path for path, endpoint in reversed(_BY_PATH.items())}


def endpoint_of(method: str, path: str) -> str:
    """Name of the endpoint, one of :data:`gateway.core.features.ENDPOINTS`."""
    if method != "POST":
        return OTHER
    known = _BY_PATH.get(path)
    if known is not None:
        return known
    return "audio" if path.startswith("/v1/audio/") else OTHER


def path_of(endpoint: str) -> str:
    """The path that requests of an endpoint usually have; ``""`` where there are many."""
    return _USUAL.get(endpoint, "")
