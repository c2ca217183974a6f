"""The harness itself: it sees whole answers as whole, broken ones as broken, and counts right."""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import sys
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from tests.bench import answers, measure, profiling, report, soak
from tests.bench.cases import CASES, Case
from tests.bench.contenders import CONTENDERS
from tests.bench.load import Load, arrived, percentiles, request
from tests.bench.mock import Mock
from tests.bench.profiled import Sampler

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.bench.measure import Bench

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="the benchmark needs Linux")

SMALL = Case("small", "", 4, seconds=0.05)
STREAM = Case("stream", "", 4, seconds=0.05, stream=True, chunks=5)
PACED = replace(STREAM, pause_us=1000, stagger_us=200)


@pytest.fixture(scope="module")
def mock() -> int:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    threading.Thread(target=Mock([listener]).run, daemon=True).start()
    return int(listener.getsockname()[1])


def loaded(case: Case, port: int) -> dict[str, Any]:
    load = Load(case, ("127.0.0.1", port), ())
    load.warm_up()
    load.reset()
    figures = load.figures(load.run(case.seconds))
    load.close()
    return figures


@pytest.mark.parametrize(
    "case", [SMALL, STREAM, PACED, replace(PACED, burst=True), replace(SMALL, prompt_bytes=200_000)]
)
def test_answers_of_the_mock_are_whole(case: Case, mock: int) -> None:
    figures = loaded(case, mock)
    assert figures["troubles"] == {}
    assert figures["requests"] >= case.connections
    assert figures["events"] == (case.stream and figures["requests"] * (case.chunks + 2))


def test_a_paced_stream_takes_its_pauses_and_is_timed(mock: int) -> None:
    figures = loaded(PACED, mock)
    assert figures["latency_ms_p50"] >= PACED.chunks * PACED.pause_us / 1000
    assert 0 < figures["delay_ms_p50"] < figures["latency_ms_p50"]
    assert 0 < figures["ttft_ms_p50"] < figures["latency_ms_p50"]


def stream(chunks: int = 5) -> bytes:
    middle = [answers.CONTENT] * (chunks - 1) + [answers.LAST_CONTENT]
    body = b"".join(b"%s%020d%s" % (before, 7 + place, after) for place, (before, after) in enumerate(middle))
    return answers.STREAM_HEAD + answers.ROLE + body + answers.STREAM_END


BROKEN = {
    "a chunk is missing": (STREAM, stream(4)),
    "no DONE": (STREAM, stream().replace(answers.STREAM_END, b"0\r\n\r\n")),
    "no finish reason": (STREAM, stream().replace(b'"stop"', b'"nope"')),
    "chunks out of order": (STREAM, stream().replace(b"0008", b"0003")),
    "an error": (STREAM, answers.reply(b"{}", status="503 Service Unavailable")),
    "another text": (SMALL, answers.reply(b"{}")),
    "the connection ends": (STREAM, stream()[:-3]),
    "no HTTP": (SMALL, b"what?\r\n\r\n"),
}


