import json
from types import SimpleNamespace

import pytest

from gateway.adapters import openai_form

CHAT = "litellm://bedrock/a.b/v1/chat/completions?x=1"


class ProviderError(Exception):
    def __init__(self, status: object, **given: object) -> None:
        super().__init__("words with sk-secret")
        self.status_code = status
        vars(self).update(given)


def call(**fields: object):
    return openai_form.call(CHAT, json.dumps(fields).encode())


def test_only_fields_of_openais_own_are_passed_on() -> None:
    found = call(
        model="m", messages=[], api_base="http://evil", api_key="k", fallbacks=[], top_k=3, stream=True
    )
    assert found.model == "bedrock/a.b"
    assert found.fields == {"messages": [], "stream": True}
    assert found.chat
    assert found.stream


def test_a_text_completion_is_no_chat() -> None:
    found = openai_form.call("litellm://openai/x/v1/completions", b'{"prompt":"p","messages":[]}')
    assert (found.chat, found.stream, found.fields) == (False, False, {"prompt": "p"})


@pytest.mark.parametrize(
    ("url", "body"), [("litellm://openai/x/v1/responses", b"{}"), (CHAT, b"["), (CHAT, b"[]")]
)
def test_what_cannot_be_passed_on_is_no_call(url: str, body: bytes) -> None:
    assert openai_form.call(url, body) is None


def test_what_matters_must_be_supported() -> None:
    found = call(messages=[], tools=[{}], seed=1, n=None)
    assert found.lacking(["messages"]) == ["tools"]
    assert found.lacking(["tools"]) == []
    assert found.lacking(None) == []


@pytest.mark.parametrize(
    ("status", "told"),
    [(400, 400), (422, 422), (413, 413), (401, 502), (402, 502), (403, 502), (404, 502), (408, 504), (429, 429),
     (500, 500), (503, 503), (None, 500), (200, 500)],
)  # fmt: skip
def test_the_status_of_each_failure(status: object, told: int) -> None:
    found = openai_form.refusal(ProviderError(status))
    assert found.status == told
    assert set(json.loads(found.body)["error"]) == {"message", "type", "param", "code"}
    assert (b"sk-secret" in found.body) == (told in {400, 413, 422})


def test_a_fault_of_the_request_is_told_as_the_provider_tells_it() -> None:
    error = ProviderError(400, body={"message": "too hot"}, code="bad", param="temperature")
    told = json.loads(openai_form.refusal(error).body)["error"]
    assert (told["message"], told["code"], told["param"]) == ("too hot", "bad", "temperature")


def test_when_to_come_back_is_passed_on() -> None:
    error = ProviderError(429, response=SimpleNamespace(headers={"retry-after": "7"}))
    assert (b"retry-after", b"7") in openai_form.refusal(error).headers


def test_an_answer_has_what_clients_read_and_nothing_of_the_librarys() -> None:
    answer = {
        "id": "c", "system_fingerprint": None, "usage": {"total_tokens": 1, "cost": 0.1},
        "choices": [{"index": 0, "message": {"role": "assistant", "content": None, "provider_specific_fields": {}}}],
    }  # fmt: skip
    assert json.loads(openai_form.document(answer)) == {
        "id": "c",
        "usage": {"total_tokens": 1},
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": None},
                "finish_reason": None,
                "logprobs": None,
            }
        ],
    }


def test_a_chunk_is_an_event() -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}]}
    assert openai_form.event(chunk).startswith(b'data: {"choices":[{"index":0,"delta":{"content":"a"}')
    text = openai_form.event({"choices": [{"index": 0, "text": None, "finish_reason": "stop"}]})
    assert b'"text":""' in text
    assert text.endswith(b"\n\n")


def test_what_a_provider_lacks_is_told() -> None:
    found = openai_form.unsupported(["tools"])
    assert found.status == 501
    assert b"tools" in found.body
