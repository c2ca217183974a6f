from __future__ import annotations

import pytest

from backends.sim.look import Kind, calls_tool, look


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Write a Python function that sorts a list.", Kind("code")),
        ("```\nx = 1\n```\nwhat does it do?", Kind("code")),
        ("Prove that there are infinitely many primes.", Kind("math")),
        ("What is 17 * 23?", Kind("math")),
        ("Should I tell my manager before the holidays?", Kind("chat")),
        ("Summarize the following text: the ferry was late.", Kind("grounded")),
        ("The ferry was late again. " * 100, Kind("grounded")),
        ("Wie kann ich das Rad am besten pflegen und was kostet es?", Kind("multilingual", "de")),
        ("Comment est-ce que je peux vendre des fleurs sur le marché ?", Kind("multilingual", "fr")),
        ("¿Qué plantas puedo tener en un balcón con poca luz para el verano?", Kind("multilingual", "es")),
        ("Làm thế nào để học tiếng Anh mỗi ngày?", Kind("multilingual", "vi")),
        ("绿茶应该怎么泡?", Kind("multilingual", "zh")),
        ("朝の習慣を変えるにはどうすればいいですか?", Kind("multilingual", "ja")),
        ("كيف أخطط لرحلة قصيرة؟", Kind("multilingual", "ar")),
        ("Translate this letter into Spanish, please.", Kind("multilingual", "es")),
        ("Как мне лучше подготовиться к разговору?", Kind("multilingual", "es")),
        ("Perché non possiamo più aspettare? Così è già tardi, però lui verrà.", Kind("multilingual", "es")),
        ("Two trains of 5, 7 and 12 wagons meet; which is longer?", Kind("math")),
        ("Summarize: " + "the function of the ferry was to be late. " * 10, Kind("grounded")),
    ],
)
def test_the_kind_of_an_answer(text: str, kind: Kind) -> None:
    assert look(text) == kind


def test_a_label_beside_the_request_wins_if_it_is_known() -> None:
    assert look("What is 2 + 2?", "chat") == Kind("chat")
    assert look("What is 2 + 2?", "nonsense") == Kind("math")
    assert look("hello", "multilingual") == Kind("multilingual", "es")
    assert look("bonjour, je suis sur le port", "multilingual") == Kind("multilingual", "fr")


def test_a_tool_is_called_only_where_the_question_is_about_it() -> None:
    tools = [("get_weather", "Forecast for a city"), ("search_orders", "Find customer orders")]
    assert calls_tool("Which orders are open for this customer?", tools) == 1
    assert calls_tool("What will the weather be tomorrow?", tools) == 0
    assert calls_tool("Tell me a joke.", tools) is None
    assert calls_tool("anything", []) is None
