import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.fleet import Backend
from gateway.wire import sse
from gateway.wire.reading import Reading
from gateway.wire.sse import BORDER, StreamTap
from gateway.wire.tape import Tape
from gateway.wire.upstream import UpstreamError

CAPTURES = Path(__file__).parents[2] / "fixtures" / "vllm" / "spec"
SPECULATIVE = Backend("b", "http://b", "t", "t", method="eagle3", draft_tokens=3)
BASELINE = Backend("b", "http://b", "t", "t")

ROLE = b'data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n'
WORD = (
    b'data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}\n\n'
)
LAST = b'data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"content":"."},"finish_reason":"stop"}]}\n\n'
USAGE = (
    b'data: {"id":"c1","model":"m","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,'
    b'"prompt_tokens_details":{"cached_tokens":4}}}\n\n'
)
DONE = b"data: [DONE]\n\n"
STREAM = ROLE + WORD + WORD + LAST + USAGE + DONE


def through(chunks, *, strip=False):
    tap = StreamTap(Reading(), strip_usage=strip)
    out = b"".join(tap.feed(chunk, float(at)) for at, chunk in enumerate(chunks))
    return tap, out + tap.end()


def test_a_stream_has_begun_with_its_first_event_and_not_with_a_comment():
    tap, _ = through([b": ping\n\n", b"event: x\n\n", b"retry: 3\n\n"])
    assert not tap.reading.begun
    tap, _ = through([DONE])
    assert tap.reading.begun


@pytest.mark.parametrize(
    ("kind", "done"), [("message_stop", True), ("response.failed", True), ("ping", False), ("error", False)]
)
def test_streams_of_other_endpoints_end_with_an_event_of_their_own(kind, done):
    event = f'event: {kind}\ndata: {{"type":"{kind}"}}\n\n'.encode()
    tap, out = through([event, b": bye\n\n"])
    assert tap.done is done
    assert out == event + b": bye\n\n"


def test_the_opening_of_a_stream_is_kept():
    tap, _ = through([STREAM])
    assert tap.reading.opening() == "hihi."


@pytest.mark.parametrize("capture", sorted(CAPTURES.glob("*.sse")), ids=lambda path: path.stem)
def test_a_captured_stream_is_read_and_passed_on_unchanged(capture):
    stream = capture.read_bytes()
    tap, out = through([stream])
    said = json.loads(stream.split(b"\n\n")[-3].removeprefix(b"data: "))["metrics"]["speculative_decoding"]
    assert out == stream
    assert tap.done
    assert tap.reading.usage.output_tokens == 40
    speculation = tap.reading.speculation(SPECULATIVE)
    assert speculation.grade == "exact"
    assert (speculation.steps, speculation.drafted, speculation.accepted) == (
        said["num_spec_steps"],
        said["num_draft_tokens"],
        said["num_accepted_draft_tokens"],
    )
    assert list(speculation.histogram) == said["acceptance_histogram"]


@pytest.mark.parametrize("capture", sorted(CAPTURES.glob("*.sse")), ids=lambda path: path.stem)
def test_stripping_takes_the_usage_event_out_of_a_captured_stream_and_leaves_its_fingerprint(capture):
    stream = capture.read_bytes()
    events = stream.split(b"\n\n")
    fingerprint = json.loads(events[-3].removeprefix(b"data: "))["system_fingerprint"]
    signed = events[-4][:-1] + f',"system_fingerprint":"{fingerprint}"}}'.encode()
    tap, out = through([stream], strip=True)
    assert out == b"\n\n".join([*events[:-4], signed, *events[-2:]])
    assert tap.reading.usage.output_tokens == 40


def test_the_end_of_an_answer_waits_for_the_usage_and_for_nothing_else():
    tap = StreamTap(Reading(), strip_usage=True)
    assert tap.feed(WORD + LAST, 0.0) == WORD
    assert tap.feed(USAGE, 0.0) == LAST
    assert tap.feed(DONE, 0.0) == DONE
    tap = StreamTap(Reading(), strip_usage=True)
    assert tap.feed(LAST, 0.0) == b""
    assert tap.feed(DONE, 0.0) == LAST + DONE
    tap = StreamTap(Reading(), strip_usage=True)
    tap.feed(LAST, 0.0)
    assert tap.end() == LAST


