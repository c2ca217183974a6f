from dataclasses import replace

import pytest

from gateway.core import reasons
from gateway.core.decide import Decision, NoCandidate, decide
from gateway.core.failover import GiveUp
from gateway.core.fleet import STAND_IN, BackendState, Snapshot
from gateway.core.outcome import Attempt
from gateway.core.stand_in import UNFIT, after, instead
from tests.factories import (
    SERVER_MODEL,
    TARGET,
    UNDRAWN,
    backend,
    classification,
    features,
    policy,
    route,
    state,
)


def hosted(name: str = "h", **given: object) -> BackendState:
    own = {"url": f"litellm://openai/{name}", "method": STAND_IN, "max_in_flight": 4}
    known = {key: given.pop(key) for key in ("in_flight", "retry_at") if key in given}
    return BackendState(backend(name, **own | given), **known)


def fleet(*states: BackendState, beside: tuple[BackendState, ...] = (hosted(),)) -> Snapshot:
    return Snapshot.of(states, "f1", beside)


DOWN = state("a", healthy=False, reason="gone")
ASKING = policy(route(stand_ins=True, max_attempts=2))
PINNING = policy(route(stand_ins=True), allow_pin=True)


def asked(snapshot: Snapshot, rules=None, **given: object) -> Decision | NoCandidate:
    of, rules = features(**given), rules or ASKING
    decision = decide(of, classification(), snapshot, rules, UNDRAWN, 0.0)
    return instead(decision, of, rules, snapshot, 0.0) if isinstance(decision, NoCandidate) else decision


@pytest.mark.parametrize(
    "out", [DOWN, state("a", in_flight=256), state("a", retry_at=9.0)], ids=["down", "full", "busy"]
)
def test_a_hosted_model_answers_where_no_server_can_be_had(out: BackendState) -> None:
    found = asked(fleet(out))
    assert isinstance(found, Decision)
    assert [one.backend for one in found.candidates] == ["h"]
    assert (found.reason, found.propensity, found.max_attempts) == (reasons.STAND_IN, 1.0, 2)
    assert (found.route, found.target, found.seconds, found.lost) == ("all", TARGET, 0.0, 0.0)
    assert [one.backend for one in found.rejected] == ["a"]


def test_it_is_asked_for_nothing_while_a_server_can_take_it() -> None:
    found = asked(fleet(DOWN, state("b")))
    assert isinstance(found, Decision)
    assert [one.backend for one in found.candidates] == ["b"]


@pytest.mark.parametrize("endpoint", ["responses", "messages", "embeddings", "tokenize"])
def test_it_has_chat_and_text_completions_only(endpoint: str) -> None:
    assert isinstance(asked(fleet(DOWN), endpoint=endpoint), NoCandidate)


@pytest.mark.parametrize("name", sorted(UNFIT))
def test_it_is_not_asked_for_what_only_vllm_has(name: str) -> None:
    assert isinstance(asked(fleet(DOWN), parameters=frozenset({name})), NoCandidate)


def test_a_request_that_no_route_sends_anywhere_is_refused() -> None:
    nobody = policy(route(prefer=(), stand_ins=True))
    assert isinstance(asked(fleet(state("a")), nobody), NoCandidate)


def test_it_stands_in_for_its_own_target_only() -> None:
    assert isinstance(asked(fleet(DOWN, beside=(hosted(target="another"),))), NoCandidate)


def test_one_that_is_full_or_asked_for_a_pause_is_passed_over() -> None:
    found = asked(fleet(DOWN, beside=(hosted("h", in_flight=4), hosted("i", retry_at=5.0), hosted("j"))))
    assert isinstance(found, Decision)
    assert [one.backend for one in found.candidates] == ["j"]
    told = asked(fleet(DOWN, beside=(hosted("h", in_flight=4),)))
    assert isinstance(told, NoCandidate)
    assert "gone" in told.detail


def test_a_caller_who_chose_a_server_gets_no_other_answer() -> None:
    assert isinstance(asked(fleet(DOWN), PINNING, backend="a"), NoCandidate)


def test_a_caller_may_choose_a_stand_in_where_the_policy_allows_it() -> None:
    both = fleet(state("a"), beside=(hosted("h"), hosted("i")))
    found = asked(both, PINNING, backend="i")
    assert isinstance(found, Decision)
    assert [one.backend for one in found.candidates] == ["i"]
    assert found.reason == reasons.PINNED
    refused = asked(both, policy(route(), allow_pin=False), backend="i")
    assert isinstance(refused, NoCandidate)
    assert refused.kind == reasons.PIN_NOT_ALLOWED


def test_a_stand_in_that_was_chosen_and_is_full_says_so() -> None:
    found = asked(fleet(state("a"), beside=(hosted(in_flight=4),)), PINNING, backend="h")
    assert isinstance(found, NoCandidate)
    assert (found.kind, found.busy) == (reasons.ALL_REJECTED, True)
    assert [(one.backend, one.reason) for one in found.rejected] == [("h", reasons.FULL)]


