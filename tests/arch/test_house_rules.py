from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from gateway.policy.load import Loaded, load_fleet, load_policy

ROOT = Path(__file__).parents[2]
MODULES = sorted(path for package in ("gateway", "backends") for path in (ROOT / package).rglob("*.py"))
SAMPLES = sorted(ROOT.glob("policies/**/*.y*ml"))

LINES = 320
LONGER = {
    "gateway/telemetry/names.py": 700,  # one table, read from top to bottom
    "backends/sim/bodies.py": 340,
    "backends/sim/server.py": 340,
}
"""Modules that may be longer, and how long at most."""

ELSEWHERE = re.compile(
    r"/(wor[k]|roo[t])/|/(hom[e]|User[s])/[a-z]"  # folders of one machine
    r"|(pypi|pythonhosted|npmjs|yarnpkg|pytorch)[.](org|com)|artifactor[y]|nexu[s]"  # package registries
)
"""What ties a file to a machine or a registry."""


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached"],  # noqa: S607 - whichever git there is
        cwd=ROOT, capture_output=True, check=False,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip("not a git checkout, so which files belong to the project is not known")
    return [path for one in listed.stdout.decode().split("\0") if one and (path := ROOT / one).is_file()]


def source(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_the_modules_are_found() -> None:
    assert {"gateway/core/decide.py", "backends/sim/engine.py", *LONGER} <= set(map(name, MODULES))


def test_every_module_says_its_one_reason_in_its_first_line() -> None:
    silent = []
    for path in MODULES:
        first, *rest = (ast.get_docstring(ast.parse(source(path))) or "").splitlines() or [""]
        if not first.endswith((".", "?")) or (rest and rest[0]):
            silent.append((name(path), first))
    assert silent == []


def test_every_module_is_short_enough_to_have_one_reason() -> None:
    lines = {name(path): len(source(path).splitlines()) for path in MODULES}
    assert {module: count for module, count in lines.items() if count > LONGER.get(module, LINES)} == {}


def test_every_public_constructor_is_documented_by_itself_or_its_class() -> None:
    undocumented = [
        f"{name(path)}: {owner.name}"
        for path in MODULES
        for owner in ast.walk(ast.parse(source(path)))
        if isinstance(owner, ast.ClassDef) and not owner.name.startswith("_") and not ast.get_docstring(owner)
        for method in owner.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__" and not ast.get_docstring(method)
    ]
    assert undocumented == []


def test_no_test_lies_inside_the_packages() -> None:
    assert [
        name(path) for path in MODULES if path.name.startswith("test_") or path.name == "conftest.py"
    ] == []


@pytest.mark.parametrize(
    "line",
    [
        f"cd /{'work'}/main",
        f"/{'root'}/.cache",
        f"at /{'home'}/ann/x",
        f"https://{'pypi'}.org/simple",
        f"a.{'npmjs'}.org",
    ],
)
def test_a_machine_or_a_registry_is_recognised(line: str) -> None:
    assert ELSEWHERE.search(line)


def test_no_file_names_a_machine_or_a_registry() -> None:
    found = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # not a text file
        found += [
            f"{name(path)}:{number}: {line.strip()[:120]}"
            for number, line in enumerate(text.splitlines(), start=1)
            if ELSEWHERE.search(line)
        ]
    assert found == []


def test_the_samples_are_found() -> None:
    assert {"policies/fleet.yaml", "policies/policy.yaml"} <= set(map(name, SAMPLES))


@pytest.mark.parametrize("path", SAMPLES, ids=name)
def test_a_sample_loads_without_a_word(path: Path) -> None:
    fleet = load_fleet(source(ROOT / "policies/fleet.yaml"))
    assert isinstance(fleet, Loaded)
    text = source(path)
    loaded = (
        load_fleet(text, path.name)
        if path.name.startswith("fleet")
        else load_policy(text, path.name, fleet.value)
    )
    assert isinstance(loaded, Loaded), list(map(str, loaded.problems))
    assert list(map(str, loaded.warnings)) == []
