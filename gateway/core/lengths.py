"""How long answers are, by workload: discounted means of the target model, whichever server gave them."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gateway.core.predict import CHARS_PER_TOKEN, ServerModel

if TYPE_CHECKING:
    from collections.abc import Mapping

_TRUST: Final = 3.0
"""Requests that the prior of a workload counts for."""

_MEMORY: Final = 500.0
"""Requests after which evidence has lost most of its weight."""

_USUAL: Final = 400.0
"""Prompt tokens of the requests that the usual number of characters a token is believed for."""


@dataclass(slots=True)
class _Mean:
    weight: float = 0.0
    total: float = 0.0

    def add(self, value: float, weight: float) -> None:
        keep = 1.0 - weight / _MEMORY
        self.weight = keep * self.weight + weight
        self.total = keep * self.total + weight * value

    def drawn(self, to: float, trust: float) -> float:
        return (self.total + trust * to) / (self.weight + trust)


def _means() -> dict[str, _Mean]:
    return defaultdict(_Mean)


@dataclass(slots=True)
class Lengths:
    """Tokens of answers and prompts of one target model.

    Attributes:
        prior: Output tokens by workload that are believed in before there is evidence.
        prior_other: The same for workloads that are not in it.
    """

    prior: dict[str, float] = field(default_factory=dict)
    prior_other: float = ServerModel().other_output_tokens
    _believed: Counter[str | None] = field(default_factory=Counter)
    _by_workload: dict[str, _Mean] = field(default_factory=_means)
    _prompts: dict[str, _Mean] = field(default_factory=_means)
    _all: _Mean = field(default_factory=_Mean)
    _steps: dict[str, _Mean] = field(default_factory=_means)
    _published: Mapping[str, float] | None = None
    _tokens: float = _TRUST * _USUAL
    _chars: float = _TRUST * _USUAL * CHARS_PER_TOKEN

    def believe(self, model: ServerModel) -> None:
        """Take in what is believed of a server's answers; in what several differ, their mean is believed."""
        self.prior_other = self._mean(None, self.prior_other, model.other_output_tokens)
        for workload, tokens in model.output_tokens.items():
            self.prior[workload] = self._mean(workload, self.prior.get(workload, tokens), tokens)
        self._published = None

    def _mean(self, workload: str | None, before: float, tokens: float) -> float:
        self._believed[workload] += 1
        return before + (tokens - before) / self._believed[workload]

    def add(
        self, classes: Mapping[str, float], tokens: int, prompt_tokens: int | None, prompt_chars: int | None
    ) -> None:
        """Take in an answer. In doubt of its label, the difference to what was expected is shared out."""
        means, prior, other = self._by_workload, self.prior, self.other
        off, known = float(tokens), []
        for workload, share in classes.items():
            mean = means[workload]
            expected = mean.drawn(prior.get(workload, other), _TRUST)
            off -= share * expected
            known.append((mean, share, expected))
        for mean, share, expected in known:
            mean.add(max(1.0, expected + off), share)
        self._all.add(tokens, 1.0)
        self._published = None
        if prompt_tokens and prompt_chars:
            keep = 1.0 - 1.0 / _MEMORY
            self._tokens = keep * self._tokens + prompt_tokens
            self._chars = keep * self._chars + prompt_chars

    def prompt(self, classes: Mapping[str, float], tokens: int) -> None:
        """Take in how many tokens of a prompt were computed."""
        for workload, share in classes.items():
            self._prompts[workload].add(tokens, share)

    def steps(self, backend: str, steps: float) -> None:
        """Take in how many decode steps an answer is expected to have taken on a server."""
        self._steps[backend].add(steps, 1.0)

    def _of(self, workload: str, other: float) -> float:
        mean = self._by_workload.get(workload)
        prior = self.prior.get(workload, other)
        return prior if mean is None else mean.drawn(prior, _TRUST)

    @property
    def output_tokens(self) -> Mapping[str, float]:
        """Mean length of an answer by workload; the same object until there is another answer."""
        if self._published is None:
            names, other = {**self.prior, **self._by_workload}, self.other
            self._published = {name: self._of(name, other) for name in names}
        return self._published

    @property
    def prompt_tokens(self) -> Mapping[str, float]:
        """Mean prompt tokens that are computed, by workload."""
        return {workload: mean.drawn(0.0, 0.0) for workload, mean in self._prompts.items() if mean.weight}

    @property
    def other(self) -> float:
        """Mean length of an answer."""
        return self._all.drawn(self.prior_other, _TRUST)

    @property
    def chars_per_token(self) -> float:
        """Characters of a prompt for each of its tokens."""
        return self._chars / self._tokens

    def mean_steps(self, backend: str) -> float:
        """Decode steps of a mean answer on a server."""
        return self._steps.get(backend, _Mean()).drawn(self.other, 1.0)
