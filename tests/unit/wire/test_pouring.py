"""The rest of a stream on its way from one connection to the other, without sockets."""

import asyncio
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.runtime import clock
from gateway.wire.client import Client
from gateway.wire.lean.response import LeanResponse
from gateway.wire.pouring import KeptBackError, pour
from gateway.wire.reading import Reading
from gateway.wire.resume import Splice
from gateway.wire.sse import StreamTap
from gateway.wire.tape import Tape
from tests.unit.wire.test_sse import DONE, EVENTS, LAST, ROLE, USAGE, WORD, account

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def frame(event):
    return b"%x\r\n%b\r\n" % (len(event), event)


class Connection:
    """To the backend: remembers who is to get what comes, and whether it is read."""

    def __init__(self):
        self.take = None
        self.reads = True

    def pause(self):
        self.reads = False

    def resume(self):
        self.reads = True

    def release(self):
        """Wait for the next request."""

    abort = release


class Pipe:
    """To the client: notes what it was given with its framing, and what without."""

    def __init__(self, *, chunked=True):
        self.got = []
        self.framed = []
        self.chunked = chunked
        self.state = SimpleNamespace(disconnected=False, write_paused=False)
        self.room = None
        self.held_back = False

    def inside(self):
        return (self._put, self.state, self.state) if self.chunked else None

    def _put(self, data):
        self.framed.append(data)
        self.got.append(data[data.index(b"\r\n") + 2 : -2])

    def write(self, data):
        self.got.append(data)
        return not self.state.write_paused

    def hold_back(self):
        self.held_back = True

    def on_room(self, call):
        self.room = call


class Pouring:
    """A stream that has begun with these events, and whose rest comes by :meth:`take`."""

    def __init__(self, *events, tap=None, strip=False, chunked=True):
        self.connection, self.pipe = Connection(), Pipe(chunked=chunked)
        self.response = LeanResponse(self.connection, asyncio.get_running_loop(), bare=False)
        self.tap = tap or StreamTap(Reading(), strip_usage=strip)
        self.client = Client(None, None)
        self.patience = SimpleNamespace(last=0.0)
        self.response.feed(HEAD)
        for event in events:
            self.response.feed(frame(event))
            self.response._parts.clear()
            self.tap.feed(event, 0.0)
        self._pouring = pour(self.response, self.tap, self.client, self.pipe, self.patience)
        self._pouring.send(None)

    def take(self, *pieces):
        for piece in pieces:
            self.connection.take(piece)

    def end(self):
        with pytest.raises(StopIteration):
            self._pouring.send(None)

    def fails(self):
        with pytest.raises(Exception) as failure:  # noqa: PT011 - whichever is for the caller to see
            self._pouring.send(None)
        return failure.type


@pytest.fixture
def now(monkeypatch):
    at = SimpleNamespace(value=0.0)
    monkeypatch.setattr(clock, "monotonic", lambda: at.value)
    return at


async def test_most_chunks_of_a_stream_go_out_as_they_came():
    words = [WORD.replace(b"hi", text) for text in (b"one", b"two", b"three", b"seven", b"ten")]
    poured = Pouring(ROLE, WORD, WORD)
    poured.take(*map(frame, words), frame(LAST), frame(DONE), END)
    poured.end()
    assert poured.pipe.framed == [frame(word) for word in (words[1], words[3], words[4])]
    assert poured.pipe.got == [*words, LAST, DONE]
    assert poured.tap.reading.events == 8
    assert poured.tap.done
    assert poured.client.bytes_out == sum(map(len, (*words, LAST, DONE)))
    assert poured.tap.reading.opening() == "hihionetwothreeseventen."


async def test_what_goes_out_as_it_came_is_told_of_with_its_time(now):
    poured = Pouring(ROLE, WORD, WORD)
    poured.take(frame(WORD))
    now.value = 7.0
    poured.take(frame(WORD))
    assert len(poured.pipe.framed) == 1
    assert (poured.client.last_sent, poured.tap.reading.last_token_at) == (7.0, 7.0)
    poured.take(frame(DONE), END)
    poured.end()


