import asyncio
import json

import pytest

from gateway.core.features import extract
from gateway.core.policy import Resume, Timeouts
from gateway.wire.inbound import view
from gateway.wire.reading import Reading
from gateway.wire.resume import Splice, may_go_on
from gateway.wire.tape import Tape
from gateway.wire.upstream import UpstreamError
from tests.relaying import Bench, body
from tests.scripted import NEVER, Act, answer, fails, stream

pytestmark = pytest.mark.usefixtures("piped")

EXACT = Resume("exact", 2)
RESET = UpstreamError("headers", "reset", "scripted")
PROMPT = [1, 2, 3]
SPELLING = {1: "<s>", 2: "hi", 3: "</s>", 10: "Xin ", 11: "chào", 12: " bạn", 13: "!"}


def chat(**fields):
    head = {"id": "chatcmpl-r", "object": "chat.completion.chunk", "created": 7, "model": "m"}
    return f"data: {json.dumps(head | fields, separators=(',', ':'), ensure_ascii=False)}\n\n".encode()


def role(ids=PROMPT):
    choice = {
        "index": 0,
        "delta": {"role": "assistant", "content": ""},
        "logprobs": None,
        "finish_reason": None,
    }
    return chat(choices=[choice], prompt_token_ids=ids, prompt_text=None)


def piece(text, ids, finish=None):
    choice = {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": finish}
    if finish:
        choice["stop_reason"] = None
    return chat(choices=[choice | {"token_ids": ids}])


def rest(text, ids, finish=None):
    head = {"id": "cmpl-other", "object": "text_completion", "created": 9, "model": "m"}
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish, "stop_reason": None}
    return f"data: {json.dumps(head | {'choices': [choice | {'token_ids': ids}]}, ensure_ascii=False)}\n\n".encode()


def usage(prompt, completion):
    numbers = {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion}
    head = {"id": "cmpl-other", "object": "text_completion", "created": 9, "model": "m", "choices": []}
    return f"data: {json.dumps(head | {'usage': numbers, 'system_fingerprint': 'f'})}\n\n".encode()


DONE = b"data: [DONE]\n\n"


def spelled(*ids):
    return answer(json.dumps({"prompt": "".join(SPELLING[one] for one in ids)}).encode())


def room(tokens=100):
    return answer(json.dumps({"count": 0, "max_model_len": tokens, "tokens": []}).encode())


def masked(event):
    return event.replace(b"[10]", b"null").replace(b"[11]", b"null").replace(b"[1,2,3]", b"null")


async def test_another_backend_goes_on_and_the_seam_cannot_be_seen():
    bench = Bench(
        resume=EXACT,
        a=[stream(role(), piece("Xin ", [10]), piece("chào", [11]), RESET)],
        b=[
            spelled(*PROMPT),
            spelled(*PROMPT, 10, 11),
            room(),
            stream(rest(" bạn", [12]), rest("!", [13], "stop"), usage(5, 2), DONE),
        ],
    )
    client = await bench.talk(
        body(stream=True, temperature=0.5, max_tokens=9, stream_options={"include_usage": True})
    )
    assert client.body == (
        masked(role())
        + masked(piece("Xin ", [10]))
        + masked(piece("chào", [11]))
        + piece(" bạn", None)
        + piece("!", None, "stop")
        + chat(
            choices=[],
            usage={"prompt_tokens": 3, "total_tokens": 7, "completion_tokens": 4},
            system_fingerprint="f",
        )
        + DONE
    )
    assert json.loads(bench.upstream.requests[0].body)["return_token_ids"] is True
    continued = json.loads(bench.upstream.requests[-1].body)
    assert bench.upstream.requests[-1].url == "http://b/v1/completions"
    assert continued["prompt"] == [*PROMPT, 10, 11]
    assert (continued["max_tokens"], continued["temperature"]) == (7, 0.5)
    assert "messages" not in continued
    outcome = bench.record.outcome
    assert (outcome.status, outcome.resumed, outcome.finish_reason) == ("ok", 1, "stop")
    assert (outcome.usage.input_tokens, outcome.usage.output_tokens) == (3, 4)
    assert outcome.decode_seconds is None
    assert outcome.speculation.grade == "not_measured"
    assert [attempt.error for attempt in bench.record.attempts] == ["reset", ""]
    assert bench.idle


