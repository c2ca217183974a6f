"""Reads a request body into a call, or refuses it in the words and codes of a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from backends.sim.call import Call, Tool
from backends.sim.fields import Fields, RefusalError, decode
from backends.sim.look import ASIDE

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_CHOICES: Final = 16_384
_MAX_LOGPROBS: Final = 20
_ROLES: Final = (
    ("ChatCompletionDeveloperMessageParam", ("role",)),
    ("ChatCompletionSystemMessageParam", ("role",)),
    ("ChatCompletionUserMessageParam", ("role",)),
    ("ChatCompletionAssistantMessageParam", ("role",)),
    ("ChatCompletionToolMessageParam", ("role", "tool_call_id")),
    ("ChatCompletionFunctionMessageParam", ("name", "role")),
    ("CustomChatCompletionMessageParam", ("role",)),
    ("Message", ("author", "role")),
)


def fields_of(raw: bytes, content_type: str) -> Fields:
    """Open a body.

    Raises:
        RefusalError: It is no JSON, or not said to be.
    """
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise RefusalError(
            "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed",
            kind="Bad Request",
        )
    return Fields(decode(raw))


def call_of(fields: Fields, *, chat: bool) -> Call:
    """Read the fields of a body.

    Raises:
        RefusalError: A field is missing or of a wrong type, or fields contradict each other.
    """
    body = fields.body
    stream = fields.boolean("stream")
    options = fields.mapping("stream_options")
    max_tokens = fields.integer("max_tokens", default=None if chat else 16)
    if chat:
        newer = fields.integer("max_completion_tokens")
        max_tokens = max_tokens if newer is None else newer
        wanted = fields.boolean("logprobs")
        top = fields.integer("top_logprobs", default=0)
        logprobs = top if wanted else None
    else:
        top, wanted = None, True
        logprobs = fields.integer("logprobs")
    format_ = fields.mapping("response_format")
    schema = format_.get("json_schema")
    tools = _tools(fields)
    metadata = body.get("metadata")  # a real server ignores it
    aside = metadata.get(ASIDE) if isinstance(metadata, dict) else None
    n = fields.integer("n", default=1)
    call = Call(
        chat=chat,
        model=fields.string("model"),
        messages=messages_of(fields) if chat else (),
        prompts=() if chat else _prompts(fields),
        stream=stream,
        include_usage=bool(options.get("include_usage")),
        continuous_usage=bool(options.get("include_usage") and options.get("continuous_usage_stats")),
        n=1 if n is None else n,
        max_tokens=max_tokens,
        temperature=fields.number("temperature", 1.0),
        top_p=fields.number("top_p", 1.0),
        min_p=fields.number("min_p", 0.0),
        logit_bias=bool(body.get("logit_bias")),
        seed=fields.integer("seed"),
        stop=fields.texts("stop"),
        include_stop=fields.boolean("include_stop_str_in_output"),
        ignore_eos=fields.boolean("ignore_eos"),
        echo=not chat and fields.boolean("echo"),
        logprobs=logprobs,
        return_token_ids=fields.boolean("return_token_ids"),
        tools=tools,
        tool_choice=_tool_choice(fields, tools),
        format=str(format_.get("type", "text")),
        schema=schema.get("schema") if isinstance(schema, dict) else None,
        aside=aside if isinstance(aside, str) else None,
    )
    fields.raise_if_invalid()
    if options and not stream:
        raise RefusalError(
            "Stream options can only be defined when `stream=True`. (parameter=stream_options)",
            param="stream_options",
        )
    if top and not wanted:
        raise RefusalError("when using `top_logprobs`, `logprobs` must be set to true.", param="top_logprobs")
    return call


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
    asked = call.max_tokens
    if asked is not None and asked > max_model_len:
        text = f"max_tokens={asked} cannot be greater than max_model_len={max_model_len}."
        raise _out_of_range("max_tokens", asked, f"{text} Please request fewer output tokens.")
    if call.n < 1:
        raise RefusalError(f"n must be at least 1, got {call.n}.")
    if call.n > _MAX_CHOICES:
        advice = "To increase this limit, set the VLLM_MAX_N_SEQUENCES environment variable."
        raise RefusalError(f"n must be at most {_MAX_CHOICES}, got {call.n}. {advice}")
    for name, value, allowed, rule in (
        ("temperature", call.temperature, call.temperature >= 0, "must be non-negative"),
        ("top_p", call.top_p, 0 < call.top_p <= 1, "must be in (0, 1]"),
        ("min_p", call.min_p, 0 <= call.min_p <= 1, "must be in [0, 1]"),
        ("max_tokens", asked, asked is None or asked >= 1, "must be at least 1"),
    ):
        if not allowed:
            raise _out_of_range(name, value, f"{name} {rule}, got {value}.")
    if call.logprobs is not None and call.logprobs > _MAX_LOGPROBS:
        most = f"which is greater than max allowed: {_MAX_LOGPROBS}"
        text = f"Requested sample logprobs of {call.logprobs}, {most}"
        raise _out_of_range("logprobs", call.logprobs, text)
    if drafts and (call.min_p > 0 or call.logit_bias):
        raise RefusalError(
            "The min_p and logit_bias sampling parameters are not yet supported with speculative decoding."
        )


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


def check_length(prompt_tokens: int, max_tokens: int | None, max_model_len: int) -> None:
    """Refuse a prompt that leaves no room for the answer.

    Raises:
        RefusalError: Prompt and answer do not fit into ``max_model_len`` tokens.
    """
    limit = f"This model's maximum context length is {max_model_len} tokens. However, "
    advice = "Please reduce the length of the input prompt"
    if prompt_tokens >= max_model_len:
        text = (
            f"{limit}your prompt contains {prompt_tokens} input tokens, which exceeds this limit even "
            f"without any output tokens. {advice}."
        )
        raise _out_of_range("input_tokens", prompt_tokens, text)
    if max_tokens is not None and prompt_tokens + max_tokens > max_model_len:
        text = (
            f"{limit}you requested {max_tokens} output tokens and your prompt contains at least "
            f"{prompt_tokens} input tokens, for a total of at least {prompt_tokens + max_tokens} tokens. "
            f"{advice} or the number of requested output tokens."
        )
        raise _out_of_range("input_tokens", prompt_tokens, text)


def _out_of_range(name: str, value: float | None, message: str) -> RefusalError:
    return RefusalError(f"{message} (parameter={name}, value={value})", param=name)


def messages_of(fields: Fields) -> tuple[tuple[str, str], ...]:
    """Role and text of each message of a body."""
    given = fields.body.get("messages")
    if given is None:
        fields.add("missing", "messages", "Field required", fields.body)
        return ()
    if not isinstance(given, list):
        fields.add("list_type", "messages", "Input should be a valid list", given)
        return ()
    turns = []
    for index, message in enumerate(given):
        where = f"messages.{index}"
        if not isinstance(message, dict):
            fields.add("dict_type", where, "Input should be a valid dictionary", message)
        elif not isinstance(message.get("role"), str):
            for kind, missing in _ROLES:
                for name in missing:
                    fields.add("missing", f"{where}.{kind}.{name}", "Field required", message)
        else:
            turns.append((message["role"], _content(message.get("content"))))
    return tuple(turns)


def _content(content: object) -> str:
    """Text of a message; other parts count as a placeholder."""
    if isinstance(content, list):
        parts = [part if isinstance(part, dict) else {"type": "text", "text": str(part)} for part in content]
        return "\n".join(str(part.get("text", f"<{part.get('type')}>")) for part in parts)
    return content if isinstance(content, str) else ""


def _prompts(fields: Fields) -> tuple[str | tuple[int, ...], ...]:
    given = fields.body.get("prompt")
    if given is None or given in ("", []):
        raise RefusalError(
            "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)",
            param="prompt",
        )
    if isinstance(given, list) and all(isinstance(token, int) for token in given):
        return (tuple(given),)
    prompts = tuple(
        tuple(item) if isinstance(item, list) else item
        for item in (given if isinstance(given, list) else [given])
    )
    if all(
        isinstance(item, str) or (isinstance(item, tuple) and all(isinstance(t, int) for t in item))
        for item in prompts
    ):
        return prompts
    fields.add("string_type", "prompt.str", "Input should be a valid string", given)
    return ()


def _tools(fields: Fields) -> tuple[Tool, ...]:
    given = fields.body.get("tools") or []
    if not isinstance(given, list):
        fields.add("list_type", "tools", "Input should be a valid list", given)
        return ()
    tools = []
    for index, tool in enumerate(given):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            fields.add("missing", f"tools.{index}.function.name", "Field required", tool)
            continue
        tools.append(
            Tool(function["name"], str(function.get("description") or ""), function.get("parameters") or {})
        )
    return tuple(tools)


def _tool_choice(fields: Fields, tools: tuple[Tool, ...]) -> str:
    choice = fields.body.get("tool_choice") or ("auto" if tools else "none")
    if choice == "none":
        return "none"
    if not tools:
        raise RefusalError("When using `tool_choice`, `tools` must be set.", param="tool_choice")
    if choice in ("auto", "required"):
        return str(choice)
    function = choice.get("function") if isinstance(choice, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    for tool in tools:
        if tool.name == name:
            return tool.name
    raise RefusalError(
        "The tool specified in `tool_choice` does not match any of the specified `tools`", param="tool_choice"
    )
