from __future__ import annotations

import pytest

from gateway.core.outcome import Trace
from gateway.telemetry.trace_context import BYTES, begin, new_span_id, traceparent

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"
RANDOM = bytes(range(1, BYTES + 1))


def test_a_caller_s_trace_is_continued() -> None:
    assert begin(f"00-{TRACE}-{CALLER}-01", "vendor=1, other@x=a b", RANDOM) == Trace(
        TRACE, RANDOM[16:].hex(), CALLER, sampled=True, state="vendor=1,other@x=a b"
    )


@pytest.mark.parametrize(("flags", "sampled"), [("00", False), ("01", True), ("02", False), ("03", True)])
@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_the_caller_decides_on_sampling(flags: str, sampled: bool, ratio: float) -> None:
    assert begin(f"00-{TRACE}-{CALLER}-{flags}", "", RANDOM, ratio=ratio).sampled is sampled


@pytest.mark.parametrize(
    "header",
    [
        "",
        "nonsense",
        f"00-{TRACE}-{CALLER}",
        f"00-{TRACE.upper()}-{CALLER}-01",
        f"00-{TRACE}-{CALLER}-1",
        f"00-{TRACE}-{CALLER}-01-more",
        f"ff-{TRACE}-{CALLER}-01",
        f"00-{'0' * 32}-{CALLER}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"cc-{TRACE}-{CALLER}-01more",
        f"00-{TRACE}-{CALLER}-01\n",
    ],
)
def test_a_broken_header_begins_a_trace_of_our_own(header: str) -> None:
    assert begin(header, "vendor=1", RANDOM) == Trace(RANDOM[:16].hex(), RANDOM[16:].hex())


@pytest.mark.parametrize("header", [f"cc-{TRACE}-{CALLER}-01", f"cc-{TRACE}-{CALLER}-01-what-comes-later"])
def test_later_versions_are_read_as_far_as_known(header: str) -> None:
    assert begin(header, "", RANDOM).parent_id == CALLER


@pytest.mark.parametrize(
    ("header", "kept"),
    [
        ("", ""),
        (" a=1 ,, b=2\t", "a=1,b=2"),
        ("a=1,a=2", ""),
        ("A=1", ""),
        ("a=", ""),
        ("a", ""),
        ("a=1=2", ""),
        ("tenant@system=x", "tenant@system=x"),
        (",".join(f"k{number}=v" for number in range(32)), ",".join(f"k{number}=v" for number in range(32))),
        (",".join(f"k{number}=v" for number in range(33)), ""),
    ],
)
def test_tracestate_is_passed_on_only_if_it_keeps_the_rules(header: str, kept: str) -> None:
    assert begin(f"00-{TRACE}-{CALLER}-01", header, RANDOM).state == kept


@pytest.mark.parametrize(("ratio", "sampled"), [(1.0, True), (0.6, True), (0.4, False), (0.0, False)])
def test_a_trace_of_our_own_is_sampled_by_its_id(ratio: float, sampled: bool) -> None:
    middle = b"\x01" * 9 + b"\x80" + b"\x00" * 6 + b"\x01" * 8
    assert begin("", "", middle, ratio=ratio).sampled is sampled


def test_no_id_is_all_zeros() -> None:
    trace = begin("", "", bytes(BYTES))
    assert trace.trace_id.strip("0")
    assert trace.span_id.strip("0")
    assert new_span_id(bytes(8)).strip("0")


def test_what_is_sent_on_is_read_back() -> None:
    trace = begin("", "", RANDOM)
    attempt = new_span_id(b"attempt!")
    received = begin(traceparent(trace, attempt), "", bytes(reversed(RANDOM)))
    assert (received.trace_id, received.parent_id, received.sampled) == (trace.trace_id, attempt, True)
    assert traceparent(Trace(TRACE, CALLER, sampled=False), CALLER) == f"00-{TRACE}-{CALLER}-00"
