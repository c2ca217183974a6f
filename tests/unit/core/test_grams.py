from __future__ import annotations

import numpy as np
import pytest

from gateway.core import grams
from gateway.core.features import RequestView, Tool, Turn
from gateway.core.grams import BITS, HEAD_CHARS, NOTHING, TAIL_CHARS, Grams, message_words, read, read_all


def said(role: str, text: str) -> Turn:
    return Turn(role, text, len(text))


def asked(*turns: Turn, tools: tuple[Tool, ...] = (), tool_choice: str = "") -> RequestView:
    return RequestView(endpoint="chat", model="m", turns=turns, tools=tools, tool_choice=tool_choice)


def user(text: str) -> Grams:
    return read(asked(said("user", text)))


def weight(found: Grams, other: Grams) -> float:
    """Share of the weight of one in the buckets of the other."""
    return float(found.weights[np.isin(found.buckets, other.buckets)].sum() / found.weights.sum())


def test_a_request_without_text_has_none() -> None:
    assert read(asked()) is NOTHING
    assert user("") is NOTHING


def test_every_bucket_has_its_place_and_a_weight() -> None:
    found = user("Write a poem about the sea, please.")
    assert len(found.buckets) == len(found.weights) > 40
    assert found.buckets.min() >= 0
    assert found.buckets.max() < 2**BITS
    assert (found.weights > 0).all()


def test_a_word_is_the_same_wherever_it_stands() -> None:
    words, buckets = message_words(asked(said("user", "sea and sky and sea")))
    assert words == ["sea", "and", "sky", "and", "sea"]
    assert buckets[0] == buckets[4]
    assert buckets[1] == buckets[3]
    assert len(set(buckets.tolist())) == 3


def test_words_of_any_script_are_found_as_they_are_written() -> None:
    words, _ = message_words(asked(said("user", "Größe 🙂 мир c'est 世界 x_1")))
    assert words == ["größe", "мир", "c'est", "世", "界", "x_1"]


@pytest.mark.parametrize(
    ("one", "same"),
    [
        ("Add 12 to 34", "add 98 to 76"),
        ("a\tb", "a b"),
        ("٣ apples", "7 apples"),
        ("ÉTÉ À PARIS", "été à paris"),
        ("ЖЁЛТЫЙ Straẞe", "жёлтый straße"),
        ("ΟΔΟΣ", "οδος"),
        ("İki", "i\u0307ki"),
    ],
    ids=[
        "case and digits",
        "spaces",
        "digits of other scripts",
        "case of bytes",
        "case of other letters",
        "a letter that is another at the end of a word",
        "one that is two in the other case",
    ],
)
def test_what_makes_no_difference_is_read_alike(one: str, same: str) -> None:
    assert user(one).buckets.tolist() == user(same).buckets.tolist()


def test_the_order_of_words_makes_a_difference() -> None:
    assert set(user("man bites dog").buckets.tolist()) != set(user("dog bites man").buckets.tolist())


def test_where_a_text_stands_makes_a_difference() -> None:
    text = "prove the theorem of pythagoras"
    system = read(asked(said("system", text)))
    before = read(asked(said("user", text), said("assistant", text), said("user", "?")))
    assert weight(system, user(text)) < 0.05
    assert weight(before, system) < 0.05


@pytest.mark.parametrize("text", ["prove it 🙂", "用 python 写", "ok", "?"])
def test_regions_are_read_apart(text: str) -> None:
    """What one region holds changes nothing of what is read of another."""
    system, answer, last = said("system", text), said("assistant", text), said("user", "and 日本 now 🙂?")
    whole, alone = read(asked(system, answer, last)), (
        read(asked(last)), read(asked(system)), read(asked(answer))
    )  # fmt: skip
    assert whole.buckets.tolist() == [bucket for part in alone for bucket in part.buckets.tolist()]
    assert whole.weights.tolist() == [weight for part in alone for weight in part.weights.tolist()]


