"""What telemetry costs a request, all threads together, and whether a receiver in trouble changes that.

Spans go to a receiver in a process of its own, so that its work is not counted. Figures are CPU time of this process
over requests; ``-s`` prints them. What is asserted are ratios within one run.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import select
import socket
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import uvloop
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext

from gateway.app import Gateway
from gateway.cli.running import serving
from gateway.core.decide import Candidate, Decision
from gateway.core.fleet import Snapshot
from gateway.core.predict import SAMPLED, Cell, ServerModel
from gateway.policy.load import Loaded
from gateway.runtime.reload import load_files
from gateway.telemetry.setup import setup
from gateway.telemetry.spans import Spans
from gateway.telemetry.trace_context import begin
from tests.bench.guard import Instructions, Lockstep, settings_of, stream
from tests.unit.telemetry.conftest import RECORD, SNAPSHOT
from tests.unit.telemetry.test_spans import attributes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import FrameType

    from gateway.core.outcome import Record

REQUESTS = 10_000
MOST_FOR_METRICS, MOST_FOR_SPANS = 1485, 2400  # spans make the candidates, which decisions no longer do
TURN = 100
RECEIVER = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


@pytest.fixture(scope="module")
def healthy() -> Iterator[str]:
    with subprocess.Popen([sys.executable, "-c", RECEIVER], stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.kill()


@contextlib.contextmanager
def silent() -> Iterator[str]:
    """One that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@contextlib.contextmanager
def dead() -> Iterator[str]:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
    yield address


def fleet() -> Snapshot:
    """Eight servers of whose speed something was learnt."""
    model = ServerModel(steps_per_token={Cell("math", 0, SAMPLED): 0.5}, evidence={"math": 1.0}, measured=1.0)
    usual = SNAPSHOT.states[1]
    states = [
        replace(usual, backend=replace(usual.backend, name=name), model=model)
        for name in ("eagle", *map(str, range(7)))
    ]
    return Snapshot.of(states, "f1")


def requests(ratio: float) -> list[Record]:
    """Streams whose traces begin here and are sampled at a ratio; four servers could take each."""
    numbers = random.Random(1)  # noqa: S311 - ids of a test
    seen = fleet()
    assert isinstance(RECORD.decision, Decision)
    return [
        replace(
            RECORD,
            request_id=f"req-{number}",
            trace=begin("", "", numbers.randbytes(24), ratio=ratio),
            decision=replace(
                RECORD.decision,
                candidates=tuple(
                    Candidate(state.backend.name, numbers.random(), ()) for state in seen.states[:4]
                ),
            ),
            snapshot=seen,
        )
        for number in range(REQUESTS)
    ]


