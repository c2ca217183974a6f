"""Which workload a request is: hints first, then a classifier, then a default where it is not sure."""

from __future__ import annotations

import re
from dataclasses import field, replace
from typing import TYPE_CHECKING, Final, Protocol

from gateway.core import sessions
from gateway.core.labels import known
from gateway.core.language import UNKNOWN
from gateway.core.rules import RULES
from gateway.core.values import value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gateway.core.examples import LearntLabels
    from gateway.core.features import Features, RequestView
    from gateway.core.policy import ClassifierSettings


@value(frozen=True, slots=True)
class Classification:
    """A workload label and how it was found.

    Attributes:
        label: One of :data:`gateway.core.features.WORKLOADS`, or a label the policy defines.
        confidence: Probability that the label is right, 0 to 1. A hint has 1.
        source: ``hint``, ``policy``, ``examples``, ``rule:NAME``, ``model:NAME``, ``session``, ``mix`` or
            ``default``.
        scores: Probability by label where the classifier gives one; may be empty.
    """

    label: str
    confidence: float
    source: str
    scores: Mapping[str, float] = field(default_factory=dict)

    @property
    def weights(self) -> Mapping[str, float]:
        """By what each label counts in a prediction for this request; they add up to 1.

        The probabilities, or the label alone where it was given and not guessed, or where the policy's
        default stands for a guess that was not sure enough.
        """
        return self.scores if self.scores and self.source != "default" else {self.label: 1.0}


class Classifier(Protocol):
    """Whatever labels requests. A pure function of its arguments; it neither waits nor keeps text."""

    def labels(self, requests: Sequence[tuple[RequestView, Features]], /) -> Sequence[Classification]:
        """Gives the most likely label of each request, however unsure; the caller applies the threshold.

        What it gives of one is the same whatever others are beside it.
        """
        ...

    def reasons(self, view: RequestView, features: Features, label: str, /) -> list[str]:
        """What speaks most for a label, in words; may hold words of the prompt."""
        ...


_BY_NAME: Final = {rule.name: rule for rule in RULES}
_SHOWN: Final = 3
NOTHING: Final = Classification("chat", 0.0, "default")
"""What a request without words is taken for."""


class RuleClassifier:
    """The first rule of :data:`gateway.core.rules.RULES` that fits."""

    def label(self, _view: RequestView, features: Features, /) -> Classification:
        """Gives the label of the first rule that fits, with confidence 0 where none does."""
        for rule in RULES:
            if rule.fits(features):
                return Classification(rule.label, rule.confidence, f"rule:{rule.name}")
        return NOTHING

    def labels(self, requests: Sequence[tuple[RequestView, Features]], /) -> Sequence[Classification]:
        """Gives the label of each."""
        return [self.label(view, features) for view, features in requests]

    def reasons(self, _view: RequestView, _features: Features, _label: str, /) -> list[str]:
        """Nothing but the rule itself speaks for its label."""
        return []


_RULES: Final = RuleClassifier()
_LETTER_OR_DIGIT: Final = re.compile(r"[^\W_]")


def wordless(view: RequestView) -> bool:
    """Whether a request holds nothing to judge by: no text, or none with a letter or a digit."""
    return not any(_LETTER_OR_DIGIT.search(turn.text) for turn in view.turns)


def classify(
    view: RequestView,
    features: Features,
    settings: ClassifierSettings,
    classifier: Classifier,
    before: Sequence[str] = (),
) -> Classification:
    """Labels a request.

    A trusted hint decides where it names a known label; then the first of the policy's rules that fits.
    Otherwise the classifier does (or the built-in rules alone, where the policy says so), together with what
    the session's answers so far were, where the request does not hold them. Labels learnt from examples
    compete with what it says. Below the policy's threshold its default is taken, or the likeliest label with
    all others beside it.

    Args:
        view: The request.
        features: Its facts.
        settings: What the policy says of classification.
        classifier: What guesses where nobody said.
        before: Natures of the session's last answers, the newest last.
    """
    return classify_all([Asked(view, features, settings, before)], classifier)[0]


@value(frozen=True, slots=True)
class Asked:
    """A request to label, with what :func:`classify` takes."""

    view: RequestView
    features: Features
    settings: ClassifierSettings
    before: Sequence[str] = ()


