import asyncio

from gateway.runtime.alarms import Alarms
from gateway.wire.client import Client
from gateway.wire.keepalive import COMMENT, KeepAlive

HEADERS = [(b"content-type", b"text/event-stream")]


class Wire:
    def __init__(self):
        self.sent = []
        self.news = asyncio.Event()

    async def receive(self):
        raise AssertionError("nobody asks")

    async def send(self, message):
        self.sent.append(message)
        self.news.set()

    async def next(self):
        self.news.clear()
        await asyncio.wait_for(self.news.wait(), 30)


def begun(interval=0.01):
    wire = Wire()
    client = Client(wire.receive, wire.send)
    return wire, client, KeepAlive(client, Alarms(), interval, lambda: HEADERS)


async def test_the_first_comment_commits_the_status_line():
    wire, client, comments = begun()
    await wire.next()
    await wire.next()
    comments.close()
    assert wire.sent[0] == {"type": "http.response.start", "status": 200, "headers": HEADERS}
    assert wire.sent[1]["body"] == COMMENT
    assert client.started
    assert not client.delivered


async def test_comments_follow_each_other_while_it_is_silent():
    wire, client, comments = begun()
    while sum(message.get("body") == COMMENT for message in wire.sent) < 3:
        await wire.next()
    comments.close()
    assert client.bytes_out == sum(len(message.get("body", b"")) for message in wire.sent)


async def test_nothing_is_said_where_a_comment_may_not_stand():
    wire, client, comments = begun(0.001)
    client.between_events = False
    await asyncio.sleep(0.02)  # twenty intervals
    client.between_events, client.gone = True, True
    await asyncio.sleep(0.02)
    client.gone, client.writing = False, True
    await asyncio.sleep(0.02)
    client.writing, client.finished = False, True
    await asyncio.sleep(0.02)
    comments.close()
    assert wire.sent == []


async def test_what_was_just_sent_puts_a_comment_off():
    wire, client, comments = begun(1.0)
    for _ in range(8):
        await client.deliver(b"data: x\n\n")
        await asyncio.sleep(0.15)  # longer than the interval in all
    comments.close()
    assert all(message.get("body") != COMMENT for message in wire.sent)


async def test_after_its_end_it_is_silent():
    wire, _, comments = begun(0.001)
    comments.close()
    await asyncio.sleep(0.02)
    assert wire.sent == []
