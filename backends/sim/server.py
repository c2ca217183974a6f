"""A vLLM server on the wire: an ASGI application over an engine that keeps time."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import itertools
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final

import msgspec

from backends.sim import exposition, messages, responses, stored, tokenizing, tokens
from backends.sim.answer import plan
from backends.sim.asgi import Request
from backends.sim.bodies import ChatBodies, TextBodies
from backends.sim.engine import Engine, Job
from backends.sim.exchange import Exchange, Reporting, engine_dead
from backends.sim.fields import RefusalError
from backends.sim.limits import check, check_length, check_rank
from backends.sim.look import ASIDE
from backends.sim.measures import Measures
from backends.sim.parts import Frame
from backends.sim.prompt import Prompt, render
from backends.sim.realtime import Realtime
from backends.sim.stored import Stored
from backends.sim.traffic import Traffic, process_page
from backends.sim.validate import call_of, received
from backends.sim.wording import Writer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from backends.sim.answer import Answer
    from backends.sim.asgi import Message, Receive, Send
    from backends.sim.bodies import Bodies
    from backends.sim.call import Call
    from backends.sim.configuration import Configuration
    from backends.sim.fields import Fields

    Handler = Callable[[Request], Awaitable[None]]

VERSION: Final = "0.32.0"
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Options:
    """How a server was started.

    Attributes:
        served_model: Name it answers to; its target's where empty.
        max_model_len: Context length in tokens.
        max_num_seqs: Sequences in the batch at most.
        reporting: Per-request metrics.
        prompt_details: ``--enable-prompt-tokens-details``.
        request_id_headers: ``--enable-request-id-headers``.
        auto_tools: ``--enable-auto-tool-choice`` with a parser.
        store_responses: ``VLLM_ENABLE_RESPONSES_API_STORE=1``.
        speed: How many times as fast as the modelled machine it runs.
        seed: Of lengths, wording and acceptance.
    """

    served_model: str = ""
    max_model_len: int = 32_768
    max_num_seqs: int = 256
    reporting: Reporting = field(default_factory=Reporting)
    prompt_details: bool = False
    request_id_headers: bool = False
    auto_tools: bool = True
    store_responses: bool = False
    speed: float = 1.0
    seed: int = 0


class Simulator:
    """One simulated server.

    Args:
        configuration: What it runs.
        options: How it was started.
        now: Wall clock, Unix seconds.

    Raises:
        ValueError: Acceptance of each request is asked of a server that does not speculate: vLLM does not
            start then.
    """

    def __init__(self, configuration: Configuration, options: Options, now: Callable[[], float]) -> None:
        if options.reporting.acceptance != "off" and not configuration.draft_tokens:
            raise ValueError("--per-request-spec-decode-metrics requires speculative decoding to be enabled")
        self.configuration = configuration
        self.options = options
        self.model = options.served_model or configuration.target
        described = f"{configuration.target} {configuration.method} {configuration.draft_tokens} {options}"
        self.fingerprint = f"vllm-{VERSION}-simulated-{hashlib.sha256(described.encode()).hexdigest()[:8]}"
        self._now = now
        self._started = now()
        self._rng = Random(options.seed)  # noqa: S311 - not for secrets
        # Of its own: probes come at any moment and must not change the answers.
        self._names = Random(options.seed)  # noqa: S311 - not for secrets
        self._jobs = itertools.count()
        self._measures = Measures(options.max_model_len)
        engine = Engine(configuration, seed=options.seed, max_num_seqs=options.max_num_seqs)
        self._traffic = Traffic(self.model, tool_parser=options.auto_tools)
        self._realtime = Realtime(engine, self._measures, speed=options.speed)
        self._stored = Stored(kept=options.store_responses)
        self._routes: dict[str, dict[str, Handler]] = {
            "/v1/chat/completions": {"POST": self._chat},
            "/v1/completions": {"POST": self._text},
            "/v1/messages": {"POST": self._messages},
            "/v1/responses": {"POST": self._responses},
            stored.ONE: {"GET": self._stored.give},
            stored.CANCEL: {"POST": self._stored.cancel},
            "/v1/models": {"GET": self._models},
            "/kv_event_sources": {"GET": self._event_sources},
            "/tokenize": {"POST": self._tokenize},
            "/detokenize": {"POST": self._detokenize},
            "/health": {"GET": self._healthy},
            "/ping": {"GET": self._healthy, "POST": self._healthy},
            "/load": {"GET": self._load},
            "/version": {"GET": self._version},
            "/metrics": {"GET": self._metrics},
        }

    @property
    def running(self) -> int:
        """Sequences in the batch."""
        return self._realtime.engine.running

    @property
    def waiting(self) -> int:
        """Sequences in the queue."""
        return self._realtime.engine.waiting

    @property
    def stalled(self) -> bool:
        """Whether it hangs."""
        return self._realtime.stalled and not self._realtime.closed

    def stall(self) -> None:
        """Let everything hang: requests under way and new ones wait until their client leaves."""
        self._realtime.stall()

    def close(self) -> None:
        """Let the engine die: requests under way end in an error, and the server is not healthy any more."""
        self._realtime.close()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        if scope["type"] != "http":
            raise NotImplementedError(f"no {scope['type']} here: serve it with lifespan and websockets off")
        request = Request(scope, receive, send)
        if self.stalled:
            await request.left()
            return
        loop = asyncio.get_running_loop()
        arrived = loop.time()
        if self.options.request_id_headers:
            identity = request.header("x-request-id") or f"{self._names.getrandbits(128):032x}"
            request.answer_headers.append((b"x-request-id", identity.encode("latin-1")))
        path = stored.path_of(request.path)
        methods = self._routes.get(path, {})
        known = request.method in methods
        try:
            await (methods[request.method] if known else self._unknown)(request)
        except RefusalError as refusal:
            await request.reply(refusal.body(), status=refusal.status)
        finally:
            self._traffic.count(request, path if known else "none", loop.time() - arrived)

    async def _unknown(self, request: Request) -> None:
        methods = self._routes.get(stored.path_of(request.path))
        if methods is None:
            await request.reply(b'{"detail":"Not Found"}', status=404)
            return
        allow = [(b"allow", ", ".join(methods).encode())]
        await request.reply(b'{"detail":"Method Not Allowed"}', status=405, extra=allow)

    async def _chat(self, request: Request) -> None:
        await self._generate(request, functools.partial(call_of, chat=True), ChatBodies, "chatcmpl-")

    async def _text(self, request: Request) -> None:
        await self._generate(request, functools.partial(call_of, chat=False), TextBodies, "cmpl-")

    async def _messages(self, request: Request) -> None:
        try:
            await self._generate(request, messages.read, messages.MessagesBodies, "chatcmpl-")
        except RefusalError as refusal:
            if refusal.kind == "Bad Request":  # of the framework, in the words of every endpoint
                raise
            raise messages.MessagesRefusalError(refusal) from refusal

    async def _responses(self, request: Request) -> None:
        one = responses.Dialogue(self._stored)
        await self._generate(request, one.read, one.bodies, "resp_", one.run)

    async def _generate(
        self,
        request: Request,
        read: Callable[[Fields], Call],
        shapes: Callable[[Frame, Call], Bodies],
        prefix: str,
        run: Callable[[Exchange, Request], Awaitable[None]] = Exchange.run,
    ) -> None:
        fields = await received(request)
        if fields is None:
            return
        if self._realtime.closed:
            raise engine_dead()
        call = read(fields)
        options = self.options
        check(
            call,
            served=(self.model,),
            max_model_len=options.max_model_len,
            drafts=bool(self.configuration.draft_tokens),
            auto_tools=options.auto_tools,
        )
        check_rank(request.header("x-data-parallel-rank"))
        prompts = [Prompt.read(prompt) for prompt in call.prompts or (render(call.messages),)]
        for prompt in prompts:
            check_length(prompt, call.max_tokens, options.max_model_len)
        planned = await self._plan(call, prompts, Writer(call, request.header(ASIDE), self._rng))
        bodies = shapes(self._frame(request, call, prompts, prefix), call)
        exchange = Exchange(call, bodies, self._realtime, self._measures, options.reporting)
        for prompt, answer in planned:
            job = Job(str(next(self._jobs)), answer.workload, prompt.count, len(answer.generated))
            echo = tokens.pieces(prompt.ids()) if call.echo else ()
            exchange.add(answer, job, echo, f"chatcmpl-tool-{self._rng.getrandbits(64):016x}")
        for prompt in prompts:
            self._measures.accept(call.n, call.max_tokens or options.max_model_len - prompt.count)
        try:
            await run(exchange, request)
        finally:
            if call.tool_choice != "none" and options.auto_tools:
                for called, number in exchange.spoken.items():
                    self._traffic.parsed(number, called=called, streaming=call.stream)

    async def _plan(self, call: Call, prompts: list[Prompt], writer: Writer) -> list[tuple[Prompt, Answer]]:
        """The answer of every choice, prompt by prompt."""
        planned: list[tuple[Prompt, Answer]] = []
        for prompt in prompts:
            room = self.options.max_model_len - prompt.count
            for choice in range(call.n):
                if planned:
                    await asyncio.sleep(0)  # thousands of choices must not keep others waiting
                planned.append((prompt, plan(call, prompt, room, writer, choice)))
        if self._realtime.closed:
            raise engine_dead()
        return planned

    def _frame(self, request: Request, call: Call, prompts: list[Prompt], prefix: str) -> Frame:
        given = None if prefix == "resp_" else request.header("x-request-id")
        return Frame(
            id=prefix + (given or f"{self._rng.getrandbits(64):016x}"),
            created=int(self._now()),
            model=self.model,
            fingerprint=self.fingerprint,
            prompt_ids=[prompt.ids() for prompt in prompts] if call.return_token_ids else None,
            prompt_tokens=sum(prompt.count for prompt in prompts),
            cached_tokens=0 if self.options.prompt_details else None,
            most_tokens=call.max_tokens or self.options.max_model_len - prompts[0].count,
        )

    async def _models(self, request: Request) -> None:
        created = int(self._now())
        permission = {
            "id": f"modelperm-{self._names.getrandbits(64):016x}",
            "object": "model_permission",
            "created": created,
            "allow_create_engine": False,
            "allow_sampling": True,
            "allow_logprobs": True,
            "allow_search_indices": False,
            "allow_view": True,
            "allow_fine_tuning": False,
            "organization": "*",
            "group": None,
            "is_blocking": False,
        }
        model = {
            "id": self.model,
            "object": "model",
            "created": created,
            "owned_by": "vllm",
            "root": self.configuration.target,
            "parent": None,
            "max_model_len": self.options.max_model_len,
            "permission": [permission],
        }
        await request.reply(_encode({"object": "list", "data": [model]}))

    async def _tokenize(self, request: Request) -> None:
        await tokenizing.tokenize(request, self.model, self.options.max_model_len)

    async def _detokenize(self, request: Request) -> None:
        await tokenizing.detokenize(request, self.model)

    async def _healthy(self, request: Request) -> None:
        await request.reply(b"", status=503 if self._realtime.closed else 200)

    async def _event_sources(self, request: Request) -> None:
        await request.reply(b"{}")

    async def _load(self, request: Request) -> None:
        await request.reply(b'{"server_load":0}')  # what a server says that was not started to track it

    async def _version(self, request: Request) -> None:
        await request.reply(_encode({"version": VERSION}))

    async def _metrics(self, request: Request) -> None:
        engine = exposition.render(self._realtime.engine, self._measures, self.model, self._started)
        page = process_page() + engine + self._traffic.page()
        await request.reply(page.encode(), exposition.CONTENT_TYPE.encode())
