"""Parameters that some server might not take, and what becomes of a request that has one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.vllm import chain
from tests.vllm.asking import Answer, ask

if TYPE_CHECKING:
    from collections.abc import Mapping

_SCHEMA: Final = {"type": "object", "properties": {"n": {"type": "boolean"}}, "required": ["n"]}
_TOOL: Final = {"type": "function", "function": {"name": "look", "parameters": _SCHEMA}}
_SAMPLED: Final = {"temperature": 0.5, "seed": 7}

PARAMETERS: Final[Mapping[str, dict[str, Any]]] = {
    "min_p": {**_SAMPLED, "extra_body": {"min_p": 0.1}},
    "logit_bias": {"logit_bias": {"50": 1}},
    "logprobs": {"logprobs": True, "top_logprobs": 2},
    "prompt_logprobs": {"extra_body": {"prompt_logprobs": 1}},
    "n": {**_SAMPLED, "n": 2},
    "response_format": {
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": _SCHEMA}}
    },
    "structured_outputs": {"extra_body": {"structured_outputs": {"choice": ["yes", "no"]}}},
    "tools": {"tools": [_TOOL]},
    "tool_choice": {"tools": [_TOOL], "tool_choice": "required"},
    "presence_penalty": {"presence_penalty": 0.5},
    "repetition_penalty": {"extra_body": {"repetition_penalty": 1.2}},
    "bad_words": {"extra_body": {"bad_words": ["zu"]}},
    "allowed_token_ids": {"extra_body": {"allowed_token_ids": [chain.LOOPING, chain.LOOPING + 1]}},
    "min_tokens": {"extra_body": {"min_tokens": 8}},
    "stop": {"stop": [" zu"]},
    "seed": {"seed": 7},
}
"""What a request is given, by the parameter that matters."""

ACCEPTED: Final = "accepted"
REFUSED: Final = "refused"
FAILED: Final = "failed"
DEGRADED: Final = "degraded"
"""Answered, but not as the server without speculation answers a greedy request."""


def request(parameter: str, url: str, **more: Any) -> Answer:
    """Ask for a short answer with this parameter."""
    return ask(url, chain.UNREPEATED, **{"max_tokens": 24, **PARAMETERS[parameter], **more})


def verdict(parameter: str, answer: Answer, baseline: Answer) -> str:
    """What became of a request, by the answer of a server without speculation to the same."""
    if answer.status != 200:
        return REFUSED if 400 <= answer.status < 500 else FAILED
    if baseline.status != 200 or "temperature" in PARAMETERS[parameter]:
        return ACCEPTED  # what is sampled differs from method to method
    return ACCEPTED if _told(answer) == _told(baseline) else DEGRADED


def _told(answer: Answer) -> list[Any]:
    """What an answer says, without ids and without log-probabilities' last digits."""
    return [
        (
            choice["finish_reason"],
            choice["message"]["content"],
            [call["function"] for call in choice["message"].get("tool_calls") or ()],
            [
                (token["token"], round(token["logprob"], 1))
                for token in (choice.get("logprobs") or {}).get("content") or ()
            ],
        )
        for choice in answer.json()["choices"]
    ]
