"""A relay over scripted backends, for tests of what happens on the way."""

import json

from gateway.core.classify import RuleClassifier
from gateway.core.fleet import STAND_IN, Backend
from gateway.core.policy import (
    ClassifierSettings,
    Match,
    Policy,
    Resume,
    Route,
    Selector,
    Timeouts,
    Waiting,
    WeightedScorer,
)
from gateway.runtime.admission import Admission
from gateway.runtime.fleet import Fleet
from gateway.runtime.learning import Learning
from gateway.runtime.sessions import Sessions
from gateway.wire.relay import Relay
from tests.asgi import Conversation
from tests.scripted import ScriptedUpstream

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def body(**fields):
    return json.dumps(CHAT | fields).encode()


class Bench:
    """A relay over scripted backends ``a``, ``b``, ``c`` that are preferred in this order."""

    def __init__(
        self,
        *,
        timeouts=None,
        max_attempts=3,
        body_limit=10_000,
        backends=None,
        resume=None,
        queue=None,
        max_requests=10,
        stand_ins=(),
        **acts,
    ):
        self.upstream = ScriptedUpstream(**acts)
        self.records = []
        self.sessions = Sessions()
        self.admission = Admission(max_requests)
        servers = [Backend(name, f"http://{name}", "target", "m") for name in acts if name not in stand_ins]
        hosted = [Backend(name, f"http://{name}", "target", "o/m", STAND_IN) for name in stand_ins]
        self.fleet = Fleet(backends or servers, "f1", stand_ins=hosted)
        self.policy = Policy(
            aliases={"m": "target"},
            routes=(
                Route(
                    "all",
                    Match(),
                    tuple(Selector(name=name) for name in ("a", "b", "c")),
                    (WeightedScorer("preference", 1.0),),
                    max_attempts=max_attempts,
                ),
            ),
            timeouts=timeouts or Timeouts(),
            classifier=ClassifierSettings(),
            allow_pin=True,
            stale_after=15.0,
            revision="p1",
            queue=queue or Waiting(wait=0.0),
            resume=resume or Resume(),
        )
        self.learning = Learning(self.fleet, self.policy)
        self.relay = Relay(
            fleet=self.fleet,
            policy=lambda: self.policy,
            classifier=RuleClassifier(),
            upstream=self.upstream,
            hosted=self.upstream,
            emit=self._ended,
            admission=self.admission,
            sessions=self.sessions,
            learning=self.learning,
            seed=0,
            body_limit=body_limit,
            trace_ratio=1.0,
        )

    def _ended(self, record):
        self.records.append(record)
        self.sessions.on_record(record)
        self.learning.on_record(record)

    def open(self, given=None, **options):
        return Conversation(self.relay, body=body(stream=True) if given is None else given, **options)

    async def talk(self, given=None, **options):
        return await self.open(given, **options).end()

    @property
    def record(self):
        (record,) = self.records
        return record

    @property
    def idle(self):
        return self.upstream.open == 0 and all(not state.in_flight for state in self.fleet.snapshot.states)
