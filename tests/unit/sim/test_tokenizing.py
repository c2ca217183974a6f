from __future__ import annotations

from collections.abc import Callable
from typing import Any

Ask = Callable[..., Any]


def test_no_ids_are_no_text(ask: Ask) -> None:
    answer = ask("POST", "/detokenize", {"tokens": []})
    assert (answer.status, answer.json) == (200, {"prompt": ""})


def test_a_body_has_to_be_json(ask: Ask) -> None:
    for path in ("/tokenize", "/detokenize"):
        answer = ask("POST", path, {"prompt": "x", "tokens": [5]}, content_type="text/plain")
        assert (answer.status, "Unsupported Media Type" in answer.json["error"]["message"]) == (400, True)


def test_pieces_come_on_request(ask: Ask) -> None:
    assert ask("POST", "/tokenize", {"prompt": "import os"}).json["token_strs"] is None
    found = ask("POST", "/tokenize", {"prompt": "import os", "return_token_strs": True}).json
    assert "".join(found["token_strs"]) == "import os"
