"""The OpenAI Node SDK against the gateway: every test of ``node/contract.mjs`` is one here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.contract.conftest import SLOW

if TYPE_CHECKING:
    from tests.contract.stack import Stack

FOLDER = Path(__file__).parent / "node"
NODE = shutil.which("node")
LEAST_MAJOR = 20
"""Major version of Node.js that the SDK needs at least."""

_RESULT = re.compile(r"^(?P<failed>not )?ok \d+ - (?P<name>.*)\n(?P<details>(?:  .*\n)*)", re.MULTILINE)


def obstacle() -> str:
    """Why the tests cannot run; empty if they can."""
    if NODE is None:
        return "Node.js is not installed"
    if not (FOLDER / "node_modules" / "openai").is_dir():
        return "the OpenAI Node SDK is not installed (npm ci in tests/contract/node)"
    version = subprocess.run([NODE, "--version"], capture_output=True, text=True, check=True).stdout  # noqa: S603 - no input from outside
    if int(version.lstrip("v").split(".")[0]) < LEAST_MAJOR:
        return f"Node.js {version.strip()} is older than {LEAST_MAJOR}"
    return ""


@pytest.mark.node
def test_the_contract_holds_for_node(stack: Stack, subtests: pytest.Subtests) -> None:
    if reason := obstacle():
        pytest.skip(reason)
    ended = subprocess.run(  # noqa: S603 - no input from outside
        [str(NODE), "--test-reporter=tap", "contract.mjs"],
        cwd=FOLDER,
        env=os.environ | {"SPECROUTE_URL": stack.url, "SPECROUTE_SLOW_MODEL": SLOW},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    results = list(_RESULT.finditer(ended.stdout))
    for result in results:
        with subtests.test(result["name"]):
            assert not result["failed"], result["details"]
    assert ended.returncode == 0, ended.stderr
    assert len(results) == len(re.findall(r"^# Subtest: ", ended.stdout, re.MULTILINE)) > 20