def classify_all(requests: Sequence[Asked], classifier: Classifier) -> list[Classification]:
    """Labels several requests, each as :func:`classify` does."""
    told = [_told(asked) for asked in requests]
    open_to = [asked for asked, found in zip(requests, told, strict=True) if found is None]
    guessed = iter(classifier.labels([(asked.view, asked.features) for asked in open_to]))
    return [
        _judged(asked, next(guessed)) if found is None else found
        for asked, found in zip(requests, told, strict=True)
    ]


def _told(asked: Asked) -> Classification | None:
    """What the caller or the policy says, or the built-in rules alone where the policy says so."""
    settings = asked.settings
    hint = asked.features.hints.workload
    if hint is not None and settings.trust_hints and hint in known(settings):
        return Classification(hint, 1.0, "hint")
    for rule in settings.rules:
        if rule.fits(asked.view):
            return Classification(rule.label, 1.0, "policy")
    if settings.model == "rules":
        return _judged(asked, _RULES.label(asked.view, asked.features))
    return None


def _judged(asked: Asked, found: Classification) -> Classification:
    """What a guess comes to beside the session and the operator's own labels, and where it is not sure."""
    view, settings = asked.view, asked.settings
    if asked.before and found.source.startswith("model:") and sessions.unseen(view):
        found = _with_session(found, asked.before)
    if settings.examples is not None and not wordless(view):
        found = _beside(settings.examples, view, found, settings.threshold)
    if found.confidence >= settings.threshold:
        return found
    if settings.unsure == "mix" and found.scores:
        return replace(found, source="mix")
    return Classification(settings.default, found.confidence, "default", found.scores)


def _with_session(found: Classification, before: Sequence[str]) -> Classification:
    scores = sessions.weigh(found.scores, before)
    label = max(scores, key=scores.__getitem__)
    return Classification(label, scores[label], found.source if label == found.label else "session", scores)


def _beside(own: LearntLabels, view: RequestView, found: Classification, threshold: float) -> Classification:
    """Lets the operator's own labels compete with the label that was found.

    One of them takes the request where it is the likeliest and sure enough; otherwise what was found stands.
    """
    scores = own.beside(view, found.scores or {found.label: 1.0})
    likeliest = max(own.names, key=scores.__getitem__)
    rest = 1 - sum(scores[name] for name in own.names)
    against = rest * found.confidence if found.scores else rest
    if scores[likeliest] >= max(threshold, against):
        return Classification(likeliest, scores[likeliest], "examples", scores)
    return replace(found, scores=scores) if found.scores else found


def reason(classification: Classification, features: Features) -> str:
    """Says in words why a request got its label, for people who ask.

    Example:
        ``code, because the message asks for code (code_words 3); rule code_asked, confidence 0.93``
    """
    label, source, confidence = classification.label, classification.source, classification.confidence
    if source == "hint":
        return f"{label}, because the caller said so"
    if source == "policy":
        return f"{label}, because a rule of the policy says so"
    if source == "examples":
        return f"{label}, because it is like the examples of that label (confidence {confidence:.2f})"
    if source == "session":
        return (
            f"{label}, because the answers before it in its session were that (confidence {confidence:.2f})"
        )
    if source == "mix":
        likely = sorted(classification.scores.items(), key=lambda pair: -pair[1])[:_SHOWN]
        each = ", ".join(f"{one} {score:.2f}" for one, score in likely)
        return f"{label}, the likeliest, but not sure enough: each counts by its probability ({each})"
    if source == "default":
        return f"{label}, the policy's default, because nothing was sure enough (confidence {confidence:.2f})"
    kind, _, name = source.partition(":")
    rule = _BY_NAME.get(name) if kind == "rule" else None
    if rule is None:
        return f"{label}, because {kind} {name} finds it most likely (confidence {confidence:.2f})"
    marks = [
        f"{mark} {getattr(features.marks, mark)}" for mark in rule.evidence if getattr(features.marks, mark)
    ]
    language = (
        f"; answer in {features.output_language}" if features.output_language not in {"en", UNKNOWN} else ""
    )
    shown = f" ({', '.join(marks)})" if marks else ""
    return f"{label}, because {rule.because}{shown}{language}; rule {name}, confidence {confidence:.2f}"
