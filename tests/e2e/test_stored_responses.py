"""A conversation by ``previous_response_id`` stays with the server that holds it, whichever process is asked."""

import aiohttp
import openai
import pytest

from backends.sim.fleet import Member, run_fleet
from backends.sim.server import Options
from tests.e2e.test_drain import POLICY
from tests.e2e.test_workers import SECONDS, SMALL, workers

FLEET = """\
version: 1
backends:
  - {{name: a, url: "{0}", model: google/gemma-4-31B-it, method: dflash, draft_tokens: 7}}
  - {{name: b, url: "{1}", model: google/gemma-4-31B-it, method: dflash, draft_tokens: 7}}
  - {{name: c, url: "{2}", model: google/gemma-4-31B-it, method: dflash, draft_tokens: 7}}
"""
TURNS = 5


@pytest.fixture
async def servers():
    options = Options(speed=50.0, store_responses=True)
    async with run_fleet([Member(SMALL["model"], "dflash", 7, options=options) for _ in range(3)]) as fleet:
        yield fleet


def fresh(url):
    """A client with a connection of its own, which any of the processes may get."""
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=SECONDS)


async def turn(url, previous=None, *, stream=False):
    """The response to one more question, and who gave it."""
    asked = {"model": SMALL["model"], "input": "And then?", "max_output_tokens": 5}
    async with fresh(url) as client:
        raw = await client.responses.with_raw_response.create(
            **asked, previous_response_id=previous, stream=stream
        )
        found = raw.parse()
        if stream:
            *_, last = [event async for event in found]
            assert last.type == "response.completed"
            found = last.response
        return found, raw.headers["x-specroute-backend"]


async def explained(url, previous):
    """Where the gateway says that a question would go now, and why."""
    asked = {"model": SMALL["model"], "input": "And then?", "previous_response_id": previous}
    async with (
        aiohttp.ClientSession(url) as session,
        session.post("/-/decide", params={"endpoint": "responses"}, json=asked) as answer,
    ):
        found = await answer.json()
        return found["backend"], found["reason"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_conversation_of_many_turns_stays(tmp_path, servers, stream):
    async with workers(tmp_path, [one.url for one in servers], fleet=FLEET, policy=POLICY) as (_, url):
        for _ in range(4):
            response, home = await turn(url, stream=stream)
            for _ in range(TURNS):
                before = response
                response, backend = await turn(url, before.id, stream=stream)
                assert backend == home
                assert response.usage.input_tokens > before.usage.input_tokens
            assert await explained(url, response.id) == (home, "holder")
            async with fresh(url) as client:
                raw = await client.responses.with_raw_response.retrieve(response.id)
                assert raw.headers["x-specroute-backend"] == home
                assert raw.parse().output_text == response.output_text
                with pytest.raises(openai.BadRequestError, match="Cannot cancel a synchronous response"):
                    await client.responses.cancel(response.id)


async def test_who_was_started_again_finds_the_holder_and_nobody_answers_for_one_that_is_gone(
    tmp_path, servers
):
    urls = [one.url for one in servers]
    async with workers(tmp_path, urls, fleet=FLEET, policy=POLICY) as (_, url):
        first, home = await turn(url)
    async with workers(tmp_path, urls, fleet=FLEET, policy=POLICY) as (_, url):
        second, backend = await turn(url, first.id)
        assert backend == home
        with pytest.raises(openai.NotFoundError, match="'resp_0' not found"):
            await turn(url, "resp_0")
        await servers["abc".index(home)].stop()
        with pytest.raises(openai.APIStatusError) as failed:
            await turn(url, second.id)
        assert failed.value.status_code in {502, 503}
        assert (await turn(url))[1] != home