async def test_usage_that_was_not_asked_for_stays_out():
    bench = Bench(
        resume=EXACT,
        a=[stream(role(), piece("Xin ", [10]), RESET)],
        b=[
            spelled(*PROMPT),
            spelled(*PROMPT, 10),
            room(),
            stream(rest("!", [13], "stop"), usage(4, 1), DONE),
        ],
    )
    client = await bench.talk()
    assert b"usage" not in client.body
    assert client.body.endswith(piece("!", None, "stop") + DONE)
    assert bench.record.outcome.usage.output_tokens == 2


async def test_an_error_event_of_a_dying_engine_is_kept_back():
    error = b'data: {"error":{"message":"engine died","code":500}}\n\n'
    bench = Bench(
        resume=EXACT,
        a=[stream(role(), piece("Xin ", [10]), error + DONE)],
        b=[
            spelled(*PROMPT),
            spelled(*PROMPT, 10),
            room(),
            stream(rest("!", [13], "stop"), usage(4, 1), DONE),
        ],
    )
    client = await bench.talk()
    assert b"error" not in client.body
    assert client.body.count(DONE) == 1


async def test_tokens_whose_text_was_held_back_are_made_anew():
    bench = Bench(
        resume=EXACT,
        a=[stream(role(), piece("Xin ", [10]), piece("", [11]), RESET)],
        b=[
            spelled(*PROMPT),
            spelled(*PROMPT, 10, 11),
            spelled(*PROMPT, 10),
            room(),
            stream(rest("chào", [11], "length"), usage(4, 1), DONE),
        ],
    )
    client = await bench.talk()
    assert json.loads(bench.upstream.requests[-1].body)["prompt"] == [*PROMPT, 10]
    assert "chào".encode() in client.body
    assert bench.record.outcome.usage.output_tokens == 2


async def test_it_can_happen_twice():
    bench = Bench(
        resume=EXACT,
        a=[stream(role(), piece("Xin ", [10]), RESET)],
        b=[spelled(*PROMPT), spelled(*PROMPT, 10), room(), stream(rest("chào", [11]), RESET)],
        c=[
            spelled(*PROMPT),
            spelled(*PROMPT, 10, 11),
            room(),
            stream(rest("!", [13], "stop"), usage(5, 1), DONE),
        ],
    )
    client = await bench.talk()
    assert client.body.endswith(piece("chào", None) + piece("!", None, "stop") + DONE)
    assert bench.record.outcome.resumed == 2
    assert bench.record.outcome.usage.output_tokens == 3


async def test_an_engine_that_dies_does_not_keep_the_next_from_dying_too():
    error = b'data: {"error":{"message":"engine died","code":500}}\n\n'
    bench = Bench(
        resume=EXACT,
        max_attempts=2,
        a=[stream(role(), piece("Xin ", [10]), error + DONE)],
        b=[spelled(*PROMPT), spelled(*PROMPT, 10), room(), stream(rest("chào", [11]), error + DONE)],
        c=[
            spelled(*PROMPT),
            spelled(*PROMPT, 10, 11),
            room(),
            stream(rest("!", [13], "stop"), usage(5, 1), DONE),
        ],
    )
    client = await bench.talk()
    assert client.body.endswith(piece("chào", None) + piece("!", None, "stop") + DONE)
    assert b"error" not in client.body


async def test_the_limit_ends_it():
    bench = Bench(
        resume=Resume("exact", 1),
        a=[stream(role(), piece("Xin ", [10]), RESET)],
        b=[spelled(*PROMPT), spelled(*PROMPT, 10), room(), stream(rest("chào", [11]), RESET)],
        c=[],
    )
    client = await bench.talk()
    assert b"upstream_broken_off" in client.body
    assert DONE not in client.body
    assert bench.record.outcome.status == "truncated"


@pytest.mark.parametrize(
    "acts",
    [
        [fails("connect", "connect")],
        [answer(b"{}", 404)],
        [answer(b"<html>")],
        [answer(b"{}")],
        [spelled(*PROMPT), spelled(*PROMPT, 10), room(), fails("sent", "reset")],
        [spelled(*PROMPT), spelled(*PROMPT, 10), room(), answer(b"{}", 500)],
        [spelled(*PROMPT), spelled(*PROMPT, 10), room(), answer(b"{}", 400)],
        [spelled(*PROMPT), spelled(*PROMPT, 10), room(), answer(b"{}")],
        [spelled(*PROMPT), spelled(*PROMPT, 13)] + [spelled(*PROMPT)] * 8,
        [spelled(*PROMPT), spelled(*PROMPT, 10), room(4)],
    ],
    ids=[
        "unreachable",
        "no-detokenize",
        "no-json",
        "no-spelling",
        "reset",
        "failed",
        "refused",
        "no-stream",
        "other-spelling",
        "no-room",
    ],
)
async def test_where_it_cannot_be_gone_on_with_there_is_one_error_event(acts):
    bench = Bench(resume=EXACT, max_attempts=2, a=[stream(role(), piece("Xin ", [10]), RESET)], b=acts)
    client = await bench.talk()
    events = client.body.split(b"\n\n")
    assert b"upstream_broken_off" in events[-2]
    assert sum(b'"error"' in event for event in events) == 1
    assert DONE not in client.body
    assert client.complete
    assert bench.record.outcome.status == "truncated"
    assert bench.idle


