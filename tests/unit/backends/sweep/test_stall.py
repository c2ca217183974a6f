from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from backends.sweep.answer import Answer
from backends.sweep.stall import FIRST, StalledServerError, Watch
from tests.unit.sim.conftest import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Coroutine

TOKEN = b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'
PATIENCE = 10.0


def run(main: Coroutine[Any, Any, None]) -> float:
    """Run on a virtual clock. Gives the seconds it took."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        began = loop.time()
        runner.run(main)
        return loop.time() - began


def begun() -> Answer:
    answer = Answer(0.0)
    assert answer.take(TOKEN, 0.0)
    return answer


def test_a_stream_that_has_begun_may_be_silent_for_one_patience() -> None:
    async def main() -> None:
        watch = Watch(PATIENCE)
        with watch.over(begun()), pytest.raises(StalledServerError, match="no token of any answer for 10 s"):
            await watch.silence()

    assert run(main()) == PATIENCE


def test_a_first_token_may_take_longer() -> None:
    async def main() -> None:
        watch = Watch(PATIENCE)
        with (
            watch.over(Answer(0.0)),
            watch.over(Answer(0.0)),
            pytest.raises(StalledServerError, match="no first token for 30 s, with 2 in flight"),
        ):
            await watch.silence()

    assert run(main()) == FIRST * PATIENCE


def test_silence_counts_from_when_anything_last_came_of_any_stream() -> None:
    async def main() -> None:
        watch = Watch(PATIENCE)
        waiting, other = Answer(0.0), begun()
        silence = asyncio.create_task(watch.silence())
        # One stream waits, as for KV cache, while others are slow, end and begin.
        with watch.over(waiting):
            with watch.over(other):
                for _ in range(20):
                    await asyncio.sleep(9.0)
                    watch.heard()
            waiting.take(TOKEN, 0.0)
            await asyncio.sleep(9.0)
            assert not silence.done()
            with pytest.raises(StalledServerError, match="with 1 in flight"):
                await silence

    assert run(main()) == 20 * 9.0 + PATIENCE


def test_a_stream_that_begins_while_it_is_waited_for_has_the_shorter_patience_from_then_on() -> None:
    async def main() -> None:
        watch = Watch(PATIENCE)
        answer = Answer(0.0)
        with watch.over(answer):
            silence = asyncio.create_task(watch.silence())
            await asyncio.sleep(25.0)
            answer.take(TOKEN, 0.0)
            watch.heard()
            with pytest.raises(StalledServerError, match="no token of any answer for 10 s"):
                await silence

    assert run(main()) == 25.0 + PATIENCE


def test_what_keeps_a_connection_open_is_no_event() -> None:
    answer = Answer(0.0)
    assert not answer.take(b": ping\n\n", 0.0)
    assert not answer.take(b"data: {", 0.0)
    assert answer.take(b"}\n\n", 0.0)
    assert not answer.begun