def spent(endpoint: str | None, ratio: float) -> tuple[float, float, int]:
    """Microseconds of CPU a request of all threads, median of what the caller's own took, and spans dropped."""
    receivers = {} if endpoint is None else {
        "traces_to": f"{endpoint}/v1/traces", "metrics_to": f"{endpoint}/v1/metrics",
    }  # fmt: skip
    telemetry = setup(**receivers)
    seen = fleet()
    telemetry.observe_fleet(lambda: seen, lambda: 100.0)
    records, queue = requests(ratio), telemetry._queue
    own = []
    before = time.process_time()
    for first in range(0, REQUESTS, TURN):
        start = time.thread_time()
        for record in records[first : first + TURN]:
            telemetry.on_record(record)
        own.append((time.thread_time() - start) / TURN)
        while queue is not None and queue.held > 10 * TURN and not queue.dropped:
            time.sleep(0.001)
    while queue is not None and queue.held and not queue.dropped:
        queue._wake.set()
        time.sleep(0.001)
    total = time.process_time() - before
    dropped = queue.dropped if queue is not None else 0
    telemetry.close(timeout=0.01)
    return total / REQUESTS * 1e6, sorted(own)[len(own) // 2] * 1e6, dropped


def test_a_request_costs_the_less_the_fewer_traces_are_kept(healthy: str) -> None:
    found = {}
    for name, endpoint, ratio in (
        ("no traces", None, 0.0), ("0.1, the default", healthy, 0.1), ("1", healthy, 1.0),
    ):  # fmt: skip
        found[name] = min(spent(endpoint, ratio) for _ in range(5))
        print(
            f"\n{name}: {found[name][0]:.1f} µs a request, {found[name][1]:.1f} of them on the loop", end=""
        )
    none, tenth, every = (all_threads for all_threads, _, _ in found.values())
    assert tenth < 2.5 * none
    assert every < 11 * none


def test_a_request_takes_few_instructions() -> None:
    """Unlike times they are the same on each machine: 100 take some 2 µs. The first request of a route takes more."""
    telemetry = setup()
    spans = Spans({"service.name": "x"}, "1", {s.backend.name: s.backend for s in SNAPSHOT.states}.get)
    first, second = requests(1.0)[:2]
    found = {}
    for name, what in (("metrics", telemetry.on_record), ("spans", spans.of)):
        what(first)
        with Instructions() as counted:
            what(second)
        found[name] = counted.count
    print(f"\n{found['metrics']} instructions for metrics, {found['spans']} for spans", end="")
    assert found["metrics"] < MOST_FOR_METRICS
    assert found["spans"] < MOST_FOR_SPANS


async def calls(folder: Path, endpoint: str, lengths: tuple[int, ...]) -> list[int]:
    """How often the loop of a gateway that tells everything enters telemetry for streams of so many chunks."""
    count = 0

    def entered(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event == "call" and "/gateway/telemetry/" in frame.f_code.co_filename

    ended = asyncio.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        mock = Lockstep(listener)
        told = {
            "otlp_endpoint": endpoint,
            "trace_ratio": 1.0,
            "access_log": True,
            "decision_log": folder / "log",
        }
        settings = settings_of(folder, listener.getsockname()[1]).model_copy(update=told)
        loaded = load_files(settings.fleet, settings.policy, {})
        assert isinstance(loaded, Loaded)
        found = []
        async with serving(Gateway(settings, loaded, on_record=[lambda _: ended.set()]), settings) as url:
            for chunks in lengths:
                ended.clear()
                count = 0
                sys.setprofile(entered)
                await asyncio.to_thread(stream, chunks, int(url.rsplit(":", 1)[1]), mock)
                await ended.wait()  # it is told of last
                sys.setprofile(None)
                found.append(count)
    return found


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="the mock needs Linux")
def test_a_chunk_costs_nothing(healthy: str, tmp_path: Path) -> None:
    """Of three streams of each length, as the page takes its samples now and then."""
    found = uvloop.run(calls(tmp_path, healthy, (10, 10, 10, 510, 510, 510)))
    print(f"\n{min(found[:3])} calls for 10 chunks, {min(found[3:])} for 510", end="")
    assert min(found[:3]) == min(found[3:]) > 0


@pytest.mark.parametrize("trouble", [silent, dead])
def test_a_receiver_in_trouble_costs_the_loop_no_more_than_a_healthy_one(
    healthy: str, trouble: Callable[[], contextlib.AbstractContextManager[str]]
) -> None:
    with trouble() as address:
        rounds = [(spent(healthy, 1.0), spent(address, 1.0)) for _ in range(3)]
    well, ill = (min(own for _, own, _ in turns) for turns in zip(*rounds, strict=True))
    none, dropped = (sum(lost for _, _, lost in turns) for turns in zip(*rounds, strict=True))
    print(f"\n{trouble.__name__}: {ill:.1f} µs on the loop, healthy {well:.1f}; {dropped} dropped", end="")
    assert none == 0
    assert dropped > 0
    assert ill < 1.5 * well


def test_spans_by_hand_take_a_part_of_what_the_sdk_s_take() -> None:
    spans = Spans({"service.name": "x"}, "1", {s.backend.name: s.backend for s in SNAPSHOT.states}.get)
    written = spans.of(RECORD)
    decoded = ScopeSpans.FromString(b"".join(written)).spans
    context = SpanContext(1, 2, is_remote=False)
    facts = [attributes(span) for span in decoded]

    def of_the_sdk() -> bytes:
        made = [
            ReadableSpan("chat gemma", context, attributes=each, start_time=1, end_time=2) for each in facts
        ]
        return bytes(encode_spans(made).SerializePartialToString())

    def cost(what: Callable[[], object]) -> float:
        times = []
        for _ in range(9):
            start = time.thread_time()
            for _ in range(200):
                what()
            times.append((time.thread_time() - start) / 200 * 1e6)
        return min(times)

    ours, theirs = cost(lambda: spans.export(spans.of(RECORD))), cost(of_the_sdk)
    print(f"\nby hand {ours:.1f} µs, by the SDK {theirs:.1f} µs without the gathering of facts", end="")
    assert ours < theirs / 3
