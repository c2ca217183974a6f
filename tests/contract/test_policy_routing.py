"""Where requests of each workload go by the sample policy, and whether everybody who is asked says the same."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner

from gateway.cli import explain
from gateway.core.selectors import selects
from gateway.policy.load import Loaded
from gateway.runtime.reload import load_files

if TYPE_CHECKING:
    from pathlib import Path

    import openai

    from gateway.policy.load import Config
    from tests.contract.stack import Stack

PASSAGE = (
    "The Aldern Reservoir was completed in 1931 after six years of work. Its dam is 41 metres high and holds "
    "back 9.2 million cubic metres of water, which supplies three valleys. In 1976 the spillway was widened "
    "after a flood that damaged two bridges downstream. Since 2004 a small turbine in the outlet tower has "
    "produced about four gigawatt hours a year. The reservoir is closed to boats, but a path of eleven "
    "kilometres leads around it and is open all year. "
) * 3


@dataclass(frozen=True)
class Case:
    """A request that belongs to a workload beyond doubt."""

    workload: str
    route: str
    content: str
    more: dict[str, Any]

    def body(self, model: str) -> dict[str, Any]:
        return {"model": model, "messages": [{"role": "user", "content": self.content}], **self.more}


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CASES = (
    Case("math", "math", r"Solve \(x^2 - 5x + 6 = 0\) and prove that both roots are positive integers.", {}),
    Case("code", "code", "Write a Python function that parses an ISO date, with unit tests.", {}),
    Case(
        "chat", "default", "My sister is moving away next month. How can I make her last week here nice?", {}
    ),
    Case("tool_use", "tool-use", "What is the weather in Lisbon this week?", {"tools": [WEATHER]}),
    Case(
        "multilingual",
        "multilingual",
        "Wie kann ich meinen Nachbarn bitten, abends etwas leiser zu sein, ohne ihn zu verärgern?",
        {},
    ),
    Case(
        "grounded",
        "grounded",
        f"Summarize the following text in three sentences.\n\n{PASSAGE}",
        {},
    ),
)
GEMMA, QWEN = "gemma-4-31b", "qwen3.6-35b"
EVERY = [
    *(pytest.param(case, GEMMA, case.route, id=case.workload) for case in CASES),
    *(pytest.param(case, QWEN, "qwen", id=f"{case.workload}-qwen") for case in CASES[:3]),
]


@pytest.fixture(scope="module")
def config(stack: Stack) -> Config:
    loaded = load_files(stack.fleet, stack.policy, {})
    assert isinstance(loaded, Loaded)
    return loaded.value


def named_first(config: Config, route: str, model: str) -> str:
    """The backend that a route of the policy names first among those of a model."""
    target = config.policy.aliases[model]
    (prefer,) = (one.prefer for one in config.policy.routes if one.name == route)
    return next(
        backend.name
        for selector in prefer
        for backend in config.fleet.backends
        if backend.target == target and selects(selector, backend)
    )


def explained(stack: Stack, folder: Path, body: dict[str, Any], *options: str) -> str:
    file = folder / "request.json"
    file.write_text(json.dumps(body))
    files = ("--fleet", str(stack.fleet), "--policy", str(stack.policy))
    app = typer.Typer()
    explain.register(app)
    ended = CliRunner().invoke(app, [str(file), *files, *options])
    assert ended.exit_code == 0, ended.output
    return ended.output


@pytest.mark.parametrize(("case", "model", "route"), EVERY)
@pytest.mark.parametrize("stream", [False, True])
def test_a_request_lands_where_the_policy_names_first(
    stack: Stack, sdk: openai.OpenAI, config: Config, case: Case, model: str, route: str, stream: bool
) -> None:
    expected = named_first(config, route, model)
    stack.until_idle()
    raw = sdk.chat.completions.with_raw_response.create(**case.body(model), stream=stream)
    assert raw.headers["x-specroute-workload"] == case.workload
    assert raw.headers["x-specroute-backend"] == expected
    record = stack.records.of(raw.headers["x-request-id"])
    assert (record.outcome.status, record.backend, len(record.attempts)) == ("ok", expected, 1)
    assert record.decision.route == route


@pytest.mark.parametrize(("case", "model", "route"), EVERY)
def test_explain_names_the_same_and_says_why(
    stack: Stack, config: Config, tmp_path: Path, case: Case, model: str, route: str
) -> None:
    expected = named_first(config, route, model)
    found = json.loads(explained(stack, tmp_path, case.body(model), "--json"))
    assert (found["backend"], found["workload"], found["route"]) == (expected, case.workload, route)
    words = explained(stack, tmp_path, case.body(model))
    assert words.startswith(f"Goes to {expected} (")
    assert "it has the lowest cost" in words
    assert f"workload  {case.workload}, " in words
    assert f"route     {route}: it takes " in words
    assert f"1. {expected}" in words


@pytest.mark.parametrize(("case", "model", "route"), EVERY)
def test_a_dry_run_says_the_same_as_explain(
    stack: Stack, tmp_path: Path, case: Case, model: str, route: str
) -> None:
    stack.until_idle()
    dry = stack.http.post("/-/decide", json=case.body(model)).json()
    found = json.loads(explained(stack, tmp_path, case.body(model), "--json"))
    # A scrape may have come between, but on an idle fleet it changes nothing.
    assert dry == found


def test_a_dry_run_sends_nothing(stack: Stack) -> None:
    identity = {"x-request-id": "dry-1"}
    told = stack.http.post("/-/decide", json=CASES[2].body(GEMMA), headers=identity).json()
    assert told["backend"] in stack.servers
    stack.http.post("/v1/chat/completions", json=CASES[2].body(GEMMA), headers={"x-request-id": "wet-1"})
    stack.records.of("wet-1")
    assert "dry-1" not in stack.records


def test_every_route_of_the_policy_is_tried(config: Config) -> None:
    tried = {parameters.values[2] for parameters in EVERY}
    assert tried == {route.name for route in config.policy.routes}
