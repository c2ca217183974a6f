from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from backends.sweep import log
from backends.sweep.model import BASELINE
from gateway.cli import advise, sweep
from gateway.cli.evidence_files import Fleet, write
from gateway.policy.evidence import parse
from gateway.policy.load import Loaded, load_policy
from tests.unit.backends.sweep.test_advice import PAGE
from tests.unit.backends.sweep.test_choose import ALIKE, DFLASH, MTP, evidence, table
from tests.unit.backends.sweep.test_choose import specs as spec_of
from tests.unit.backends.sweep.test_imports import vllm

SIMULATED = (
    "--simulate",
    "Qwen/Qwen3-8B",
    "--workloads",
    "gsm8k,mbpp",
    "--concurrency",
    "32",
    "--precision",
    "10%",
)


def run(*arguments: object, command: Any = sweep) -> Any:
    app = typer.Typer()
    command.register(app)
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_a_sweep_of_the_simulator_finds_the_published_best_and_writes_its_files(tmp_path: Path) -> None:
    done = run(*SIMULATED, "--out", tmp_path, "--json")
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["everywhere"] in ("dspark-7", "dspark-11")
    assert {Path(one).name for one in told["written"]} == {
        "samples.jsonl", "evidence.json", "policy.yaml", "report.md", "report.html",
    }  # fmt: skip
    measured = parse((tmp_path / "evidence.json").read_text(encoding="utf-8"))
    assert measured.machine.simulated
    assert measured.effort.rounds < measured.effort.grid_rounds
    loaded = load_policy((tmp_path / "policy.yaml").read_text(encoding="utf-8"))
    assert isinstance(loaded, Loaded)
    assert loaded.value.routes[-1].prefer[0].method == "dspark"
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg viewBox") > 4
    assert "http" not in page.replace("http-equiv", "")
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "figures are a simulator's" in report
    assert "policy.yaml wants servers of dspark-7" in report.replace("dspark-11", "dspark-7")
    assert "and no speculation in your fleet.yaml; `specroute check` says which it lacks." in report


def test_servers_are_planned_for_work_with_limits(tmp_path: Path) -> None:
    limits = ("--limit", "mbpp=15ms@5", "--limit", "gsm8k=0.1ms@1")
    done = run(*SIMULATED, *limits, "--rounds", 1, "--out", tmp_path, "--json")
    assert done.exit_code == 0, done.stderr
    kept, lost = json.loads(done.stdout)["roles"]
    assert kept["servers"] >= 1
    assert kept["configuration"].startswith("dspark")
    assert (lost["configuration"], lost["servers"]) == (None, 0)
    said = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "for mbpp within 15 ms a token at 5 requests/s keep" in said
    assert "nothing measured serves gsm8k within 0.1 ms a token" in said


def test_a_budget_ends_a_sweep_and_the_next_run_goes_on(tmp_path: Path) -> None:
    first = run(*SIMULATED, "--out", tmp_path, "--budget", "3m", "--json")
    assert first.exit_code == 0, first.stderr
    assert not json.loads(first.stdout)["settled"]
    before = log.read(tmp_path / "samples.jsonl")
    assert before is not None
    second = run(*SIMULATED, "--out", tmp_path, "--json")
    after = log.read(tmp_path / "samples.jsonl")
    assert after is not None
    assert json.loads(second.stdout)["settled"]
    assert after.rounds[: len(before.rounds)] == before.rounds
    whole = run(*SIMULATED, "--out", tmp_path / "whole", "--json")
    assert json.loads(whole.stdout)["winners"] == json.loads(second.stdout)["winners"]


def test_another_sweep_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    assert run(*SIMULATED, "--out", tmp_path, "--rounds", 1).exit_code == 0
    done = run("--simulate", "moonshotai/Kimi-K2.5", "--workloads", "mbpp", "--out", tmp_path)
    assert done.exit_code == 2
    assert "holds measurements of another target" in done.stderr


