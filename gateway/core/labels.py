"""Labels of the operator's own, and the policy's rules by which requests get them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from gateway.core.features import WORKLOADS

if TYPE_CHECKING:
    import re
    from collections.abc import Collection, Mapping

    from gateway.core.features import RequestView
    from gateway.core.policy import ClassifierSettings


@dataclass(frozen=True, slots=True)
class LabelRule:
    """Which requests get a label. Empty fields match everything; all given ones must match.

    Attributes:
        label: A built-in label, or one that exists by being named here.
        text: Searched in the last user message, of a long one in its beginning and end.
        system: Searched in each system prompt, likewise.
        headers: By lower-cased name, searched in the value.
        metadata: By key of the body's ``metadata``, searched in the value.
        models: Names as clients send them; may hold ``*`` and ``?`` as in file globs.
        tenants: Tenant names.
        endpoints: Names from :data:`gateway.core.features.ENDPOINTS`.
        path: Searched in the path as the client sent it, without the query.
    """

    label: str
    text: re.Pattern[str] | None = None
    system: re.Pattern[str] | None = None
    headers: Mapping[bytes, re.Pattern[str]] = field(default_factory=dict, hash=False)
    metadata: Mapping[str, re.Pattern[str]] = field(default_factory=dict, hash=False)
    models: tuple[str, ...] = ()
    tenants: frozenset[str] = frozenset()
    endpoints: frozenset[str] = frozenset()
    path: re.Pattern[str] | None = None

    def fits(self, view: RequestView) -> bool:
        """Whether a request gets the label; what is cheap to see is looked at first."""
        return (
            (not self.endpoints or view.endpoint in self.endpoints)
            and (not self.tenants or view.hints.tenant in self.tenants)
            and (self.path is None or self.path.search(view.path) is not None)
            and (not self.models or any(fnmatchcase(view.model, name) for name in self.models))
            and all(
                pattern.search(view.headers.get(name, b"").decode("latin-1"))
                for name, pattern in self.headers.items()
            )
            and all(pattern.search(view.metadata.get(key, "")) for key, pattern in self.metadata.items())
            and (self.system is None or any(map(self.system.search, _said(view, "system"))))
            and (self.text is None or any(map(self.text.search, _said(view, "user")[-1:])))
        )


def _said(view: RequestView, role: str) -> list[str]:
    return [turn.text for turn in view.turns if turn.role == role]


def known(settings: ClassifierSettings) -> frozenset[str]:
    """All labels that a request can get under a policy."""
    learnt = settings.examples.names if settings.examples else ()
    return frozenset((*WORKLOADS, settings.default, *(rule.label for rule in settings.rules), *learnt))


def without_suffix(view: RequestView, settings: ClassifierSettings, names: Collection[str]) -> RequestView:
    """Takes a label at the end of the model's name (``gemma-4-26b:code``) as the caller's hint.

    Args:
        view: The request as it was sent.
        settings: What labels there are, and whether hints count.
        names: Model names that stand for themselves, with a colon or without.
    """
    name, colon, label = view.model.rpartition(":")
    if not colon or view.model in names or label not in known(settings):
        return view
    hint = view.hints.workload or (label if settings.trust_hints else None)
    return replace(view, model=name, hints=replace(view.hints, workload=hint))
