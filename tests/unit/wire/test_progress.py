from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from gateway.core.features import Hints
from gateway.core.predict import Home
from gateway.wire.progress import open_since, progress
from tests.factories import classification, features

READING = {"first_token_at": 10.5, "last_token_at": 12.0, "events": 40}


def exchange(**given):
    reading = SimpleNamespace(**READING | given.pop("reading", {}))
    trial = SimpleNamespace(backend=SimpleNamespace(name="a", stands_in=False), started=10.0, reading=reading)
    fields = {
        "trial": trial, "features": features(session="s"), "classification": classification(), "started": 9.0,
        "resumed": 0, "client": SimpleNamespace(slow=False), "endpoint": "chat", "request_id": "r", "attempts": [],
    }  # fmt: skip
    return SimpleNamespace(**fields | given)


class Known:
    def of(self, hints, _now):
        return Home("a", 30.0) if hints == Hints(session="s") else Home("b", 5.0)


def test_a_running_stream_tells_how_far_it_has_come():
    (found,) = progress({"x": exchange()}.values(), Known())
    assert (found.request_id, found.backend, found.started) == ("r", "a", 10.0)
    assert (found.first, found.last, found.events, found.cached) == (10.5, 12.0, 40, 30.0)


def test_a_cache_elsewhere_does_not_count():
    (found,) = progress([exchange(features=features())], Known())
    assert found.cached == 0.0


@pytest.mark.parametrize(
    "silent",
    [
        {"trial": None},
        {"features": None},
        {"resumed": 1},
        {"client": SimpleNamespace(slow=True)},
        {"reading": {"first_token_at": None}},
        {"features": features(n=2)},
        {"endpoint": "embeddings"},
        {"endpoint": "responses"},
        {"endpoint": "messages"},
    ],
)
def test_what_is_not_one_servers_own_pace_tells_nothing(silent):
    assert list(progress([exchange(**silent)], Known())) == []


def test_the_oldest_request_on_a_backend_counts_be_it_tried_there_before_or_now():
    before = SimpleNamespace(backend="b", started=4.0)
    running = [exchange(), exchange(trial=None), exchange(attempts=[before])]
    assert open_since(running, "a") == 10.0
    assert open_since(running, "b") == 4.0
    assert open_since(running, "c") == math.inf
