"""Reads a request body into a call, or refuses it in the words and codes of a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from backends.sim import contradictions
from backends.sim.call import Call, Tool
from backends.sim.contents import has_media, messages_of
from backends.sim.fields import Fields, RefusalError, decode
from backends.sim.look import ASIDE

if TYPE_CHECKING:
    from backends.sim.asgi import Request

_FORMATS: Final = ("text", "json_object", "json_schema")
_SEEDS: Final = (-(2**63), 2**63 - 1)


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


async def received(request: Request) -> Fields | None:
    """The body of a request; None if the client left before its end.

    Raises:
        RefusalError: It is no JSON, or not said to be.
    """
    raw = await request.body()
    return None if raw is None else fields_of(raw, request.header("content-type") or "")


def call_of(fields: Fields, *, chat: bool) -> Call:
    """Read the fields of a body.

    Raises:
        RefusalError: A field is missing or of a wrong type, or fields contradict each other.
    """
    body = fields.body
    contradictions.look(body, chat=chat)
    stream = fields.boolean("stream")
    options = fields.mapping("stream_options", model=True)
    include_usage = fields.truth("stream_options.include_usage", options.get("include_usage"))
    max_tokens = fields.integer("max_tokens", default=None if chat else 16)
    if chat:
        newer = fields.integer("max_completion_tokens")
        max_tokens = max_tokens if newer is None else newer
        wanted = fields.boolean("logprobs")
        top = fields.integer("top_logprobs", default=0)
        logprobs = top if wanted else None
    else:
        logprobs = fields.integer("logprobs")
    format_ = _format(fields)
    schema = format_.get("json_schema")
    tools = _tools(fields) if chat else ()
    metadata = body.get("metadata")  # a real server ignores it
    aside = metadata.get(ASIDE) if isinstance(metadata, dict) else None
    n = fields.integer("n", default=1)
    fields.string("user")
    fields.boolean("parallel_tool_calls")
    if body.get("stop_token_ids") is not None:
        fields.ids("stop_token_ids", body["stop_token_ids"])
    messages = messages_of(fields) if chat else ()
    call = Call(
        chat=chat,
        model=fields.string("model"),
        messages=messages,
        media=bool(messages) and has_media(fields),
        prompts=() if chat else _prompts(fields),
        stream=stream,
        include_usage=include_usage,
        continuous_usage=include_usage and bool(options.get("continuous_usage_stats")),
        n=1 if n is None else n,
        max_tokens=max_tokens,
        temperature=fields.number("temperature", 1.0),
        top_p=fields.number("top_p", 1.0),
        min_p=fields.number("min_p", 0.0),
        top_k=fields.integer("top_k") or 0,
        presence_penalty=fields.number("presence_penalty", 0.0),
        frequency_penalty=fields.number("frequency_penalty", 0.0),
        repetition_penalty=fields.number("repetition_penalty", 1.0),
        min_tokens=fields.integer("min_tokens") or 0,
        logit_bias=tuple(fields.mapping("logit_bias")),
        seed=_seed(fields),
        stop=fields.texts("stop"),
        include_stop=fields.boolean("include_stop_str_in_output"),
        ignore_eos=fields.boolean("ignore_eos"),
        echo=not chat and fields.boolean("echo"),
        logprobs=logprobs,
        return_token_ids=fields.boolean("return_token_ids"),
        tools=tools,
        tool_choice=_tool_choice(fields, tools) if chat else "none",
        format=str(format_.get("type", "text")),
        schema=schema.get("schema") if isinstance(schema, dict) else None,
        aside=aside if isinstance(aside, str) else None,
    )
    fields.raise_if_invalid()
    return call


def _seed(fields: Fields) -> int | None:
    seed = fields.integer("seed")
    low, high = _SEEDS
    if seed is not None and seed > high:
        text = f"Input should be less than or equal to {high}"
        fields.add("less_than_equal", "seed", text, seed, {"le": high})
    elif seed is not None and seed < low:
        text = f"Input should be greater than or equal to {low}"
        fields.add("greater_than_equal", "seed", text, seed, {"ge": low})
    return seed


def _format(fields: Fields) -> dict[str, Any]:
    """``response_format``: one of three models, each of which says what it lacks."""
    given = fields.body.get("response_format")
    where = "response_format"
    if given is None:
        return {}
    if not isinstance(given, dict):
        for _ in range(3):
            fields.mapping(where, model=True)
        return {}
    kind = given.get("type")
    if kind in _FORMATS or kind == "structural_tag":
        return given
    expected = ("'text', 'json_object' or 'json_schema'", "'structural_tag'", "'structural_tag'")
    for what, lacks in zip(expected, ((), ("format",), ("structures", "triggers")), strict=True):
        if "type" in given:
            fields.add("literal_error", f"{where}.type", f"Input should be {what}", kind, {"expected": what})
        else:
            fields.add("missing", f"{where}.type", "Field required", given)
        for name in lacks:
            if name not in given:
                fields.add("missing", f"{where}.{name}", "Field required", given)
    return {}


def _prompts(fields: Fields) -> tuple[str | tuple[int, ...], ...]:
    """The prompts: ids, lists of ids, a text or texts; what is none is told why it is none of the four."""
    given = fields.body.get("prompt")
    if given is None or given == "":
        raise RefusalError(
            "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)",
            param="prompt",
        )
    if given == []:
        raise RefusalError("You must pass at least one prompt")
    if isinstance(given, str):
        return (given,)
    if isinstance(given, list) and all(isinstance(item, str) for item in given):
        return tuple(given)
    before = len(fields.problems)
    ids = fields.ids("prompt", given)
    if len(fields.problems) == before:
        return (ids,)
    middle = len(fields.problems)
    lists = _id_lists(fields, given)
    if len(fields.problems) == middle:
        del fields.problems[before:]
        return lists
    fields.texts("prompt")
    return ()


def _id_lists(fields: Fields, given: object) -> tuple[tuple[int, ...], ...]:
    if not isinstance(given, list):
        fields.add("list_type", "prompt", "Input should be a valid list", given)
        return ()
    return tuple(fields.ids(f"prompt.{index}", item) for index, item in enumerate(given))


def _tools(fields: Fields) -> tuple[Tool, ...]:
    given = fields.body.get("tools")
    if given is None:
        return ()
    if not isinstance(given, list):
        fields.add("list_type", "tools", "Input should be a valid list", given)
        return ()
    tools = [_tool(fields, f"tools.{index}", tool) for index, tool in enumerate(given)]
    return tuple(tool for tool in tools if tool is not None)


def _tool(fields: Fields, where: str, tool: object) -> Tool | None:
    text = "Input should be a valid dictionary or object to extract fields from"
    if not isinstance(tool, dict):
        fields.add("model_attributes_type", where, text, tool)
        return None
    function = tool.get("function")
    if "function" not in tool:
        fields.add("missing", f"{where}.function", "Field required", tool)
    elif not isinstance(function, dict):
        fields.add("model_attributes_type", f"{where}.function", text, function)
    elif "name" not in function:
        fields.add("missing", f"{where}.function.name", "Field required", function)
    elif not isinstance(function["name"], str):
        fields.add(
            "string_type", f"{where}.function.name", "Input should be a valid string", function["name"]
        )
    else:
        described = str(function.get("description") or "")
        return Tool(function["name"], described, function.get("parameters") or {})
    return None


def _tool_choice(fields: Fields, tools: tuple[Tool, ...]) -> str:
    choice = fields.body.get("tool_choice") or ("auto" if tools else "none")
    if not isinstance(choice, dict):
        return str(choice)
    name = choice["function"]["name"]
    if fields.problems or any(tool.name == name for tool in tools):
        return str(name)
    raise RefusalError(
        "The tool specified in `tool_choice` does not match any of the specified `tools` "
        "(parameter=tool_choice)",
        param="tool_choice",
    )
