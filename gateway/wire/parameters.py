"""Which parameters a request body sets that not every server takes, for capability filters."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

import msgspec

from gateway.core.features import PARAMETERS


class Parameters(msgspec.Struct):
    """Their values as they came, empty where they are absent."""

    allowed_token_ids: msgspec.Raw = msgspec.Raw()
    bad_words: msgspec.Raw = msgspec.Raw()
    best_of: msgspec.Raw = msgspec.Raw()
    chat_template: msgspec.Raw = msgspec.Raw()
    echo: msgspec.Raw = msgspec.Raw()
    frequency_penalty: msgspec.Raw = msgspec.Raw()
    guided_choice: msgspec.Raw = msgspec.Raw()
    guided_grammar: msgspec.Raw = msgspec.Raw()
    guided_json: msgspec.Raw = msgspec.Raw()
    guided_regex: msgspec.Raw = msgspec.Raw()
    ignore_eos: msgspec.Raw = msgspec.Raw()
    logit_bias: msgspec.Raw = msgspec.Raw()
    logits_processors: msgspec.Raw = msgspec.Raw()
    logprobs: msgspec.Raw = msgspec.Raw()
    min_p: msgspec.Raw = msgspec.Raw()
    min_tokens: msgspec.Raw = msgspec.Raw()
    n: msgspec.Raw = msgspec.Raw()
    presence_penalty: msgspec.Raw = msgspec.Raw()
    prompt_embeds: msgspec.Raw = msgspec.Raw()
    prompt_logprobs: msgspec.Raw = msgspec.Raw()
    repetition_penalty: msgspec.Raw = msgspec.Raw()
    response_format: msgspec.Raw = msgspec.Raw()
    seed: msgspec.Raw = msgspec.Raw()
    stop: msgspec.Raw = msgspec.Raw()
    stop_token_ids: msgspec.Raw = msgspec.Raw()
    structured_outputs: msgspec.Raw = msgspec.Raw()
    tool_choice: msgspec.Raw = msgspec.Raw()
    tools: msgspec.Raw = msgspec.Raw()
    top_logprobs: msgspec.Raw = msgspec.Raw()
    use_beam_search: msgspec.Raw = msgspec.Raw()


ABSENT: Final = frozenset({b"", b"null"})
"""What stands for a value that is not there."""

_NEUTRAL: Final = ABSENT | {b"false", b"0", b"0.0", b"{}", b"[]", b'""'}
_ZERO_COUNTS: Final = ABSENT | {b"false"}
_NEUTRAL_OF: Final = {
    "seed": _ZERO_COUNTS,
    "logprobs": _ZERO_COUNTS,  # 0 asks a completion for the chosen token's
    "prompt_logprobs": _ZERO_COUNTS,
    "n": ABSENT | {b"1"},
    "response_format": ABSENT | {b'{"type":"text"}', b'{"type": "text"}'},
    "tool_choice": ABSENT | {b'"none"'},
}

_values: Final = attrgetter(*PARAMETERS)
_NONE_GIVEN: Final = _values(Parameters())


def given(body: Parameters) -> frozenset[str]:
    """Names of those that a body gives another value than the one that stands for nothing."""
    if _values(body) == _NONE_GIVEN:
        return frozenset()
    return frozenset(
        name
        for name in PARAMETERS
        if (raw := getattr(body, name)) and bytes(raw) not in _NEUTRAL_OF.get(name, _NEUTRAL)
    )
