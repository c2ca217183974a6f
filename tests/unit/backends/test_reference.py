from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from backends import measured, reference
from backends.methods import methods

PAGE = Path(__file__).parents[3] / "docs" / "methods.md"


def test_the_page_is_what_is_written() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference.markdown()


def test_evidence_is_of_methods_that_are_known() -> None:
    for one in reference.evidence():
        assert {run.method for run in one.runs.values()} <= set(methods())
        assert one.parameters.keys() <= one.runs.keys()
        assert date.fromisoformat(one.date)
        assert one.command
        assert one.version


def test_all_that_runs_on_a_cpu_was_run_there() -> None:
    cpu = next(one for one in measured.evidence() if one.device == "CPU")
    able = {name for name, one in methods().items() if one.platforms["cpu"].runs}
    assert {run.method for run in cpu.runs.values()} == able
    assert {cpu.runs[name].method for name in cpu.parameters} == able


@pytest.mark.parametrize("one", measured.evidence(), ids=lambda one: one.engine)
def test_what_both_sides_counted_adds_up(one: measured.Evidence) -> None:
    for run in one.runs.values():
        told = run.server
        assert len(told.by_position) == run.draft_tokens
        assert (told.steps is None) == (run.method == "none")
        if told.steps is not None and told.accepted is not None and told.drafted is not None:
            assert run.explained
            assert sum(told.by_position) == told.accepted <= told.drafted <= run.draft_tokens * told.steps
            assert sorted(told.by_position, reverse=True) == list(told.by_position)
            assert told.by_position[0] <= told.steps


def test_lengths_on_real_text_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    text = measured.RealText(
        model="A model", prompts=4, tokens=96, differing=3, answers=40,
        mean_accepted_length={"ngram": {"code": 1.625, "chat": 1.0}},
        tokens_per_step={"ngram": {"code": 1.25, "chat": 1.0}},
        note="Seen twice.",
    )  # fmt: skip
    monkeypatch.setattr(reference, "real_text", lambda: text)
    page = reference.markdown()
    assert "|  | code | chat |" in page
    assert "| `ngram`, mean accepted length | 1.62 | 1.00 |" in page
    assert "| `ngram`, tokens a step | 1.25 | 1.00 |" in page
    assert "3 of 40 answers were not those of the server without speculation. Seen twice." in page
    monkeypatch.setattr(reference, "real_text", lambda: None)
    assert "## Prompt lookup on real text\n\nNot measured yet." in reference.markdown()


@pytest.mark.parametrize("one", measured.evidence(), ids=lambda one: one.engine)
def test_the_capability_filter_goes_by_what_servers_refused(one: measured.Evidence) -> None:
    for name, verdicts in one.parameters.items():
        refused = {parameter for parameter, verdict in verdicts.items() if verdict == "refused"}
        assert refused == set(methods()[one.runs[name].method].refuses) & verdicts.keys(), name


SAME = measured.Tally(
    tokens=900, steps=40, drafted=280, accepted=120, by_position=(30, 25, 20, 15, 12, 10, 8)
)
PLAIN = measured.Tally(tokens=900)


def ran(method: str, server: measured.Tally, gateway: measured.Tally, **more: Any) -> measured.Run:
    fields = {
        "draft_tokens": len(server.by_position), "requests": 28, "longest": 87, "gateway": gateway, "server": server,
    }  # fmt: skip
    return measured.Run(method=method, **fields | more)


def told(**more: Any) -> measured.Evidence:
    return measured.Evidence(
        version="0.29.0",
        device="NVIDIA H200",
        command="python -m x",
        date="2026-11-30",
        parameters={},
        **more,
    )


