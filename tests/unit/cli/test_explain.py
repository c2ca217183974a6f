from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from gateway.cli import explain
from gateway.core.features import WORKLOADS

POLICIES = Path(__file__).parents[3] / "policies"
FILES = ("--fleet", str(POLICIES / "fleet.yaml"), "--policy", str(POLICIES / "policy.yaml"))


def run(*arguments: str, stdin: str | None = None) -> Result:
    app = typer.Typer()
    explain.register(app)
    return CliRunner().invoke(app, [*FILES, *arguments], input=stdin)


def told(*arguments: str, stdin: str | None = None) -> dict[str, object]:
    done = run(*arguments, "--json", stdin=stdin)
    assert done.exit_code == 0, done.output
    document: dict[str, object] = json.loads(done.stdout)
    return document


@pytest.mark.parametrize(
    ("prompt", "workload", "backend"),
    [
        (
            "Prove that the square root of 2 is irrational: $\\sqrt{2} \\ne \\frac{p}{q}$.",
            "math",
            "gemma31-dflash7",
        ),
        ("Write a Python function that reverses a linked list.", "code", "gemma31-mtp4"),
        ("What should I cook for my parents tonight?", "chat", "gemma31-mtp4"),
        ("Escribe una carta a mi abuela contándole cómo fue el verano.", "multilingual", "gemma31-mtp4"),
    ],
)
def test_a_prompt_lands_where_the_sample_policy_says(prompt: str, workload: str, backend: str) -> None:
    document = told("--prompt", prompt)
    assert (document["workload"], document["backend"]) == (workload, backend)


def test_a_request_with_a_tool_to_call_lands_where_the_sample_policy_says(tmp_path: Path) -> None:
    body = {
        "model": "gemma-4-31b",
        "messages": [{"role": "user", "content": "What is the weather in Paris now?"}],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "get_weather",
                    "description": "Get the current weather of a city",
                    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
                },
            }
        ],
        "tool_choice": "required",
    }
    request = tmp_path / "request.json"
    request.write_text(json.dumps(body), encoding="utf-8")
    document = told(str(request))
    assert (document["workload"], document["route"], document["backend"]) == (
        "tool_use",
        "tool-use",
        "gemma31-eagle5",
    )


def test_the_text_says_where_and_why() -> None:
    done = run("--prompt", "Solve 3x + 4 = 10 for x.", "--header", "x-specroute-workload: math")
    assert done.exit_code == 0
    assert done.stdout.startswith("Goes to gemma31-dflash7 (dflash, 7 draft tokens)")
    assert "workload  math, because the caller said so\n" in done.stdout


def test_load_makes_it_spill_over() -> None:
    hint = ("--prompt", "hi", "--header", "X-Specroute-Workload: math")
    assert told(*hint)["backend"] == "gemma31-dflash7"
    assert told(*hint, "--in-flight", "gemma31-dflash7=1")["backend"] == "gemma31-dflash7"
    assert told(*hint, "--in-flight", "gemma31-dflash7=3")["backend"] == "gemma31-dspark7"
    assert told(*hint, "--in-flight", "gemma31-d*=9")["backend"] == "gemma31-mtp4"


@pytest.mark.parametrize("workload", WORKLOADS)
def test_one_configuration_takes_all_work_of_the_other_model(workload: str) -> None:
    hint = ("--model", "qwen3.6-35b", "--prompt", "hi", "--header", f"X-Specroute-Workload: {workload}")
    document = told(*hint)
    assert (document["route"], document["backend"]) == ("qwen", "qwen35-dflash7")
    assert told(*hint, "--in-flight", "qwen35-dflash7=5")["backend"] == "qwen35-mtp6"


def test_a_route_for_a_tenant_takes_the_requests_that_name_it(tmp_path: Path) -> None:
    policy = tmp_path / "p.yaml"
    policy.write_text(
        "version: 1\nmodels: {gemma-4-31b: google/gemma-4-31B-it}\nroutes:\n"
        "  - {name: acme, match: {tenant: acme}, prefer: [{method: none}, any]}\n"
        "  - {name: default, prefer: [any]}\n",
        encoding="utf-8",
    )
    hint = ("--policy", str(policy), "--prompt", "hi")
    assert told(*hint, "--header", "X-Specroute-Tenant: acme")["route"] == "acme"
    assert told(*hint, "--header", "X-Specroute-Tenant: other")["route"] == "default"
    assert told(*hint)["route"] == "default"


def test_the_body_may_come_from_stdin_and_tells_its_endpoint() -> None:
    chat = '{"model": "qwen3.6-35b", "messages": [{"role": "user", "content": "hi"}]}'
    assert told("-", stdin=chat)["target"] == "Qwen/Qwen3.6-35B-A3B"
    for key, endpoint in (
        ("messages", "chat"),
        ("prompt", "completions"),
        ("input", "responses"),
        ("x", "chat"),
    ):
        assert explain._endpoint(json.dumps({key: []}).encode()) == endpoint
    for body in (b"5", b"{", b"[" * 100_000):
        assert explain._endpoint(body) == "chat"
    assert told("-", "--endpoint", "embeddings", stdin='{"input": "x"}')["model"] == ""


