"""What a match is said to be left with is what a request by request count finds."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.policy import Match
from gateway.core.selectors import CHARS_PER_TOKEN, matches
from gateway.policy.coverage import Requests
from tests.factories import classification, features

if TYPE_CHECKING:
    from collections.abc import Sequence

MODELS = ("a", "b")
LABELS = ("math", "code", "own")


def some(*names: str) -> st.SearchStrategy[frozenset[str]]:
    return st.frozensets(st.sampled_from(names))


CONDITIONS: dict[str, st.SearchStrategy[Any]] = {
    "models": some(*MODELS),
    "workloads": some(*LABELS),
    "min_confidence": st.sampled_from([0.0, 0.5, 1.0]),
    "languages": some("es", "de"),
    "stream": st.sampled_from([None, True, False]),
    "tenants": some("t", "u"),
    "min_prompt_tokens": st.sampled_from([0, 5, 10]),
    "max_prompt_tokens": st.sampled_from([None, 10, 11, 20]),
}
REQUESTS: dict[str, tuple[Any, ...]] = {
    "models": ("", *MODELS),
    "workloads": LABELS,
    "min_confidence": (0.0, 0.4, 0.5, 0.9, 1.0),
    "languages": ("es", "de", "en"),
    "stream": (True, False),
    "tenants": ("t", "u", "v", None),
    "min_prompt_tokens": (0, 4, 5, 9, 10, 11, 12, 20, 21),
}


@st.composite
def policies(draw: st.DrawFn) -> list[Match]:
    """Matches with conditions of a few kinds, so that together they often leave nothing."""
    kinds = draw(st.lists(st.sampled_from(sorted(CONDITIONS)), min_size=1, max_size=3, unique=True))
    conditions = st.fixed_dictionaries({kind: CONDITIONS[kind] for kind in kinds})
    return [Match(**one) for one in draw(st.lists(conditions, min_size=2, max_size=5))]


def taken(match: Match, request: tuple[Any, ...]) -> bool:
    model, label, sure, language, stream, tenant, tokens = request
    asked = features(
        model=model,
        output_language=language,
        stream=stream,
        tenant=tenant,
        prompt_chars=tokens * CHARS_PER_TOKEN,
    )
    return matches(match, asked, classification(label, sure))


def everything(told_apart: Sequence[Match]) -> list[tuple[Any, ...]]:
    """A request of each kind; where no match looks at something, one stands for all."""
    looked_at = {
        kind for kind in CONDITIONS for one in told_apart if getattr(one, kind) != getattr(Match(), kind)
    }
    looked_at |= {"min_prompt_tokens"} if "max_prompt_tokens" in looked_at else set()
    return list(product(*(all_ if kind in looked_at else all_[:1] for kind, all_ in REQUESTS.items())))


@settings(max_examples=150)
@given(policies())
def test_what_is_left_is_what_a_count_finds(told_apart: list[Match]) -> None:
    *earlier, last = told_apart
    kinds = [one for one in everything(told_apart) if taken(last, one)]
    left = [one for one in kinds if not any(taken(other, one) for other in earlier)]
    requests = Requests(told_apart, models=MODELS, labels=LABELS)
    assert requests.reaches(last, earlier) is bool(left)
    takers = requests.takers(last, earlier)
    assert bool(takers) is not bool(left)
    for missing in takers:
        others = [earlier[at] for at in takers if at != missing]
        assert any(not any(taken(other, one) for other in others) for one in kinds)
    named = [one for one in kinds if one[0]]
    if any(one.models for one in told_apart) and named:
        left_named = [one for one in named if not any(taken(other, one) for other in earlier)]
        assert bool(requests.takers(last, earlier, named=True)) is not bool(left_named)