def test_a_name_that_nobody_has_is_unknown_all_the_same() -> None:
    found = asked(fleet(state("a"), beside=(hosted(), hosted("i", target="another"))), PINNING, backend="zz")
    assert isinstance(found, NoCandidate)
    assert found.kind == reasons.UNKNOWN_BACKEND
    assert found.detail.endswith("there are: a, h")


AT_HOME = policy(route(), allow_pin=True)
STAYING = replace(features().hints, stays=True)


@pytest.mark.parametrize("given", [{"rules": AT_HOME}, {"hints": STAYING}], ids=["route", "request"])
def test_it_is_asked_for_nothing_that_is_to_stay(given: dict) -> None:
    assert isinstance(asked(fleet(DOWN), **given), NoCandidate)


@pytest.mark.parametrize(
    ("rules", "stays", "why"),
    [(AT_HOME, False, "route all asks for none"), (PINNING, True, "the caller or a class")],
)
def test_a_caller_cannot_choose_it_for_what_is_to_stay(rules, stays: bool, why: str) -> None:
    found = asked(fleet(state("a")), rules, hints=replace(STAYING, backend="h", stays=stays))
    assert isinstance(found, NoCandidate)
    assert found.kind == reasons.PIN_NOT_ALLOWED
    assert why in found.detail
    unknown = asked(fleet(state("a")), rules, hints=replace(STAYING, backend="zz", stays=stays))
    assert isinstance(unknown, NoCandidate)
    assert unknown.detail.endswith("there are: a")


def test_without_stand_ins_or_a_route_a_refusal_stays_what_it_is() -> None:
    assert isinstance(asked(fleet(DOWN, beside=())), NoCandidate)
    of, rules = features(), policy()
    refused = replace(asked(fleet(DOWN, beside=())), route=None)
    assert instead(refused, of, rules, fleet(DOWN), 0.0) is refused


def failed(name: str = "a", error: str = "status:502", status: int = 502) -> Attempt:
    return Attempt(name, "headers", error, status, 0.0, 1.0)


def next_after(
    *attempts: Attempt,
    why: str = "exhausted",
    snapshot: Snapshot | None = None,
    rules=ASKING,
    **given: object,
):
    found = snapshot or fleet(state("a"))
    decision = asked(fleet(state("a")))
    assert isinstance(decision, Decision)
    return after(GiveUp(why), decision, attempts, features(**given), rules, found, 0.0)


@pytest.mark.parametrize("why", ["exhausted", "attempts", "budget"])
def test_it_answers_once_the_servers_have_failed(why: str) -> None:
    assert next_after(failed(), why=why) == "h"
    assert next_after(failed(error="status:429", status=429), why=why) == "h"


@pytest.mark.parametrize("why", ["delivered", "not_retryable", "deadline"])
def test_it_is_not_asked_where_no_other_attempt_may_follow(why: str) -> None:
    assert next_after(failed(), why=why) is None


@pytest.mark.parametrize(
    "refused", [failed(error="status:400", status=400), failed(error="error_event:4xx", status=200)]
)
def test_it_is_not_asked_for_what_a_server_refused_as_wrong(refused: Attempt) -> None:
    assert next_after(refused, failed("b")) is None


def test_each_is_asked_once_and_in_the_order_of_the_file() -> None:
    both = fleet(state("a"), beside=(hosted("h"), hosted("i")))
    assert next_after(failed(), failed("h"), snapshot=both) == "i"
    assert next_after(failed(), failed("h"), failed("i"), snapshot=both) is None


@pytest.mark.parametrize("given", [{"rules": AT_HOME}, {"hints": STAYING}], ids=["route", "request"])
def test_it_does_not_answer_what_is_to_stay_once_servers_have_failed(given: dict) -> None:
    assert next_after(failed(), **given) is None


def test_nothing_follows_where_nothing_was_tried_or_the_caller_chose() -> None:
    assert next_after() is None
    assert next_after(failed(), backend="a") is None


def test_stand_ins_come_after_all_servers_and_change_apart_from_them() -> None:
    found = fleet(state("a"), state("b"), beside=(hosted("h"), hosted("i")))
    assert [found.at(place).backend.name for place in range(4)] == ["a", "b", "h", "i"]
    assert found.everybody == found.states + found.stand_ins
    assert [one.backend.stands_in for one in found.everybody] == [False, False, True, True]
    for place in range(4):
        new = replace(found.at(place), in_flight=3)
        changed = found.put(place, new)
        assert [changed.at(at).in_flight for at in range(4)] == [3 if at == place else 0 for at in range(4)]
        assert changed.roster is found.roster
    assert not found.roster.pool(TARGET).names[2:]


def test_nothing_is_learnt_of_stand_ins_and_they_make_no_fleet_less_busy() -> None:
    found = fleet(state("a", in_flight=128), beside=(hosted(),))
    assert found.busy == 0.5
    assert fleet().busy == 1.0
    told = found.learnt({"a": SERVER_MODEL, "h": SERVER_MODEL})
    assert [one.model for one in told.everybody] == [SERVER_MODEL, None]
    assert told.learnt({"a": SERVER_MODEL}).states[0] is told.states[0]
