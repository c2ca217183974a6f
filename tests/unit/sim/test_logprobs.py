from __future__ import annotations

from backends.sim import logprobs


def test_a_chat_token_lists_itself_first_among_its_alternatives() -> None:
    content = logprobs.chat(["é", " the"], 3)["content"]
    assert [entry["token"] for entry in content] == ["é", " the"]
    assert content[0]["bytes"] == [195, 169]
    for entry in content:
        assert list(entry) == ["token", "logprob", "bytes", "top_logprobs"]
        assert entry["top_logprobs"][0] == {k: entry[k] for k in ("token", "logprob", "bytes")}
        falling = [other["logprob"] for other in entry["top_logprobs"]]
        assert falling == sorted(falling, reverse=True)
        assert len({other["token"] for other in entry["top_logprobs"]}) == 3


def test_no_alternatives_are_listed_unless_asked_for() -> None:
    assert logprobs.chat(["a"], 0)["content"][0]["top_logprobs"] == []


def test_a_text_token_comes_with_its_offset() -> None:
    found = logprobs.text(["ab", "c"], 2, 10)
    assert list(found) == ["text_offset", "token_logprobs", "tokens", "top_logprobs"]
    assert found["text_offset"] == [10, 12]
    assert [len(top) for top in found["top_logprobs"]] == [3, 3]
    assert found["top_logprobs"][0]["ab"] == found["token_logprobs"][0]


def test_all_twenty_alternatives_can_be_had() -> None:
    assert len(logprobs.chat([" the"], 20)["content"][0]["top_logprobs"]) == 20


def test_the_first_token_of_an_echo_has_no_probability() -> None:
    found = logprobs.text(["a", "b"], 1, 0, echo=True)
    assert found["token_logprobs"][0] is found["top_logprobs"][0] is None
    assert isinstance(found["token_logprobs"][1], float)
    assert logprobs.text(["b"], 1, 1, echo=True)["top_logprobs"][0] is not None
