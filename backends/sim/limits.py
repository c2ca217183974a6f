"""Refuses values that are of the right type and still cannot be served."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from backends.sim import tokens
from backends.sim.fields import RefusalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backends.sim.call import Call
    from backends.sim.prompt import Prompt

_MAX_CHOICES: Final = 16_384
_MAX_LOGPROBS: Final = 20
_GREEDY: Final = 1e-5  # temperatures below it are none
_HOTTEST: Final = 2


def check(call: Call, *, served: Sequence[str], max_model_len: int, drafts: bool, auto_tools: bool) -> None:
    """Refuse values that no prompt can make right.

    Args:
        call: What was asked.
        served: Names the server answers to.
        max_model_len: Context length in tokens.
        drafts: Whether the server speculates, so that some sampling parameters are refused.
        auto_tools: Whether the server was started with a tool call parser.

    Raises:
        RefusalError: A value is out of range or not served here.
    """
    check_model(call.model, served)
    if call.tools and call.tool_choice == "auto" and not auto_tools:
        raise RefusalError(
            '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
        )
    if call.media:
        raise RefusalError(f"{served[0]} is not a multimodal model")
    asked = call.max_tokens
    if asked is not None and asked > max_model_len:
        text = f"max_tokens={asked} cannot be greater than max_model_len={max_model_len}."
        raise _out_of_range("max_tokens", asked, f"{text} Please request fewer output tokens.")
    if call.n < 1:
        raise RefusalError(f"n must be at least 1, got {call.n}.")
    if call.n > _MAX_CHOICES:
        advice = "To increase this limit, set the VLLM_MAX_N_SEQUENCES environment variable."
        raise RefusalError(f"n must be at most {_MAX_CHOICES}, got {call.n}. {advice}")
    _check_sampling(call)
    if drafts and (call.min_p > 0 or call.logit_bias):
        raise RefusalError(
            "The min_p and logit_bias sampling parameters are not yet supported with speculative decoding."
        )


def _check_sampling(call: Call) -> None:
    """Refuse sampling parameters that no model takes, in the order in which a real server looks."""
    wrong = [key for key in call.logit_bias if not key.strip().removeprefix("-").isdecimal()]
    if wrong:
        text = f"logit_bias contains key(s) that cannot be converted to integer token IDs: {wrong!r}"
        raise RefusalError(f"{text} (parameter=logit_bias, value={wrong!r})", param="logit_bias")
    heat, top_p, penalty = call.temperature, call.top_p, call.repetition_penalty
    least, asked = call.min_tokens, call.max_tokens
    for name, value, allowed, rule, told in (
        ("presence_penalty", call.presence_penalty, -2 <= call.presence_penalty <= 2, "in [-2, 2]", False),
        ("frequency_penalty", call.frequency_penalty, -2 <= call.frequency_penalty <= 2, "in [-2, 2]", False),
        ("repetition_penalty", penalty, math.isfinite(penalty), "a finite number", False),
        ("repetition_penalty", penalty, penalty > 0, "greater than zero", False),
        ("temperature", heat, math.isfinite(heat), "a finite number", True),
        ("temperature", heat, heat >= 0, "non-negative", True),
        ("temperature", heat, heat <= _HOTTEST, "in [0, 2]", True),
        ("top_p", top_p, 0 < top_p <= 1, "in (0, 1]", True),
        ("top_k", call.top_k, call.top_k >= -1, "0 (disable), or at least 1", False),
        ("min_p", call.min_p, 0 <= call.min_p <= 1, "in [0, 1]", False),
        ("max_tokens", asked, asked is None or asked >= (0 if call.echo else 1), "at least 1", True),
        ("min_tokens", least, least >= 0, "greater than or equal to 0", False),
        ("min_tokens", least, asked is None or least <= max(asked, 1),
         f"less than or equal to max_tokens={asked}", False),
    ):  # fmt: skip
        if not allowed:
            message = f"{name} must be {rule}, got {value}."
            raise _out_of_range(name, value, message) if told else RefusalError(message)
    if "" in call.stop:
        raise RefusalError("stop cannot contain an empty string.")
    if heat < _GREEDY and call.n > 1:
        raise RefusalError(f"n must be 1 when using greedy sampling, got {call.n}.")
    number = tokens.VOCABULARY if call.logprobs == -1 else call.logprobs
    if number is not None and number > _MAX_LOGPROBS:
        most = f"which is greater than max allowed: {_MAX_LOGPROBS}"
        raise _out_of_range("logprobs", number, f"Requested sample logprobs of {number}, {most}")


def check_model(name: str | None, served: Sequence[str]) -> None:
    """Refuse a model that is not served; no name, also an empty one, means the served one.

    Raises:
        RefusalError: It is not served.
    """
    if name and name not in served:
        names = ", ".join(served)
        raise RefusalError(
            f"The model `{name}` does not exist. Valid aliases: {names}.",
            param="model", kind="NotFoundError", status=404,
        )  # fmt: skip


def check_rank(asked: str | None) -> None:
    """Refuse a data parallel rank that a server of one rank does not have; what is no number is ignored.

    Raises:
        RefusalError: It is another rank than 0.
    """
    try:
        rank = int(asked or 0)
    except ValueError:
        return
    if rank:
        raise RefusalError(f"data_parallel_rank {rank} is out of range [0, 1).")


def check_length(prompt: Prompt, max_tokens: int | None, max_model_len: int) -> None:
    """Refuse a prompt that leaves no room for the answer.

    A text is looked at by its characters first, and then cut to one token too many.

    Raises:
        RefusalError: Prompt and answer do not fit into ``max_model_len`` tokens.
    """
    limit = f"This model's maximum context length is {max_model_len} tokens. However, "
    advice = "Please reduce the length of the input prompt"
    length, most = len(prompt.text), max_model_len * tokens.LONGEST
    if prompt.given is None and length > most:
        text = (
            f"{limit}your prompt contains {length} characters (more than {most} characters, which is the "
            f"upper bound for {max_model_len} input tokens). {advice}."
        )
        raise _out_of_range("input_text", length, text)
    count = prompt.count
    if count >= max_model_len:
        if prompt.given is None:
            count = min(count, max_model_len + 1)
        bound = "at least " if count == max_model_len + 1 else ""
        text = (
            f"{limit}your prompt contains {bound}{count} input tokens, which exceeds this limit even "
            f"without any output tokens. {advice}."
        )
        raise _out_of_range("input_tokens", count, text)
    if max_tokens is not None and count + max_tokens > max_model_len:
        text = (
            f"{limit}you requested {max_tokens} output tokens and your prompt contains at least "
            f"{count} input tokens, for a total of at least {count + max_tokens} tokens. "
            f"{advice} or the number of requested output tokens."
        )
        raise _out_of_range("input_tokens", count, text)


def _out_of_range(name: str, value: float | None, message: str) -> RefusalError:
    return RefusalError(f"{message} (parameter={name}, value={value})", param=name)
