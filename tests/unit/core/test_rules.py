from __future__ import annotations

import pytest

from gateway.core.features import WORKLOADS, Features, RequestView, Tool, Turn, extract
from gateway.core.rules import RULES

CALENDAR = (
    Tool("search_calendar", "Searches the appointments of the user"),
    Tool("send_email", "Sends an email message to a recipient"),
)
PROSE = "The ferry company said on Monday that two of its oldest ships would leave service next spring. " * 8


def features(
    *texts: str,
    system: str = "",
    tools: tuple[Tool, ...] = (),
    tool_choice: str = "",
    after: tuple[Turn, ...] = (),
) -> Features:
    """The features of a conversation whose turns alternate between user and assistant."""
    turns = [Turn("system", system, len(system))] if system else []
    turns += [Turn("assistant" if i % 2 else "user", text, len(text)) for i, text in enumerate(texts)]
    return extract(
        RequestView(endpoint="chat", model="m", turns=(*turns, *after), tools=tools, tool_choice=tool_choice)
    )


def first(found: Features) -> str:
    return next((rule.name for rule in RULES if rule.fits(found)), "none")


CALL, RESULT = Turn("assistant", "", 0, calls_tool=True), Turn("tool", "{}", 2)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("forced_tool", features("Tell me about Rome.", tools=CALENDAR, tool_choice="required")),
        ("forced_tool", features("Tell me about Rome.", tools=CALENDAR, tool_choice="named")),
        ("agent_loop", features("Tidy up.", tools=CALENDAR, after=(CALL, RESULT, CALL, RESULT))),
        ("tools_as_text", features("Who won?", system="Use the following tools. Action Input: ...")),
        ("tool_asked", features("Find a free hour. Use the calendar API.", tools=CALENDAR)),
        ("tool_name", features("What is on my calendar, which appointments?", tools=CALENDAR)),
        ("tool_words", features("Check which appointments there are on Monday", tools=CALENDAR)),
        ("tool_answer", features("Meet Ann.", "Sure. On which day?", "Friday at ten", tools=CALENDAR)),
        ("code_block", features("```\nx = 1\n```\nWhat is wrong here?")),
        ("code_block", features("def f(x):\n    return x;\nprint(f());\nfor (i in x) {\n")),
        ("prose_given", features(f"Summarize this article.\n\n{PROSE}")),
        ("prose_given", features(f"Which company is this about?\n\n{PROSE}")),
        ("code_asked", features("Write a Python function that adds two numbers.")),
        ("code_asked", features("Solve this in C.")),
        ("code_asked", features("Come si ordina una lista in Python?")),
        ("translation", features("Translate this into Italian: good morning")),
        ("code_job", features("how to reverse a linked list")),
        ("code_job", features("the loop reads each column of the table into a string variable")),
        ("formula", features(r"Let $x^2 = 4$ and $y^2 = 9$. Give $x + y$.")),
        ("math_named", features("Prove that the sum of two odd numbers is even.")),
        ("math_asked", features("Ann has 3 pears and buys 4. How many are there?")),
        ("math_asked", features("What is 17 + 25?")),
        ("math_asked", features("17 + 25 = 42 - 3")),
        ("math_asked", features("Wie viele Birnen hat Anna, wenn sie 3 kauft und 4 bekommt?")),
        ("code_goes_on", features("Adding in Python", "```python\na + b\n```", "do it again, please")),
        ("tool_order", features("Am I free on Friday?", tools=CALENDAR)),
        ("other_language", features("Comment puis-je garder le pain frais ?")),
        ("other_language", features("What should I see in Lisbon?", system="Always answer in Spanish.")),
        ("math_asked", features("Un prix baisse de 20 %, puis de 10 %. Quel est le pourcentage total ?")),
        ("context_given", features("Who left?", system=f"Answer from the supplied documents.\n{PROSE}")),
        ("given_text", features("Make this shorter:\n" + PROSE[:230])),
        ("long_text", features(f"Our ferries.\n{PROSE}")),
        ("otherwise", features("Tell me about Rome.")),
        ("none", features("")),
    ],
)
def test_the_first_rule_that_fits(name: str, found: Features) -> None:
    assert first(found) == name


@pytest.mark.parametrize(
    "found",
    [
        features("Explain why calendars have appointments.", tools=CALENDAR),
        features("Don't send an email, just tell me about Rome.", tools=CALENDAR),
        features("What is on my calendar, which appointments?", tools=CALENDAR, tool_choice="none"),
        features("What is on my calendar, which appointments?", tools=CALENDAR, after=(CALL, RESULT)),
        features("Thanks!", system="Use the following tools. Action Input: ..."),
    ],
)
def test_declared_tools_alone_are_not_enough(found: Features) -> None:
    assert first(found) == "otherwise"


def test_a_story_with_words_of_the_trade_is_not_code() -> None:
    assert first(features("Write a story about a class of thirty children and a binary tree.")) == "otherwise"


def test_a_story_with_formulas_is_not_math() -> None:
    assert (
        first(features(r"Write a poem about $\pi$ and $e$. How many lines has it with 3 or 4 verses?"))
        == "otherwise"
    )


def test_text_with_document_commands_is_not_math() -> None:
    assert first(features(r"Is \emph{this} right in \section{Reefs}?")) == "otherwise"


def test_a_fence_around_comments_to_translate_is_not_code() -> None:
    text = "Translate this paragraph into German:\n```\nthe door is open\n```"
    assert first(features(text)) == "translation"


def test_names_are_unique_and_labels_of_the_closed_set() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert {rule.label for rule in RULES} == set(WORKLOADS)
    assert all(0.5 <= rule.confidence <= 1 for rule in RULES)


def test_evidence_names_marks() -> None:
    marks = features("hello").marks
    assert all(hasattr(marks, mark) for rule in RULES for mark in rule.evidence)
