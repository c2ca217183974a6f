from __future__ import annotations

import re
from typing import Any

import pytest

from gateway.core.classes import DEFAULT, HEADER, ClassMatch, ServiceClass, digest, kept_in, service_of
from gateway.core.features import Hints, RequestView
from gateway.core.plan import Limits
from tests.factories import features


def view(**given: Any) -> RequestView:
    fields: dict[str, Any] = {"endpoint": "chat", "model": "tiny"}
    return RequestView(**fields | given)


@pytest.mark.parametrize(
    ("match", "fits", "misses"),
    [
        (ClassMatch(stream=True), {"stream": True}, {"stream": False}),
        (ClassMatch(endpoints=frozenset({"chat"})), {}, {"endpoint": "completions"}),
        (ClassMatch(models=frozenset({"tiny"})), {}, {"model": "large"}),
        (ClassMatch(tenants=frozenset({"a"})), {"hints": Hints(tenant="a")}, {}),
        (ClassMatch(max_max_tokens=100), {"max_tokens": 100}, {"max_tokens": 101}),
        (ClassMatch(max_max_tokens=100), {"max_tokens": 1}, {"max_tokens": None}),
        (ClassMatch(min_max_tokens=100), {"max_tokens": None}, {"max_tokens": 99}),
        (ClassMatch(min_max_tokens=100), {"max_tokens": 100}, {"max_tokens": 1}),
        (
            ClassMatch(headers={b"x-team": re.compile(b"batch.*")}),
            {"headers": {b"x-team": b"batch-1"}},
            {"headers": {b"x-team": b"no-batch"}},
        ),
        (
            ClassMatch(keys=frozenset({digest(b"secret")})),
            {"headers": {b"authorization": b"Bearer secret"}},
            {"headers": {b"authorization": b"Bearer other"}},
        ),
        (ClassMatch(keys=frozenset({digest(b"secret")})), {"headers": {b"x-api-key": b"secret"}}, {}),
    ],
)
def test_every_condition_must_fit(match: ClassMatch, fits: dict[str, Any], misses: dict[str, Any]) -> None:
    assert match.fits(view(**fits))
    assert not match.fits(view(**misses))


BULK = ServiceClass("bulk", ClassMatch(stream=False))
CHAT = ServiceClass("chat", ClassMatch(stream=True))


def test_the_first_class_that_fits_takes_the_request() -> None:
    assert service_of(view(stream=True), (BULK, CHAT), trust=True) is CHAT
    assert service_of(view(), (BULK, CHAT, ServiceClass("rest")), trust=True) is BULK
    assert service_of(view(stream=True), (BULK,), trust=True) is DEFAULT
    assert service_of(view(), (), trust=True) is DEFAULT


def test_a_caller_may_name_the_class_where_it_is_trusted() -> None:
    named = view(stream=True, headers={HEADER: b" bulk "})
    assert service_of(named, (BULK, CHAT), trust=True) is BULK
    assert service_of(named, (BULK, CHAT), trust=False) is CHAT
    assert service_of(view(stream=True, headers={HEADER: b"no"}), (BULK, CHAT), trust=True) is CHAT


@pytest.mark.parametrize(("limits", "seconds"), [({}, 0.0), ({"tpot": 0.02}, 0.0), ({"ttft": 2.0}, 1.0)])
def test_a_request_waits_for_its_servers_for_half_the_time_to_its_first_token(
    limits: dict[str, float], seconds: float
) -> None:
    assert ServiceClass("chat", limits=Limits(**limits)).patience == seconds


SECRET = ServiceClass("secret", ClassMatch(tenants=frozenset({"legal"})), stand_ins=False)
BATCH = ServiceClass("batch")


@pytest.mark.parametrize(
    ("tenant", "service", "stays"),
    [("legal", SECRET, True), ("other", SECRET, True), ("legal", BATCH, True), ("other", BATCH, False)],
)
def test_no_hosted_model_may_have_what_a_class_keeps(tenant: str, service: ServiceClass, stays: bool) -> None:
    """Be it that of the request, or one that fits it though the caller names another one."""
    seen = view(hints=Hints(tenant=tenant))
    assert kept_in(features(tenant=tenant), seen, service, (BATCH, SECRET)).hints == Hints(
        tenant=tenant, stays=stays
    )


def test_what_the_caller_keeps_stays_whatever_the_classes_say() -> None:
    own = features(hints=Hints(stays=True))
    assert kept_in(own, view(), DEFAULT, (BATCH,)).hints.stays