def test_tools_make_a_difference_unless_they_are_forbidden() -> None:
    turn, tool = said("user", "turn on the light"), (Tool("switch"),)
    plain = read(asked(turn))
    assert len(read(asked(turn, tools=tool)).buckets) > len(plain.buckets)
    assert read(asked(turn, tools=tool, tool_choice="none")).buckets.tolist() == plain.buckets.tolist()


def test_one_word_and_one_letter_are_read_too() -> None:
    assert 0 < len(user("x").buckets) < len(user("hello").buckets)
    assert len(user("??").buckets) == 1
    assert user("?") is NOTHING


def test_a_long_message_is_read_at_both_ends_only() -> None:
    head, tail = "h" * HEAD_CHARS, "t" * TAIL_CHARS
    assert (
        user(head + "x" * 10**6 + tail).buckets.tolist() == user(head + "y" * 10**6 + tail).buckets.tolist()
    )
    assert len(user("ab " * 10**6).buckets) < 4 * (HEAD_CHARS + TAIL_CHARS)


def test_text_that_grows_when_lowered_is_cut() -> None:
    assert len(user("İ" * 5000).buckets) < 4 * (HEAD_CHARS + TAIL_CHARS)


def test_of_many_turns_the_last_ones_are_read() -> None:
    tail = (said("user", "and now?"), said("assistant", "Yes."), said("user", "Thanks!"))
    long = read(asked(*(said("system", "a b") for _ in range(10_000)), *tail))
    assert (
        long.buckets.tolist()
        == read(asked(*(said("system", "a b") for _ in range(4)), *tail)).buckets.tolist()
    )


def same(one: Grams, other: Grams) -> bool:
    return np.array_equal(one.buckets, other.buckets) and np.array_equal(one.weights, other.weights)


def test_several_requests_are_read_at_once_as_each_alone() -> None:
    tools = (Tool("look_up", "Look it up"),)
    views = [
        asked(said("user", "Tell me about Rome.")),
        asked(),
        asked(said("system", "Be brief."), said("assistant", "Hi."), said("user", "What is 7 \u00d7 8?")),
        asked(said("user", "世界 and мир 🙂 İ"), tools=tools),
        asked(said("user", "?!")),
        asked(said("user", "look it up"), tools=tools),
        asked(said("assistant", "How can I help?")),
    ]
    assert read_all([]) == []
    for some in (views, views[:3], views[1:2]):
        assert all(map(same, read_all(some), map(read, some)))


def test_so_are_more_than_the_tables_are_long_enough_for() -> None:
    long = "a wörd and 世 " * 200
    views = [asked(said("system", f"{at} {long}"), said("user", f"{long} {at}")) for at in range(20)]
    assert all(map(same, read_all(views), map(read, views)))


def test_without_a_user_message_the_last_turns_are_what_was_said_before() -> None:
    assert len(read(asked(said("assistant", "How can I help?"))).buckets) > 0


def test_half_a_surrogate_pair_is_read() -> None:
    assert len(user("lone \ud800 half").buckets) > 0


def test_weights_of_a_kind_add_up_by_their_squares() -> None:
    kinds = 4  # n-grams, words, pairs, and what begins and ends the message
    assert float((user("Tell me about Rome.").weights.astype(np.float64) ** 2).sum()) == pytest.approx(kinds)


def test_hashes_stay_what_models_were_trained_with() -> None:
    _, buckets = message_words(asked(said("user", "sea sky")))
    assert buckets.tolist() == [73898, 100925]


def test_the_table_of_units_tells_letters_from_signs() -> None:
    stands, in_word = grams._tables()
    assert (stands[ord("7")], stands[ord("\n")], stands[ord("a")]) == (ord("0"), ord(" "), ord("a"))
    assert [bool(in_word[ord(char)]) for char in "a9_'é世 .-"] == [True] * 6 + [False] * 3