@pytest.fixture
def canned() -> Iterator[Any]:
    """Answers each connection's first bytes with what it is given, and closes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(answer: bytes) -> int:
        def run() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

        threading.Thread(target=run, daemon=True).start()
        return int(listener.getsockname()[1])

    yield serve
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@pytest.mark.parametrize(("case", "answer"), BROKEN.values(), ids=BROKEN)
def test_a_broken_answer_is_trouble(case: Case, answer: bytes, canned: Any) -> None:
    load = Load(replace(case, connections=1), ("127.0.0.1", canned(answer)), ())
    load.run(0)
    load.close()
    assert sum(load.troubles.values()) == 1


def test_the_same_answers_unbroken_are_none(canned: Any) -> None:
    load = Load(replace(STREAM, connections=1), ("127.0.0.1", canned(stream())), ())
    load.run(0)
    load.close()
    assert (load.troubles, load.requests) == ({}, 1)


def came_before_it_was_read(port: int) -> bool:
    load = Load(replace(STREAM, connections=1), ("127.0.0.1", port), ())
    read, early = load._read, list[bool]()

    def watched(connection: Any) -> None:
        begun = time.monotonic_ns()
        read(connection)
        early.append(load.now < begun)

    load._read = watched  # type: ignore[method-assign]
    load.run(0)
    load.close()
    assert load.requests == 1
    return early[0]


def test_chunks_come_when_they_reach_the_socket_not_when_they_are_read(canned: Any) -> None:
    port = canned(stream())
    # Linux notes times a moment after the first socket asked for them.
    assert any(came_before_it_was_read(port) for _ in range(100))


def test_without_a_time_of_the_kernels_a_chunk_came_when_it_was_read() -> None:
    assert arrived([], 9_000, 5_000) == 5_000
    assert arrived([(socket.SOL_SOCKET, 35, struct.pack("@qq", 0, 7_000))], 9_000, 5_000) == 3_000


def test_a_connection_that_is_closed_between_two_requests_is_replaced_without_trouble() -> None:
    served = []

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                served.append(connection.recv(65536))
                connection.sendall(stream())

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        case = replace(STREAM, connections=1, seconds=5.0, requests=3)
        load = Load(case, ("127.0.0.1", listener.getsockname()[1]), ())
        load.run(case.seconds)
        load.close()
        assert (load.troubles, load.requests, len(served)) == ({}, 3, 3)
        listener.shutdown(socket.SHUT_RDWR)


def test_where_nobody_listens_is_trouble() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    load = Load(SMALL, ("127.0.0.1", port), ())
    load.run(1)
    load.close()
    assert load.troubles == {"ConnectionRefusedError": 3 * SMALL.connections}


def test_a_prompt_has_its_size() -> None:
    body = json.loads(request(CASES["prompt200k"], 3, "h", ["a: b"]).partition(b"\r\n\r\n")[2])
    assert len(body["messages"][0]["content"]) == 200_000


def test_percentiles() -> None:
    figures = percentiles("x", [n * 1_000_000 for n in range(101)])
    assert figures == {"x_p50": 50, "x_p99": 99, "x_max": 100}
    assert percentiles("x", []) == {}


RUN = {
    "case": "stream", "events": 1000, "requests": 10, "reads": 500, "seconds": 2.0, "troubles": {},
    "others_on_gateway_cpu": 0.0, "others_on_load_cpu": 0.0, "delay_ms_p50": 1.0, "delay_ms_p99": 2.0, "peak_mb": 10.0,
}  # fmt: skip


def run(contender: str, cpu: float, **more: Any) -> dict[str, Any]:
    return {**RUN, "contender": contender, "gateway_cpu": cpu, **more}


def test_a_summary_has_medians_of_clean_whole_runs_and_ratios() -> None:
    runs = [
        run("nginx", 0.01), run("nginx", 0.02), run("nginx", 0.03),
        run("ours", 0.04), run("ours", 0.9, others_on_gateway_cpu=0.5), run("ours", 0.8, troubles={"closed": 1}),
        run("direct", 0.0, others_on_gateway_cpu=0.9),
    ]  # fmt: skip
    figures = report.summary(runs, [STREAM, SMALL], "nginx")["stream"]
    assert figures["nginx"]["cpu_us"] == pytest.approx(20)
    assert figures["ours"]["cpu_us"] == pytest.approx(40)
    assert figures["ours"]["ratios"]["cpu_us"] == pytest.approx(2)
    assert (figures["ours"]["runs"], figures["ours"]["troubles"]) == (1, [{"closed": 1}])
    assert figures["direct"]["clean"]
    assert "cpu_us" not in figures["direct"]
    assert figures["nginx"]["rate"] == 500
    assert figures["nginx"]["chunks_per_read"] == 2


def test_without_clean_runs_the_others_count_and_are_marked() -> None:
    runs = [run("ours", 0.04, others_on_load_cpu=0.9)]
    summed = report.summary(runs, [STREAM], "nginx")
    assert not summed["stream"]["ours"]["clean"]
    (streams, _) = report.tables(summed, [STREAM], "nginx")
    assert list(streams.columns[1].cells) == ["ours*"]
    assert list(streams.columns[2].cells) == ["40.0"]


def test_costs_of_requests_are_per_request() -> None:
    figures = report.summary([run("ours", 0.04, case="small")], [SMALL], "nginx")["small"]["ours"]
    assert figures["cpu_us"] == pytest.approx(4000)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with measure.bench(tmp_path, []) as started:
        yield started


def test_the_gateway_is_measured_as_a_process(bench: Bench) -> None:
    case = replace(PACED, seconds=0.2)
    with bench.gateway(CONTENDERS["specroute"]) as target:
        assert target is not None
        figures = bench.run(target, case)
    assert figures["troubles"] == {}
    assert figures["events"] == figures["requests"] * (case.chunks + 2)
    assert figures["gateway_cpu"] > 0


def test_what_is_not_installed_is_left_out(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with bench.gateway(CONTENDERS["smg"]) as target:
        assert target is None


def test_a_gateway_that_ends_is_no_contender(bench: Bench) -> None:
    with (
        pytest.raises(measure.NoAnswerError, match="gave no answer: no such thing"),
        bench.running(
            [sys.executable, "-c", "raise SystemExit('no such thing')"], bench.place("x"), CONTENDERS["smg"]
        ),
    ):
        pass


def test_the_sampler_counts_functions_once_a_sample(tmp_path: Path) -> None:
    sampler = Sampler()

    def inner(depth: int) -> None:
        if depth:
            inner(depth - 1)
        else:
            sampler.take(0, sys._getframe())

    def outer() -> None:
        inner(3)

    outer()
    outer()
    sampler.dump(tmp_path / "profile")
    profiled = json.loads((tmp_path / "profile").read_text())
    counts = {name.rpartition(".")[2]: (own, total) for _, _, name, own, total in profiled["functions"]}
    assert profiled["samples"] == 2
    assert (counts["inner"], counts["outer"]) == ((2, 2), (0, 2))


def test_a_load_of_so_many_requests_ends_with_them(mock: int) -> None:
    figures = loaded(replace(SMALL, seconds=60.0, requests=50), mock)
    assert figures["requests"] == 50
    assert figures["troubles"] == {}


def test_memory_that_grows_is_told_from_memory_that_grew_at_first() -> None:
    flat = soak.Watch(0, [(float(at), 100.0 + min(at, 10) + at % 2) for at in range(60)])
    grows = soak.Watch(0, [(float(at), 100.0 + at / 10) for at in range(61)])
    assert abs(flat.growth(1 / 3)) < 0.2
    assert grows.growth(1 / 3) == pytest.approx(4.0)


def test_a_watch_samples_while_its_block_runs() -> None:
    watch = soak.Watch(os.getpid())
    with watch.running():
        time.sleep(2.5 * soak._STEP_SECONDS)  # the passing of time is the subject
    assert len(watch.samples) >= 2
    assert all(size > 5.0 for _, size in watch.samples)


def test_what_is_beyond_its_bar_is_marked() -> None:
    table = soak.table([soak.Check("a", 1.0, 1.0), soak.Check("b", 1.1, 1.0)])
    assert list(table.columns[3].cells) == ["", "MISSED"]


def test_a_soak_of_a_lone_stream_finds_no_answer_that_is_not_whole(bench: Bench) -> None:
    checks = soak.run(bench, ["lone"], Console(quiet=True))
    assert [check.figure for check in checks if "whole" in check.name] == [0]
    assert len(checks) == 2


def test_a_profile_shows_the_gateways_functions(bench: Bench) -> None:
    table = profiling.profile(bench, replace(SMALL, connections=16), 500, seconds=0.5)
    assert any("relay.py" in str(cell) for cell in table.columns[2].cells)