@given(st.lists(st.integers(1, len(STREAM) - 1), max_size=20), st.booleans())
def test_where_the_network_cuts_a_stream_changes_nothing(cuts, strip):
    borders = [0, *sorted(set(cuts)), len(STREAM)]
    chunks = [STREAM[start:end] for start, end in itertools.pairwise(borders)]
    tap, out = through(chunks, strip=strip)
    assert out == (STREAM.replace(USAGE, b"") if strip else STREAM)
    assert tap.done
    assert tap.reading.events == 3
    assert tap.reading.usage.cached_tokens == 4
    assert tap.reading.finish_reason == "stop"


def test_times_are_those_of_the_first_and_last_event_with_a_token():
    tap, _ = through([ROLE, WORD, WORD, LAST, USAGE, DONE])
    assert tap.reading.first_token_at == 1.0
    assert tap.reading.last_token_at == 3.0


def test_a_comment_is_passed_on_and_counts_as_nothing():
    tap, out = through([b": keep-alive\n\n", ROLE, b": keep-alive\n\n", WORD])
    assert out == b": keep-alive\n\n" + ROLE + b": keep-alive\n\n" + WORD
    assert tap.reading.first_token_at == 3.0
    assert tap.reading.events == 1


def test_carriage_returns_and_event_names_are_understood():
    stream = b'event: x\r\ndata: {"choices":[{"text":"a","finish_reason":null}]}\r\n\r\ndata: [DONE]\r\n\r\n'
    tap, out = through([stream[:20], stream[20:]])
    assert out == stream
    assert tap.done
    assert tap.reading.events == 1


def test_an_error_object_in_the_stream_is_noticed():
    tap, _ = through([ROLE, b'data: {"error":{"message":"boom","code":500}}\n\n', DONE])
    assert tap.reading.error == "error_event"
    assert tap.reading.events == 0
    assert tap.done


def test_a_tool_call_is_noticed_after_text():
    call = b'data: {"choices":[{"delta":{"tool_calls":[{"index":0}]},"finish_reason":null}]}\n\n'
    tap, _ = through([ROLE, WORD, call])
    assert tap.reading.tool_calls
    assert tap.reading.events == 2


def test_an_unfinished_event_is_given_out_at_the_end():
    tap, out = through([WORD, b"data: {half"], strip=True)
    assert out == WORD + b"data: {half"
    assert not tap.done


@pytest.mark.parametrize(("taken_down", "broken", "counts"), [(0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 1, 0)])
def test_an_event_without_its_border_counts_unless_its_stream_broke_off_or_may_be_gone_on_with(
    taken_down, broken, counts
):
    tap = StreamTap(Reading(), strip_usage=False, tape=Tape() if taken_down else None)
    tap.feed(b'data: {"type":"message_stop"}', 0.0)
    tap.end(broken=bool(broken))
    assert (tap.done, tap.cut) == (bool(counts), not counts)


def test_what_is_no_json_is_passed_on():
    _, out = through([b"data: not json\n\n", b"hello\n\n"])
    assert out == b"data: not json\n\nhello\n\n"


def test_several_tokens_in_the_first_event_are_counted_where_it_says_so():
    first = b'data: {"choices":[{"delta":{"content":"abc"},"token_ids":[1,2,3],"finish_reason":null}]}\n\n'
    tap, _ = through([ROLE, first])
    assert tap.reading.first_tokens == 3
    said = b'data: {"choices":[{"delta":{"content":"abc"}}],"usage":{"completion_tokens":2}}\n\n'
    tap, _ = through([ROLE, said])
    assert tap.reading.first_tokens == 2
    tap, _ = through([ROLE, WORD])
    assert tap.reading.first_tokens == 1


def test_usage_in_every_chunk_is_not_stripped_with_its_text():
    chunk = b'data: {"choices":[{"delta":{"content":"a"}}],"usage":{"completion_tokens":1}}\n\n'
    _, out = through([chunk, USAGE], strip=True)
    assert out == chunk


def test_tokens_that_a_tool_parser_kept_back_count_as_decoded_since_the_role():
    name = b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f"}}]},"finish_reason":null}]}\n\n'
    tap, _ = through([b": wait\n\n", ROLE, name, LAST])
    assert tap.reading.first_token_at == 2.0
    assert tap.reading.decoding_since == 1.0
    tap, _ = through([ROLE, WORD, name, LAST])
    assert tap.reading.decoding_since == 1.0


