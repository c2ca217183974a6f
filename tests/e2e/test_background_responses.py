"""Responses in the background are polled, followed and cancelled where they are made, by any process."""

import asyncio

import openai
import pytest

from backends.sim.fleet import Member, run_fleet
from backends.sim.server import Options
from tests.e2e.test_drain import POLICY
from tests.e2e.test_stored_responses import FLEET, fresh, servers  # noqa: F401 - a fixture
from tests.e2e.test_workers import SECONDS, SMALL, workers

ASKED = {"model": SMALL["model"], "input": "Tell me a long story.", "background": True}


async def ended(client, identity):
    """A response once it is whole, and who was asked for it."""
    backends = set()
    async with asyncio.timeout(SECONDS):
        while True:
            raw = await client.responses.with_raw_response.retrieve(identity)
            backends.add(raw.headers["x-specroute-backend"])
            if (found := raw.parse()).status not in {"queued", "in_progress"}:
                return found, backends
            await asyncio.sleep(0.01)


async def begun(client, **more):
    """The answer to a request for a response in the background, and who makes it."""
    raw = await client.responses.with_raw_response.create(**ASKED | {"max_output_tokens": 5} | more)
    return raw.parse(), raw.headers["x-specroute-backend"]


async def test_one_is_polled_gone_on_from_and_not_cancelled_once_it_is_whole(tmp_path, servers):  # noqa: F811
    async with workers(tmp_path, [one.url for one in servers], fleet=FLEET, policy=POLICY) as (_, url):
        for _ in range(4):
            async with fresh(url) as client:
                first, home = await begun(client)
                assert (first.status, first.background, first.output) == ("queued", True, [])
            async with fresh(url) as client:
                whole, asked = await ended(client, first.id)
                assert (whole.id, asked) == (first.id, {home})
                assert whole.output_text
                after, backend = await begun(client, previous_response_id=first.id)
                assert backend == home
                assert (await ended(client, after.id))[0].usage.input_tokens > whole.usage.input_tokens
                with pytest.raises(openai.BadRequestError, match="Cannot cancel"):
                    await client.responses.cancel(first.id)


@pytest.fixture
async def slow():
    """Servers that are not done before anybody could ask them to stop."""
    options = Options(speed=0.001, store_responses=True)
    async with run_fleet([Member(SMALL["model"], "dflash", 7, options=options) for _ in range(3)]) as fleet:
        yield fleet


async def test_one_is_cancelled_and_stays_so(tmp_path, slow):
    async with workers(tmp_path, [one.url for one in slow], fleet=FLEET, policy=POLICY) as (_, url):
        async with fresh(url) as client:
            first, home = await begun(client, max_output_tokens=400)
        async with fresh(url) as client:
            raw = await client.responses.with_raw_response.cancel(first.id)
            assert (raw.headers["x-specroute-backend"], raw.parse().status) == (home, "cancelled")
            found, _ = await ended(client, first.id)
            assert (found.status, found.output) == ("cancelled", [])
        assert not any(one.simulator.running + one.simulator.waiting for one in slow)


async def test_the_events_of_one_go_on_after_a_client_that_left(tmp_path, servers):  # noqa: F811
    async with workers(tmp_path, [one.url for one in servers], fleet=FLEET, policy=POLICY) as (_, url):
        async with fresh(url) as client:
            events = await client.responses.create(**ASKED | {"max_output_tokens": 40}, stream=True)
            seen = [await anext(aiter(events)) for _ in range(3)]
            await events.close()
        async with fresh(url) as client:
            identity = seen[0].response.id
            rest = await client.responses.retrieve(
                identity, stream=True, starting_after=seen[-1].sequence_number
            )
            later = [event async for event in rest]
            assert [one.sequence_number for one in later] == list(range(3, 3 + len(later)))
            assert later[-1].type == "response.completed"
            assert (await ended(client, identity))[0].output_text == later[-1].response.output_text


async def test_what_servers_do_not_have_is_said_as_they_say_it(tmp_path, servers):  # noqa: F811
    """vLLM forgets no response, and lists no items."""
    async with (
        workers(tmp_path, [one.url for one in servers], fleet=FLEET, policy=POLICY) as (_, url),
        fresh(url) as client,
    ):
        first, _ = await begun(client)
        with pytest.raises(openai.APIStatusError) as refused:
            await client.responses.delete(first.id)
        assert refused.value.status_code == 405
        with pytest.raises(openai.NotFoundError):
            await client.responses.input_items.list(first.id)
        with pytest.raises(openai.BadRequestError, match="only be used when `store` is true"):
            await begun(client, store=False)
        kept = await client.responses.create(**ASKED | {"background": False, "store": False})
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(kept.id)
