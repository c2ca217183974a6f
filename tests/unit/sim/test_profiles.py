from __future__ import annotations

import csv
import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from backends.sim import profiles
from backends.sim.configuration import DATA_SETS, Configuration, Lengths
from backends.sim.profiles import UnknownConfigurationError, configuration, configurations, lengths, targets
from gateway.core.features import WORKLOADS
from gateway.core.fleet import METHODS

TABLE = Path(__file__).parents[4] / "shared" / "facts" / "spec-decode-tables.csv"
FOLDER = Path(profiles.__file__).parent / "profiles"
EVERY = [found for target in targets() for found in configurations(target)]
PUBLISHED = [found for found in EVERY if found.cells]
GEMMA = "google/gemma-4-31B-it"


def name_of(found: Configuration) -> str:
    return f"{found.target.rpartition('/')[2]}-{found.method}-{found.draft_tokens}"


def accepted(found: Configuration, workload: str, positions: int) -> float:
    return sum(found.survival[workload][:positions])


def test_the_article_is_here_whole() -> None:
    assert len(targets()) == 9
    assert sum(len(found.cells) for found in PUBLISHED if found.draft_tokens) == 400
    assert Counter(found.method for found in EVERY) == {
        "none": 9, "gemma4-mtp": 9, "mtp": 25, "eagle3": 26, "dflash": 32, "dspark": 8, "ngram": 9, "suffix": 9,
    }  # fmt: skip


@pytest.mark.skipif(
    not TABLE.exists(), reason="the table of published measurements is not beside the repository"
)
def test_cells_are_those_of_the_published_table() -> None:
    method = {"mtp_gemma4": "gemma4-mtp", "mtp_native": "mtp"}
    with TABLE.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["source"] == "vllm-blog-2026-08-23"]
    assert len(rows) == sum(len(found.cells) for found in EVERY)
    for row in rows:
        found = configuration(row["target_model"], method.get(row["method"], row["method"]), int(row["n"]))
        cell = found.cells[row["dataset"]]
        assert cell.tokens_per_second == float(row["tok_s"])
        assert cell.speedup == float(row["speedup"])
        assert cell.mean_accepted_length == float(row["mean_accepted_len"] or 1.0)
        assert found.draft == (row["draft_checkpoint"] or None)
        assert row["hardware"].startswith(found.hardware)
        positions = re.search(r"pos=([\d./]+)", row["notes"])
        if positions:
            printed = [float(value) for value in positions[1].split("/")]
            assert found.survival[row["dataset"]] == pytest.approx(printed, abs=0.012)


@pytest.mark.parametrize("found", EVERY, ids=name_of)
def test_configuration_is_complete_and_possible(found: Configuration) -> None:
    assert found.method in METHODS
    assert found.hardware.startswith(("MI300X TP", "MI355X TP"))
    assert set(WORKLOADS) <= set(found.survival)
    for curve in found.survival.values():
        assert len(curve) == found.draft_tokens
        assert all(0.0 <= value <= 1.0 for value in curve)
        assert all(late <= early for early, late in pairwise(curve))
    assert found.draft_cost >= 0.0
    assert 0.8 < found.verify_scale <= 1.0
    assert 0.0 < found.curve.linear_share < 0.5
    assert found.prefill_seconds > 0.0
    steps = [found.step(sequences) for sequences in (1, 8, 32, 128, 256)]
    assert steps == sorted(steps)


@pytest.mark.parametrize("found", EVERY, ids=name_of)
def test_every_number_says_where_it_comes_from(found: Configuration) -> None:
    assert all(re.match(r"published|derived|fitted|assumed", text) for text in found.origins.values())
    wanted = {
        "curve.concurrency",
        "curve.seconds",
        "curve.growth",
        "curve.linear_share",
        "draft_cost",
        "draft_floor",
    }
    wanted |= {"verify_scale", "prefill_price", "prefill_surcharge", "request_spread", "kv_tokens"}
    if found.cells:
        wanted |= {"cells", "hardware", "step_scale", "survival.math", "survival.code"}
    if found.draft_tokens and found.cells:
        wanted |= {f"survival.{workload}" for workload in WORKLOADS}
    if not found.cells:
        wanted |= {"survival"}
        assert found.origins["survival"].startswith("assumed")
    assert wanted <= set(found.origins)


