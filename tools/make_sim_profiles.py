"""Make the simulator's profiles from the table of published measurements.

Usage: python tools/make_sim_profiles.py spec-decode-tables.csv

Reads the rows of the MI300X/MI355X article and ``assumptions.json``, solves step times so that a closed loop
at the calibration point gives the published tokens/s, and writes ``transfer.json`` and one file a target into
``backends/sim/profiles/``.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from backends.sim.configuration import Curve
from backends.sim.profiles import assumptions, lengths

Row = Mapping[str, str]
Survival = Sequence[float]

FOLDER = Path(__file__).parents[1] / "backends" / "sim" / "profiles"
ARTICLE = "vllm-blog-2026-08-23"
METHODS = {
    "none": "none",
    "mtp_gemma4": "gemma4-mtp",
    "mtp_native": "mtp",
    "eagle3": "eagle3",
    "dflash": "dflash",
    "dspark": "dspark",
}
BLOCK = ("dflash", "dspark")
SPARSE = (
    "google/gemma-4-26B-A4B-it",
    "Qwen/Qwen3.5-122B-A10B",
    "Qwen/Qwen3.6-35B-A3B",
    "moonshotai/Kimi-K2.5",
    "MiniMaxAI/MiniMax-M3-MXFP8",
)
SPARSE_GROWTH = 0.2

ORIGINS = {
    "cells": "published: Exploring Speculative Decoding in vLLM on AMD GPUs, vLLM blog, 2026-08-23, appendix "
    "(https://vllm.ai/blog/2026-08-23-speculative-decoding-amd-gpus); positions are scaled to the published "
    "mean accepted length, which undoes their rounding",
    "hardware": "published with the cells; TP1 where the command names no tensor parallelism",
    "curve.concurrency": assumptions().concurrency.origin,
    "curve.seconds": "derived: step of the baseline that gives its published tokens/s in a closed loop of "
    "that concurrency with the assumed lengths, mean of the four data sets",
    "draft_cost": "derived: what verification leaves of the step that gives the published tokens/s, mean of "
    "the four data sets",
    "verify_scale": "derived: 1, or less where that step is shorter than the verification by the curve",
    "step_scale": "derived: residual of one data set, so that its published tokens/s are met; differences "
    "between runs that are not published, not a property of the workload",
}
GROWTH = {
    True: "fitted: to 36 cells of DeepSeek-V4-Pro with DSpark, N 0 to 7, concurrency 1 to 256, on B300 (vLLM "
    "blog, 2026-08-14), and applied to every mixture of experts",
    False: "assumed: a dense target reads its weights once a pass whatever the batch",
}
SHARE = {
    True: "derived: slope over N of the step cost (mean accepted length / speed-up) of the cheapest block "
    "drafter, which drafts all N at once",
    False: "assumed: no block drafter was measured on this target; mean of the other mixtures of experts",
}

REDHAT = "vllm-blog-2026-05-28-speculators"
REDHAT_SETS = {
    "chat": ("question", "writing"),
    "tool_use": ("tool_call",),
    "multilingual": ("translation",),
    "grounded": ("rag", "summarization"),
}
REDHAT_BASE = ("math_reasoning", "humaneval")
SPEED_BENCH = "vllm-blog-2026-07-13"
SPEED_BENCH_SETS = {
    "chat": ("writing", "roleplay", "humanities", "qa", "stem", "reasoning"),
    "multilingual": ("multilingual",),
    "grounded": ("rag", "summarization"),
}
SPEED_BENCH_BASE = ("math", "coding")


def number(value: float) -> float:
    """Six significant digits: more than any source has."""
    return float(f"{value:.6g}")


def geometric(accepted: float, positions: int) -> float:
    """Conditional acceptance, equal at each position, that accepts ``accepted`` drafts of ``positions``."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        short = sum(middle**k for k in range(1, positions + 1)) < accepted
        low, high = (middle, high) if short else (low, middle)
    return low


def published_positions(row: Row) -> list[float]:
    """Acceptance by position as printed."""
    found = re.search(r"pos=([\d./]+)", row["notes"])
    return [float(value) for value in found[1].split("/")] if found else []


def survival_of(row: Row) -> list[float]:
    """Acceptance by position, scaled to the mean accepted length; empty for the baseline."""
    positions = published_positions(row)
    return [number(p * (float(row["mean_accepted_len"]) - 1.0) / sum(positions)) for p in positions]


def mean_curve(curves: Sequence[Survival]) -> list[float]:
    """Mean by position."""
    return [fmean(values) for values in zip(*curves, strict=True)]


def conditional(survival: Survival) -> list[float]:
    """Acceptance at each position given that the one before was accepted."""
    return [value / before for value, before in zip(survival, [1.0, *survival], strict=False)]


# --- acceptance on workloads that the article lacks


