"""What a client is told whose request cannot be read: whole answers, ready to send."""

from __future__ import annotations

from typing import Final, NamedTuple

from gateway.wire import errors

TARGET_LIMIT: Final = 16 * 2**10
"""Longest path and query, in bytes."""

HEAD_LIMIT: Final = 64 * 2**10
"""Largest head, in bytes: path, query and headers, trailers included."""


class Refusal(NamedTuple):
    """Why a request cannot be read, and the whole answer that says so."""

    problem: errors.Problem
    answer: bytes


def _refusal(problem: errors.Problem, reason: str) -> Refusal:
    body = problem.body()
    head = f"HTTP/1.1 {problem.status} {reason}\r\ncontent-type: application/json\r\n"
    head += f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    return Refusal(problem, head.encode() + body)


UNREADABLE: Final = _refusal(errors.invalid("the request is not valid HTTP"), "Bad Request")
HOSTS: Final = _refusal(errors.invalid("a request says once which host it is for"), "Bad Request")
TARGET_TOO_LONG: Final = _refusal(
    errors.head_too_large(414, f"path and query are longer than {TARGET_LIMIT} bytes"), "URI Too Long"
)
HEAD_TOO_LARGE: Final = _refusal(
    errors.head_too_large(431, f"the headers are larger than {HEAD_LIMIT} bytes"),
    "Request Header Fields Too Large",
)
TOO_SLOW: Final = _refusal(errors.TOO_SLOW, "Request Timeout")
UNKNOWN_CODING: Final = _refusal(
    errors.unknown_coding("of the transfer encodings of a body only chunked is known"), "Not Implemented"
)
