from __future__ import annotations

import pytest

from gateway.core.features import Tool, Turn
from gateway.core.loops import NOTHING
from gateway.core.marks import Marks, read
from gateway.core.reading import ASK_CHARS, HEAD_CHARS, TAIL_CHARS, reading

WEATHER = Tool("getWeather", "Current temperature of a city")


def marks(
    text: str,
    *,
    left_out: int = 0,
    language: str = "en",
    system: str = "",
    answer: str = "",
    tools: tuple[Tool, ...] = (),
) -> Marks:
    return read(
        Turn("user", text, len(text) + left_out),
        reading(text),
        language=language,
        system=system,
        answer=answer,
        tools=tools,
        loop=NOTHING,
    )


def test_an_empty_message_has_no_marks() -> None:
    assert marks("") == Marks()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("```py\nx\n```\nand\n```\ny\n```", {"fences": 2}),
        ("def area(r):\n    return r * r;", {"code_syntax": 3}),
        ("select name from users where id = 3", {"code_syntax": 1}),
        ("Compare Python with Kotlin", {"code_names": 2}),
        ("the loop over an iterator never ends", {"code_words": 2}),
        ("Write a small function that adds", {"code_request": True}),
        ("Solve this in C.", {"code_in": True}),
        ("find all files under /tmp", {"code_task": True}),
        (r"Let $x^2$ be \frac{1}{2}", {"latex": 2}),
        (r"\section{Reefs} and \emph{fish}", {"latex_text": 2}),
        ("3 apples, 4.5 pears and 1,000 plums", {"numbers": 3}),
        ("2 + 2 = 4 and 5 > 3", {"operators": 3}),
        ("the radius of the circle", {"math_words": 2}),
        ("how many apples are left", {"math_count": True}),
        ("At what speed does it go", {"math_count": True}),
        ("explain in how many days", {"math_count": True}),
        ("in whatever way, what for", {"math_count": False}),
        ("what is the value of it", {"math_task": True}),
        ("Prove that it is finite", {"math_sure": True}),
        ("Summarize this article", {"text_task": True}),
        ("Write a short story about a lighthouse", {"creative": True}),
        ("Translate this, please", {"translation": True}),
        ("Where is it?", {"question": True}),
        ("Thanks a lot!", {"plain_order": True}),
        ("Don't send anything", {"plain_order": False}),
        ("Why is useState called twice in MyForm?", {"identifiers": 2}),
        ("set max_tokens, n_ and _x to 1", {"identifiers": 1}),
        ("\u201cuseState\u201d and größeÜber", {"identifiers": 1}),
        ("useState and größeÜber", {"identifiers": 2}),
        ("what is `x` and ``` `y` ``` and `z", {"ticks": 2}),
        ("C++ or C#, or C", {"code_names": 2}),
        ("Explain the tides", {"plain_request": True}),
    ],
)
def test_reads_the_message(text: str, expected: dict[str, int | bool]) -> None:
    found = marks(text)
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Schreib eine Funktion, die zählt", {"code_words": 1, "code_request": True}),
        ("Wie viele Äpfel bleiben übrig?", {"math_other": True}),
        ("求这个三角形的面积", {"math_other": True, "math_words": 3, "other_math": 3}),
        ("Übersetze das bitte", {"translation": True}),
    ],
)
def test_reads_other_languages_where_the_message_is_not_english(
    text: str, expected: dict[str, int | bool]
) -> None:
    foreign, english = marks(text, language="xx"), marks(text)
    assert {name: getattr(foreign, name) for name in expected} == expected
    assert {name: getattr(english, name) for name in expected} != expected


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("a short question without any text", 0, 0),
        ("one long line alone " * 20, 0, 0),
        ("Shorten this:\n" + "the river rose again " * 20, 400, 425),
        ("Shorten this: " + "the river rose again " * 20, 400, 425),
        ('Is this right? "' + "the river rose again " * 8 + '" It sounds odd.', 160, 170),
    ],
)
def test_tells_given_text_from_the_request(text: str, least: int, most: int) -> None:
    assert least <= marks(text).supplied_chars <= most


def test_what_was_cut_out_of_a_long_text_counts_as_given() -> None:
    text = "Shorten this:\n" + "the river rose again " * 20
    assert marks(text, left_out=9000).supplied_chars == marks(text).supplied_chars + 9000


def test_reads_both_ends_of_a_long_message_and_not_its_middle() -> None:
    filler = "the river rose again and again. " * 100
    assert len(filler) > HEAD_CHARS + TAIL_CHARS
    assert marks(f"Summarize this. {filler}").text_task
    assert marks(f"{filler} Summarize this.").text_task
    assert not marks(f"{filler} Summarize this. {filler}").text_task


def test_compares_the_message_with_names_and_descriptions_of_tools() -> None:
    found = marks("Get the weather and the temperature of Hamburg", tools=(WEATHER,))
    assert (found.tool_name_overlap, found.tool_overlap) == (1, 2)
    assert found.tool_action


def test_a_tool_asked_for_by_name_is_noticed() -> None:
    assert marks("Find it out using the geography API", tools=(WEATHER,)).tool_asked
    assert not marks("Find it out using the geography API").tool_asked


def test_orders_in_other_languages_are_noticed() -> None:
    assert marks("帮我查一下订单到哪里了", language="zh", tools=(WEATHER,)).tool_action


def test_tools_written_into_the_system_prompt_are_noticed() -> None:
    assert marks("hello", system="You can use the following tools: Search[query]").tool_text
    assert not marks("hello", system="You are a helpful assistant with many tools.").tool_text


def test_documents_supplied_in_the_system_prompt_are_noticed() -> None:
    asked = "Answer only from the supplied documents.\n"
    assert marks("Where is it?", system=asked + "[1] The river rose again. " * 20).context
    assert not marks("Where is it?", system=asked).context
    assert not marks("Where is it?", system="Be kind. " * 50).context


@pytest.mark.parametrize(
    ("message", "goes_on"),
    [("now make it faster", True), ("Unrelated: is it going to rain?", False), ("tell me about Rome", False)],
)
def test_tells_whether_a_message_goes_on_about_the_answer(message: str, *, goes_on: bool) -> None:
    assert marks(message, answer="Here you are: ```x = 1```").goes_on is goes_on


def test_notices_that_the_assistant_asked_for_something() -> None:
    found = marks("Lagos, tomorrow", answer="Sure. Please provide the city and the day.")
    assert (found.asked_back, found.follows_up, found.code_before) == (True, True, False)
    assert not marks("Lagos, tomorrow", answer="Here is the list.").asked_back


@pytest.mark.parametrize(
    "sign",
    ["f.call(x)", "main()", "x => {", "a === b", "a !== b", "x = 1;", "if x {", "std::cout", "p->next",
     "error: no such file", "exception", "exit code", "undefined", "0xff", "<div class=x>"],
)  # fmt: skip
def test_every_sign_of_code_is_seen_alone(sign: str) -> None:
    assert marks(f"look at {sign}").code_syntax > 0


def test_tools_that_are_there_may_be_declined() -> None:
    assert marks("Don't send anything", tools=(WEATHER,)).plain_order
    assert marks("Don't send anything", system="Call the following tools").plain_order


def test_words_of_the_middle_count_and_are_not_asked_for() -> None:
    filler = "Es war einmal ein kleiner Bach, der floss. " * 4
    assert len(filler) > ASK_CHARS
    found = marks(f"{filler} Write a python function, radius. {filler}")
    assert (found.code_names, found.math_words, found.code_request) == (1, 1, False)
