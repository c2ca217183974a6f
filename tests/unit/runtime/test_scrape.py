from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from gateway.core.fleet import Load
from gateway.runtime import clock
from gateway.runtime.fleet import Fleet
from gateway.runtime.scrape import Scraper, parse_load
from tests.factories import backend

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.core.counters import Counters
    from gateway.core.fleet import Backend, BackendState

PAGES = Path(__file__).parents[2] / "fixtures/vllm/metrics"
NOW = 100.0
LOAD = b"vllm:num_requests_running 3\nvllm:num_requests_waiting 2\nvllm:kv_cache_usage_perc 0.5\n"


def page(name: str = "none.prom", **values: float) -> bytes:
    """A page as a real server wrote it, with other numbers in some gauges."""
    text = (PAGES / name).read_bytes()
    for metric, value in values.items():
        text, found = re.subn(rf"(?m)^(vllm:{metric}{{.*}}) .*$".encode(), rb"\1 %r" % value, text)
        assert found
    return text


# Reading a page


@pytest.mark.parametrize("name", ["none.prom", "two-api-servers.prom"])
def test_a_page_of_an_idle_server(name: str) -> None:
    assert parse_load(page(name), NOW) == Load(0, 0, 0.0, NOW)


@pytest.mark.parametrize("name", ["none.prom", "two-api-servers.prom"])
def test_a_page_of_a_busy_server(name: str) -> None:
    busy = page(name, num_requests_running=31.0, num_requests_waiting=7.0, kv_cache_usage_perc=0.625)
    assert parse_load(busy, NOW) == Load(31, 7, 0.625, NOW)


def test_the_queue_by_reason_is_not_counted_twice() -> None:
    busy = page(num_requests_waiting=7.0, num_requests_waiting_by_reason=3.5)
    load = parse_load(busy, NOW)
    assert load is not None
    assert load.waiting == 7


def test_the_name_that_older_servers_give_the_cache() -> None:
    old = page(kv_cache_usage_perc=0.25).replace(b"vllm:kv_cache_usage_perc", b"vllm:gpu_cache_usage_perc")
    assert parse_load(old, NOW) == Load(0, 0, 0.25, NOW)


def test_the_new_name_counts_where_both_are_there() -> None:
    both = LOAD + b"vllm:gpu_cache_usage_perc 0.9\n"
    assert parse_load(both, NOW) == Load(3, 2, 0.5, NOW)


def test_engines_are_added_up_and_their_caches_averaged() -> None:
    two = b"".join(
        b'vllm:%s{engine="%d",model_name="tiny"} %r\n' % (name, engine, value)
        for name, values in (
            (b"num_requests_running", (4.0, 6.0)),
            (b"num_requests_waiting", (0.0, 3.0)),
            (b"kv_cache_usage_perc", (0.25, 0.75)),
        )
        for engine, value in enumerate(values)
    )
    assert parse_load(two, NOW) == Load(10, 3, 0.5, NOW)


@pytest.mark.parametrize("missing", ["num_requests_running", "num_requests_waiting"])
def test_what_is_missing_is_not_zero(missing: str) -> None:
    assert parse_load(page().replace(f"vllm:{missing}{{".encode(), b"vllm:renamed{"), NOW) is None


def test_the_cache_may_be_missing() -> None:
    without = page().replace(b"vllm:kv_cache_usage_perc{", b"vllm:renamed{")
    assert parse_load(without, NOW) == Load(0, 0, None, NOW)


@pytest.mark.parametrize(
    "other", [b"", b"<html>Sign in</html>", b"\xff\xfe", b"# vllm:num_requests_running 3\n"]
)
def test_any_other_page_says_nothing(other: bytes) -> None:
    assert parse_load(other, NOW) is None


