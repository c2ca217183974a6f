from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span

from gateway.telemetry import otlp

INT64 = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.one_of(
    TEXTS, st.booleans(), INT64, st.floats(allow_nan=False), st.lists(TEXTS).map(tuple), st.lists(INT64).map(tuple)
)  # fmt: skip


def only(attribute: bytes) -> tuple[str, Any]:
    (pair,) = Span.FromString(attribute).attributes
    kind = pair.value.WhichOneof("value")
    assert kind is not None
    held = getattr(pair.value, kind)
    if kind == "array_value":
        held = tuple(getattr(each, each.WhichOneof("value") or "") for each in held.values)
    return pair.key, held


@given(name=TEXTS, value=VALUES)
def test_an_attribute_reads_as_it_was_written(name: str, value: otlp.Value) -> None:
    read = only(otlp.Key(name).of(value))
    assert read == (name, value)
    assert type(read[1]) is type(value)


@given(number=st.floats(allow_nan=False))
def test_the_short_way_for_floats_writes_the_same(number: float) -> None:
    assert otlp.Key("a").double(number) == otlp.Key("a").of(number)


@given(name=TEXTS, text=TEXTS)
@example(name="a" * 60, text="b" * 60)
@example(name="a", text="b" * 118)
@example(name="a", text="b" * 119)
@example(name="a" * 200, text="")
def test_the_short_way_for_texts_writes_the_same(name: str, text: str) -> None:
    assert otlp.Key(name).text(text) == otlp.Key(name).of(text)


@given(texts=st.lists(TEXTS))
@example(texts=["b" * 125])
@example(texts=["b" * 126, "c"])
def test_the_short_way_for_lists_of_texts_writes_the_same(texts: list[str]) -> None:
    assert otlp.Key("a").texts(map(otlp.written, texts)) == otlp.Key("a").of(tuple(texts))


@given(numbers=st.lists(INT64))
def test_the_short_way_for_lists_of_whole_numbers_writes_the_same(numbers: list[int]) -> None:
    assert otlp.Key("a").wholes(numbers) == otlp.Key("a").of(tuple(numbers))


@given(number=INT64)
def test_the_short_way_for_whole_numbers_writes_the_same(number: int) -> None:
    key = otlp.Key("a")
    assert key.whole(number) == key.whole(number) == key.of(number)


@given(name=TEXTS, at=st.integers(0, 2**63))
@example(name="a" * 200, at=1)
def test_an_event_without_attributes_reads_as_it_was_written(name: str, at: int) -> None:
    (event,) = Span.FromString(otlp.event(name, at)).events
    assert (event.name, event.time_unix_nano, len(event.attributes)) == (name, at, 0)


def test_what_does_not_fit_is_cut_and_what_has_no_bytes_is_replaced() -> None:
    key = otlp.Key("a")
    assert only(key.of(2**70)) == ("a", 2**63 - 1)
    assert only(key.of(-(2**70))) == ("a", -(2**63))
    assert only(key.of("half \ud800 a pair")) == ("a", "half ? a pair")


@given(length=st.sampled_from([0, 1, 126, 127, 128, 129, 16_383, 16_384, 2_100_000]))
def test_lengths_of_any_size_are_written(length: int) -> None:
    assert only(otlp.Key("a").of("x" * length)) == ("a", "x" * length)


def test_an_event_reads_as_it_was_written() -> None:
    (event,) = Span.FromString(otlp.event("failover", 5, {"to": "b"})).events
    assert (event.name, event.time_unix_nano) == ("failover", 5)
    assert [(pair.key, pair.value.string_value) for pair in event.attributes] == [("to", "b")]


def test_a_span_without_what_it_may_lack_is_a_good_root() -> None:
    written = otlp.span(
        name="x", kind=otlp.CLIENT, trace_id=b"t" * 16, span_id=b"s" * 8, started=1, ended=2, inside=(), failed=False
    )  # fmt: skip
    (span,) = ScopeSpans.FromString(written).spans
    assert span == Span(
        name="x", kind=Span.SPAN_KIND_CLIENT, trace_id=b"t" * 16, span_id=b"s" * 8, start_time_unix_nano=1,
        end_time_unix_nano=2, flags=0x100,
    )  # fmt: skip
