"""Reads the messages of a chat, and lists what is wrong with them as a real server does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from backends.sim.fields import RefusalError

if TYPE_CHECKING:
    from backends.sim.fields import Fields

_TEXTS: Final = ("text", "input_text", "output_text", "refusal", "thinking")
_MEDIA: Final = (
    "image_url", "input_image", "image_pil", "image_embeds", "audio_url", "input_audio", "audio_embeds",
    "video_url", "file",
)  # fmt: skip
_KINDS: Final = (
    ("ChatCompletionDeveloperMessageParam", "developer", ("content", "role")),
    ("ChatCompletionSystemMessageParam", "system", ("content", "role")),
    ("ChatCompletionUserMessageParam", "user", ("content", "role")),
    ("ChatCompletionAssistantMessageParam", "assistant", ("role", "content?")),
    ("ChatCompletionToolMessageParam", "tool", ("content", "role", "tool_call_id")),
    ("ChatCompletionFunctionMessageParam", "function", ("name", "role", "text?")),
    ("CustomChatCompletionMessageParam", "", ("role", "content")),
    ("Message", "", ("author", "role", "text")),
)
"""What a message may be: its kind, its role, and what it needs; a question mark where null will do."""


def messages_of(fields: Fields) -> tuple[tuple[str, str], ...]:
    """Role and text of each message of a body.

    Raises:
        RefusalError: There are no messages, or a part of their content is none.
    """
    given = fields.body.get("messages")
    if "messages" not in fields.body:
        fields.add("missing", "messages", "Field required", fields.body)
        return ()
    if not isinstance(given, (list, str, dict)):
        raise RefusalError(f"'{type(given).__name__}' object is not iterable")
    if not isinstance(given, list):
        fields.add("list_type", "messages", "Input should be a valid list", given)
        return ()
    for index, message in enumerate(given):
        _look(fields, f"messages.{index}", message)
    if fields.problems:
        return ()
    if not given:
        raise RefusalError(
            "Cannot apply chat template to an empty conversation. Provide at least one message."
        )
    return tuple((message["role"], _text(message.get("content"))) for message in given)


def has_media(fields: Fields) -> bool:
    """Whether a chat has content that is not text."""
    contents = [message.get("content") for message in fields.body["messages"]]
    return any(
        isinstance(part, dict) and part.get("type") in _MEDIA
        for content in contents
        if isinstance(content, list)
        for part in content
    )


def _look(fields: Fields, where: str, message: object) -> None:
    """Note what is wrong with a message; it has to be one of the kinds."""
    if not isinstance(message, dict):
        for kind, _, _ in _KINDS[:-1]:
            fields.add("dict_type", f"{where}.{kind}", "Input should be a valid dictionary", message)
        text = "Input should be a valid dictionary or object to extract fields from"
        fields.add("model_attributes_type", f"{where}.{_KINDS[-1][0]}", text, message)
        return
    role, content = message.get("role"), message.get("content", "")
    may_be_null = role == "assistant" or (role == "function" and "name" in message)
    if isinstance(role, str) and (
        isinstance(content, (str, list, dict)) or (content is None and may_be_null)
    ):
        return
    for kind, own, needs in _KINDS:
        for need in needs:
            _look_at(fields, f"{where}.{kind}", message, own, need)


def _look_at(fields: Fields, where: str, message: dict[str, Any], role: str, need: str) -> None:
    """Note what is wrong with a field of a message, were the message of some kind."""
    content = message.get("content", "")
    wrong = not isinstance(content, (str, list, dict))
    if need == "role":
        _look_at_role(fields, where, message, role)
    elif need == "content" or (need == "content?" and content is not None):
        if wrong:
            fields.add("string_type", f"{where}.content", "Input should be a valid string", content)
            fields.add("iterable_type", f"{where}.content", "Input should be iterable", content)
    elif need in ("text", "text?"):
        if wrong and (content is not None or need == "text"):
            fields.add("string_type", f"{where}.content", "Input should be a valid string", content)
    elif need != "content?" and need not in message:
        fields.add("missing", f"{where}.{need}", "Field required", message)


def _look_at_role(fields: Fields, where: str, message: dict[str, Any], role: str) -> None:
    given = message.get("role")
    if "role" not in message:
        fields.add("missing", f"{where}.role", "Field required", message)
    elif not role:
        if not isinstance(given, str):
            fields.add("string_type", f"{where}.role", "Input should be a valid string", given)
    elif given != role:
        ctx = {"expected": f"'{role}'"}
        fields.add("literal_error", f"{where}.role", f"Input should be '{role}'", given, ctx)


def _text(content: object) -> str:
    """Text of a message; media count as a placeholder."""
    if not isinstance(content, (list, dict)):
        return content if isinstance(content, str) else ""
    return "\n".join(_part(index, part) for index, part in enumerate(content))


def _part(index: int, part: object) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("type") if isinstance(part, dict) else None
    if isinstance(part, dict) and kind in _TEXTS:
        text = part.get("thinking" if kind == "thinking" else "refusal" if kind == "refusal" else "text")
        if isinstance(text, str):
            return text
    elif kind in _MEDIA:
        return f"<{kind}>"
    raise RefusalError(
        f"1 validation error for ValidatorIterator\n{index}.ChatCompletionContentPartTextParam\n"
        "  Input should be a valid content part"
    )
