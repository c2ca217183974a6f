from __future__ import annotations

import pytest

from gateway.core.features import ENDPOINTS, GENERATING, Hints, RequestView, Tool, Turn, extract


def turn(role: str, text: str, *, calls_tool: bool = False) -> Turn:
    return Turn(role, text, len(text), calls_tool)


def view(*turns: Turn, tools: tuple[Tool, ...] = (), tool_choice: str = "") -> RequestView:
    return RequestView(endpoint="chat", model="m", turns=turns, tools=tools, tool_choice=tool_choice)


def test_carries_over_what_the_request_says() -> None:
    hints = Hints(workload="code", session="s")
    features = extract(
        RequestView(
            endpoint="completions",
            model="alias",
            stream=True,
            n=2,
            max_tokens=7,
            temperature=0.5,
            parameters=frozenset({"min_p"}),
            response_format="json_object",
            tool_choice="auto",
            tools=(Tool("a"), Tool("b")),
            turns=(turn("user", "Hello"),),
            hints=hints,
        )
    )
    assert (features.endpoint, features.model, features.stream, features.n) == (
        "completions",
        "alias",
        True,
        2,
    )
    assert (features.max_tokens, features.temperature) == (7, 0.5)
    assert (features.parameters, features.response_format) == (frozenset({"min_p"}), "json_object")
    assert (features.tool_choice, features.tools, features.hints) == ("auto", 2, hints)


def test_counts_characters_and_turns() -> None:
    features = extract(
        view(
            turn("system", "Be kind."),
            turn("user", "Hi there"),
            turn("assistant", "Hello"),
            Turn("user", "And now?", 5000),
        )
    )
    assert (features.system_chars, features.last_chars, features.prompt_chars) == (8, 5000, 8 + 8 + 5 + 5000)
    assert (features.turns, features.last_role) == (4, "user")


def test_a_request_without_turns_has_features_too() -> None:
    features = extract(view())
    assert (features.turns, features.last_role, features.last_chars, features.language) == (0, "", 0, "und")


def test_a_request_without_a_user_message_has_features_too() -> None:
    features = extract(view(turn("system", "Be kind.")))
    assert (features.last_chars, features.last_role) == (0, "system")


def test_reads_the_last_user_message_and_not_what_follows_it() -> None:
    features = extract(
        view(
            turn("user", "Wie wird das Wetter in Oslo?"),
            turn("assistant", "", calls_tool=True),
            turn("tool", "the weather is in the fridge and that is it"),
        )
    )
    assert features.language == "de"
    assert features.last_role == "tool"
    assert features.marks.tool_turns == 2


def test_the_answer_before_the_message_tells_what_it_follows() -> None:
    before = (turn("user", "Reverse a list in Python"), turn("assistant", "```python\nx[::-1]\n```"))
    features = extract(view(*before, turn("user", "now make it lazy")))
    assert features.marks.code_before
    assert features.marks.follows_up


@pytest.mark.parametrize(
    ("system", "message", "expected"),
    [
        ("", "What should I see in Lisbon?", "en"),
        ("Always answer in Spanish.", "What should I see in Lisbon?", "es"),
        ("Always answer in Spanish.", "What should I see in Lisbon? Please reply in French.", "fr"),
        ("You are a translator between English and German.", "What should I see in Lisbon?", "en"),
        ("", "Translate to Thai: good morning", "th"),
    ],
)
def test_the_answer_is_in_the_language_that_was_asked_for(system: str, message: str, expected: str) -> None:
    assert extract(view(turn("system", system), turn("user", message))).output_language == expected


def test_the_language_is_asked_for_at_either_end_of_a_long_message() -> None:
    body = "The meeting has been moved to Thursday. " * 60
    assert extract(view(turn("user", f"{body} Translate this into German."))).output_language == "de"
    assert extract(view(turn("user", f"Translate this into German. {body}"))).output_language == "de"


def test_tools_that_may_not_be_called_are_not_compared_with_the_message() -> None:
    tools = (Tool("get_weather", "Current weather of a city"),)
    message = turn("user", "Get the weather for Hamburg")
    assert extract(view(message, tools=tools)).marks.tool_overlap > 0
    assert extract(view(message, tools=tools, tool_choice="none")).marks.tool_overlap == 0


def test_generating_endpoints_are_endpoints() -> None:
    assert set(ENDPOINTS) >= GENERATING
