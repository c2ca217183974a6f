from __future__ import annotations

import itertools

from backends.placement import place
from backends.spec import LaunchSpec


def test_servers_get_the_next_gpus_that_nobody_named() -> None:
    specs = [
        LaunchSpec("a", "t", "t", tensor_parallel=2),
        LaunchSpec("b", "t", "t", tensor_parallel=1, gpus=(1,)),
        LaunchSpec("c", "t", "t", tensor_parallel=2),
    ]
    assert place(specs, itertools.count()) == {"a": (0, 2), "b": (1,), "c": (3, 4)}
    assert place(specs, [0, 5]) == {"a": (0, 5), "b": (1,), "c": ()}
