"""Which method takes which parameter: measured, compared with the evidence that the documentation shows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.vllm import evidence, matrix
from tests.vllm.asking import ask
from tests.vllm.matrix import REFUSED

if TYPE_CHECKING:
    from tests.vllm.conftest import Front
    from tests.vllm.servers import Server

pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def measured(fleet: dict[str, Server]) -> dict[str, dict[str, str]]:
    """What became of each parameter, by server."""
    found: dict[str, dict[str, str]] = {}
    for parameter in matrix.PARAMETERS:
        baseline = matrix.request(parameter, fleet["baseline"].url)
        for name, server in fleet.items():
            answer = matrix.request(parameter, server.url)
            found.setdefault(name, {})[parameter] = matrix.verdict(parameter, answer, baseline)
    return found


def test_the_matrix_is_as_documented(fleet: dict[str, Server], measured: dict[str, dict[str, str]]) -> None:
    version = httpx.get(f"{fleet['baseline'].url}/version", trust_env=False).json()["version"]
    evidence.keep(version, parameters=measured)
    documented = json.loads(evidence.CPU.read_bytes())["parameters"]
    assert measured == {name: documented[name] for name in measured}


def test_what_is_refused_is_what_the_capability_filter_goes_by(
    fleet: dict[str, Server], measured: dict[str, dict[str, str]]
) -> None:
    for name, verdicts in measured.items():
        refused = {parameter for parameter, verdict in verdicts.items() if verdict == REFUSED}
        assert refused == set(fleet[name].spec.refuses), name


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


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("parameter", ["min_p", "logit_bias"])
def test_no_refusal_of_a_text_completion_reaches_a_client(
    fleet: dict[str, Server], front: Front, parameter: str, stream: bool
) -> None:
    more = {"endpoint": "completions", "stream": stream}
    refused = matrix.request(parameter, fleet["draft-model"].url, **more)
    # A stream of a text completion has begun with 200 when the engine refuses: the refusal is an event of it.
    assert b'"code": 400' in refused.body if stream else refused.status == 400
    through = matrix.request(parameter, front.url, **more)
    assert (through.status, through.headers["x-specroute-backend"]) == (200, "baseline")
    assert b'"error"' not in through.body


@pytest.mark.parametrize(
    "neutral", [{"min_p": 0}, {"min_p": 0.0}, {"min_p": None}, {"logit_bias": {}}], ids=str
)
def test_what_stands_for_nothing_is_refused_by_nobody(
    fleet: dict[str, Server], front: Front, neutral: dict[str, Any]
) -> None:
    for server in fleet.values():
        assert ask(server.url, extra_body=neutral, max_tokens=4).status == 200
    assert ask(front.url, extra_body=neutral, max_tokens=4).headers["x-specroute-backend"] == "draft-model"