def block_family(rows: Sequence[Row]) -> dict[str, Any]:
    """Factors for block drafters, by position."""
    curves = {row["dataset"]: published_positions(row) for row in rows if row["source"] == REDHAT}
    base = conditional(mean_curve([curves[name] for name in REDHAT_BASE]))
    factors, origins = {}, {}
    for workload, names in REDHAT_SETS.items():
        measured = conditional(mean_curve([curves[name] for name in names]))
        factors[workload] = [number(m / b) for m, b in zip(measured, base, strict=True)]
        origins[workload] = (
            f"derived: conditional acceptance on math and code times the ratio of {', '.join(names)} to math "
            "reasoning and HumanEval, by position, of Gemma 4 31B with a DFlash draft (vLLM blog, 2026-05-28)"
        )
    return {"methods": BLOCK, "factors": factors, "origins": origins}


def autoregressive_family(rows: Sequence[Row], block: Mapping[str, Any]) -> dict[str, Any]:
    """Factors for drafters that work token by token: one a workload, the source has means at N = 3 only."""
    accepted = {
        row["dataset"].removeprefix("speed-bench:"): float(row["mean_accepted_len"]) - 1.0
        for row in rows
        if row["source"] == SPEED_BENCH
    }
    base = geometric(fmean(accepted[name] for name in SPEED_BENCH_BASE), 3)
    factors, origins = {}, {}
    for workload, names in SPEED_BENCH_SETS.items():
        factors[workload] = [number(geometric(fmean(accepted[name] for name in names), 3) / base)]
        origins[workload] = (
            f"derived: conditional acceptance on math and code times the ratio of {', '.join(names)} to math "
            "and coding on SPEED-Bench, of MiniMax-M3 with EAGLE-3.1 at N = 3 on AMD Instinct "
            "(vLLM blog, 2026-07-13)"
        )
    first_three = {name: fmean(values[:3]) for name, values in block["factors"].items()}
    others = fmean(first_three[name] for name in SPEED_BENCH_SETS)
    factors["tool_use"] = [number(fmean(f[0] for f in factors.values()) * first_three["tool_use"] / others)]
    origins["tool_use"] = (
        "assumed: no source has tool calls for such a draft; they stand to chat, multilingual and grounded "
        "text as they do for block drafters"
    )
    return {"methods": ("gemma4-mtp", "mtp", "eagle3"), "factors": factors, "origins": origins}


def lookup_curves() -> dict[str, list[float]]:
    """Assumed acceptance of drafting by lookup."""
    assumed = assumptions().lookup
    curves = {}
    for workload, length in assumed.mean_accepted_length.items():
        chance = geometric(length - 1.0, assumed.draft_tokens)
        curves[workload] = [number(chance**k) for k in range(1, assumed.draft_tokens + 1)]
    return curves


# --- step times


def growth_of(target: str) -> float:
    """Exponent of the memory-bound part of a pass."""
    return SPARSE_GROWTH if target in SPARSE else 0.0


def linear_share(rows: Sequence[Row], growth: float) -> float | None:
    """Slope of step cost over verified tokens of the cheapest block drafter; None if none was measured."""
    slopes = []
    for method in BLOCK:
        costs: dict[int, list[float]] = defaultdict(list)
        for row in rows:
            if row["method"] == method:
                costs[int(row["n"])].append(float(row["mean_accepted_len"]) / float(row["speedup"]))
        if costs:
            memory = [(n + 1.0) ** growth for n in costs]
            linear = [n + 1.0 - m for n, m in zip(costs, memory, strict=True)]
            rest = [fmean(c) - m for c, m in zip(costs.values(), memory, strict=True)]
            slopes.append(float(np.polyfit(linear, rest, 1)[0]))
    return min(slopes, default=None)


def decode_steps(survival: Survival, output: float) -> float:
    """Expected decode steps of a request: its first token comes from prefill, its last step may overshoot."""
    length = 1.0 + sum(survival)
    square = 1.0 + sum((2 * position + 1) * chance for position, chance in enumerate(survival, 1))
    return (output - 1.0 + (square / length - 1.0) / 2.0) / length


def step_seconds(row: Row, survival: Survival, clients: int, prefill: float) -> tuple[float, float]:
    """Step that gives the published tokens/s, prefill not included, and the sequences that decode in it.

    A client's request takes one step of prefill and then its decode steps, and every client's prompt is paid
    for in the steps of all.
    """
    mean = lengths(row["dataset"])
    steps = decode_steps(survival, mean.output)
    cycle = clients * (mean.output / float(row["tok_s"]) - prefill * mean.prompt)
    return cycle / (steps + 1.0), clients * steps / (steps + 1.0)


