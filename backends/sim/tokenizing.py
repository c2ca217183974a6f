"""Answers that need the tokenizer alone: text to ids and ids to text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from backends.sim import tokens
from backends.sim.contents import messages_of
from backends.sim.limits import check_model
from backends.sim.prompt import Prompt, render
from backends.sim.validate import received

if TYPE_CHECKING:
    from backends.sim.asgi import Request

_encode: Final = msgspec.json.Encoder().encode


async def tokenize(request: Request, model: str, max_model_len: int) -> None:
    """Answer with the ids of a prompt or of a conversation.

    Raises:
        RefusalError: There is neither, a field is of a wrong type, or the model is not served.
    """
    fields = await received(request)
    if fields is None:
        return
    name = fields.string("model")
    if "messages" in fields.body:
        text = render(messages_of(fields))
    else:
        text = fields.string("prompt", required=True) or ""
        if fields.problems:
            fields.add("missing", "messages", "Field required", fields.body)
    fields.raise_if_invalid()
    check_model(name, (model,))
    ids = Prompt.read(text).ids()
    answer = {
        "count": len(ids),
        "max_model_len": max_model_len,
        "tokens": ids,
        "token_strs": tokens.pieces(ids) if fields.body.get("return_token_strs") else None,
    }
    await request.reply(_encode(answer))


async def detokenize(request: Request, model: str) -> None:
    """Answer with the text of ids.

    Raises:
        RefusalError: They are missing or none, or the model is not served.
    """
    fields = await received(request)
    if fields is None:
        return
    name = fields.string("model")
    if "tokens" not in fields.body:
        fields.add("missing", "tokens", "Field required", fields.body)
    ids = fields.ids("tokens", fields.body.get("tokens", []))
    fields.raise_if_invalid()
    check_model(name, (model,))
    await request.reply(_encode({"prompt": Prompt.read(ids).text if ids else ""}))
