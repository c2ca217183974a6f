"""No fleet file that can be read is too odd to be checked, and what passes can be written in every form."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends import manifests, render
from backends.engine import _question
from backends.flags import listed
from backends.machine import Engine, Gpu, Machine
from backends.methods import COMMON_KEYS, methods
from backends.preflight import preflight
from backends.preflight.schedule import KEY
from backends.spec import from_section
from gateway.policy.schema import BackendSection
from tests.unit.backends.test_fleet_file import FIELDS, JSON, LAUNCH, SCALARS, TEXT

KEYS = sorted({*COMMON_KEYS, *(key for one in methods().values() for key in one.keys)})
FLAGS = [
    "pp",
    "-dp",
    "data_parallel_size",
    "compilation-config",
    "attention-config",
    "nnodes",
    "--",
    "=",
    "max_num_seqs",
    "x.y.z",
]
NUMBERS = st.integers() | st.sampled_from([0, 1, 2, -1, 10**12])
SPECULATIVE = st.dictionaries(
    st.sampled_from([*KEYS, "num-speculative-tokens-per-batch-size", "method"]) | TEXT,
    JSON | NUMBERS | st.lists(st.lists(NUMBERS, min_size=3, max_size=3), max_size=3),
    max_size=5,
)
ODD = FIELDS | {
    "model": st.sampled_from(["-x", "~", "~nobody-there/x", ".", "a/b", "s3://a/b/c", "\0", "/dev/null", "/dev", "a" * 300]) | TEXT,
    "launch": st.fixed_dictionaries(
        {},
        optional=LAUNCH | {"speculative": SPECULATIVE, "args": st.dictionaries(st.sampled_from(FLAGS) | TEXT, SCALARS, max_size=4)},
    ),
}  # fmt: skip
GPUS = (Gpu(0, "AMD Instinct MI355X gfx950", 0, 0), Gpu(3, "", 196_592, 196_592))
ENGINE = Engine("python", "0.23.1rc1.dev12+g123", "rocm", frozenset({"mtp", "dflash"}))
MACHINES = [
    Machine("rocm"), Machine("cpu"), Machine("cuda", replace(ENGINE, version="", platform="cuda"), GPUS),
    Machine("rocm", replace(ENGINE, flags=listed(), options=frozenset({KEY})), (), trouble="it is broken"),
]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(st.fixed_dictionaries(ODD), max_size=3), st.sampled_from(MACHINES))
def test_no_fleet_is_too_odd(sections: list[dict[str, Any]], machine: Machine) -> None:
    specs = [from_section(BackendSection.model_validate(one)) for one in sections]
    anywhere = replace(machine, is_here=lambda _: True, env={"HOME": "/nonexistent"})
    findings = preflight(specs, anywhere)
    assert all(str(one).isprintable() and one.wrong and one.right for one in findings)
    assert json.loads(json.dumps(_question(specs))).keys() == {"modules", "configs", "commands"}
    if any(not one.warning for one in findings):
        return
    for spec in specs:
        render.shell(spec, machine.platform, "python", (0,))
    for written in (manifests.compose, manifests.kubernetes):
        with contextlib.suppress(manifests.NotRenderableError):
            written(specs, machine.platform)


@pytest.mark.parametrize("method", sorted(methods()))
@settings(max_examples=20, deadline=None)
@given(SPECULATIVE)
def test_no_speculative_config_is_too_odd(method: str, speculative: dict[str, Any]) -> None:
    section = {"name": "a", "url": "http://127.0.0.1:9000", "model": "t", "method": method, "draft_tokens": 3}
    spec = from_section(BackendSection.model_validate(section | {"launch": {"speculative": speculative}}))
    for machine in MACHINES:
        assert all(one.right for one in preflight([spec], replace(machine, is_here=lambda _: True)))
    assert (render.speculative_config(spec) is None) == (method == "none")