@pytest.mark.parametrize("value", [b"many", b"NaN", b"+Inf", b"-Inf"])
@pytest.mark.parametrize("metric", [b"num_requests_running", b"num_requests_waiting"])
def test_a_value_that_is_no_number_says_nothing(metric: bytes, value: bytes) -> None:
    assert parse_load(_with(metric, value), NOW) is None


@pytest.mark.parametrize("value", [b"many", b"NaN", b"+Inf"])
def test_a_cache_that_is_no_number_is_as_good_as_missing(value: bytes) -> None:
    assert parse_load(_with(b"kv_cache_usage_perc", value), NOW) == Load(3, 2, None, NOW)


def _with(metric: bytes, value: bytes) -> bytes:
    return re.sub(rb"(?m)^(vllm:%s) .*$" % metric, rb"\1 " + value, LOAD)


@pytest.mark.parametrize(
    "line",
    [
        b'vllm:num_requests_running{model_name="a} 9",engine="0"} 5.0',
        rb'vllm:num_requests_running{model_name="a\"} 9",engine="0"} 5.0',
        b"vllm:num_requests_running{} 5",
        b"vllm:num_requests_running 5e0",
        b"vllm:num_requests_running\t5.0 1700000000000",
        b"vllm:num_requests_running 5.0\r",
    ],
)
def test_every_form_that_the_format_allows(line: bytes) -> None:
    assert parse_load(line + b"\nvllm:num_requests_waiting 0\n", NOW) == Load(5, 0, None, NOW)


# Scraping


class Servers:
    """Answers ``/metrics`` for every backend as a test sets it, and tells of each request."""

    def __init__(self) -> None:
        self.answer: Callable[[httpx.Request], httpx.Response] = lambda _: httpx.Response(200, content=LOAD)
        self.hang = False
        self.requests: asyncio.Queue[httpx.Request] = asyncio.Queue()

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.put_nowait(request)
        if self.hang:
            await asyncio.Event().wait()
        return self.answer(request)


@pytest.fixture
def servers() -> Servers:
    return Servers()


@pytest.fixture
def fleet() -> Fleet:
    return Fleet([backend("a")], "fleet-1")


@pytest.fixture
def client(servers: Servers) -> httpx.MockTransport:
    return httpx.MockTransport(servers)


@pytest.fixture
def scraper(fleet: Fleet, client: httpx.MockTransport) -> Scraper:
    return Scraper(fleet, client, timeout=30.0)


def state(fleet: Fleet, name: str = "a") -> BackendState:
    return next(one for one in fleet.snapshot.states if one.backend.name == name)


def only(fleet: Fleet) -> Backend:
    return fleet.snapshot.states[0].backend


async def test_a_scrape_tells_what_the_server_counted(
    fleet: Fleet, client: httpx.MockTransport, servers: Servers
) -> None:
    servers.answer = lambda _: httpx.Response(200, content=page("draft_model.prom"))
    counted: list[tuple[str, float | None]] = []
    scraper = Scraper(
        fleet, client, timeout=30.0, counted=lambda name, told: counted.append((name, told.accepted))
    )
    await scraper.once(only(fleet))
    servers.answer = lambda _: httpx.Response(503)
    await scraper.once(only(fleet))
    assert counted == [("a", 790.0)]


