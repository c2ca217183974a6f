from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gateway.policy.evidence import Evidence, Machine, Measurement, Range, UnusableEvidenceError, parse
from gateway.policy.grounds import same_hardware
from gateway.policy.load import Loaded, load

if TYPE_CHECKING:
    from pathlib import Path

FLEET = """\
version: 1
backends:
  - {name: plain, url: "http://127.0.0.1:1", model: some/model, labels: {hardware: MI300X}}
  - {name: fast, url: "http://127.0.0.1:2", model: some/model, method: mtp, draft_tokens: 3}
"""
POLICY = """\
version: 1
evidence: evidence.json
routes: [{name: default, prefer: [any]}]
"""


def evidence(target: str = "some/model", hardware: str = "AMD Instinct MI300X gfx942", **machine) -> Evidence:
    measurements = tuple(
        Measurement(
            method=method, draft_tokens=tokens, workload="code", concurrency=8, requests=9,
            tokens_per_second=Range(value=1.0),
        )
        for method, tokens in (("none", 0), ("mtp", 3))
    )  # fmt: skip
    return Evidence(
        version=1, source="test", target=target, measured="2026-01-01",
        machine=Machine(hardware=hardware, **machine), measurements=measurements,
    )  # fmt: skip


def warnings(folder: Path, text: str | None, *, fleet: str = FLEET, policy: str = POLICY) -> list[str]:
    if text is not None:
        (folder / "evidence.json").write_text(text, encoding="utf-8")
    loaded = load(fleet, policy, folder=folder)
    assert isinstance(loaded, Loaded)
    return list(map(str, loaded.warnings))


def test_evidence_of_the_same_servers_is_nothing_to_warn_of(tmp_path: Path) -> None:
    assert warnings(tmp_path, evidence().to_json()) == []
    assert parse(evidence().to_json()) == evidence()


def test_evidence_of_another_accelerator_is_warned_of(tmp_path: Path) -> None:
    (said,) = warnings(tmp_path, evidence(hardware="AMD Radeon AI PRO R9700 gfx1201").to_json())
    assert said.startswith(
        "policy.yaml:2:11: warning: evidence: 'evidence.json' was measured on AMD Radeon AI PRO R9700"
    )
    assert "plain runs on MI300X" in said
    assert "speeds do not carry over" in said


def test_evidence_of_another_target_or_of_a_simulator_is_warned_of(tmp_path: Path) -> None:
    (said,) = warnings(tmp_path, evidence(target="other/model").to_json())
    assert "is of other/model, and the fleet serves some/model" in said
    (said,) = warnings(tmp_path, evidence(simulated=True).to_json())
    assert "figures of a simulator" in said


def test_configurations_that_were_not_measured_are_named(tmp_path: Path) -> None:
    fleet = FLEET.replace("draft_tokens: 3", "draft_tokens: 5")
    (said,) = warnings(tmp_path, evidence().to_json(), fleet=fleet)
    assert "says nothing of fast" in said


@pytest.mark.parametrize(
    ("text", "why"),
    [(None, "No such file"), ("{}", "version: Field required"), ("nothing", "Invalid JSON")],
)
def test_evidence_that_cannot_be_used_is_warned_of_and_the_policy_still_loads(
    tmp_path: Path, text: str | None, why: str
) -> None:
    (said,) = warnings(tmp_path, text)
    assert "'evidence.json' cannot be used" in said
    assert why in said


def test_nothing_is_read_where_no_evidence_is_named_or_no_folder_known(tmp_path: Path) -> None:
    assert warnings(tmp_path, None, policy=POLICY.replace("evidence: evidence.json\n", "")) == []
    loaded = load(FLEET, POLICY)
    assert isinstance(loaded, Loaded)
    assert loaded.warnings == ()


def test_another_format_is_no_evidence() -> None:
    with pytest.raises(UnusableEvidenceError, match="version"):
        parse(evidence().to_json().replace('"version": 1', '"version": 2'))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("MI300X", "AMD Instinct MI300X gfx942", True),
        ("mi300x", "MI300X TP2", True),
        ("MI300X", "MI355X", False),
        ("R9700", "AMD Instinct MI300X", False),
        ("NVIDIA H200", "NVIDIA H200 NVL", True),
    ],
)
def test_accelerators_are_compared_by_the_words_of_their_names(one: str, other: str, same: bool) -> None:
    assert same_hardware(one, other) is same
    assert same_hardware(other, one) is same
