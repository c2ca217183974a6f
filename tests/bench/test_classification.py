"""What a classification may take of memory, and that it is measured for every shape of request."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from typing import Final

import pytest

from gateway import models
from gateway.core.features import WORKLOADS
from tests.bench import flame, shapes
from tests.bench.classification import LENGTHS, Cost, cost, parsed, step, table, worst

CLASSIFIER: Final = models.trained()


@pytest.mark.parametrize("shape", shapes.SHAPES)
def test_every_shape_is_classified_and_measured(shape: str) -> None:
    seen = parsed(shapes.body(shape, 4_000, shapes.seeded("test")))
    assert seen.turns[-1].chars == 4_000
    assert step(seen, CLASSIFIER).label in WORKLOADS
    found = cost(shape, 500, CLASSIFIER, bodies=2, rounds=1)
    assert 0 < found.p50 <= found.p99
    assert found.parse > 0


def test_the_table_names_the_worst_shape_of_each_length() -> None:
    costs = [
        Cost(shape, chars, 1.0, float(number), 1.0)
        for number, shape in enumerate(shapes.SHAPES)
        for chars in LENGTHS
    ]
    assert {found.shape for found in worst(costs).values()} == {shapes.SHAPES[-1]}
    assert table(costs).row_count == len(shapes.SHAPES) + 2


@pytest.mark.parametrize("shape", ["English", "Hindi", "base64", shapes.CONVERSATION])
def test_beyond_the_ends_a_longer_prompt_takes_no_more_memory(shape: str) -> None:
    def peak(chars: int) -> int:
        seen = parsed(shapes.body(shape, chars, shapes.seeded("test")))
        step(seen, CLASSIFIER)
        tracemalloc.start()
        step(seen, CLASSIFIER)
        _, highest = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return highest

    assert peak(1_000_000) < 1.1 * peak(10_000)


def test_a_flame_has_a_box_for_each_function_as_wide_as_its_share() -> None:
    stacks = Counter({("main", "step", "read"): 3, ("main", "step"): 1, ("main", "step", "mark<s>"): 4})
    drawn = flame.drawn(stacks, "all")
    assert "<title>all 100.0%</title>" in drawn
    assert '<title>mark&lt;s&gt; 50.0%</title><rect x="0.0" y="17" width="600.0"' in drawn
    assert '<title>read 37.5%</title><rect x="600.0" y="17" width="450.0"' in drawn
    assert "main" not in drawn


def test_samples_are_of_the_work_alone() -> None:
    def work() -> int:
        return sum(range(100_000))

    stacks = flame.sampled(work, samples=3)
    assert stacks.total() >= 3
    assert all(stack[-1].endswith("work") for stack in stacks if stack)
