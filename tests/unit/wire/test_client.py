import asyncio

from gateway.wire.client import Client
from gateway.wire.errors import Problem


def client_of(*messages):
    inbox = list(messages)
    sent = []

    async def receive():
        return inbox.pop(0)

    async def send(message):
        sent.append(message)

    return Client(receive, send), sent


def part(data, *, more=False):
    return {"type": "http.request", "body": data, "more_body": more}


async def test_a_body_in_parts_is_put_together():
    client, _ = client_of(part(b"ab", more=True), part(b"", more=True), part(b"c"))
    assert await client.body(3) == b"abc"


async def test_a_body_past_the_limit_is_a_problem():
    client, _ = client_of(part(b"ab", more=True), part(b"cd", more=True))
    problem = await client.body(3)
    assert isinstance(problem, Problem)
    assert problem.status == 413


async def test_leaving_while_sending_is_noticed():
    client, _ = client_of(part(b"ab", more=True), {"type": "http.disconnect"})
    assert await client.body(10) == b""
    assert client.gone


async def test_leaving_later_is_noticed():
    client, _ = client_of(part(b""), part(b"stray"), {"type": "http.disconnect"})
    await client.body(1)
    await asyncio.wait_for(client.left(), 1)
    assert client.gone


async def test_a_whole_answer_carries_its_length():
    client, sent = client_of()
    await client.answer(404, [(b"a", b"b")], b"xyz")
    assert sent == [
        {"type": "http.response.start", "status": 404, "headers": [(b"a", b"b"), (b"content-length", b"3")]},
        {"type": "http.response.body", "body": b"xyz", "more_body": False},
    ]
    assert (client.started, client.finished, client.status, client.bytes_out) == (True, True, 404, 3)


async def test_an_answer_in_parts_is_counted():
    client, sent = client_of()
    await client.start(200, [])
    await client.write(b"ab")
    assert not client.finished
    await client.finish(b"c")
    assert client.finished
    assert client.bytes_out == 3
    assert [message.get("more_body") for message in sent] == [None, True, False]
