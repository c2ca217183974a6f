"""Which method takes which parameter: measured, compared with the evidence that the documentation shows."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx
import pytest

import backends
from backends.methods import methods
from tests.vllm import matrix
from tests.vllm.matrix import REFUSED

if TYPE_CHECKING:
    from tests.vllm.conftest import Front
    from tests.vllm.servers import Server

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]  # the first test waits for the servers

EVIDENCE: Final = Path(backends.__file__).parent / "evidence" / "cpu.json"


@pytest.fixture(scope="module")
def measured(fleet: dict[str, Server]) -> dict[str, dict[str, str]]:
    """What became of each parameter, by method."""
    found: dict[str, dict[str, str]] = {}
    for parameter in matrix.PARAMETERS:
        baseline = matrix.request(parameter, fleet["baseline"].url)
        for server in fleet.values():
            answer = matrix.request(parameter, server.url)
            verdict = matrix.verdict(parameter, answer, baseline)
            found.setdefault(server.spec.method, {})[parameter] = verdict
    return found


def test_the_matrix_is_as_documented(fleet: dict[str, Server], measured: dict[str, dict[str, str]]) -> None:
    # SPECROUTE_EVIDENCE=write writes the file anew; the difference is then read before it is committed.
    version = httpx.get(f"{fleet['baseline'].url}/version", trust_env=False).json()["version"]
    if os.environ.get("SPECROUTE_EVIDENCE") == "write":
        document = {
            "engine": f"vLLM {version} on CPU",
            "command": "make test-vllm",
            "methods": sorted(measured),
            "parameters": measured,
        }
        EVIDENCE.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    evidence = json.loads(EVIDENCE.read_bytes())["parameters"]
    assert measured == {method: evidence[method] for method in measured}


def test_what_is_refused_is_what_the_capability_filter_goes_by(measured: dict[str, dict[str, str]]) -> None:
    for method, verdicts in measured.items():
        refused = {parameter for parameter, verdict in verdicts.items() if verdict == REFUSED}
        assert refused == set(methods()[method].refuses), method


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("parameter", list(matrix.PARAMETERS))
def test_no_refusal_reaches_a_client_while_a_capable_server_is_there(
    fleet: dict[str, Server],
    front: Front,
    measured: dict[str, dict[str, str]],
    parameter: str,
    stream: bool,
) -> None:
    direct = matrix.request(parameter, fleet["baseline"].url, stream=stream)
    through = matrix.request(parameter, front.url, stream=stream)
    if direct.status != 200:  # no server takes it in a stream
        assert stream
        assert (through.status, through.body) == (direct.status, direct.body)
        return
    assert through.status == 200
    assert b'"error"' not in through.body
    able = measured["draft-model"][parameter] != REFUSED
    assert through.headers["x-specroute-backend"] == ("draft-model" if able else "baseline")
