"""Makes the requests of a round: clients that are never idle, at a server that has nothing else to do."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

import aiohttp

from backends.sweep.answer import Answer
from backends.sweep.model import GREEDY, SAMPLINGS, Round
from backends.sweep.stall import DeadServerError, Watch
from gateway.core.counters import Counters, between, parse_counters

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence

    from backends.sweep.model import Cell, Condition, Sample
    from backends.sweep.prompts import Prompt
    from backends.sweep.servers import Place

IN_A_ROW: Final = 3
"""Requests that fail one after the other without an answer before a server counts as dead."""

_NO_END: Final = "no end"
_AFTER_FAILURE: Final = 0.05
"""Seconds before a client goes on: a server that refuses at once is not to be flooded."""
_COUNTERS: Final = aiohttp.ClientTimeout(total=10.0)
"""Of a look at the server's counters, which it may well be measured without."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How requests are made.

    Attributes:
        max_tokens: Longest answer, unless the prompt asks for a shorter one.
        stall: Seconds without an event of any stream after which a server hangs, as
            :class:`backends.sweep.stall.Watch` counts them.
        timeout: Seconds that one request may take, while others get on.
    """

    max_tokens: int = 256
    stall: float = 120.0
    timeout: float = 600.0


class Driver:
    """Makes requests at servers. Use as an async context manager."""

    def __init__(
        self, prompts: Mapping[tuple[str, str], Sequence[Prompt]], limits: Limits | None = None
    ) -> None:
        """Prepare to make requests.

        Args:
            prompts: By workload and prompt length.
            limits: How they are made.
        """
        self._prompts = prompts
        self._limits = limits or Limits()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Open the client."""
        timeout = aiohttp.ClientTimeout(total=self._limits.timeout, sock_connect=5.0)
        connector = aiohttp.TCPConnector(limit=0)
        self._session = aiohttp.ClientSession(timeout=timeout, connector=connector, trust_env=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        if self._session is not None:
            await self._session.close()

    async def warm(self, place: Place, condition: Condition) -> str:
        """Ask for one short answer, so that nothing is compiled within a round. Gives the error, if any.

        Raises:
            DeadServerError: It hangs, or did not end in time: all clients of a round would wait as long.
        """
        prompt = self._prompts[condition.workload, condition.prompt][0]
        answer = Answer(_now())
        watch = Watch(self._limits.stall)
        await _until_one_ends(
            watch.silence(), self._ask(place, self._body(place.model, prompt, condition, 8), answer, watch)
        )
        if answer.error.startswith(_NO_END):
            raise DeadServerError(answer.error)
        return answer.error

    async def round(
        self,
        place: Place,
        cell: Cell,
        number: int,
        requests: int,
        keep: Callable[[Sample], None],
    ) -> Round:
        """Make one round.

        All clients begin at once, with a shortened answer each, as if each were somewhere within a request.
        The requests that then start count, until there are enough; others keep the load up until these end.

        Args:
            place: Of the server.
            cell: What is measured.
            number: Which round of the cell, from 0.
            requests: How many requests count.
            keep: Given each request when it is over.

        Raises:
            DeadServerError: The server stopped answering, or hangs.
        """
        started = _now()
        before = await self._counters(place.url)
        watch = Watch(self._limits.stall)
        work = _Work(self._prompts[cell.condition.workload, cell.condition.prompt], number, requests)
        shares = Random(number)  # noqa: S311 - not for secrets
        clients = (
            self._client(place, cell, work, shares.random(), keep, watch)
            for _ in range(cell.condition.concurrency)
        )
        await _until_one_ends(work.done.wait(), watch.silence(), *clients)
        finished = Round(cell, number, _now() - started)
        return _counted(finished, before, await self._counters(place.url))

    async def _client(
        self,
        place: Place,
        cell: Cell,
        work: _Work,
        share: float,
        keep: Callable[[Sample], None],
        watch: Watch,
    ) -> NoReturn:
        failed = 0
        most = max(1, round(self._limits.max_tokens * share))
        for prompt, measured in work.next(first=True):
            answer = Answer(_now())
            unanswered = await self._ask(
                place, self._body(place.model, prompt, cell.condition, most), answer, watch
            )
            sample = answer.sample(cell, work.number, prompt.id, _now(), measured=measured)
            if cell.condition.sampling != GREEDY or most < self._limits.max_tokens:
                sample = replace(sample, digest="")
            keep(sample)
            most = self._limits.max_tokens
            failed = failed + 1 if unanswered else 0
            if failed >= IN_A_ROW:
                raise DeadServerError(sample.error)
            if measured:
                work.finished()
            if sample.error:
                await asyncio.sleep(_AFTER_FAILURE)
        raise AssertionError("there is always another prompt")

    def _body(self, model: str, prompt: Prompt, condition: Condition, most: int) -> dict[str, Any]:
        own = prompt.body.get("max_tokens")
        return {
            **prompt.body,
            "model": model,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": min(most, own) if isinstance(own, int) else most,
            **SAMPLINGS[condition.sampling],
        }

    async def _ask(self, place: Place, body: Mapping[str, Any], answer: Answer, watch: Watch) -> bool:
        """Make a request. Tells whether the server failed to answer it at all or to the end."""
        if self._session is None:
            raise AssertionError("the client is opened by entering")
        loop = asyncio.get_running_loop()
        url = f"{place.url}/v1/chat/completions"
        try:
            with watch.over(answer):
                async with self._session.post(url, json=body, headers=place.headers) as response:
                    if response.status != 200:
                        said = (await response.read())[:300].decode(errors="replace")
                        answer.error = f"status {response.status}: {said}"
                        return response.status >= 500
                    async for piece in response.content.iter_any():
                        if answer.take(piece, loop.time()):
                            watch.heard()
        except TimeoutError:
            answer.error = f"{_NO_END} after {self._limits.timeout:g} s"
            return True
        except aiohttp.ClientError as error:
            answer.error = f"{type(error).__name__}: {error}"[:200]
            return True
        return answer.error.startswith("error event")

    async def _counters(self, url: str) -> Counters | None:
        if self._session is None:
            raise AssertionError("the client is opened by entering")
        try:
            async with self._session.get(f"{url}/metrics", timeout=_COUNTERS) as response:
                return parse_counters(await response.read(), _now()) if response.status == 200 else None
        except (aiohttp.ClientError, TimeoutError):
            return None


class _Work:
    """What a round's clients share: the prompts in their order, and how many requests are still wanted."""

    def __init__(self, prompts: Sequence[Prompt], number: int, requests: int) -> None:
        self.number = number
        self.done = asyncio.Event()
        self._prompts = prompts
        self._place = number * requests
        self._to_begin = requests
        self._to_finish = requests

    def next(self, *, first: bool) -> Iterator[tuple[Prompt, bool]]:
        """Prompts for one client, without end, each with whether it counts; its first one does not."""
        while True:
            measured = not first and self._to_begin > 0
            self._to_begin -= measured
            prompt = self._prompts[self._place % len(self._prompts)]
            self._place += 1
            yield prompt, measured
            first = False

    def finished(self) -> None:
        """One that counts is over."""
        self._to_finish -= 1
        if not self._to_finish:
            self.done.set()


async def _until_one_ends(*work: Coroutine[Any, Any, object]) -> None:
    """Do several things at once until the first of them ends, end the others, and raise what one raised."""
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(one) for one in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for one in ended:
        if isinstance(one, Exception):
            raise one


def _now() -> float:
    return asyncio.get_running_loop().time()


def _counted(finished: Round, before: Counters | None, after: Counters | None) -> Round:
    """A round with what the server counted meanwhile, as far as it tells."""
    window = between(before, after) if before is not None and after is not None else None
    if window is None:
        return finished
    return replace(
        finished, drafts=window.drafts, drafted=window.drafted, by_position=tuple(window.by_position)
    )
