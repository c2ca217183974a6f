"""The policy under test: the gateway's own core, cold, with a prior from another traffic."""

import zlib

from backends.fleetsim.beliefs import policy
from backends.fleetsim.draws import steps_per_token
from backends.fleetsim.gateway import GatewayRouter
from backends.fleetsim.traffic import CODE
from gateway.core.classes import ServiceClass
from gateway.core.plan import Limits
from gateway.core.predict import ServerModel
from gateway.runtime.planner import Planner

OFF = 0.2
"""Share by which the prior's step times are wrong, one way or the other by configuration and seed."""


def foreign(model, seed, mix=CODE):
    """What a sweep on other work and another day would say: no workloads told apart, and times off."""
    up = zlib.crc32(f"{model.name}/{seed}".encode()) % 2
    factor = 1.0 + OFF if up else 1.0 - OFF
    rate = sum(share * steps_per_token(model.survival(w, 1), model.spread) for w, share in mix.items())
    return ServerModel(
        fingerprint=model.name,
        steps_per_token={},
        other_steps_per_token=rate,
        step_seconds=tuple(seconds * factor for seconds in model.seconds),
        prefill_seconds=model.prefill_seconds * factor,
        output_tokens={},
        other_output_tokens=400.0,
    )


def learned(models, seed, *, sources=(), cold=False):
    """A router that has seen nothing yet.

    Args:
        models: The servers.
        seed: Of its random numbers, and of how the prior is wrong.
        sources: Whose limits make service classes; with limits there is a planner.
        cold: Whether it has no prior at all.
    """
    services = [
        ServiceClass(one.name, limits=Limits(one.limits.ttft, one.limits.tpot) if one.limits else Limits())
        for one in sources
    ]
    return GatewayRouter(
        models,
        policy(target=models[0].target),
        priors=None if cold else [foreign(model, seed) for model in models],
        seed=seed,
        services=services,
        planner=Planner() if any(one.limits.any for one in services) else None,
    )
