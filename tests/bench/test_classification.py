"""What a classification costs, by the length of the prompt; ``python -m pytest tests/bench``."""

from __future__ import annotations

import json
import time
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from gateway import models
from gateway.core.classify import Classification, classify
from gateway.core.features import RequestView, extract
from gateway.core.policy import ClassifierSettings
from gateway.wire.inbound import Malformed, view

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

SENTENCE = "“The report of the committee said 14 of the 60 bridges need repairs; who pays for them is an open question.” "
SETTINGS = ClassifierSettings(threshold=0.0)


def body(chars: int) -> bytes:
    text = (SENTENCE * (chars // len(SENTENCE) + 1))[:chars]
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()


def parsed(raw: bytes) -> RequestView:
    seen = view("chat", raw, {})
    assert not isinstance(seen, Malformed)
    return seen


@pytest.mark.parametrize("chars", [500, 4_000, 50_000, 1_000_000])
@pytest.mark.benchmark(timer=time.process_time, disable_gc=False)
def test_from_bytes_to_label(benchmark: BenchmarkFixture, chars: int) -> None:
    raw, classifier = body(chars), models.trained()

    def whole() -> Classification:
        seen = parsed(raw)
        return classify(seen, extract(seen), SETTINGS, classifier)

    assert benchmark(whole).source.startswith("model:")


def test_beyond_the_ends_a_longer_prompt_takes_no_more_memory() -> None:
    classifier = models.trained()

    def peak(chars: int) -> int:
        seen = parsed(body(chars))
        classify(seen, extract(seen), SETTINGS, classifier)
        tracemalloc.start()
        classify(seen, extract(seen), SETTINGS, classifier)
        _, highest = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return highest

    assert peak(1_000_000) < 1.1 * peak(10_000)