def event(delta, finish=None, **more):
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    body = {"id": "c", "model": "m", "choices": [choice | more], "token_ids": None}
    return b"data: %b\n\n" % json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


SAID = st.text(st.sampled_from('ab {}\\"\n\r\U0001f600é,:'), max_size=8)
EVENTS = st.one_of(
    SAID.map(lambda said: event({"content": said})),
    SAID.map(lambda said: event({"content": said}, index=1)),
    SAID.map(lambda said: event({"reasoning": said})),
    SAID.map(lambda said: event({"tool_calls": [{"index": 0, "function": {"arguments": said}}]})),
    SAID.map(lambda said: event({"content": said}, finish="stop")),
    SAID.map(
        lambda said: b'data: {"choices":[{"text":%b,"finish_reason":null}]}\n\n' % json.dumps(said).encode()
    ),
    st.sampled_from(
        [ROLE, USAGE, DONE, b": keep-alive\n\n", b'data: {"error":{"message":"boom"}}\n\n', b"data: x\n\n"]
    ),
)


def account(tap):
    reading = tap.reading
    return (
        tap.done, reading.events, reading.opening(), reading.usage, reading.finish_reason, reading.error,
        reading.tool_calls, reading.first_token_at, reading.last_token_at,
    )  # fmt: skip


@given(st.lists(st.lists(EVENTS, min_size=1, max_size=4), max_size=12), st.booleans(), st.integers(0, 40))
def test_events_passed_on_without_a_look_inside_are_accounted_for_as_all_others(groups, strip, cut):
    looked, passed = (StreamTap(Reading(), strip_usage=strip) for _ in range(2))
    for at, group in enumerate([[ROLE, WORD], *groups]):
        whole = b"".join(group)
        for chunk in (whole[:cut], whole[cut:]) if len(group) == 2 else (whole,):
            expected = looked.feed(chunk, float(at))
            given_on = chunk if passed.passes(chunk, float(at)) else passed.feed(chunk, float(at))
            assert given_on == expected
            assert passed.between_events == looked.between_events
    assert passed.end() == looked.end()
    assert account(passed) == account(looked)


@pytest.mark.parametrize("strip", [False, True])
def test_most_events_of_a_stream_are_passed_on_without_a_look_inside(strip):
    tap = StreamTap(Reading(), strip_usage=strip)
    words = [event({"content": said}) for said in (" one", "two", "\u4e09", "", "four")]
    passed = []
    for chunk in (
        ROLE,
        *words,
        words[0] + words[1],
        *words,
        event({"content": 'a "quote"'}),
        LAST,
        USAGE,
        DONE,
    ):
        if tap.passes(chunk, 0.0):
            passed.append(chunk)
        else:
            tap.feed(chunk, 0.0)
    assert passed == [*words[2:], words[0] + words[1], *words]
    assert tap.reading.events == 14
    assert tap.reading.opening().startswith(" onetwo\u4e09four onetwo one")


def test_after_reasoning_the_form_of_the_answer_is_learned():
    tap = StreamTap(Reading(), strip_usage=False)
    thoughts, words = [event({"reasoning": "hm"})] * 4, [event({"content": "so"})] * 4
    passed = sum(tap.passes(chunk, 0.0) or not tap.feed(chunk, 0.0) for chunk in (ROLE, *thoughts, *words))
    assert passed == 2 + 3
    assert tap.reading.opening() == "so" * 4


def test_a_long_event_is_looked_at_once_however_it_comes(monkeypatch):
    class Counting:
        looked_at = 0

        def search(self, data):
            self.looked_at += len(data)
            return BORDER.search(data)

        def finditer(self, data):
            self.looked_at += len(data)
            return BORDER.finditer(data)

    counting = Counting()
    monkeypatch.setattr(sse, "BORDER", counting)
    event = WORD.replace(b"hi", b"x" * 100_000)
    pieces = [event[at : at + 100] for at in range(0, len(event), 100)]
    tap, out = through([ROLE, *pieces, DONE])
    assert out == ROLE + event + DONE
    assert tap.done
    assert counting.looked_at < 3 * len(out)


@pytest.mark.parametrize("strip", [False, True])
def test_an_event_without_end_is_not_held_for_ever(strip):
    tap = StreamTap(Reading(), strip_usage=strip)
    for _ in range(16):
        tap.feed(b"x" * 2**20, 0.0)
    with pytest.raises(UpstreamError, match="more than"):
        tap.feed(b"x", 0.0)