def test_concurrency_is_assumed_and_says_so() -> None:
    by_target = {target: configuration(target, "none", 0) for target in targets()}
    assert {target: found.curve.concurrency for target, found in by_target.items()} == {
        target: 16 if "Kimi" in target else 32 for target in targets()
    }
    assert all(found.origins["curve.concurrency"].startswith("assumed") for found in by_target.values())


@pytest.mark.parametrize("found", PUBLISHED, ids=name_of)
def test_math_and_code_are_the_mean_of_their_data_sets(found: Configuration) -> None:
    for workload in ("math", "code"):
        of = [found.mean_accepted_length(name) for name, label in DATA_SETS.items() if label == workload]
        assert found.mean_accepted_length(workload) == pytest.approx(sum(of) / 2)


@pytest.mark.parametrize("found", EVERY, ids=name_of)
def test_workloads_cost_the_same_step_and_cells_keep_their_residual(found: Configuration) -> None:
    assert {found.step_scale(workload) for workload in WORKLOADS} == {1.0}
    scales = [found.step_scale(name) for name in found.cells]
    assert scales == [] or sum(scales) / 4 == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize(
    ("method", "tokens", "workload", "loss"),
    [
        ("dflash", 3, "grounded", 0.33),
        ("dflash", 3, "multilingual", 0.29),
        ("dspark", 3, "grounded", 0.33),
        ("gemma4-mtp", 3, "grounded", 0.11),
        ("gemma4-mtp", 3, "multilingual", 0.09),
        ("eagle3", 3, "grounded", 0.11),
    ],
)
def test_other_workloads_lose_what_the_second_sources_lost(
    method: str, tokens: int, workload: str, loss: float
) -> None:
    found = configuration(GEMMA, method, tokens)
    base = (accepted(found, "math", 3) + accepted(found, "code", 3)) / 2
    assert 1.0 - accepted(found, workload, 3) / base == pytest.approx(loss, abs=0.04)


def test_lookup_drafts_copy_grounded_text_best() -> None:
    for method in ("ngram", "suffix"):
        found = configuration(GEMMA, method, 8)
        assert found.mean_accepted_length("grounded") == pytest.approx(4.3, abs=0.01)
        assert found.mean_accepted_length("code") == pytest.approx(2.1, abs=0.01)
        assert found.mean_accepted_length("chat") == pytest.approx(1.3, abs=0.01)
        assert found.draft_time(32) == 0.0


def test_unknown_combinations_say_what_exists() -> None:
    with pytest.raises(UnknownConfigurationError, match=r"target 'gpt'; there is .*google/gemma-4-31B-it"):
        configurations("gpt")
    with pytest.raises(
        UnknownConfigurationError,
        match=r"method 'mtp' and N = 4; there is none with N = 0; gemma4-mtp with N = 1, 2, 3, 4; eagle3",
    ):
        configuration(GEMMA, "mtp", 4)
    with pytest.raises(UnknownConfigurationError, match="workload 'poetry'; there is math, code, chat"):
        lengths("poetry")


@pytest.mark.parametrize("workload", WORKLOADS)
def test_lengths_have_their_mean_and_spread(workload: str) -> None:
    expected = lengths(workload)
    rng = np.random.default_rng(1)
    drawn = np.array([expected.sample(rng) for _ in range(20_000)])
    assert drawn.min() >= 1
    assert drawn.mean(axis=0) == pytest.approx((expected.prompt, expected.output), rel=0.03)
    assert drawn.std(axis=0) / drawn.mean(axis=0) == pytest.approx([0.8, 0.8], rel=0.06)


def test_data_sets_have_the_lengths_of_their_workload() -> None:
    assert lengths("gsm8k") == lengths("math") == Lengths(600, 150, 0.8)


def test_every_file_of_a_target_is_loaded() -> None:
    held = [json.loads(file.read_text()) for file in FOLDER.glob("*.json")]
    assert {content["target"] for content in held if "target" in content} == set(targets())
