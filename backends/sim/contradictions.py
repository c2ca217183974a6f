"""Refuses fields that contradict each other, before anything looks at their types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backends.sim.fields import RefusalError

if TYPE_CHECKING:
    from collections.abc import Mapping

_USAGE = 'Correct usage: `{"type": "function", "function": {"name": "my_function"}}`'


def look(body: Mapping[str, Any], *, chat: bool) -> None:
    """Look at a body.

    Raises:
        RefusalError: Fields contradict each other.
    """
    if chat:
        _generation_prompt(body)
        _tools(body)
    _logprobs(body, "top_logprobs" if chat else "logprobs")
    if chat and body.get("top_logprobs") is not None and body["top_logprobs"] and not body.get("logprobs"):
        raise _refusal("when using `top_logprobs`, `logprobs` must be set to true.", "top_logprobs")
    if body.get("stream_options") and not body.get("stream"):
        raise _refusal("Stream options can only be defined when `stream=True`.", "stream_options")
    format_ = body.get("response_format")
    if isinstance(format_, dict) and format_.get("type") == "json_schema" and not _given(format_):
        text = "When response_format type is 'json_schema', the 'json_schema' field must be provided."
        raise _refusal(text, "response_format")
    if body.get("allowed_token_ids") == []:
        text = "allowed_token_ids is not None and empty!"
        raise _refusal(text, "allowed_token_ids", [])
    if not chat and body.get("suffix") is not None:
        text = "suffix is only supported for models with FIM completion rendering"
        raise RefusalError(text, param="suffix")


def _given(format_: Mapping[str, Any]) -> bool:
    return format_.get("json_schema") is not None


def _generation_prompt(body: Mapping[str, Any]) -> None:
    if not body.get("continue_final_message"):
        return
    if body.get("add_generation_prompt"):
        raise RefusalError("Cannot set both `continue_final_message` and `add_generation_prompt` to True.")
    if "add_generation_prompt" not in body:
        raise RefusalError(
            "continue_final_message and add_generation_prompt are not compatible. Use continue_final_message "
            "when you want the model to continue the final message, and add_generation_prompt when you want "
            "to add a header that will prompt it to start a new assistant message instead."
        )


def _tools(body: Mapping[str, Any]) -> None:
    tools, choice = body.get("tools"), body.get("tool_choice")
    if tools == []:
        text = "Either provide at least one tool or omit the field entirely."
        raise _refusal(f"`tools` must not be an empty array. {text}", "tools")
    if choice is None or choice == "none":
        return
    if tools is None:
        raise _refusal("When using `tool_choice`, `tools` must be set.", "tool_choice")
    if isinstance(choice, dict):
        function = choice.get("function")
        if not isinstance(function, dict):
            text = f"Invalid value for `function`: `{function}` in `tool_choice`! {_USAGE}"
            raise _refusal(text, "tool_choice.function")
        if "name" not in function:
            text = f"Expected field `name` in `function` in `tool_choice`! {_USAGE}"
            raise _refusal(text, "tool_choice.function.name")
    elif choice not in ("auto", "required"):
        text = 'Only named tools, "none", "auto" or "required" are supported.'
        raise _refusal(f"Invalid value for `tool_choice`: {choice}! {text}", "tool_choice")


def _logprobs(body: Mapping[str, Any], own: str) -> None:
    for name in ("prompt_logprobs", own):
        number = body.get(name)
        if number is None:
            continue
        if not isinstance(number, (int, float)):
            raise _refusal(f"`{name}` must be an integer.", name, number)
        if name != own and body.get("stream") and (number > 0 or number == -1):
            raise _refusal("`prompt_logprobs` are not available when `stream=True`.", name)
        if number < 0 and number != -1:
            raise _refusal(f"`{name}` must be a positive value or -1.", name, number)


def _refusal(message: str, param: str, value: object = None) -> RefusalError:
    told = "" if value is None else f", value={value}"
    return RefusalError(f"{message} (parameter={param}{told})", param=param)