@pytest.mark.parametrize(
    "acts",
    [
        [fails("connect", "connect")],
        [Act(before=[NEVER])],
        [answer(b"{}", 500)],
        [spelled(*PROMPT), spelled(*PROMPT, 10), room(), fails("sent", "reset")],
        [spelled(*PROMPT), spelled(*PROMPT, 10), room(), Act(before=[NEVER])],
        [spelled(*PROMPT), spelled(*PROMPT, 10), room(), answer(b"{}", 500)],
    ],
    ids=["unreachable", "silent", "dying", "reset", "stalled", "failed"],
)
async def test_where_one_backend_cannot_go_on_the_next_does(acts):
    bench = Bench(
        resume=EXACT,
        timeouts=Timeouts(first_byte=0.1),
        a=[stream(role(), piece("Xin ", [10]), RESET)],
        b=acts,
        c=[
            spelled(*PROMPT),
            spelled(*PROMPT, 10),
            room(),
            stream(rest("!", [13], "stop"), usage(4, 1), DONE),
        ],
    )
    client = await bench.talk()
    assert client.body.endswith(piece("Xin ", None) + piece("!", None, "stop") + DONE)
    assert [one.backend for one in bench.record.attempts] == ["a", "b", "c"]
    assert (bench.record.outcome.status, bench.record.outcome.resumed) == ("ok", 1)
    assert bench.idle


async def test_a_backend_that_is_asked_to_go_on_has_a_request_open():
    gate = asyncio.Event()
    bench = Bench(resume=EXACT, a=[stream(role(), piece("Xin ", [10]), RESET)], b=[Act(before=[gate])])
    client = bench.open()
    while len(bench.upstream.requests) < 2:
        bench.upstream.sent.clear()
        await bench.upstream.sent.wait()
    assert bench.fleet.in_flight("b") == 1
    client.leave()
    await client.end()
    assert bench.idle


async def test_an_answer_that_has_its_end_is_not_made_longer():
    bench = Bench(resume=EXACT, a=[stream(role(), piece("Xin ", [10], "stop"), RESET)], b=[])
    client = await bench.talk(body(stream=True, stream_options={"include_usage": True}))
    assert b"upstream_broken_off" in client.body
    assert bench.upstream.order == ["a"]


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 2},
        {"logprobs": True},
        {"seed": 1},
        {"stop": ["x"]},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"response_format": {"type": "json_object"}},
        {"frequency_penalty": 0.5},
        {"return_token_ids": True},
        {"vllm_xargs": {"a": 1}},
        {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]},
    ],
    ids=lambda fields: next(iter(fields)),
)
async def test_what_cannot_be_spliced_exactly_is_not_and_nothing_is_asked_for(fields):
    bench = Bench(resume=EXACT, a=[stream(role(), piece("Xin ", [10]), RESET)], b=[])
    client = await bench.talk(body(stream=True, **fields))
    assert b"upstream_broken_off" in client.body
    asked = json.loads(bench.upstream.requests[0].body)
    assert asked.get("return_token_ids") == fields.get("return_token_ids")


@pytest.mark.parametrize("thought", [[], [piece("", [10])]], ids=["role", "thoughts"])
async def test_what_a_parser_kept_back_is_not_taken_for_the_answer(thought):
    bench = Bench(resume=EXACT, a=[stream(role(), *thought, RESET)], b=[])
    client = await bench.talk()
    assert b"upstream_broken_off" in client.body


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        ({"max_tokens": 8, "max_completion_tokens": 12}, 11),
        ({"max_tokens": 8}, 7),
        ({"max_tokens": [1]}, None),
    ],
    ids=str,
)
async def test_a_chats_limit_is_kept(limits, left):
    bench = Bench(
        resume=EXACT,
        a=[stream(role(), piece("Xin ", [10]), RESET)],
        b=[
            spelled(*PROMPT),
            spelled(*PROMPT, 10),
            room(),
            stream(rest("!", [13], "stop"), usage(4, 1), DONE),
        ],
    )
    client = await bench.talk(body(stream=True, **limits))
    if left is None:
        assert b"upstream_broken_off" in client.body
    else:
        assert json.loads(bench.upstream.requests[-1].body)["max_tokens"] == left


