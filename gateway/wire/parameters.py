"""Which sampling and output parameters a request body sets, for capability filters."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

import msgspec


class Parameters(msgspec.Struct):
    """Their values as they came, empty where they are absent."""

    allowed_token_ids: msgspec.Raw = msgspec.Raw()
    bad_words: msgspec.Raw = msgspec.Raw()
    best_of: msgspec.Raw = msgspec.Raw()
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
    presence_penalty: msgspec.Raw = msgspec.Raw()
    prompt_logprobs: msgspec.Raw = msgspec.Raw()
    repetition_penalty: msgspec.Raw = msgspec.Raw()
    seed: msgspec.Raw = msgspec.Raw()
    stop: msgspec.Raw = msgspec.Raw()
    stop_token_ids: msgspec.Raw = msgspec.Raw()
    structured_outputs: msgspec.Raw = msgspec.Raw()
    top_logprobs: msgspec.Raw = msgspec.Raw()
    use_beam_search: msgspec.Raw = msgspec.Raw()


PARAMETERS: Final = Parameters.__struct_fields__
"""Sampling and output parameters that a capability filter may ask for."""

ABSENT: Final = frozenset({b"", b"null"})
"""What stands for a value that is not there."""

_NEUTRAL: Final = ABSENT | {b"false", b"0", b"0.0", b"{}", b"[]", b'""'}
# A seed of 0 is a seed; "logprobs": 0 asks a completion for the chosen token's.
_ZERO_COUNTS: Final = frozenset({"seed", "logprobs", "prompt_logprobs"})
_ZERO_NEUTRAL: Final = ABSENT | {b"false"}


_values: Final = attrgetter(*PARAMETERS)
_NONE_GIVEN: Final = _values(Parameters())


def given(body: Parameters) -> frozenset[str]:
    """Names of those that a body gives another value than the one that stands for nothing."""
    if _values(body) == _NONE_GIVEN:
        return frozenset()
    return frozenset(
        name
        for name in PARAMETERS
        if (raw := getattr(body, name))
        and bytes(raw) not in (_ZERO_NEUTRAL if name in _ZERO_COUNTS else _NEUTRAL)
    )
