"""What answers turn out to be is seen at every endpoint, and remembered for what goes on from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.stack import eventually

if TYPE_CHECKING:
    import openai

    from gateway.core.outcome import Record
    from tests.contract.stack import Stack

MODEL = "gemma-4-31b"
QUESTION = "Write a Python function that reverses a linked list."
TURNS = [{"role": "user", "content": QUESTION}]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": TURNS},
    "/v1/completions": {"prompt": QUESTION, "max_tokens": 200},
    "/v1/responses": {"input": QUESTION},
    "/v1/messages": {"messages": TURNS, "max_tokens": 200},
}


def counted(stack: Stack) -> int:
    """Answers to requests for code that were code, or text, as one of ten simulated ones has no code in it."""
    answers: dict[str, dict[str, int]] = stack.http.get("/status").json()["classifier"]["answers"]
    return sum(answers.get("code", {}).get(nature, 0) for nature in ("code", "text"))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("path", BODIES)
def test_answers_are_judged_at_every_endpoint(stack: Stack, path: str, stream: bool) -> None:
    before = counted(stack)
    answer = stack.http.post(path, json={"model": MODEL, "stream": stream, **BODIES[path]})
    assert answer.status_code == 200
    assert answer.headers["x-specroute-workload"] == "code"
    assert eventually(lambda: counted(stack), lambda now: now > before) == before + 1


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_response_is_remembered_by_its_id(stack: Stack, sdk: openai.OpenAI, stream: bool) -> None:
    identity: str
    if stream:
        with sdk.responses.stream(model=MODEL, input=QUESTION) as events:
            identity = events.get_final_response().id
    else:
        identity = sdk.responses.create(model=MODEL, input=QUESTION).id

    def go_on(name: str, previous: str | None) -> Record:
        headers = {"x-request-id": name}
        sdk.responses.create(
            model=MODEL, input="And now?", previous_response_id=previous, extra_headers=headers
        )
        return stack.records.of(name)

    alone = go_on(f"{identity}-alone", None)
    after = go_on(f"{identity}-after", identity)
    # The odds of what the answer before was grow by half where it alone is remembered.
    assert after.classification.scores["code"] > 1.2 * alone.classification.scores["code"] > 0
    assert after.classification.scores["math"] < alone.classification.scores["math"]
