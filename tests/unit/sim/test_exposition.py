from __future__ import annotations

import re
from pathlib import Path

import pytest

from backends.sim import profiles
from backends.sim.engine import Engine, Job
from backends.sim.exposition import render
from backends.sim.measures import Measures

REAL = Path(__file__).parents[2] / "fixtures" / "vllm" / "metrics"
SERIES = re.compile(r"^(vllm:\w+)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'(\w+)="([^"]*)"')


def page(method: str, draft_tokens: int, *, jobs: int = 0) -> str:
    configuration = profiles.configuration("google/gemma-4-31B-it", method, draft_tokens)
    engine = Engine(configuration, seed=1)
    for index in range(jobs):
        engine.submit(Job(str(index), "chat", 100, 1000))
    for _ in range(20 if jobs else 0):
        step = engine.begin()
        assert step is not None
        engine.finish(step)
    return render(engine, Measures(1024), "tiny", 1_796_000_000.25)


def declared(text: str) -> dict[str, tuple[str, str]]:
    """Type and description by family."""
    helps = dict(re.findall(r"^# HELP (vllm:\S+) (.*)$", text, re.MULTILINE))
    types = dict(re.findall(r"^# TYPE (vllm:\S+) (.*)$", text, re.MULTILINE))
    assert list(helps) == list(types)
    return {name: (types[name], helps[name]) for name in types}


def series(text: str) -> dict[str, set[tuple[tuple[str, str], ...]]]:
    """Label sets by name. Which values a position has is the draft length's business."""
    found: dict[str, set[tuple[tuple[str, str], ...]]] = {}
    for line in text.splitlines():
        if match := SERIES.match(line):
            labels = tuple((k, v) for k, v in LABEL.findall(match[2] or "") if k != "position")
            names = tuple((k, "") for k, _ in labels) if match[1] == "vllm:cache_config_info" else labels
            found.setdefault(match[1], set()).add(names)
    return found


@pytest.mark.parametrize(("real", "method", "n"), [("none", "none", 0), ("draft_model", "dflash", 3)])
def test_names_types_descriptions_and_labels_are_those_of_a_real_server(
    real: str, method: str, n: int
) -> None:
    expected, made = (REAL / f"{real}.prom").read_text(), page(method, n)
    assert declared(made) == declared(expected)
    assert list(declared(made)) == list(declared(expected))
    assert series(made) == series(expected)


def values(text: str) -> dict[str, float]:
    return {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if line[0] != "#"
    }


def test_values_are_the_engine_s() -> None:
    found = values(page("dflash", 7, jobs=3))
    common = '{engine="0",model_name="tiny"}'
    assert found[f"vllm:num_requests_running{common}"] == 3
    assert found[f"vllm:prompt_tokens_total{common}"] == 300
    drafts = found[f"vllm:spec_decode_num_drafts_total{common}"]
    assert drafts == 19 * 3
    assert found[f"vllm:spec_decode_num_draft_tokens_total{common}"] == 7 * drafts
    accepted = found[f"vllm:spec_decode_num_accepted_tokens_total{common}"]
    by_position = [
        found[
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="tiny",position="{k}"}}'
        ]
        for k in range(7)
    ]
    assert sum(by_position) == accepted > 0
    assert found[f"vllm:generation_tokens_total{common}"] == drafts + accepted + 3
    assert 0 < found[f"vllm:kv_cache_usage_perc{common}"] < 1
    assert found[f"vllm:generation_tokens_created{common}"] == 1_796_000_000.25


def test_a_baseline_has_no_counters_of_speculation() -> None:
    assert "spec_decode" not in page("none", 0, jobs=1)
