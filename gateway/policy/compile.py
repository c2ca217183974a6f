"""Checked sections of the files to the core's objects."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from gateway.core.breaker import BreakerSettings
from gateway.core.budget import BudgetSettings
from gateway.core.classes import ClassMatch, ServiceClass
from gateway.core.fleet import REFUSED_WITH_DRAFT, STAND_IN, Backend, BackendState, Snapshot
from gateway.core.gpus import GpuSource
from gateway.core.labels import LabelRule
from gateway.core.plan import Limits
from gateway.core.policy import (
    ClassifierSettings,
    Learning,
    Match,
    Policy,
    Resume,
    Route,
    Selector,
    Timeouts,
    Waiting,
    WeightedScorer,
)
from gateway.policy.scalars import HOSTED
from gateway.policy.service import settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gateway.core.examples import LearntLabels
    from gateway.core.predict import ServerModel
    from gateway.policy.classify import RuleSection
    from gateway.policy.schema import (
        BackendSection,
        DefaultsSection,
        MatchSection,
        PolicyFile,
        RouteSection,
        SelectorSection,
    )
    from gateway.policy.service import ClassSection

REVISION_DIGITS: Final = 12
"""Hex digits of a revision: enough that two files of one project never share one."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The backends that a fleet file declares.

    Attributes:
        backends: The vLLM servers.
        revision: Content hash of the fleet file.
        stand_ins: Hosted models that answer where none of the servers of their target can.
    """

    backends: tuple[Backend, ...]
    revision: str
    stand_ins: tuple[Backend, ...] = ()

    def idle(self) -> Snapshot:
        """A snapshot in which every backend is healthy and has nothing to do."""
        return Snapshot.of(map(BackendState, self.backends), self.revision, map(BackendState, self.stand_ins))


def revision(text: str) -> str:
    """Short content hash of a file: the first digits of its SHA-256."""
    return sha256(text.encode()).hexdigest()[:REVISION_DIGITS]


def backend(section: BackendSection, env: Mapping[str, str]) -> Backend:
    """A backend as the core knows it; its key comes from the environment."""
    if section.stands_in:
        return _stand_in(section, env)
    flags = {name.replace("_", "-"): value for name, value in section.launch.args.items()}
    refuses = _refused(section.method, flags) if section.refuses is None else frozenset(section.refuses)
    return Backend(
        name=section.name,
        url=section.url,
        target=section.model,
        served_model=section.served_model or section.model,
        method=section.method,
        draft_tokens=section.draft_tokens,
        draft=section.draft,
        refuses=refuses,
        flags=json.dumps(flags, sort_keys=True) if flags else "",
        max_in_flight=section.max_in_flight,
        max_model_len=section.max_model_len,
        labels=dict(section.labels),
        api_key=_key(section, env),
        gpus=GpuSource(section.gpus.exporter, tuple(section.gpus.ids)) if section.gpus else None,
    )


def _stand_in(section: BackendSection, env: Mapping[str, str]) -> Backend:
    return Backend(
        name=section.name,
        url=section.url,
        target=section.model,
        served_model=section.url.removeprefix(HOSTED),
        method=STAND_IN,
        flags=section.url,  # what one provider refuses, another may take
        max_in_flight=section.max_in_flight,
        api_key=_key(section, env),
    )


def _key(section: BackendSection, env: Mapping[str, str]) -> str | None:
    return env.get(section.api_key_env) if section.api_key_env else None


def _refused(method: str, flags: Mapping[str, object]) -> frozenset[str]:
    """Parameters that vLLM refuses with this method and these flags; nothing follows from no flags at all."""
    refused = frozenset() if method == "none" else REFUSED_WITH_DRAFT
    if flags and flags.get("enable-auto-tool-choice") is not True:
        refused |= {"tools"}
    if str(flags.get("max-logprobs")) == "0":
        refused |= {"prompt_logprobs", "top_logprobs"}
    return refused


def match(section: MatchSection) -> Match:
    """Which requests a route takes."""
    return Match(
        models=frozenset(section.model),
        workloads=frozenset(section.workload),
        min_confidence=section.min_confidence,
        languages=frozenset(section.language),
        endpoints=frozenset(section.endpoint),
        stream=section.stream,
        tenants=frozenset(section.tenant),
        min_prompt_tokens=section.min_prompt_tokens,
        max_prompt_tokens=section.max_prompt_tokens,
    )


def selector(section: SelectorSection) -> Selector:
    """Which backends a preference names."""
    return Selector(
        section.name, section.method, section.draft_tokens, dict(section.labels), section.max_in_flight
    )


def route(section: RouteSection, defaults: DefaultsSection) -> Route:
    """A route with what it inherits."""
    score = defaults.score if section.score is None else section.score
    return Route(
        name=section.name,
        match=match(section.match),
        prefer=tuple(selector(one) for one in section.prefer),
        scorers=tuple(WeightedScorer(name, weight) for name, weight in score.items()),
        baseline_share=defaults.baseline_share if section.baseline_share is None else section.baseline_share,
        max_attempts=defaults.max_attempts if section.max_attempts is None else section.max_attempts,
        stand_ins=defaults.stand_ins if section.stand_ins is None else section.stand_ins,
    )


def label_rule(section: RuleSection) -> LabelRule:
    """Which requests get a label."""
    return LabelRule(
        label=section.label,
        text=None if section.text is None else re.compile(section.text),
        system=None if section.system is None else re.compile(section.system),
        headers={name.lower().encode(): re.compile(one) for name, one in section.header.items()},
        metadata={key: re.compile(one) for key, one in section.metadata.items()},
        models=tuple(section.model),
        tenants=frozenset(section.tenant),
        endpoints=frozenset(section.endpoint),
        path=None if section.path is None else re.compile(section.path),
    )


def service_class(section: ClassSection) -> ServiceClass:
    """A service class."""
    match = section.match
    return ServiceClass(
        name=section.name,
        match=ClassMatch(
            keys=frozenset(bytes.fromhex(one) for one in match.key_sha256),
            headers={name.lower().encode(): re.compile(one.encode()) for name, one in match.header.items()},
            tenants=frozenset(match.tenant),
            endpoints=frozenset(match.endpoint),
            models=frozenset(match.model),
            stream=match.stream,
            min_max_tokens=match.min_max_tokens,
            max_max_tokens=match.max_max_tokens,
        ),
        limits=Limits(section.ttft, section.tpot),
        priority=section.priority,
        wait=section.wait,
        stand_ins=section.stand_ins,
    )


def policy(
    file: PolicyFile,
    routes: Iterable[Route],
    classes: Iterable[ClassSection],
    revision: str,
    examples: LearntLabels | None,
    known: Mapping[str, ServerModel],
) -> Policy:
    """The policy in force."""
    times, classify = file.timeouts, file.classify
    return Policy(
        aliases=dict(file.models),
        routes=tuple(routes),
        timeouts=Timeouts(**times.model_dump()),
        classifier=ClassifierSettings(
            default=classify.default,
            threshold=classify.threshold,
            unsure=classify.unsure,
            trust_hints=classify.trust_hints,
            model=classify.model,
            rules=tuple(label_rule(one) for one in classify.rules),
            examples=examples,
        ),
        allow_pin=file.allow_pin,
        stale_after=file.stale_after,
        revision=revision,
        queue=Waiting(**file.queue.model_dump()),
        resume=Resume(**file.resume.model_dump()),
        breaker=BreakerSettings(**file.breaker.model_dump()),
        retries=BudgetSettings(**file.retries.model_dump()),
        learning=Learning(**settings(file.learning), known=known),
        classes=tuple(service_class(one) for one in classes),
        trust_class=file.trust_class,
    )
