import json
from types import SimpleNamespace

import pytest

from gateway.adapters import openai_form
from gateway.adapters.openai_form import UnfitError

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


URL = "http://10.0.0.1/a.png"


def said(*content: object, role: str = "user") -> list[object]:
    return [{"role": role, "content": list(content)}]


def part(kind: str, value: object) -> dict[str, object]:
    return {"type": kind, kind: value}


@pytest.mark.parametrize(
    "fetched",
    [
        part("image_url", {"url": URL}),
        part("image_url", URL),
        part("image_url", {"url": "file:///etc/passwd"}),
        part("image_url", {"url": "gs://bucket/a"}),
        part("file", {"file_id": URL}),
        part("file", {"file_data": URL}),
        part("video_url", {"url": URL}),
        part("audio_url", {"url": URL}),
        {"type": "document", "source": {"type": "url", "url": URL}},
    ],
)
@pytest.mark.parametrize("role", ["user", "tool"])
def test_nothing_that_this_host_would_fetch_is_passed_on(fetched: object, role: str) -> None:
    with pytest.raises(UnfitError):
        call(messages=said(part("text", "what is this?"), fetched, role=role))


def test_how_to_send_a_picture_is_told() -> None:
    with pytest.raises(UnfitError, match="data: URL"):
        call(messages=said(part("image_url", {"url": URL})))
    found = openai_form.unfit("why")
    assert found.status == 501
    assert b"why" in found.body


def test_what_is_there_with_its_address_is_passed_on() -> None:
    content = [
        part("text", "a"),
        part("image_url", {"url": "data:image/png;base64,AA"}),
        part("input_audio", {"data": "AA", "format": "wav"}),
        part("file", {"file_data": "data:application/pdf;base64,AA", "filename": "a.pdf"}),
    ]
    assert call(messages=said(*content)).fields["messages"] == said(*content)


def test_of_messages_only_fields_of_openais_own_are_passed_on() -> None:
    called = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    kept = [
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "content": "a", "tool_call_id": "c"},
    ]
    given = [one | {"images": [URL], "reasoning_content": "b", "cache_control": {}} for one in kept]
    assert call(messages=given).fields["messages"] == kept


@pytest.mark.parametrize("kind", ["mcp", "code_interpreter", "web_search_preview"])
def test_only_functions_are_tools(kind: str) -> None:
    with pytest.raises(UnfitError, match=kind):
        call(messages=[], tools=[{"type": kind, "server_url": "litellm_proxy"}])


@pytest.mark.parametrize("prompt", [[1, 2], [[1, 2]], ["a", "b"], [], None])
def test_only_one_text_is_a_prompt(prompt: object) -> None:
    body = json.dumps({"prompt": prompt}).encode()
    with pytest.raises(UnfitError):
        openai_form.call("litellm://openai/x/v1/completions", body)


def test_what_is_told_is_short_whatever_was_sent() -> None:
    with pytest.raises(UnfitError) as raised:
        call(messages=said({"type": "x" * 10_000}))
    assert len(str(raised.value)) < 300


def test_a_text_completion_is_no_chat() -> None:
    found = openai_form.call("litellm://openai/x/v1/completions", b'{"prompt":"p","messages":[]}')
    assert (found.chat, found.stream, found.fields) == (False, False, {"prompt": "p"})


@pytest.mark.parametrize("body", [b"[", b"[]", b"{}", b'{"messages":"hi"}', b'{"messages":[], "stop": 5}'])
def test_what_is_no_request_is_not_passed_on(body: bytes) -> None:
    with pytest.raises(UnfitError):
        openai_form.call(CHAT, body)


def test_other_endpoints_are_no_call() -> None:
    assert openai_form.call("litellm://openai/x/v1/responses", b"{}") is None


def test_what_matters_must_be_supported() -> None:
    found = call(messages=[], tools=[{"type": "function", "function": {}}], seed=1, n=None)
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
