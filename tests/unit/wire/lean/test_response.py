"""One answer read off bytes however they are cut, without sockets."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.wire.lean.response import BUFFER_LIMIT, HEAD_LIMIT, LeanResponse, UnansweredError
from gateway.wire.upstream import UpstreamError

HEAD = b"HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 5\r\n\r\n"
STEADY = settings(deadline=None, derandomize=True)  # a busy machine is no failure, a red run can be repeated
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Connection:
    """Says what became of it."""

    def __init__(self):
        self.calls = []
        self.take = None

    def __getattr__(self, name):
        return lambda: self.calls.append(name)

    @property
    def released(self):
        return self.calls[-1] == "release"


def reader(*, bare=False):
    connection = Connection()
    return connection, LeanResponse(connection, asyncio.get_running_loop(), bare=bare)


def cut(data, places):
    edges = [0, *sorted(places), len(data)]
    return [data[start:end] for start, end in pairwise(edges) if start < end]


async def whole(response):
    """Status, headers and body, read both ways."""
    await response.head()
    got = []
    await response.pipe(got.append)
    await response.close()
    return response.status, response.headers, b"".join(got)


@st.composite
def answers(draw):
    """Bytes of an answer, its headers and its body."""
    interim = draw(
        st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 E\r\nLink: x\r\n\r\n"])
    )
    chunks = draw(st.lists(st.binary(min_size=1, max_size=40), max_size=6))
    body = b"".join(chunks)
    if draw(st.booleans()):
        header = (b"content-length", b"%d" % len(body))
        framed = body
    else:
        header = (b"transfer-encoding", b"chunked")
        extension = draw(st.sampled_from([b"", b";a", b';a="b"']))
        trailer = draw(st.sampled_from([b"", b"X-T: 1\r\n", b"X-T: 1\r\nX-U: 2\r\n"]))
        framed = b"".join(b"%x%b\r\n%b\r\n" % (len(chunk), extension, chunk) for chunk in chunks)
        framed += b"0%b\r\n%b\r\n" % (extension, trailer)
    return (
        interim + b"HTTP/1.1 200 OK\r\nX-A: b\r\n%b: %b\r\n\r\n" % header + framed,
        [(b"x-a", b"b"), header],
        body,
    )


@STEADY
@given(answer=answers(), data=st.data())
async def test_the_pieces_in_which_an_answer_comes_do_not_matter(answer, data):
    raw, headers, body = answer
    places = data.draw(st.lists(st.integers(0, len(raw)), max_size=8))
    piped = data.draw(st.booleans())
    connection, response = reader()
    got = []

    async def consume():
        await response.head()
        if piped:
            await response.pipe(got.append)
        else:
            got.extend([part async for part in response.body()])

    consuming = asyncio.get_running_loop().create_task(consume())
    for piece in cut(raw, places):
        response.feed(piece)
        await asyncio.sleep(0)
    await consuming
    await response.close()
    assert (response.status, response.headers, b"".join(got)) == (200, headers, body)
    assert connection.released


@STEADY
@given(answer=answers(), data=st.data())
async def test_an_answer_that_is_cut_off_is_never_whole(answer, data):
    raw, _, body = answer
    end = data.draw(st.integers(0, len(raw) - 1))
    connection, response = reader()
    got = []
    for piece in cut(raw[:end], data.draw(st.lists(st.integers(0, end), max_size=4))):
        response.feed(piece)
    response.ended(None)

    async def consume():
        await response.head()
        await response.pipe(got.append)

    with pytest.raises(UpstreamError) as failure:
        await consume()
    assert failure.value.phase == ("headers" if response.status else "sent")
    assert failure.value.error == "reset"
    assert isinstance(failure.value, UnansweredError) == (end == 0)
    assert body.startswith(b"".join(got))
    await response.close()
    assert not connection.released


@STEADY
@given(
    data=st.binary(max_size=200),
    places=st.lists(st.integers(0, 200), max_size=4),
    start=st.sampled_from([b"", HEAD, CHUNKED]),
)
async def test_any_bytes_end_in_an_answer_or_an_error(data, places, start):
    connection, response = reader()
    for piece in cut(start + data, [place for place in places if place <= len(data)]):
        response.feed(piece)
    response.ended(None)
    try:
        await whole(response)
    except UpstreamError as error:
        assert error.error in {"reset", "protocol"}  # noqa: PT017 - an answer will do as well
        await response.close()
        assert not connection.released


async def test_all_cuts_in_three_of_a_small_answer():
    raw = CHUNKED + b"2;x\r\nhe\r\n3\r\nllo\r\n0\r\nT: 1\r\n\r\n"
    for first in range(len(raw)):
        for second in range(first, len(raw)):
            connection, response = reader()
            for piece in cut(raw, [first, second]):
                response.feed(piece)
            assert await whole(response) == (200, [(b"transfer-encoding", b"chunked")], b"hello")
            assert connection.released


async def test_parts_that_came_together_are_given_together():
    _, response = reader()
    response.feed(CHUNKED + b"2\r\nhe\r\n3\r\nllo\r\n")
    assert await anext(response.body()) == b"hello"


async def test_a_piped_part_is_given_at_once_and_wakes_nobody():
    _, response = reader()
    response.feed(CHUNKED)
    got = []
    piping = response.pipe(got.append)
    waiting = piping.send(None)
    response.feed(b"2\r\nhe\r\n")
    assert got == [b"he"]
    assert not waiting.done()
    response.feed(b"0\r\n\r\n")
    assert waiting.done()
    with pytest.raises(StopIteration):
        piping.send(None)


async def poured(pieces, head=CHUNKED + b"1\r\na\r\n"):
    """What a pipe gives of pieces that come one by one; the error if there is one."""
    _, response = reader()
    response.feed(head)
    got = []

    async def consume():
        await response.pipe(got.append)

    consuming = asyncio.get_running_loop().create_task(consume())
    await asyncio.sleep(0)
    for piece in pieces:
        response.feed(piece)
    response.ended(None)
    try:
        await consuming
    except UpstreamError as error:
        return got, error.error
    return got, ""


@STEADY
@given(
    chunks=st.lists(st.binary(min_size=1, max_size=300), max_size=8),
    joined=st.sets(st.integers(0, 8)),
    upper=st.booleans(),
)
async def test_chunks_that_come_one_by_one_pass_the_parser_by_and_nothing_is_lost(chunks, joined, upper):
    framed = [b"%b\r\n%b\r\n" % (b"%X" % len(one) if upper else b"%x" % len(one), one) for one in chunks]
    pieces = [b""]
    for number, piece in enumerate([*framed, b"0\r\n\r\n"]):
        if number in joined:
            pieces[-1] += piece
        else:
            pieces.append(piece)
    got, error = await poured(piece for piece in pieces if piece)
    assert (b"".join(got), error) == (b"a" + b"".join(chunks), "")


@pytest.mark.parametrize(
    "pieces",
    [
        [b"3", b"\r\nabc\r\n", b"1\r\nb\r\n"],
        [b"8\r\n", b"3\r\nabc\r\n", b"\r\n"],
        [b"2\r\n", b"\r\n", b"\r\n", b"1\r\nb\r\n"],
        [b"1\r\nb\r", b"\n1", b"1\r\n" + b"c" * 17, b"\r\n"],
        [b"1\r\nb\r\n1", b"\r\nc\r\n"],
        [b"1\r\nb\r\n1\r\n", b"\r", b"\r\n"],
        [b"03\r\nabc\r\n", b"3;x\r\nabc\r\n"],
    ],
)
async def test_what_only_looks_like_a_whole_chunk_is_read_by_the_parser(pieces):
    expected = b"".join(await poured_whole(pieces))
    got, error = await poured([*pieces, b"0\r\n\r\n"])
    assert (b"".join(got), error) == (expected, "")


async def poured_whole(pieces):
    """The same bytes in one piece, which only the parser reads."""
    return (await poured([], CHUNKED + b"1\r\na\r\n" + b"".join(pieces) + b"0\r\n\r\n"))[0]


@pytest.mark.parametrize("line", [b"+2", b"0x2", b" 2", b"2_", b"-2", b""])
async def test_a_size_that_is_none_is_an_error_alone_in_its_piece_too(line):
    got, error = await poured([line + b"\r\nhe\r\n"])
    assert (got, error) == ([b"a"], "protocol")


async def test_what_comes_where_a_chunk_may_begin_goes_by_the_shortcut_first():
    connection, response = reader()
    response.feed(CHUNKED + b"1\r\na\r\n")
    got, offered = [], []

    def shortcut(usual):
        def take(data):
            offered.append(data)
            if data != b"1\r\nc\r\n":
                usual(data)

        return take

    piping = response.pipe(got.append, shortcut)
    piping.send(None)
    for piece in (
        b"1\r\nb\r\n",
        b"1\r\nc\r\n",
        b"2\r\nd",
        b"e\r\n",
        b"1\r\nf\r\n1",
        b"\r\ng\r\n",
        b"0\r\n\r\n",
        b"too much",
    ):
        connection.take(piece)
    with pytest.raises(StopIteration):
        piping.send(None)
    assert b"".join(got) == b"abdefg"
    assert offered == [b"1\r\nb\r\n", b"1\r\nc\r\n", b"2\r\nd", b"1\r\nf\r\n1", b"0\r\n\r\n"]


async def test_behind_the_end_nothing_is_taken_for_a_chunk():
    connection, response = reader()
    response.feed(CHUNKED + b"1\r\na\r\n")
    got = []
    piping = response.pipe(got.append)
    piping.send(None)
    response.feed(b"0\r\n\r\n")
    response.feed(b"1\r\nb\r\n")
    with pytest.raises(StopIteration):
        piping.send(None)
    assert got == [b"a"]
    await response.close()
    assert not connection.released


async def test_a_slow_reader_stops_the_connection_and_starts_it_again():
    connection, response = reader()
    response.feed(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (BUFFER_LIMIT + 2))
    response.feed(bytes(BUFFER_LIMIT))
    assert connection.calls == []
    response.feed(b"a")
    assert connection.calls == ["pause"]
    response.feed(b"b")  # what was on its way
    assert connection.calls == ["pause"]
    assert len(await anext(response.body())) == BUFFER_LIMIT + 2
    assert connection.calls == ["pause", "resume"]
    await response.close()
    assert connection.calls == ["pause", "resume", "release"]


async def test_a_stopped_connection_goes_on_when_the_answer_is_left():
    connection, response = reader()
    response.feed(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (BUFFER_LIMIT + 1))
    response.feed(bytes(BUFFER_LIMIT + 1))
    await response.close()
    assert connection.calls == ["pause", "resume", "release"]


async def test_a_stopped_connection_goes_on_when_the_answer_is_piped():
    connection, response = reader()
    response.feed(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (BUFFER_LIMIT + 2))
    response.feed(bytes(BUFFER_LIMIT + 1))
    got = []
    piping = response.pipe(got.append)
    piping.send(None)
    assert connection.calls == ["pause", "resume"]
    response.feed(b"a")
    with pytest.raises(StopIteration):
        piping.send(None)
    assert [len(part) for part in got] == [BUFFER_LIMIT + 1, 1]


async def test_an_answer_that_was_left_touches_its_connection_no_more():
    connection, response = reader()
    response.feed(HEAD + b"hello")
    await response.close()
    response.pause()
    response.resume()
    await response.close()
    assert connection.calls == ["release"]


async def test_bytes_after_the_answer_however_many_do_not_harm_it():
    connection, response = reader()
    response.feed(b"HTTP/1.1 204 No Content\r\n\r\n" + b"x" * 2 * HEAD_LIMIT)
    assert await whole(response) == (204, [], b"")
    assert not connection.released


@pytest.mark.parametrize(
    "flood",
    [
        b"X: a\r\n",
        b"X: " + b"a" * 1000,
        b"\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 102 Processing",
    ],
    ids=["headers", "one header", "interim answers"],
)
async def test_a_head_without_end_is_given_up(flood):
    connection, response = reader()
    response.feed(b"HTTP/1.1 200 OK\r\n" if flood.startswith(b"X") else b"HTTP/1.1 102 Processing")
    fed = 0
    while "abort" not in connection.calls:
        response.feed(flood)
        fed += len(flood)
        assert fed < 2 * HEAD_LIMIT
    with pytest.raises(UpstreamError) as failure:
        await response.head()
    assert (failure.value.phase, failure.value.error) == ("sent", "protocol")


@pytest.mark.parametrize(
    ("start", "flood"),
    [(b"1;", b"a" * 1000), (b"0\r\n", b"X: a\r\n")],
    ids=["chunk extension", "trailers"],
)
async def test_a_body_that_brings_nothing_is_given_up(start, flood):
    connection, response = reader()
    response.feed(CHUNKED + b"1\r\na\r\n" + start)
    fed = 0
    while "abort" not in connection.calls:
        response.feed(flood)
        fed += len(flood)
        assert fed < 2 * HEAD_LIMIT
    with pytest.raises(UpstreamError) as failure:
        await response.pipe(lambda _: None)
    assert (failure.value.phase, failure.value.error) == ("headers", "protocol")


async def test_a_long_body_in_small_chunks_is_no_flood():
    connection, response = reader()
    response.feed(CHUNKED)
    for _ in range(HEAD_LIMIT // 4):
        response.feed(b"1;extension=1\r\n")
        response.feed(b"a\r\n")
    response.feed(b"0\r\n\r\n")
    assert len((await whole(response))[2]) == HEAD_LIMIT // 4
    assert connection.released


@pytest.mark.parametrize("encoding", [b"gzip, chunked", b"gzip", b"identity"])
async def test_a_transfer_encoding_that_was_not_asked_for(encoding):
    _, response = reader()
    response.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: " + encoding + b"\r\n\r\n")
    with pytest.raises(UpstreamError, match="not asked for") as failure:
        await response.head()
    assert (failure.value.phase, failure.value.error) == ("sent", "protocol")


@pytest.mark.parametrize("together", [False, True])
async def test_a_body_after_the_answer_to_head_is_no_part_of_it(together):
    connection, response = reader(bare=True)
    for piece in [HEAD + b"hello"] if together else [HEAD, b"hello"]:
        response.feed(piece)
    assert (await whole(response))[2] == b""
    assert not connection.released


async def test_a_body_up_to_the_end_of_the_connection_is_whole_only_if_that_was_in_good_order():
    for cause, broken in ((None, False), (ConnectionResetError("reset by peer"), True)):
        connection, response = reader()
        response.feed(b"HTTP/1.1 200 OK\r\n\r\nhello")
        response.ended(cause)
        got = []
        if broken:
            with pytest.raises(UpstreamError, match="reset by peer"):
                await response.pipe(got.append)
            await response.close()
        else:
            await response.pipe(got.append)
            await response.close()
        assert got == [b"hello"]
        assert not connection.released


async def test_a_sink_that_fails_at_the_last_part_is_heard_of():
    connection, response = reader()
    response.feed(HEAD)

    def sink(data):
        raise KeyError(data)

    piping = response.pipe(sink)
    piping.send(None)
    response.feed(b"hello")
    with pytest.raises(KeyError):
        piping.send(None)
    assert connection.calls == ["abort"]


async def test_an_answer_that_was_given_back_leaves_the_connection_to_the_next():
    connection, response = reader()
    response.feed(CHUNKED + b"1\r\na\r\n")
    piping = response.pipe([].append, lambda usual: usual)
    piping.send(None)
    await response.close()
    connection.take = None
    piping.close()
    assert connection.take is None


async def test_nothing_is_read_after_a_fault():
    _, response = reader()
    response.feed(CHUNKED + b"1\r\na\r\nzz\r\n")
    response.feed(b"1\r\nb\r\n")
    response.ended(ConnectionResetError())
    got = []
    with pytest.raises(UpstreamError) as failure:
        await response.pipe(got.append)
    assert (failure.value.error, got) == ("protocol", [b"a"])


async def test_the_end_of_the_connection_after_the_answer_changes_nothing():
    _, response = reader()
    response.feed(HEAD + b"hello")
    response.ended(ConnectionResetError())
    assert (await whole(response))[2] == b"hello"
