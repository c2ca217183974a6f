from __future__ import annotations

import pytest

from gateway.policy.variables import named


@pytest.mark.parametrize(
    ("variable", "told"),
    [
        ("OPENAI_API_KEY", "variable OPENAI_API_KEY"),
        ("GEMMA31_KEY", "variable GEMMA31_KEY"),
        ("sk-live-4f9d2c71", "variable that it names"),
        ("sk_live_4f9d2c71", "variable that it names"),
        ("a3f9c04b7d1e", "variable that it names"),
        ("AKIAIOSFODNN7EXAMPLE", "variable that it names"),
    ],
)
def test_a_variable_is_named_where_it_cannot_be_the_key_itself(variable: str, told: str) -> None:
    assert named(variable) == told
