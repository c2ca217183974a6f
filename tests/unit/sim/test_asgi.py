from __future__ import annotations

from typing import Any

from backends.sim.asgi import EVENT_STREAM, Request


def request(*messages: dict[str, Any], headers: Any = ()) -> tuple[Request, list[Any]]:
    """A request that receives some messages, and what it sent."""
    waiting, sent = list(messages), []

    async def receive() -> Any:
        return waiting.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"method": "POST", "path": "/x", "headers": headers}
    return Request(scope, receive, send), sent


async def test_a_body_in_pieces_is_joined() -> None:
    pieces = (
        {"type": "http.request", "body": b"a", "more_body": True},
        {"type": "http.request", "body": b"b"},
    )
    assert await request(*pieces)[0].body() == b"ab"


async def test_a_client_that_leaves_in_the_middle_has_no_body() -> None:
    pieces = ({"type": "http.request", "body": b"a", "more_body": True}, {"type": "http.disconnect"})
    assert await request(*pieces)[0].body() is None


async def test_waiting_for_the_client_to_leave_goes_on_until_it_does() -> None:
    await request({"type": "http.request", "body": b""}, {"type": "http.disconnect"})[0].left()


async def test_headers_are_read_as_latin_1() -> None:
    one, _ = request(headers=[(b"x-a", b"\xe9")])
    assert (one.header("x-a"), one.header("x-b")) == ("é", None)


async def test_headers_go_out_in_the_order_of_a_real_server() -> None:
    one, sent = request()
    one.answer_headers.append((b"x-request-id", b"r"))
    await one.reply(b"{}", status=405, extra=[(b"allow", b"POST")])
    names = [name for name, _ in sent[0]["headers"]]
    assert (sent[0]["status"], names) == (
        405,
        [b"allow", b"content-length", b"content-type", b"vary", b"x-request-id"],
    )
    assert sent[1] == {"type": "http.response.body", "body": b"{}", "more_body": False}


async def test_an_empty_answer_has_no_content_type() -> None:
    one, sent = request()
    await one.reply(b"")
    assert sent[0]["headers"] == [(b"content-length", b"0"), (b"vary", b"Origin")]


async def test_a_stream_has_no_length() -> None:
    one, sent = request()
    await one.stream()
    await one.write(b"a", more=True)
    assert sent[0]["headers"] == [(b"content-type", EVENT_STREAM), (b"vary", b"Origin")]
    assert sent[1]["more_body"] is True
