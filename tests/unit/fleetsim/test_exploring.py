from __future__ import annotations

from dataclasses import replace

from backends.fleetsim import beliefs, catalogue, compare
from backends.fleetsim.gateway import GatewayRouter
from backends.fleetsim.setup import Setup
from backends.fleetsim.traffic import MIXES, Source, constant, steady
from gateway.core import reasons
from gateway.core.purse import BURST

TARGET = "google/gemma-4-31B-it"
SHARE = 0.03
KNOWN = (("none", 0), ("gemma4-mtp", 3), ("gemma4-mtp", 4), ("dflash", 7))


def decided(explore: float, floor: float = 0.0, *, clients: int = 8, batch: int = 256) -> list[str]:
    """Reasons of the decisions of two virtual minutes."""
    models = [
        replace(engine, seconds=engine.seconds[: batch + 1])
        for engine in (catalogue.engine(TARGET, *one) for one in KNOWN)
    ]
    setup = Setup(models, [Source(constant(MIXES["equal"]), clients=steady(clients))], window=120.0, seed=1)
    usual = beliefs.policy(target=TARGET)
    policy = replace(usual, learning=replace(usual.learning, explore=explore, floor=floor))
    found: list[str] = []
    router = GatewayRouter(models, policy, on_choice=lambda one: found.append(one.decision.reason))
    compare.run("", setup, router)
    return found


def explored(explore: float, *, clients: int = 8, batch: int = 256) -> tuple[int, int]:
    """Requests that explored, and all."""
    found = decided(explore, clients=clients, batch=batch)
    return found.count(reasons.EXPLORES), len(found)


def test_a_share_of_the_requests_explores_as_in_service() -> None:
    some, of = explored(SHARE)
    assert 0 < some <= SHARE * of + BURST * len(MIXES["equal"])


def test_without_a_share_nothing_does() -> None:
    assert explored(0.0)[0] == 0


def test_nothing_does_while_the_servers_are_full() -> None:
    assert explored(SHARE, clients=32, batch=8)[0] < explored(SHARE, clients=8, batch=8)[0]


def test_a_baseline_gets_its_floor_where_nothing_explores_too() -> None:
    assert reasons.BASELINE_SHARE not in decided(0.0)
    found = decided(0.0, floor=0.3)
    assert found.count(reasons.BASELINE_SHARE) > 0.2 * len(found)
