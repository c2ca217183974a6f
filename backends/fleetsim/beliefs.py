"""What a gateway under simulation is told: its policy, what a sweep would say, and who is who."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from backends.fleetsim.draws import steps_per_token
from backends.sim import profiles
from gateway.core.classify import Classification
from gateway.core.features import WORKLOADS, Features, Hints
from gateway.core.fleet import REFUSED_WITH_DRAFT, Backend
from gateway.core.learn import FAMILIES, MODEL, Arm
from gateway.core.marks import Marks
from gateway.core.policy import (
    AUTO,
    ClassifierSettings,
    Learning,
    Match,
    Policy,
    Route,
    Selector,
    Timeouts,
    Waiting,
    WeightedScorer,
)
from gateway.core.predict import PROMPT_BINS, STRATA, Cell, ServerModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backends.fleetsim.model import Model

STALE_AFTER: Final = 10.0
ALIAS: Final = "fleet"
_AUTO: Final = Learning(AUTO, 1.0, explore=0.03)
ENDLESS: Final = Waiting(math.inf, sys.maxsize)
"""Whatever finds no room waits for it."""


def believed(model: Model) -> ServerModel:
    """What a good sweep of this engine would tell: its steps and acceptance, on the assumed lengths."""
    cells = {
        Cell(workload, at, how): steps_per_token(model.survival(workload), model.spread)
        for workload in WORKLOADS
        for at in range(len(PROMPT_BINS) + 1)
        for how in STRATA
    }
    return ServerModel(
        fingerprint=model.name,
        steps_per_token=cells,
        other_steps_per_token=sum(cells.values()) / len(cells),
        step_seconds=model.seconds,
        prefill_seconds=model.prefill_seconds,
        output_tokens={workload: profiles.lengths(workload).output for workload in WORKLOADS},
        max_running=model.max_sequences,
    )


def policy(*, target: str = "", learning: Learning = _AUTO) -> Policy:
    """One route for everything, in which what was learnt decides.

    Args:
        target: The target model that requests ask for.
        learning: What is made of what was learnt.
    """
    route = Route(name="all", match=Match(), prefer=(Selector(),), scorers=(WeightedScorer("seconds", 1.0),))
    return Policy(
        aliases={ALIAS: target},
        routes=(route,),
        timeouts=Timeouts(),
        classifier=ClassifierSettings(),
        allow_pin=True,
        stale_after=STALE_AFTER,
        revision="simulated",
        queue=ENDLESS,
        learning=learning,
    )


def backend(name: str, model: Model, target: str) -> Backend:
    """A server that no fleet file declares; nothing limits what is open on it."""
    return Backend(
        name,
        url=f"http://{name}",
        target=target,
        served_model=model.target,
        method=model.method,
        draft_tokens=model.draft_tokens,
        refuses=REFUSED_WITH_DRAFT if model.draft_tokens else frozenset(),
        max_in_flight=1_000_000,
    )


def backends(names: Sequence[str], models: Sequence[Model], target: str) -> list[Backend]:
    """Servers that no fleet file declares, with these names or else some made from the models."""
    names = names or [f"{index}-{model.name}" for index, model in enumerate(models)]
    return [backend(name, model, target) for name, model in zip(names, models, strict=True)]


def running(declared: Backend, model: Model) -> Backend:
    """A declared server that runs something else: it keeps its limits and labels."""
    refuses = declared.refuses - REFUSED_WITH_DRAFT
    return replace(
        declared,
        method=model.method,
        draft_tokens=model.draft_tokens,
        draft=None,
        refuses=refuses | REFUSED_WITH_DRAFT if model.draft_tokens else refuses,
    )


def arm(model: Model, prior: ServerModel | None) -> Arm:
    """A server as the learner knows it; those that run the same are replicas."""
    return Arm(
        fingerprint=f"{model.target}/{model.name}/{model.method}/{model.draft_tokens}",
        target=model.target,
        draft_tokens=model.draft_tokens,
        family=FAMILIES.get(model.method, MODEL),
        prior=prior,
        max_running=model.max_sequences,
        draft=model.name.removesuffix(f"-{model.draft_tokens}"),
    )


def features(model: str) -> Features:
    """A chat request that streams, of no length yet."""
    return Features(
        endpoint="chat", model=model, stream=True, n=1, max_tokens=None, temperature=None,
        parameters=frozenset(), response_format="text", tool_choice="", tools=0, turns=1, last_role="user",
        system_chars=0, prompt_chars=0, last_chars=0, language="en", output_language="en", marks=Marks(),
        hints=Hints(),
    )  # fmt: skip


def classification(label: str, sure: float) -> Classification:
    """What a classifier says that is right in a share ``sure`` of the cases, and else any other way."""
    others = [name for name in WORKLOADS if name != label] if sure < 1.0 else []
    scores = {label: sure, **dict.fromkeys(others, (1.0 - sure) / max(1, len(others)))}
    return Classification(label, sure, "model:simulated", scores)