def test_counts_of_a_run_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    off = SAME.model_copy(update={"steps": 39})
    less = SAME.model_copy(update={"steps": 10, "accepted": 60, "by_position": (9, 9, 9, 9, 8, 8, 8)})
    one = told(
        runs={
            "dspark": ran("dspark", SAME, SAME, known=True),
            "eagle3": ran("eagle3", SAME, off),
            "dflash": ran("dflash", SAME, less, untold=1),
            "baseline": ran("none", PLAIN, PLAIN),
            "dspark-adaptive": ran("dspark", SAME, SAME, speculative={"enable_adaptive_verification": True}),
            "dflash-adaptive": ran(
                "dflash", SAME, SAME, known=False, speculative={"enable_adaptive_verification": True}
            ),
        },
        failures={"medusa": "no such checkpoint"},
        note="It is old.",
    )
    monkeypatch.setattr(reference, "evidence", lambda: (one,))
    page = reference.markdown()
    assert "| `dspark` | started from our spec; our counts equal the server's, by position, and are" in page
    assert "by position, but for 1 of 28 answers that told none |" in page
    assert (
        "| `dspark`, adaptive verification | started from our spec; our counts equal the server's, by po"
        in page
    )
    assert "| `eagle3` | started from our spec; our counts are NOT the server's, see below" in page
    assert "| `eagle3`, N by batch size | not run |" in page
    assert "| `none` | started from our spec; no speculation counters on either side, as it should be" in page
    assert "| `medusa` | not verified: no such checkpoint" in page
    assert "- vLLM 0.29.0 on NVIDIA H200: `python -m x`, 2026-11-30. It is old." in page
    numbers = "40 | 280 | 120 | 30 / 25 / 20 / 15 / 12 / 10 / 8 |"
    assert f"| vLLM 0.29.0 on NVIDIA H200 | `dspark` | 7 | 28 | 900 | {numbers} the same |" in page
    assert f"`eagle3` | 7 | 28 | 900 | {numbers} steps: 39 in the gateway, 40 in the server |" in page
    assert "| `none` | – | 28 | 900 | – | – | – | – | the same |" in page
    assert "Not measured yet." in page
    assert "- `eagle3`, N by batch size: on no engine at all." in page
    assert "- `dspark`, adaptive verification, on vLLM 0.29.0 on NVIDIA H200: no draft was shortened." in page
    assert (
        "- `dflash`, adaptive verification, on vLLM 0.29.0 on NVIDIA H200: drafts are counted whole, but not all "
        "were verified."
    ) in page


def test_every_engine_has_its_own_table_of_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = {"dspark": ran("dspark", SAME, SAME), "baseline": ran("none", PLAIN, PLAIN)}
    verdicts = {"baseline": {"min_p": "accepted"}, "dspark": {"min_p": "refused"}}
    one = told(runs=runs).model_copy(update={"parameters": verdicts})
    monkeypatch.setattr(reference, "evidence", lambda: (one, one.model_copy(update={"device": "CPU"})))
    page = reference.markdown()
    for device in ("NVIDIA H200", "CPU"):
        assert (
            f"On vLLM 0.29.0 on {device}:\n\n| Parameter | `none` | `dspark` |\n| --- | --- | --- |\n"
            "| `min_p` | yes | **400** |\n"
        ) in page


def test_what_was_never_run_is_said_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "evidence", tuple)
    section = reference.markdown().partition("## What was not run")[2].partition("##")[0]
    assert "- ROCm: no server of any method" in section
    assert "- `dspark`: on no engine at all. Its launch spec was checked and rendered only." in section
    assert "- `dspark`, adaptive verification: on no engine at all." in section


@pytest.mark.parametrize(
    ("ours", "untold", "explained"),
    [
        ({}, 0, True),
        ({"steps": 39}, 0, False),
        ({"steps": 39}, 1, True),
        ({"steps": 1, "accepted": 65, "by_position": (3,) * 7}, 1, True),
        ({"steps": 0, "accepted": 65, "by_position": (3,) * 7}, 1, False),  # more than an answer can have
        ({"steps": 41}, 1, False),
        ({"by_position": (31, 25, 20, 15, 12, 10, 8)}, 1, False),
        ({"by_position": (30, 25)}, 1, False),
        ({"tokens": 899}, 1, False),
        ({"steps": None, "drafted": None, "accepted": None, "by_position": ()}, 28, False),
    ],
)
def test_a_difference_is_explained_by_no_more_than_what_answers_did_not_tell(
    ours: dict[str, Any], untold: int, explained: bool
) -> None:
    run = ran("dspark", SAME, SAME.model_copy(update=ours), untold=untold)
    assert run.explained is explained
    assert bool(run.differences) is bool(ours)


def test_versions_are_those_whose_counts_agreed(monkeypatch: pytest.MonkeyPatch) -> None:
    off = SAME.model_copy(update={"accepted": 1})
    good, bad = told(runs={"a": ran("dspark", SAME, SAME)}), told(runs={"a": ran("dspark", SAME, off)})
    newer = good.model_copy(update={"version": "0.100.0"})
    monkeypatch.setattr(
        measured, "evidence", lambda: (newer, good, bad.model_copy(update={"version": "0.30.0"}))
    )
    assert measured.compared_versions("dspark") == ("0.29.0", "0.100.0")
    assert measured.compared_versions("mtp") == ()
