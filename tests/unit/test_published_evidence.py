"""What sweeps under docs/evidence came to is read by the gateway of today."""

from pathlib import Path

import pytest

from gateway.policy.evidence import parse
from gateway.policy.load import Loaded, load

FOLDERS = sorted(
    path.parent for path in (Path(__file__).parents[2] / "docs" / "evidence").glob("*/evidence.json")
)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_published_sweep_is_read(folder: Path) -> None:
    evidence = parse((folder / "evidence.json").read_text(encoding="utf-8"))
    assert {"none"} < {one.label for one in evidence.measurements}
    fleet, policy = ((folder / name).read_text(encoding="utf-8") for name in ("fleet.yaml", "policy.yaml"))
    loaded = load(fleet, policy, folder=folder)
    assert isinstance(loaded, Loaded), loaded.problems