@settings(deadline=None)
@example(groups=[[WORD.replace(b"hi", b"")]] * 3, strip=False, chunked=True, places=[])
@given(
    st.lists(st.lists(EVENTS, min_size=1, max_size=3), max_size=12),
    st.booleans(),
    st.booleans(),
    st.lists(st.integers(0, 4000), max_size=3),
)
async def test_however_a_stream_comes_it_is_passed_on_and_accounted_for_the_same(
    groups, strip, chunked, places
):
    looked = StreamTap(Reading(), strip_usage=strip)
    expected = [looked.feed(chunk, 0.0) for chunk in map(b"".join, [[ROLE], [WORD], *groups, [DONE]])]
    first = len(b"".join(expected[:2]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "monotonic", lambda: 0.0)
        poured = Pouring(ROLE, WORD, strip=strip, chunked=chunked)
        for number, group in enumerate([*groups, [DONE]]):
            piece = frame(b"".join(group))
            cut = places[number] % len(piece) if number < len(places) else 0
            poured.take(*filter(None, (piece[:cut], piece[cut:])))
        poured.take(END)
    poured.end()
    rest = b"".join(poured.pipe.got) + poured.tap.end()
    assert rest == b"".join(expected)[first:] + looked.end()
    assert poured.client.bytes_out == len(b"".join(poured.pipe.got))
    assert account(poured.tap) == account(looked)


async def test_only_one_whole_chunk_that_is_framed_right_goes_out_as_it_came():
    right = frame(WORD)
    size, _, rest = right.partition(b"\r\n")
    wrong = [
        WORD, right[:-1], right[1:], right + END, right * 2, b"0" + right, right[:-2] + b"\n\n",
        size + b";x\r\n" + rest, size.upper() + b"\r\n\r\n" + rest[2:], b"%x\r\n" % (len(WORD) + 1) + rest, b"",
        END, frame(LAST), frame(b"x"), b"\0" * (len(right) - 30) + right[-30:], right[:30] + bytes(len(right) - 30),
    ]  # fmt: skip
    for piece in wrong:
        poured = Pouring(ROLE, WORD, WORD)
        poured.take(right, right)
        assert poured.pipe.framed == [right]
        poured.take(piece)
        assert poured.pipe.framed == [right], piece
        await poured.response.close()


async def test_no_chunk_is_looked_for_within_another():
    word = frame(WORD)
    poured = Pouring(ROLE, WORD, WORD)
    poured.take(word, word, b"%x\r\n" % (3 * len(word)), word, word, word, b"\r\n", word)
    assert poured.pipe.framed == [word]
    poured.take(frame(DONE), END)
    poured.end()
    assert b"".join(poured.pipe.got).count(word[:-2]) == 3
    assert b"".join(poured.pipe.got).count(WORD) == 6


async def test_the_sizes_that_are_known_are_few():
    poured = Pouring(ROLE, WORD, WORD)
    words = [WORD.replace(b"hi", b"h" * size) for size in range(600)]
    poured.take(*map(frame, words), *map(frame, words))
    assert len(poured.tap.frames) == len(poured.pipe.framed) == 256
    assert poured.tap.reading.events == 1202
    assert poured.pipe.got == words * 2


async def test_a_client_that_does_not_read_holds_the_backend_back_until_it_has():
    poured = Pouring(ROLE, WORD, WORD)
    poured.take(frame(WORD))
    poured.pipe.state.write_paused = True
    poured.take(frame(WORD))
    assert len(poured.pipe.framed) == 1
    assert poured.pipe.held_back
    assert poured.client.writing
    assert not poured.connection.reads
    poured.pipe.state.write_paused = False
    poured.pipe.room()
    assert not poured.client.writing
    assert poured.connection.reads


async def test_to_a_client_that_has_left_nothing_is_put():
    poured = Pouring(ROLE, WORD, WORD)
    poured.take(frame(WORD))
    poured.pipe.state.disconnected = True
    poured.take(frame(WORD))
    assert poured.pipe.framed == []


async def test_where_the_end_of_an_answer_is_held_back_nothing_overtakes_it():
    poured = Pouring(ROLE, WORD, WORD, strip=True)
    poured.take(*map(frame, (WORD, LAST, WORD, USAGE, DONE)), END)
    poured.end()
    assert poured.pipe.framed == []
    assert poured.pipe.got == [WORD, LAST + WORD, DONE]


async def test_an_error_that_is_kept_back_ends_it():
    tap = StreamTap(Reading(), strip_usage=False, tape=Tape())
    poured = Pouring(ROLE, WORD, tap=tap)
    poured.take(frame(WORD), frame(WORD), frame(b'data: {"error":{"message":"boom"}}\n\n'))
    assert poured.fails() is KeptBackError
    assert poured.pipe.framed == []


async def test_what_another_backend_adds_is_read_event_by_event():
    tape = Tape()
    tape.id, tape.object = "c1", "chat.completion.chunk"
    poured = Pouring(tap=Splice(tape, Reading(), strip_usage=False))
    event = b'data: {"choices":[{"index":0,"text":"hi","token_ids":[1],"finish_reason":null}]}\n\n'
    poured.take(frame(event), frame(event))
    assert poured.pipe.framed == []
    assert b"".join(poured.pipe.got).count(b'"content":"hi"') == 2
    await poured.response.close()