def test_a_model_may_be_named_for_a_prompt() -> None:
    assert told("--prompt", "hi")["model"] == "gemma-4-31b"
    assert told("--prompt", "hi", "--model", "qwen3.6-35b")["target"] == "Qwen/Qwen3.6-35B-A3B"


def test_where_no_backend_takes_it_the_answer_is_no() -> None:
    done = run("--prompt", "hi", "--model", "nope")
    assert done.exit_code == 1
    assert done.stdout.startswith("No backend: the model is not known.")
    done = run("--prompt", "hi", "--in-flight", "*=64", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["reason"] == "all_rejected"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give either a request body or --prompt"),
        (("-", "--prompt", "hi"), "give either a request body or --prompt"),
        (("nowhere.json",), "nowhere.json: No such file or directory"),
        (("-",), "not valid JSON"),
        (("--prompt", "hi", "--endpoint", "chatt"), "there is no endpoint 'chatt'; did you mean 'chat'?"),
        (("--prompt", "hi", "--header", "x"), "--header 'x': write it as 'NAME: VALUE'"),
        (("--prompt", "hi", "--header", ": x"), "write it as 'NAME: VALUE'"),
        (("--prompt", "hi", "--in-flight", "gemma31-mtp4"), "write it as NAME=COUNT"),
        (("--prompt", "hi", "--in-flight", "gemma31-mtp4=many"), "write it as NAME=COUNT"),
        (("--prompt", "hi", "--in-flight", "gemma31-mpt4=1"), "did you mean 'gemma31-mtp4'?"),
    ],
)
def test_bad_input_is_answered_with_what_would_be_right(arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments, stdin="{")
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stdout == ""


def test_files_that_are_wrong_are_bad_input(tmp_path: Path) -> None:
    policy = tmp_path / "p.yaml"
    policy.write_text("version: 1\nroutes:\n  - {name: a, prefer: [gemma31-mpt4]}\n", encoding="utf-8")
    done = run("--policy", str(policy), "--prompt", "hi")
    assert done.exit_code == 2
    assert f"{policy}:3:24: routes[0].prefer[0]: there is no backend 'gemma31-mpt4'" in done.stderr


def test_what_is_probably_not_meant_is_said_beside_the_answer(tmp_path: Path) -> None:
    """A file of what was learnt that knows nothing of this fleet decides as if there were none."""
    (tmp_path / "learned.yaml").write_text("version: 1\nservers: {}\n", encoding="utf-8")
    policy = tmp_path / "p.yaml"
    policy.write_text(
        "version: 1\nlearning: {mode: frozen, file: learned.yaml}\nroutes:\n  - {name: a, prefer: [any]}\n",
        encoding="utf-8",
    )
    done = run("--policy", str(policy), "--prompt", "hi", "--json")
    assert done.exit_code == 0, done.stderr
    assert f"{policy}:2:32: warning: learning.file: it does not know 'gemma31-none'" in done.stderr
    assert json.loads(done.stdout)["backend"]


def test_help_has_an_example() -> None:
    done = run("--help")
    assert done.exit_code == 0
    assert "specroute explain --prompt" in done.output


def test_what_speaks_for_a_label_is_said() -> None:
    said = told("--prompt", "Write a Python function that reverses a linked list.")["classified"]
    assert said.startswith("code, because model ")
    assert ": " in said
    assert "code" in said.partition(": ")[2]


def test_a_rule_by_path_sees_the_usual_path_or_the_one_given(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "version: 1\n"
        "classify: {rules: [{label: old, path: ^/old/}, {label: new, path: ^/v1/chat/completions$}]}\n"
        "routes: [{name: all, prefer: [any]}]\n",
        encoding="utf-8",
    )
    files = ("--policy", str(policy), "--prompt", "hello")
    assert told(*files)["workload"] == "new"
    assert told(*files, "--path", "/old/chat")["workload"] == "old"


@pytest.mark.parametrize(
    "content",
    [
        b'""', b'"  \\n "', b"null", '"🙂🎉👍🏽"'.encode(), b'"' + b"aGVsbG8gd29ybGQ" * 5000 + b'"',
        b'"\xff\xfe caf\xe9"', b'[{"type": "image_url", "image_url": {"url": "x"}}, {"type": "input_audio"}]',
    ],
    ids=["empty", "spaces", "null", "emoji", "base64", "no UTF-8", "image and audio"],
)  # fmt: skip
def test_odd_content_has_a_place_to_go_too(tmp_path: Path, content: bytes) -> None:
    body = tmp_path / "body.json"
    body.write_bytes(b'{"model": "gemma-4-31b", "messages": [{"role": "user", "content": ' + content + b"}]}")
    assert told(str(body))["workload"]
