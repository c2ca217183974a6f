"""Whether an answer that breaks off can be gone on with by another backend so that nobody sees the seam."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gateway.core.features import Features

COPIED: Final = (
    "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "logit_bias", "ignore_eos",
    "stop_token_ids", "skip_special_tokens", "spaces_between_special_tokens", "priority", "user",
)  # fmt: skip
"""Request fields that mean the same when the delivered tokens have become part of the prompt."""

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
