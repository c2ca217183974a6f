"""What the mock upstream answers, byte for byte as a vLLM 0.32 server frames it, and what the load expects of it."""

from __future__ import annotations

import json
import re
from typing import Any, Final

MODEL: Final = "bench-model"
TEXT: Final = "The quick brown fox jumps over the lazy dog and keeps going."

STAMP: Final = re.compile(rb"@(\d{20})")
"""When a chunk left the mock: nanoseconds of the monotonic clock, which all processes of a machine share."""

DONE: Final = b"data: [DONE]\n\n"
STREAM_END: Final = b"e\r\n" + DONE + b"\r\n0\r\n\r\n"

STREAM_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ndate: Sun, 29 Nov 2026 21:32:08 GMT\r\nserver: uvicorn\r\n"
    b"content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)

_ID: Final = "chatcmpl-93d468b987394cf6"
_CREATED: Final = 1795988245
_USAGE: Final = {"prompt_tokens": 120, "total_tokens": 248, "completion_tokens": 128}
_METRICS: Final = {
    "time_to_first_token_ms": 10.303625999995347,
    "generation_time_ms": 322.12847599998895,
    "queue_time_ms": 0.030153999887261307,
    "speculative_decoding": {
        "mean_acceptance_length": 2.0,
        "draft_acceptance_rate": 0.3333,
        "acceptance_histogram": [20, 24, 20, 0],
        "num_spec_steps": 64,
        "num_accepted_draft_tokens": 64,
        "num_draft_tokens": 192,
        "num_spec_tokens": 3,
    },
}


def reply(body: bytes, content_type: str = "application/json", status: str = "200 OK") -> bytes:
    """A whole answer with a known length."""
    head = (
        f"HTTP/1.1 {status}\r\ndate: Sun, 29 Nov 2026 21:32:08 GMT\r\nserver: uvicorn\r\n"
        f"content-length: {len(body)}\r\ncontent-type: {content_type}\r\n\r\n"
    )
    return head.encode() + body


def _compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _frame(event: bytes) -> bytes:
    """An event as one chunk of a chunked body."""
    data = b"data: " + event + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


def _chunk(*choices: dict[str, Any], **more: Any) -> bytes:
    head = {"id": _ID, "object": "chat.completion.chunk", "created": _CREATED, "model": MODEL}
    return _frame(_compact({**head, "choices": choices, **more}))


def _content(finish_reason: str | None, **more: Any) -> tuple[bytes, bytes]:
    """A chunk with text, as what comes before and after its time stamp."""
    choice = {
        "index": 0,
        "delta": {"content": " token @" + "0" * 20},
        "logprobs": None,
        "finish_reason": finish_reason,
        **more,
        "token_ids": None,
    }
    before, _, after = _chunk(choice).partition(b"0" * 20)
    return before, after


ROLE: Final = _chunk(
    {
        "index": 0,
        "delta": {"role": "assistant", "content": ""},
        "logprobs": None,
        "finish_reason": None,
    },
    prompt_token_ids=None,
    prompt_text=None,
)
CONTENT: Final = _content(None)
LAST_CONTENT: Final = _content("stop", stop_reason=None)
USAGE: Final = _chunk(usage=_USAGE, system_fingerprint="vllm-0.32.0-e5ae607b", metrics=_METRICS)

COMPLETION: Final = reply(
    _compact(
        {
            "id": _ID,
            "object": "chat.completion",
            "created": _CREATED,
            "model": MODEL,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": TEXT, "refusal": None, "tool_calls": []},
                    "logprobs": None,
                    "finish_reason": "stop",
                    "stop_reason": None,
                    "token_ids": None,
                }
            ],
            "usage": {**_USAGE, "prompt_tokens_details": None},
            "prompt_logprobs": None,
            "metrics": _METRICS,
        }
    )
)


def _metrics() -> bytes:
    lines = []
    for name, kind, value in (
        ("vllm:num_requests_running", "gauge", 3),
        ("vllm:num_requests_waiting", "gauge", 0),
        ("vllm:kv_cache_usage_perc", "gauge", 0.01),
        ("vllm:prefix_cache_queries_total", "counter", 800),
        ("vllm:prefix_cache_hits_total", "counter", 400),
        ("vllm:request_success_total", "counter", 100),
    ):
        lines += [f"# HELP {name} of the mock.", f"# TYPE {name} {kind}"]
        lines.append(f'{name}{{engine="0",model_name="{MODEL}"}} {value}')
    return "\n".join([*lines, ""]).encode()


_CARD: Final = {"id": MODEL, "object": "model", "created": _CREATED, "owned_by": "vllm", "root": MODEL}
_INFO: Final = {"model_path": MODEL, "served_model_name": MODEL, "version": "0.32.0", "is_generation": True}

ROUTES: Final = {
    "/v1/models": reply(_compact({"object": "list", "data": [{**_CARD, "max_model_len": 131072}]})),
    "/metrics": reply(_metrics(), "text/plain; version=0.0.4; charset=utf-8"),
    "/version": reply(_compact({"version": "0.32.0"})),
    "/get_model_info": reply(_compact(_INFO)),
    "/model_info": reply(_compact(_INFO)),
    "/get_server_info": reply(_compact(_INFO)),
    "/server_info": reply(_compact(_INFO)),
    "/health": reply(b"", "text/plain"),
    "/health_generate": reply(b"", "text/plain"),
    # An OTLP collector that takes everything.
    "/v1/traces": reply(b"", "application/x-protobuf"),
    "/v1/metrics": reply(b"", "application/x-protobuf"),
}
"""Answers to everything but completions; routers ask several of these before they trust a backend."""

NOT_FOUND: Final = reply(b'{"detail":"Not Found"}', status="404 Not Found")