async def test_a_server_that_gives_no_ids_cannot_be_gone_on_with():
    bench = Bench(resume=EXACT, a=[stream(role(None), piece("Xin ", None), RESET)], b=[])
    client = await bench.talk()
    assert b"upstream_broken_off" in client.body


async def test_a_first_attempt_that_gave_nothing_leaves_no_trace_on_the_tape():
    bench = Bench(
        resume=EXACT,
        a=[stream(RESET)],
        b=[stream(role(), piece("Xin ", [10]), RESET)],
        c=[
            spelled(*PROMPT),
            spelled(*PROMPT, 10),
            room(),
            stream(rest("!", [13], "stop"), usage(4, 1), DONE),
        ],
    )
    client = await bench.talk()
    assert client.body.endswith(piece("!", None, "stop") + DONE)


@pytest.mark.parametrize(
    ("limits", "left"), [({}, 15), ({"max_tokens": None}, 96), ({"max_tokens": 5}, 4)], ids=str
)
async def test_a_text_completion_is_gone_on_with_in_its_own_shape(limits, left):
    head = {"id": "cmpl-r", "object": "text_completion", "created": 7, "model": "m"}
    first = {"index": 0, "text": "Xin ", "logprobs": None, "finish_reason": None, "stop_reason": None}
    chunk = head | {"choices": [first | {"prompt_token_ids": PROMPT, "token_ids": [10]}]}
    bench = Bench(
        resume=EXACT,
        a=[stream(f"data: {json.dumps(chunk)}\n\n".encode(), RESET)],
        b=[
            spelled(*PROMPT),
            spelled(*PROMPT, 10),
            room(),
            stream(rest("!", [13], "stop"), usage(4, 1), DONE),
        ],
    )
    client = await bench.talk(
        json.dumps({"model": "m", "prompt": "hi", "stream": True} | limits).encode(), path="/v1/completions"
    )
    assert json.loads(bench.upstream.requests[-1].body)["max_tokens"] == left
    last = json.loads(client.body.split(b"\n\n")[-3].removeprefix(b"data: "))
    assert last == head | {
        "choices": [
            first | {"text": "!", "finish_reason": "stop", "prompt_token_ids": None, "token_ids": None}
        ]
    }


async def test_a_client_that_leaves_while_another_backend_goes_on_ends_that_too():
    gate = asyncio.Event()
    bench = Bench(
        resume=EXACT,
        a=[stream(role(), piece("Xin ", [10]), RESET)],
        b=[Act(before=[gate])],
    )
    client = bench.open()
    await client.until(lambda it: b"Xin " in it.body and len(bench.upstream.requests) >= 1)
    client.leave()
    await client.end()
    assert bench.record.outcome.status == "cancelled"
    assert bench.idle


def test_a_body_of_more_than_is_read_one_by_one_is_not_gone_on_with():
    asked = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    features = extract(view("chat", json.dumps(asked).encode(), {}))
    for crowd, expected in ((10, True), (100_000, False)):
        given = asked | {"metadata": {str(at): "x" for at in range(crowd)}}
        assert may_go_on(features, json.dumps(given).encode()) is expected


@pytest.mark.parametrize("size", [7, 10_000])
def test_of_a_stream_that_goes_on_nothing_is_given_from_an_error_on(size):
    error = {"error": {"message": "died", "code": 500}}
    data = rest("!", [13]) + f"data: {json.dumps(error)}\n\n".encode() + rest("?", [14], "stop") + DONE
    tape = Tape()
    splice = Splice(tape, Reading(), strip_usage=False)
    given = b"".join(splice.feed(data[at : at + size], 0.0) for at in range(0, len(data), size))
    assert given.count(b"\n\n") == 1
    assert b'"text":"!"' in given
    assert (json.loads(splice.error), splice.done, splice.end()) == (error, False, b"")
    assert (tape.ids, tape.text) == ([13], ["!"])
    assert splice.reading.error == "error_event"


def test_usage_without_numbers_is_not_passed_on():
    splice = Splice(Tape(), Reading(), strip_usage=False)
    assert splice.feed(b'data: {"choices":[],"usage":null}\n\n', 0.0) == b""
    assert splice.feed(b'data: {"choices":[],"usage":{}}\n\n', 0.0) == b""
