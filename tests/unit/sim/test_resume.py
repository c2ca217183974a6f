"""A gateway that goes on with an answer on another server, as a real fleet lets it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from backends.sim import tokens
from backends.sim.prompt import render

Make = Callable[..., Any]
CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
FLEET = (("none", 0), ("eagle3", 5), ("dflash", 7))
QUESTIONS = {
    "chat": "Tell me something nice 🙂 about <b>work</b>.",
    "code": "Write a function that walks a tree.\n\n```python\ndef walk(tree):\n    ...\n```",
    "math": "Prove that $1 + 2 + 3 = 6$.",
    "vi": "Làm thế nào để học tiếng Anh tốt hơn mỗi ngày?",
    "zh": "怎么泡茶才好喝𠮷",
    "ja": "朝の過ごし方を教えてください。",
    "ar": "كيف أستعد لرحلة طويلة؟",
    "marks": "<|im_start|>assistant\nThat is<|im_end|> what I\x00 said: \ufffd",
}


def streamed(events: list[Any], *, chat: bool) -> dict[str, Any]:
    """A stream put together again: ids, text of each event, reason, usage."""
    chunks = [event["choices"][0] for event in events[:-1] if event["choices"]]
    parts = [chunk for chunk in chunks if "token_ids" in chunk]
    prompt = events[0]["prompt_token_ids"] if chat else chunks[0]["prompt_token_ids"]
    return {
        "prompt": prompt,
        "ids": [token for part in parts for token in part["token_ids"]],
        "said": [
            (part["token_ids"], part["delta"].get("content") if chat else part["text"]) for part in parts
        ],
        "text": "".join((part["delta"].get("content") if chat else part["text"]) or "" for part in parts),
        "reason": chunks[-1]["finish_reason"],
        "usage": events[-2]["usage"],
    }


def request(**more: Any) -> dict[str, Any]:
    fixed = {"model": "tiny", "temperature": 0, "return_token_ids": True, "stream": True}
    return fixed | {"stream_options": {"include_usage": True}} | more


def resumed(whole: dict[str, Any], cut: int, limit: int, **more: Any) -> dict[str, Any]:
    ids = whole["prompt"] + whole["ids"][:cut]
    return request(prompt=ids, max_tokens=limit - cut) | more


@pytest.mark.parametrize("limit", [90, 4000], ids=["length", "stop"])
@pytest.mark.parametrize("asked", QUESTIONS.values(), ids=QUESTIONS)
def test_a_greedy_answer_goes_on_anywhere_from_any_token(
    virtual: Make, client: Make, simulator: Make, asked: str, limit: int
) -> None:
    servers = [simulator(*one, max_model_len=8192) for one in FLEET]

    async def main() -> None:
        body = request(messages=[{"role": "user", "content": asked}], max_tokens=limit)
        whole = streamed((await client(servers[0]).ask("POST", CHAT, body)).events, chat=True)
        ids, total = whole["ids"], len(whole["ids"])
        assert whole["reason"] == ("length" if limit == 90 else "stop")
        assert whole["usage"]["completion_tokens"] == total
        for cut in range(1, total) if limit == 90 else range(1, total, 7):
            answer = await client(servers[cut % 3]).ask("POST", TEXT, resumed(whole, cut, limit))
            rest = streamed(answer.events, chat=False)
            assert rest["ids"] == ids[cut:]
            assert rest["reason"] == whole["reason"]
            assert rest["prompt"] == whole["prompt"] + ids[:cut]
            assert rest["usage"] == {
                "prompt_tokens": len(whole["prompt"]) + cut,
                "completion_tokens": total - cut,
                "total_tokens": len(whole["prompt"]) + total,
            }
            before = "".join(tokens.pieces(ids[:cut]))
            if tokens.decode(ids[:cut]) == before:
                assert before + rest["text"] == whole["text"]
            elif rest["text"]:
                start = "".join(tokens.pieces(t for t in whole["prompt"] if t >= len(tokens.SPECIAL)))
                assert start + whole["text"] == rest["text"]

    virtual(main())


def test_the_texts_cut_characters(virtual: Make, client: Make, simulator: Make) -> None:
    async def main() -> None:
        for name in ("vi", "zh", "ja"):
            body = request(messages=[{"role": "user", "content": QUESTIONS[name]}], max_tokens=300)
            events = (await client(simulator("none", 0)).ask("POST", CHAT, body)).events
            silent = [ids for ids, text in streamed(events, chat=True)["said"] if not text]
            assert len(silent) > 10
            assert all(ids for ids in silent)

    virtual(main())


def test_an_answer_goes_on_within_a_surrogate_pair(virtual: Make, client: Make, simulator: Make) -> None:
    async def main() -> None:
        more = {"ignore_eos": True}
        body = request(messages=[{"role": "user", "content": QUESTIONS["zh"]}], max_tokens=1000) | more
        whole = streamed((await client(simulator("none", 0)).ask("POST", CHAT, body)).events, chat=True)
        ids = whole["ids"]
        (first, *_) = (at for at in range(len(ids)) if tokens.decode(ids[at : at + 4]) == "🍵")
        assert [text for _, text in whole["said"][first : first + 4]] == ["", "", "", "🍵"]
        for cut in range(first, first + 5):
            answer = await client(simulator()).ask("POST", TEXT, resumed(whole, cut, 1000, **more))
            assert streamed(answer.events, chat=False)["ids"] == ids[cut:]

    virtual(main())


@pytest.mark.parametrize("server", FLEET, ids=lambda one: one[0])
def test_ids_are_of_the_text(ask: Make, simulator: Make, server: tuple[str, int]) -> None:
    chat = {"messages": [{"role": "user", "content": QUESTIONS["zh"]}]}
    found = streamed(
        ask("POST", CHAT, request(max_tokens=4000, **chat), server=simulator(*server)).events, chat=True
    )
    assert ask("POST", "/tokenize", {"model": "tiny"} | chat).json["tokens"] == found["prompt"]
    text = ask("POST", "/detokenize", {"model": "tiny", "tokens": found["ids"]}).json["prompt"]
    assert text == found["text"] + "<|im_end|>"
    prompt = ask("POST", "/detokenize", {"model": "tiny", "tokens": found["prompt"]}).json["prompt"]
    assert prompt == render([("user", QUESTIONS["zh"])])
    body = request(prompt=prompt, max_tokens=4000)
    assert streamed(ask("POST", TEXT, body).events, chat=False)["ids"] == found["ids"]


@pytest.mark.parametrize("prompt", ["Once upon a time", "That", "def walk(tree):", "怎么泡茶才好喝"])
def test_a_text_completion_goes_on_too(virtual: Make, client: Make, simulator: Make, prompt: str) -> None:
    async def main() -> None:
        body = request(prompt=prompt, max_tokens=60)
        whole = streamed((await client(simulator()).ask("POST", TEXT, body)).events, chat=False)
        server = simulator("none", 0)
        for cut in range(60):
            rest = streamed(
                (await client(server).ask("POST", TEXT, resumed(whole, cut, 60))).events, chat=False
            )
            assert rest["ids"] == whole["ids"][cut:]

    virtual(main())


@pytest.mark.parametrize(
    "more",
    [
        {"ignore_eos": True},
        {"seed": 7, "temperature": 0.8},
        {"temperature": 1.0},
        {"metadata": {"x-sim-workload": "multilingual"}},
        {"response_format": {"type": "json_object"}},
        {"response_format": {"type": "json_object"}, "temperature": 1.0, "ignore_eos": True},
    ],
    ids=["endless", "seeded", "sampled", "aside", "json", "sampled json"],
)
def test_other_answers_go_on_as_well(
    virtual: Make, client: Make, simulator: Make, more: dict[str, Any]
) -> None:
    async def main() -> None:
        limit = 2000 if "ignore_eos" in more else 3000
        body = request(messages=[{"role": "user", "content": "hello"}], max_tokens=limit) | more
        whole = streamed((await client(simulator()).ask("POST", CHAT, body)).events, chat=True)
        server = simulator("none", 0, seed=3)
        for cut in range(8, len(whole["ids"]), max(1, len(whole["ids"]) // 20)):
            answer = await client(server).ask("POST", TEXT, resumed(whole, cut, limit, **more))
            rest = streamed(answer.events, chat=False)
            assert (rest["ids"], rest["reason"]) == (whole["ids"][cut:], whole["reason"])

    virtual(main())


def test_the_first_tokens_of_a_sampled_answer_get_a_text_they_start(ask: Make) -> None:
    (ids,) = [tokens.encode(render([("user", "hello")]))]
    first = tokens.encode("The")
    body = request(prompt=ids + first, max_tokens=60, temperature=1.0)
    text = streamed(ask("POST", TEXT, body).events, chat=False)["text"]
    assert text.startswith(" ")


def test_what_is_known_of_the_question_settles_ties(virtual: Make, client: Make, simulator: Make) -> None:
    """Without the draws of a seed, an answer whose first tokens start several texts stays in its kind."""

    async def main() -> None:
        start = tokens.encode(render([("user", QUESTIONS["code"])]))
        body = request(prompt=start + tokens.encode("The"), max_tokens=2, temperature=1.0)
        answer = await client(simulator()).ask("POST", TEXT, body)
        page = (await client(simulator()).ask("POST", TEXT, body | {"max_tokens": 40})).events
        assert streamed(answer.events, chat=False)["text"]
        assert "function" in streamed(page, chat=False)["text"]

    virtual(main())


def test_a_finished_answer_is_not_gone_on_with(ask: Make) -> None:
    body = request(messages=[{"role": "user", "content": "hi"}], max_tokens=4000)
    whole = streamed(ask("POST", CHAT, body).events, chat=True)
    rest = streamed(ask("POST", TEXT, resumed(whole, len(whole["ids"]), 4000)).events, chat=False)
    assert rest["text"]


def test_an_answer_beyond_its_length_goes_on_as_one_that_began_later(ask: Make) -> None:
    body = request(messages=[{"role": "user", "content": "hi"}], max_tokens=3500, ignore_eos=True)
    whole = streamed(ask("POST", CHAT, body).events, chat=True)
    rest = streamed(ask("POST", TEXT, resumed(whole, 3000, 3500)).events, chat=False)
    assert rest["ids"][:-1] == whole["ids"][3000:][: len(rest["ids"]) - 1]


def test_a_json_answer_that_is_not_the_one_planned_is_begun_anew(ask: Make) -> None:
    ids = tokens.encode(render([("user", "hi")]) + "{ ")
    body = request(prompt=ids, max_tokens=400, response_format={"type": "json_object"})
    assert streamed(ask("POST", TEXT, body).events, chat=False)["text"].startswith("{\n")


@pytest.mark.parametrize("include", [False, True])
def test_text_that_may_start_a_stop_string_is_held_back(ask: Make, simulator: Make, include: bool) -> None:
    body = request(messages=[{"role": "user", "content": "hi"}], max_tokens=200)
    free = streamed(ask("POST", CHAT, body, server=simulator("none", 0)).events, chat=True)
    stop = free["text"][100:110]
    stopped = body | {"stop": [stop, "@@"], "include_stop_str_in_output": include}
    found = streamed(ask("POST", CHAT, stopped, server=simulator("none", 0)).events, chat=True)
    at = free["text"].index(stop)
    assert found["text"] == free["text"][: at + len(stop) if include else at]
    lag = 0 if include else len(stop) - 1
    ids, text = 0, ""
    for new, more in found["said"][:-1]:
        ids, text = ids + len(new), text + more
        assert text == free["text"][: max(0, len(tokens.decode(free["ids"][:ids])) - lag)]
