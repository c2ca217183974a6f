"""Whether an answer that breaks off can be gone on with by another backend so that nobody sees the seam."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.core.features import Features

COPIED: Final = (
    "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "logit_bias", "ignore_eos",
    "stop_token_ids", "allowed_token_ids", "skip_special_tokens", "spaces_between_special_tokens",
    "priority", "user", "cache_salt",
)  # fmt: skip
"""Request fields that mean the same when the delivered tokens have become part of the prompt."""

_MADE_ANEW: Final = frozenset({
    "model", "prompt", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "n",
    "seed", "tools", "tool_choice", "response_format",
})  # fmt: skip
"""Fields that the request that goes on has in another form, or that :func:`obstacle` has looked at."""

_DONE_WITH: Final = frozenset({
    "add_generation_prompt", "add_special_tokens", "chat_template", "chat_template_kwargs",
    "continue_final_message", "documents", "reasoning_effort",
    "include_reasoning", "metadata", "parallel_tool_calls", "prompt_cache_key", "request_id",
    "safety_identifier", "service_tier", "store",
})  # fmt: skip
"""Fields that shape the prompt, which is known by its ids, or that change no token."""

_UNFIT: Final = {
    "frequency_penalty": "counts the tokens of the answer alone",
    "presence_penalty": "counts the tokens of the answer alone",
    "logprobs": "would have to be spliced",
    "top_logprobs": "would have to be spliced",
    "prompt_logprobs": "would have to be spliced",
    "stop": "may have held text back",
    "min_tokens": "counts the tokens of the answer alone",
    "bad_words": "may span the seam",
    "echo": "repeats the prompt",
    "best_of": "is no stream of one answer",
    "use_beam_search": "is no stream of one answer",
    "structured_outputs": "binds the answer from its beginning",
    "guided_json": "binds the answer from its beginning",
    "guided_regex": "binds the answer from its beginning",
    "guided_choice": "binds the answer from its beginning",
    "guided_grammar": "binds the answer from its beginning",
    "logits_processors": "may remember the answer",
}


def obstacle(features: Features) -> str | None:
    """Why an answer to this request could not be gone on with exactly, in words; None if it could."""
    if features.endpoint not in {"chat", "completions"} or not features.stream:
        return "only streams of chat and text completions can be gone on with"
    if features.n != 1:
        return "n is not 1"
    if unfit := sorted(features.parameters & _UNFIT.keys()):
        return f"{unfit[0]} {_UNFIT[unfit[0]]}"
    if "seed" in features.parameters and features.temperature != 0:
        return "a seed starts the sampling anew"
    if features.tools and features.tool_choice != "none":
        return "a tool call may have begun"
    if features.response_format != "text":
        return "response_format binds the answer from its beginning"
    return None


def obstacle_in(request: Mapping[str, object]) -> str | None:
    """The same by the request itself, which may say what no feature tells.

    What is not known to mean the same on the way is in the way: the list of fields grows with every version.

    Args:
        request: The body as JSON.
    """
    for name, value in request.items():
        known = name in _MADE_ANEW or name in _DONE_WITH or name in _UNFIT or name in COPIED
        if value is not None and not known:
            return f"{name} is not known to mean the same in the middle of an answer"
    prompt = request.get("prompt")
    if isinstance(prompt, list) and not all(isinstance(token, int) for token in prompt) and len(prompt) > 1:
        return "there are several prompts"
    options = request.get("stream_options")
    if isinstance(options, dict) and options.keys() - {"include_usage"}:
        return "stream_options asks for more than usage at the end"
    messages = request.get("messages")
    if not all(_is_text(message) for message in (messages if isinstance(messages, list) else ())):
        return "not all of the prompt is text"
    return None


def _is_text(message: object) -> bool:
    content = message.get("content") if isinstance(message, dict) else None
    parts = content if isinstance(content, list) else ()
    return all(
        isinstance(part, str) or (isinstance(part, dict) and part.get("type") == "text") for part in parts
    )