async def test_counters_are_of_the_middle_of_the_time_in_which_the_page_was_had(
    fleet: Fleet, client: httpx.MockTransport, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 10.0
    monkeypatch.setattr(clock, "monotonic", lambda: now)

    def answer(_: httpx.Request) -> httpx.Response:
        nonlocal now
        now = 14.0
        return httpx.Response(200, content=page("draft_model.prom"))

    servers.answer = answer
    at: list[float] = []
    scraper = Scraper(fleet, client, timeout=30.0, counted=lambda _, told: at.append(told.at))
    await scraper.once(only(fleet))
    assert at == [12.0]


@pytest.mark.parametrize(
    "content",
    [b"", LOAD, page("draft_model.prom").partition(b"vllm:generation_tokens_total")[0],
     re.sub(rb"(?m)^vllm:spec_decode_num_accepted_tokens_per_pos_total.*$", b"", page("draft_model.prom"))],
    ids=["empty", "load alone", "cut short", "no positions"],
)  # fmt: skip
async def test_a_page_without_all_counters_tells_nothing_of_them(
    fleet: Fleet, client: httpx.MockTransport, servers: Servers, content: bytes
) -> None:
    servers.answer = lambda _: httpx.Response(200, content=content)
    counted: list[str] = []
    await Scraper(fleet, client, timeout=30.0, counted=lambda name, _: counted.append(name)).once(only(fleet))
    assert counted == []


async def test_the_load_is_known_whatever_becomes_of_the_counters(
    fleet: Fleet, client: httpx.MockTransport, servers: Servers
) -> None:
    def fail(_name: str, _counters: Counters) -> None:
        raise RuntimeError("a fault of ours")

    servers.answer = lambda _: httpx.Response(200, content=page("draft_model.prom"))
    with pytest.raises(RuntimeError, match="a fault of ours"):
        await Scraper(fleet, client, timeout=30.0, counted=fail).once(only(fleet))
    assert state(fleet).load is not None


async def test_a_scrape_tells_the_fleet_the_load(fleet: Fleet, scraper: Scraper, servers: Servers) -> None:
    await scraper.once(only(fleet))
    load = state(fleet).load
    assert load is not None
    assert (load.running, load.waiting, load.kv_usage) == (3, 2, 0.5)
    request = servers.requests.get_nowait()
    assert str(request.url) == "http://a.test:8000/metrics"
    assert "authorization" not in request.headers


async def test_what_is_sent_while_a_scrape_is_under_way_is_counted(
    fleet: Fleet, scraper: Scraper, servers: Servers
) -> None:
    fleet.dispatched("a")

    def answer(_: httpx.Request) -> httpx.Response:
        fleet.dispatched("a")
        return httpx.Response(200, content=LOAD)

    servers.answer = answer
    await scraper.once(only(fleet))
    assert (state(fleet).in_flight, state(fleet).since_load) == (2, 1)


async def test_a_page_that_cannot_be_had_leaves_the_last_one(
    fleet: Fleet, scraper: Scraper, servers: Servers
) -> None:
    await scraper.once(only(fleet))
    before = fleet.snapshot

    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    servers.answer = refuse
    await scraper.once(only(fleet))
    assert fleet.snapshot is before


@pytest.mark.parametrize("status", [307, 401, 404, 500, 503])
async def test_any_answer_but_200_says_nothing_of_the_load(
    fleet: Fleet, scraper: Scraper, servers: Servers, status: int
) -> None:
    servers.answer = lambda _: httpx.Response(status, content=LOAD)
    await scraper.once(only(fleet))
    assert (state(fleet).healthy, state(fleet).load) == (True, None)


@pytest.mark.parametrize(
    "page",
    [b"process_cpu_seconds_total 1\n", b"vllm:num_requests_running NaN\nvllm:num_requests_waiting 0\n", b""],
)
async def test_a_server_that_does_not_say_how_busy_it_is_has_no_load(
    fleet: Fleet, scraper: Scraper, servers: Servers, page: bytes
) -> None:
    servers.answer = lambda _: httpx.Response(200, content=page)
    await scraper.once(only(fleet))
    assert state(fleet).load is None


async def test_a_server_that_does_not_answer_in_time_leaves_the_last_load(
    fleet: Fleet, client: httpx.MockTransport, servers: Servers
) -> None:
    servers.hang = True  # longer than any limit on a single read could notice
    await Scraper(fleet, client, timeout=0.0).once(only(fleet))
    assert state(fleet).load is None


async def test_a_scrape_lets_no_server_back_in(fleet: Fleet, scraper: Scraper) -> None:
    fleet.down("a", "/health answered 503")
    await scraper.once(only(fleet))
    assert not state(fleet).healthy
