"""A fleet file is written as it was read: every field of a server, whatever it holds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.fleet_file import read_fleet, write_fleet
from backends.spec import LaunchSpec, from_section, to_section
from gateway.core.features import PARAMETERS
from gateway.core.fleet import METHODS
from gateway.policy.load import Invalid, load_fleet
from gateway.policy.machine import GpusSection, LaunchSection
from gateway.policy.schema import BackendSection

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True).filter(lambda name: name != "any")
# What a YAML file can hold: no half characters, and none that YAML forbids.
CHARACTERS = st.characters(codec="utf-8", exclude_categories=("Cs", "Cn", "Co"))
TEXT = st.text(CHARACTERS, min_size=1, max_size=20)
HOSTS = st.sampled_from(
    ["127.0.0.1", "localhost", "10.0.0.5", "gpu-7.example", "[::1]", "[fd00::7]", "0.0.0.0"]
)
URLS = st.builds(
    lambda scheme, host, port: f"{scheme}://{host}:{port}",
    st.sampled_from(["http", "https"]), HOSTS, st.integers(1, 65_535),
)  # fmt: skip
COUNTS = st.integers(1, 10**6)
SCALARS = st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT
JSON = st.recursive(
    st.none() | SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
)
LAUNCH: dict[str, st.SearchStrategy[Any]] = {
    "tensor_parallel": COUNTS,
    "gpus": st.none() | st.lists(st.integers(0, 64), max_size=4),
    "args": st.dictionaries(TEXT, SCALARS, max_size=3),
    "env": st.dictionaries(TEXT, st.text(CHARACTERS, max_size=20), max_size=3),
    "speculative": st.dictionaries(TEXT, JSON, max_size=3),
    "block_size": st.none() | COUNTS,
    "image": st.none() | TEXT,
    "hardware": st.text(CHARACTERS, max_size=20),
}
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "name": NAMES,
    "url": URLS,
    "model": TEXT,
    "served_model": TEXT,
    "method": st.sampled_from(METHODS[1:]),
    "draft_tokens": COUNTS,
    "draft": st.none() | TEXT,
    "refuses": st.none() | st.lists(st.sampled_from(PARAMETERS), max_size=3),
    "max_in_flight": COUNTS,
    "max_model_len": st.none() | COUNTS,
    "labels": st.dictionaries(TEXT, TEXT, max_size=3),
    "api_key_env": st.none() | TEXT,
    "gpus": st.none()
    | st.fixed_dictionaries(
        {"exporter": URLS, "ids": st.lists(st.integers(0, 64), min_size=1, max_size=3)}
    ),
    "launch": st.fixed_dictionaries({}, optional=LAUNCH),
}  # fmt: skip


def test_no_field_is_forgotten_here() -> None:
    assert set(FIELDS) == set(BackendSection.model_fields)
    assert set(LAUNCH) == set(LaunchSection.model_fields)
    assert set(GpusSection.model_fields) == {"exporter", "ids"}


@settings(max_examples=60, deadline=None)
@given(st.fixed_dictionaries(FIELDS))
def test_a_fleet_is_written_as_it_was_read(written: dict[str, Any]) -> None:
    section = BackendSection.model_validate(written)
    spec = from_section(section)
    (again,) = read(write_fleet([spec]))
    assert again == spec
    # A port that is the scheme's own may be left out.
    url = section.url.removesuffix(":443" if section.url.startswith("https") else ":80")
    assert to_section(again) == section.model_copy(update={"url": url})


def read(text: str) -> tuple[LaunchSpec, ...]:
    found = read_fleet(text, "fleet.yaml")
    assert not isinstance(found, Invalid), found.problems
    return found


FLEET = """\
version: 1
backends:
  - name: here
    url: https://[::1]:8443
    model: acme/model
    method: ngram
    draft_tokens: 4
    refuses: []
    max_in_flight: 7
    labels: {tier: gold}
    api_key_env: KEY
    gpus: {exporter: "http://[::1]:5000", ids: [0, 3]}
    launch: {gpus: [], args: {max-num-seqs: 4}}
"""


def test_what_only_the_gateway_reads_is_kept() -> None:
    (spec,) = read(FLEET)
    assert spec.url == "https://[::1]:8443"
    before, after = load_fleet(FLEET), load_fleet(write_fleet([spec]))
    assert not isinstance(before, Invalid)
    assert not isinstance(after, Invalid)
    assert after.value.backends == before.value.backends
    assert spec.gpus == ()
    assert "refuses: []" in write_fleet([spec])


@pytest.mark.parametrize(
    ("url", "host", "port", "again"),
    [
        ("http://127.0.0.1", "127.0.0.1", 80, "http://127.0.0.1"),
        ("https://x", "x", 443, "https://x"),
        ("http://x:443", "x", 443, "http://x:443"),
        ("http://[::1]:8000", "::1", 8000, "http://[::1]:8000"),
        ("https://[fe80::1]", "fe80::1", 443, "https://[fe80::1]"),
    ],
)
def test_an_address_is_taken_apart_and_put_together(url: str, host: str, port: int, again: str) -> None:
    spec = from_section(BackendSection(name="a", url=url, model="m"))
    assert (spec.host, spec.port, spec.url) == (host, port, again)
