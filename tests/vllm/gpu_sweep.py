"""A sweep on one GPU, unattended: python -m tests.vllm.gpu_sweep --out FOLDER.

Runs where ``tests.vllm.gpu`` does and takes about as long. The checkpoints are tiny and steerable: how far drafts agree
with the target is known, what the GPU needs for a step is not that of a model anybody serves. What is shown is that
``specroute sweep`` starts, measures and compares every method on real CUDA kernels.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from backends.fleet_file import write_fleet
from tests.vllm.gpu import ROOT, specs
from tests.vllm.prompts import looping_and_unrepeated

if TYPE_CHECKING:
    from backends.spec import LaunchSpec

CANDIDATES: Final = (
    ("baseline", 0), ("ngram", 4), ("eagle3", 1), ("eagle3", 3), ("dflash", 3), ("dspark", 2), ("dspark", 4),
)  # fmt: skip


def candidates(checkpoints: Path) -> list[LaunchSpec]:
    known = {one.name: one for one in specs(checkpoints)}
    return [
        replace(known[name], name=f"{name}-{tokens}", draft_tokens=tokens, port=8101 + place)
        for place, (name, tokens) in enumerate(CANDIDATES)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the report and the logs")
    out: Path = parser.parse_args().out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    checkpoints = out / "checkpoints"
    subprocess.run([sys.executable, "-m", "tests.vllm.checkpoints", checkpoints], cwd=ROOT, check=True)  # noqa: S603 - our own interpreter
    (out / "candidates.yaml").write_text(write_fleet(candidates(checkpoints)))
    (out / "prompts.jsonl").write_text(looping_and_unrepeated())
    command = [
        sys.executable, "-m", "gateway.cli", "sweep", "--launch", "--python", sys.executable,
        "--fleet", out / "candidates.yaml", "--prompts", out / "prompts.jsonl", "--concurrency", "1,8,16",
        "--max-tokens", "192", "--requests", "16", "--rounds", "4", "--precision", "5%", "--servers", "4",
        "--budget", "8m", "--out", out / "sweep",
    ]  # fmt: skip
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join([*os.environ.get("PYTHONPATH", "").split(os.pathsep), str(ROOT)]),
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_PLUGINS": "",
        "OMP_NUM_THREADS": "4",
    }
    return subprocess.run(command, cwd=ROOT, env=env, check=False).returncode  # noqa: S603 - our own interpreter


if __name__ == "__main__":
    sys.exit(main())
