"""From knowing nothing to the right server for each kind of work: learner, choice and budget together."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from gateway.core.choice import Draw, learned
from gateway.core.explore import exploring
from gateway.core.hindsight import regained
from gateway.core.learn import LOOKUP, Arm, Learner, Sample, Span
from gateway.core.predict import SAMPLED, Ask, Cell, predict
from gateway.core.purse import Purse
from gateway.core.scorers import Costing
from gateway.core.standing import Standing
from tests.factories import state

if TYPE_CHECKING:
    from collections.abc import Mapping

COPIED, WRITTEN = KINDS = ("copied", "written")
ARMS: Final = {
    "lookup": Arm("lookup", target="t", draft_tokens=8, family=LOOKUP),
    "draft": Arm("draft", target="t", draft_tokens=3),
}
STEPS: Final = {
    ("lookup", COPIED): 1 / 9, ("lookup", WRITTEN): 1.0, ("draft", COPIED): 0.25, ("draft", WRITTEN): 0.38,
}  # fmt: skip
"""Decode steps a token. The draft is so good at both that what little is known speaks against looking text up."""

STEP_SECONDS: Final = {"lookup": 0.0045, "draft": 0.0087}
LATE: Final = STEPS | {("lookup", COPIED): 28 / 120}
SLOW_DRAFT: Final = {"lookup": 0.0062, "draft": 0.0125}
"""As measured where looking text up finds nothing until an answer repeats itself: half the time of the draft in as
many steps, so that one answer leaves them alike."""

TOKENS: Final = 120
SHARE: Final = 0.1


def drive(
    requests: int,
    *,
    stalled: frozenset[str] = frozenset(),
    seed: int = 0,
    steps_of: Mapping[tuple[str, str], float] = STEPS,
    step_seconds: Mapping[str, float] = STEP_SECONDS,
) -> list[tuple[str, str]]:
    """Requests of each kind in turn, one at a time; gives kind and server of each.

    Args:
        requests: How many.
        stalled: Servers whose first answer waits for ten seconds.
        seed: Of the noise.
        steps_of: Decode steps a token, by server and kind.
        step_seconds: Of a decode step, by server.
    """
    noise = random.Random(seed)  # noqa: S311 - no secret
    learner, purse, waits = Learner(), Purse(), set(stalled)
    for name, arm in ARMS.items():
        learner.arm(name, arm)
    now, published, models = 0.0, 0.0, learner.publish(0.0)
    went = []
    for number in range(requests):
        kind = KINDS[number % len(KINDS)]
        ask = Ask(((Cell(kind, 0, SAMPLED), 1.0),), 60, 240, TOKENS)
        servers = [Standing(state(name, model=models[name]), now, 15.0) for name in ARMS]
        costing = Costing(servers, [0] * len(servers), ask)
        draw = Draw.nth(number)
        usual = learned(costing, draw, 3)
        of = "model", kind
        may = of in purse.explorable()
        found = exploring(usual, costing, 1.0, SHARE).order(draw.explore) if may else usual
        first = found.candidates[0]
        lost = first.cost - min(one.cost for one in found.candidates)
        purse.decided(
            of, SHARE, 0.0, explored=found.explored, baseline=False, pays=False, cost=first.cost, lost=lost
        )
        server = first.backend
        went.append((kind, server))
        steps = TOKENS * steps_of[server, kind]
        seconds = steps * step_seconds[server] * noise.lognormvariate(0.0, 0.1) + 10.0 * (server in waits)
        waits.discard(server)
        if found.explored:
            expected = predict(models[server], ask, 0.0)
            purse.save(of, regained(lost, first.cost, expected, TOKENS, seconds))
        now += seconds + 0.02
        learner.update(
            Sample(
                server,
                now,
                {kind: 1.0},
                prompt_tokens=60,
                prompt_chars=240,
                prefill_tokens=60,
                computed_tokens=60,
                ttft=0.02,
                steps=steps,
                decoded=TOKENS,
                spans=(Span(1.0, seconds, steps),),
                output_tokens=TOKENS,
            )
        )
        if now - published > 1.0:
            models, published = learner.publish(now), now
    return went


@pytest.mark.parametrize("stalled", [(), ("lookup",), ("draft",), ("lookup", "draft")])
@pytest.mark.parametrize("seed", range(3))
def test_each_kind_of_work_finds_its_server(stalled: tuple[str, ...], seed: int) -> None:
    went = Counter(drive(400, stalled=frozenset(stalled), seed=seed)[-80:])
    assert went[COPIED, "lookup"] >= 36
    assert went[WRITTEN, "draft"] >= 36


@pytest.mark.parametrize("seed", range(3))
def test_a_server_that_was_better_than_thought_is_tried_again_soon(seed: int) -> None:
    went = drive(120, seed=seed, steps_of=LATE, step_seconds=SLOW_DRAFT)
    assert Counter(went[-40:])[COPIED, "lookup"] >= 16
