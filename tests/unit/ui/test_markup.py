from __future__ import annotations

from gateway.ui.markup import Html, join, tag


def test_text_and_attributes_are_escaped_whatever_they_are() -> None:
    assert tag("p", "<b>&", title='"><script>') == ('<p title="&quot;&gt;&lt;script&gt;">&lt;b&gt;&amp;</p>')


def test_elements_nest_and_nothing_is_nothing() -> None:
    assert tag("p", tag("b", 1, None, 2.5), Html("<br>")) == "<p><b>12.5</b><br></p>"
    assert join(tag("i"), tag("b")) == "<i></i><b></b>"


def test_names_of_attributes_that_python_cannot_have() -> None:
    assert tag("a", class_="x", aria_hidden=True, hidden=False, id=None) == '<a class="x" aria-hidden></a>'