def test_a_damaged_file_is_said_and_its_round_is_measured_again(tmp_path: Path) -> None:
    assert run(*SIMULATED, "--rounds", 1, "--out", tmp_path).exit_code == 0
    path, evidence = tmp_path / "samples.jsonl", tmp_path / "evidence.json"
    before = evidence.read_text(encoding="utf-8")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:9], b"#" + lines[9], *lines[10:]]))
    done = run(*SIMULATED, "--rounds", 1, "--out", tmp_path)
    assert (done.exit_code, "is damaged: 1 round of it does not count" in done.stderr) == (0, True)
    after = evidence.read_text(encoding="utf-8")
    assert sorted(parse(after).measurements, key=repr) == sorted(parse(before).measurements, key=repr)


def test_a_full_disk_ends_a_sweep_and_says_what_is_safe(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no full device here")
    (tmp_path / "samples.jsonl").symlink_to(full)
    done = run(*SIMULATED, "--out", tmp_path)
    assert done.exit_code == 1
    assert "No space left on device: 0 rounds are safe; free some space and run it again" in done.stderr


def test_without_room_for_a_report_the_files_stay_as_they_were(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no full device here")
    (tmp_path / "evidence.json").write_text("of the run before", encoding="utf-8")
    (tmp_path / "report.html.new").symlink_to(full)
    done = run(*SIMULATED, "--rounds", 1, "--out", tmp_path)
    assert done.exit_code == 1
    assert "No space left on device; what was measured is safe" in done.stderr
    assert (tmp_path / "evidence.json").read_text(encoding="utf-8") == "of the run before"
    assert {one.name for one in tmp_path.iterdir()} == {"evidence.json", "samples.jsonl"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name what to measure: --recipe, --fleet or --simulate"),
        (("--simulate", "some/model"), "no simulator profile for target 'some/model'"),
        (
            ("--simulate", "Qwen/Qwen3-8B", "--workloads", "poetry"),
            "the simulator knows no workload 'poetry'",
        ),
        (("--recipe", "qwen3"), "there is no recipe 'qwen3'"),
        (("--recipe", "qwen3-8b", "--methods", "mtp"), "qwen3-8b has no method 'mtp'"),
        (("--recipe", "qwen3-8b", "--methods", "none"), "there is nothing to compare with the baseline"),
        (("--recipe", "qwen3-8b", "--workloads", "poetry"), "no prompts for workload 'poetry'"),
        (("--recipe", "qwen3-8b", "--lengths", "8k"), "no prompt length fits the context of 4096 tokens"),
        (("--recipe", "qwen3-8b", "--lengths", "long"), "write short, 8k or 32k"),
        ((*SIMULATED, "--concurrency", "many"), "are no concurrency levels; write numbers"),
        ((*SIMULATED, "--concurrency", "1,100000"), "are no concurrency levels; write numbers up to 4096"),
        ((*SIMULATED, "--precision", "0"), "is no precision; write a share such as 3%"),
        ((*SIMULATED, "--budget", "long"), "is no budget; write a time such as 90m or 2h"),
        ((*SIMULATED, "--mix", "poetry=1"), "is no share of a workload; write code=3"),
        ((*SIMULATED, "--mix", "mbpp=0"), "has no share above 0"),
        ((*SIMULATED, "--sampling", "both"), "the simulator's acceptance is that of greedy answers"),
        ((*SIMULATED, "--limit", "mbpp=fast"), "is no limit of a workload; write chat=40ms@2.5"),
        ((*SIMULATED, "--methods", "dspark"), "--methods are those of a --recipe"),
        ((*SIMULATED, "--launch"), "--launch starts the servers of a --fleet"),
        (("--result", "mtp-3:code=x", "--fleet", "fleet.yaml"), "--result stands in place of measuring"),
        (("--result", "mtp-3:code=x"), "x: No such file"),
        (("--result", "what=pyproject.toml"), "'what' is no configuration"),
        (("--result", "mtpp-3:code=pyproject.toml"), "there is no method 'mtpp', did you mean 'mtp'"),
    ],
)
def test_bad_input_is_told_what_would_be_right(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = run(*arguments, "--out", tmp_path)
    assert done.exit_code == 2
    assert said in done.stderr


def test_lengths_that_are_left_out_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(sweep.PYTHON, raising=False)
    done = run("--recipe", "qwen3-8b", "--lengths", "short,8k", "--out", tmp_path)
    assert "prompts of 8k do not fit the context of 4096 tokens: they are left out" in done.stderr


def test_servers_cannot_be_started_without_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(sweep.PYTHON, raising=False)
    done = run("--recipe", "qwen3-8b", "--out", tmp_path)
    assert done.exit_code == 1
    assert "vLLM is needed to start servers here" in done.stderr


def test_prompts_of_ones_own_must_have_the_workloads_that_are_asked_for(tmp_path: Path) -> None:
    mine = tmp_path / "mine.jsonl"
    mine.write_text('{"prompt": "x"}', encoding="utf-8")
    done = run("--recipe", "qwen3-8b", "--prompts", mine, "--workloads", "code", "--out", tmp_path)
    assert done.exit_code == 2
    assert "no prompt is of workload 'code'; there is chat" in done.stderr


def test_results_of_another_benchmark_become_a_policy(tmp_path: Path) -> None:
    (tmp_path / "base.json").write_text(vllm(100.0), encoding="utf-8")
    (tmp_path / "fast.json").write_text(vllm(170.0, failed=0), encoding="utf-8")
    done = run(
        "--result", f"none:code={tmp_path / 'base.json'}", "--result", f"mtp-3:code={tmp_path / 'fast.json'}",
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert "Run mtp-3 on every server" in done.stdout
    assert "some/model" in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")


def test_mix_and_limits_are_for_results_of_other_benchmarks_too(tmp_path: Path) -> None:
    for name, rate in (("base", 100.0), ("fast", 170.0), ("slow", 60.0)):
        (tmp_path / name).write_text(vllm(rate, failed=0), encoding="utf-8")
    results = [
        word
        for what, name in (
            ("none:code", "base"), ("mtp-3:code", "fast"), ("none:chat", "base"), ("mtp-3:chat", "slow"),
        )
        for word in ("--result", f"{what}={tmp_path / name}")
    ]  # fmt: skip
    best = [
        json.loads(run(*results, "--mix", mix, "--out", tmp_path / "out", "--json").stdout)["everywhere"]
        for mix in ("code=9,chat=1", "code=1,chat=9")
    ]
    assert best == ["mtp-3", "none"]
    kept = run(*results, "--limit", "code=50ms@1", "--out", tmp_path / "out")
    assert "Limits: for code within 50 ms a token at 1 requests/s keep" in kept.stdout
    done = run(*results, "--mix", "poetry=1", "--out", tmp_path / "out")
    assert (done.exit_code, "is no share of a workload" in done.stderr) == (2, True)
    done = run(*results, *results[:2], "--out", tmp_path / "out")
    assert (done.exit_code, "2 runs are of none for code" in done.stderr) == (2, True)


def test_what_cannot_be_a_folder_is_refused(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text(vllm(), encoding="utf-8")
    for arguments in (SIMULATED, ("--result", f"none:code={taken}")):
        for out in (taken, taken / "below"):
            done = run(*arguments, "--out", out)
            assert (done.exit_code, "cannot be the folder for the files" in done.stderr) == (2, True)


def test_what_nobody_said_how_to_start_is_in_no_fleet_file(tmp_path: Path) -> None:
    """As where a sweep of one method goes on with another one, and the first one is the best."""
    found = evidence(*table(ALIKE))
    specs = {one.method: spec_of(one) for one in (BASELINE, DFLASH)}
    files = write(found, Fleet(8, None, specs, "name"), tmp_path)
    assert files is not None
    assert files.summary[-1] == "No fleet.yaml was written: this run was not told how to start mtp."
    assert files.summary[-2].startswith("policy.yaml wants servers of mtp-3 and no speculation in your")
    assert not (tmp_path / "fleet.yaml").exists()
    specs["mtp"] = spec_of(MTP)
    files = write(found, Fleet(8, None, specs, "name"), tmp_path)
    assert files is not None
    assert files.summary[-1] == "fleet.yaml and policy.yaml are for 8 in flight a server."
    assert (tmp_path / "fleet.yaml").exists()


def test_the_time_left_of_a_simulated_sweep_is_that_of_the_clock_on_the_wall(tmp_path: Path) -> None:
    done = run(*SIMULATED, "--rounds", 1, "--out", tmp_path)
    assert "seconds left" in done.stderr
    assert "minutes left" not in done.stderr
    assert done.stderr.count(" rounds") == 2  # one line at the start and one in the end


def test_a_result_alone_gives_no_answer(tmp_path: Path) -> None:
    (tmp_path / "fast.json").write_text(vllm(170.0), encoding="utf-8")
    done = run("--result", f"mtp-3:code={tmp_path / 'fast.json'}", "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert "measure the baseline" in done.stderr


def test_advice_is_given_on_a_page_of_metrics(tmp_path: Path) -> None:
    page = tmp_path / "page"
    page.write_text(PAGE, encoding="utf-8")
    done = run("--metrics", page, "--json", command=advise)
    assert done.exit_code == 0, done.stderr
    assert isinstance(json.loads(done.stdout), list)
    spoken = run("--metrics", page, command=advise)
    assert spoken.exit_code == 0
    assert spoken.stdout.startswith(("- ", "Nothing to advise"))


def test_advice_says_what_it_cannot_read(tmp_path: Path) -> None:
    page = tmp_path / "page"
    page.write_text("", encoding="utf-8")
    done = run("--metrics", page, command=advise)
    assert (done.exit_code, "no metrics of a gateway" in done.stderr) == (2, True)
    done = run("http://127.0.0.1:1", command=advise)
    assert done.exit_code == 2
    page.write_text(PAGE, encoding="utf-8")
    done = run("--metrics", page, "--evidence", page, command=advise)
    assert (done.exit_code, "Invalid JSON" in done.stderr) == (2, True)


# An interpreter that answers like one with vLLM which refuses servers.
REFUSING = """#!{python}
import json, sys
asked = json.load(sys.stdin)
assert set(asked["commands"]) == {{"none", "ngram-2", "ngram-4"}}, asked
told = {{"version": "0.33.0", "platform": "cpu", "methods": ["ngram"], "modules": [], "refusals": {refusals}}}
print("specroute:" + json.dumps(told))
"""
LAUNCHED = """\
version: 1
backends:
  - {{name: plain, url: "http://127.0.0.1:1", model: "{model}"}}
  - {{name: two, url: "http://127.0.0.1:1", model: "{model}", method: ngram, draft_tokens: 2}}
  - {{name: four, url: "http://127.0.0.1:1", model: "{model}", method: ngram, draft_tokens: 4}}
"""


def test_what_vllm_refuses_is_said_before_anything_is_started_and_not_started(tmp_path: Path) -> None:
    python, fleet = tmp_path / "python", tmp_path / "fleet.yaml"
    refusals = {"none": "no such backend", "ngram-2": "too few", "ngram-4": "too few"}
    python.write_text(REFUSING.format(python=sys.executable, refusals=refusals), encoding="utf-8")
    python.chmod(0o755)
    fleet.write_text(LAUNCHED.format(model=tmp_path), encoding="utf-8")
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    done = run("--fleet", fleet, "--launch", "--python", python, "--out", tmp_path / "sweep")
    assert done.exit_code == 1
    none, ngram, *_, last = done.stderr.splitlines()
    assert none == "none: vLLM 0.33.0 refuses it: no such backend; change what it names"
    assert ngram == "ngram-2: vLLM 0.33.0 refuses it: too few; change what it names"
    assert done.stderr.count("too few") == 1
    assert "without speculation" not in done.stderr, "the baseline is measured by itself"
    assert last == f"nothing can be compared: {none}"
    assert not list((tmp_path / "sweep" / "logs").iterdir())


def test_a_server_that_runs_is_asked_with_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = tmp_path / "fleet.yaml"
    named = LAUNCHED.format(model=tmp_path).replace("model:", "api_key_env: SWEPT_KEY, model:")
    fleet.write_text(named, encoding="utf-8")
    monkeypatch.delenv("SWEPT_KEY", raising=False)
    unset = run("--fleet", fleet, "--out", tmp_path / "sweep")
    assert unset.exit_code == 2
    assert "SWEPT_KEY" in unset.stderr
    monkeypatch.setenv("SWEPT_KEY", "secret")
    setup = sweep._setup("", "", fleet, "", "", 8101, launch=False)
    assert {one.key for one in setup.places.values()} == {"secret"}