def curve_of(baseline: Sequence[Row], clients: int, growth: float, share: float) -> Curve:
    """Curve of a baseline. The price of prefill follows from it, so it is iterated to the fixed point."""
    unit = Curve(1.0, clients, growth, share)
    seconds = 0.0
    for _ in range(30):
        prefill = assumptions().prefill_price.value * unit.marginal * seconds
        solved = [step_seconds(row, (), clients, prefill) for row in baseline]
        seconds = fmean(step / unit(decoding) for step, decoding in solved)
    return Curve(number(seconds), clients, growth, share)


def configuration_of(rows: Sequence[Row], curve: Curve) -> dict[str, Any]:
    """One method and N, or the baseline, with its cells."""
    assumed = assumptions()
    tokens = int(rows[0]["n"])
    surcharge = 1.0 + (assumed.prefill_surcharge.value if tokens else 0.0)
    prefill = assumed.prefill_price.value * surcharge * curve.marginal
    survival = {row["dataset"]: survival_of(row) for row in rows}
    solved = {
        name: step_seconds(row, survival[name], curve.concurrency, prefill)
        for row in rows
        for name in [row["dataset"]]
    }

    def shape(decoding: float) -> float:
        return assumed.draft_floor.value + (1.0 - assumed.draft_floor.value) * decoding / curve.concurrency

    verify = fmean(curve((tokens + 1) * decoding) for _, decoding in solved.values())
    step = fmean(seconds for seconds, _ in solved.values())
    draft = fmean(shape(decoding) for _, decoding in solved.values()) * curve.seconds
    verify_scale = number(min(1.0, step / verify)) if tokens else 1.0
    draft_cost = number(max(0.0, (step - verify) / draft)) if tokens else 0.0

    def modelled(decoding: float) -> float:
        return verify_scale * curve((tokens + 1) * decoding) + draft_cost * curve.seconds * shape(decoding)

    return {
        "method": METHODS[rows[0]["method"]],
        "draft_tokens": tokens,
        "draft": rows[0]["draft_checkpoint"] or None,
        "verify_scale": verify_scale,
        "draft_cost": draft_cost,
        "cells": {
            row["dataset"]: {
                "tokens_per_second": float(row["tok_s"]),
                "speedup": float(row["speedup"]),
                "mean_accepted_length": float(row["mean_accepted_len"] or 1.0),
                "step_scale": number(seconds / modelled(decoding)),
                "accepted_by_position": survival[row["dataset"]],
            }
            for row in rows
            for seconds, decoding in [solved[row["dataset"]]]
        },
    }


def profile_of(target: str, rows: Sequence[Row], share: float, *, measured_share: bool) -> dict[str, Any]:
    """The file of a target."""
    concurrency = assumptions().concurrency
    baseline = [row for row in rows if row["method"] == "none"]
    curve = curve_of(
        baseline,
        concurrency.exceptions.get(target, concurrency.value),
        growth_of(target),
        number(share),
    )
    entries: dict[tuple[str, str], list[Row]] = {("none", "0"): baseline}
    for row in rows:
        if row["method"] != "none":
            entries.setdefault((row["method"], row["n"]), []).append(row)
    return {
        "target": target,
        "hardware": rows[0]["hardware"].partition(" (")[0],
        "origins": {
            **ORIGINS,
            "curve.growth": GROWTH[target in SPARSE],
            "curve.linear_share": SHARE[measured_share],
        },
        "curve": {
            "seconds": curve.seconds,
            "concurrency": curve.concurrency,
            "growth": curve.growth,
            "linear_share": curve.linear_share,
        },
        "configurations": [configuration_of(entry, curve) for entry in entries.values()],
    }


def write(name: str, content: Mapping[str, Any]) -> None:
    """Write JSON with a line a leaf object, so that a change shows as one line."""
    text = json.dumps(content, indent=2, ensure_ascii=False)
    for leaf in (r"\[[^\[\]{}]*\]", r"\{[^{}]*accepted_by_position[^{}]*\}"):
        text = re.sub(leaf, lambda found: re.sub(r"\s*\n\s*", " ", found[0]), text)
    (FOLDER / name).write_text(text + "\n")


def main(table: Path) -> None:
    """Write every file."""
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    block = block_family(rows)
    families = [block, autoregressive_family(rows, block)]
    write("transfer.json", {"families": families, "lookup": lookup_curves()})
    by_target: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["source"] == ARTICLE:
            by_target[row["target_model"]].append(row)
    shares = {target: linear_share(found, growth_of(target)) for target, found in by_target.items()}
    elsewhere = fmean(share for target, share in shares.items() if target in SPARSE and share is not None)
    for target, found in by_target.items():
        share = shares[target]
        used = elsewhere if share is None else share
        name = target.rpartition("/")[2].lower()
        write(f"{name}.json", profile_of(target, found, used, measured_share=share is not None))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
