from __future__ import annotations

import asyncio
import json
import os
import select
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from backends import engine
from backends.flags import Kind
from backends.spec import LaunchSpec

if TYPE_CHECKING:
    from pathlib import Path

# Stands for an interpreter with vLLM: asked like one, it answers what the test wants.
ASKED = """#!{python}
import json, sys
question = json.load(sys.stdin)
open({seen!r}, "w").write(json.dumps(question))
print("a line of somebody's logger")
print("specroute:" + json.dumps({told!r}))
"""
TOLD = {
    "version": "0.32.0",
    "platform": "cpu",
    "methods": ["ngram", "eagle3"],
    "modules": ["arctic_inference"],
    "flags": {"enforce-eager": "switch", "max-num-seqs": "value"},
    "options": ["method", "model"],
    "unparsed": {"t": "argument --dtype: invalid choice: 'bf' (choose from auto, bfloat16)"},
    "refusals": {
        "s": "1 validation error for SpeculativeConfig\n  Value error, num_speculative_tokens:5 must be divisible by "
        "n_predict=2 [type=value_error, input_value=ArgsKwargs(()), input_type=ArgsKwargs]\n    For further information"
    },
    "unbuilt": {"w": "OSError: no tokenizer here"},
    "drafting": {"x": None, "u": "dflash", "v": "draft_model"},
}


def interpreter(tmp_path: Path, text: str) -> str:
    script = tmp_path / "python"
    script.write_text(text, encoding="utf-8")
    script.chmod(0o755)
    return str(script)


def answering(tmp_path: Path) -> str:
    text = ASKED.format(python=sys.executable, seen=str(tmp_path / "seen.json"), told=TOLD)
    return interpreter(tmp_path, text)


def folder(tmp_path: Path, name: str) -> str:
    (tmp_path / name).mkdir()
    (tmp_path / name / "config.json").write_text("{}", encoding="utf-8")
    return str(tmp_path / name)


async def test_vllm_says_what_it_is_and_what_it_refuses(tmp_path: Path) -> None:
    target, draft = folder(tmp_path, "target"), folder(tmp_path, "draft")
    spec = LaunchSpec("s", target, "t", "eagle3", 5, draft, args={"dtype": "bfloat16"}, env={"A": "1"})
    other = LaunchSpec("t", "acme/model", "t", args={"max_num_seqs": 4, "dtype": "bf"}, port=9000)
    taken = LaunchSpec("u", target, "t", "draft-model", 3, draft, port=9001)
    left = replace(taken, name="v", port=9002)
    unbuilt, baseline = replace(other, name="w"), replace(other, name="x")
    elsewhere, alike = replace(other, name="y"), replace(other, name="z")
    answer = await engine.ask(
        answering(tmp_path), [spec, other, taken, left, unbuilt, baseline, elsewhere, alike]
    )
    assert (answer.engine.version, answer.engine.platform) == ("0.32.0", "cpu")
    assert answer.engine.methods == {"ngram", "eagle3"}
    assert answer.engine.modules == {"arctic_inference"}
    assert answer.engine.flags == {"enforce-eager": Kind.SWITCH, "max-num-seqs": Kind.VALUE}
    assert answer.engine.options == {"method", "model"}
    assert list(map(str, answer.findings)) == [
        (
            "t: vLLM 0.32.0 does not take its flags: argument --dtype: invalid choice: 'bf' (choose from auto, bfloat16); "
            "change what it names"
        ),
        "s: vLLM 0.32.0 refuses it: num_speculative_tokens:5 must be divisible by n_predict=2; change what it names",
        (
            "u: vLLM 0.32.0 takes its draft for one of dflash, in place of draft_model; "
            "name the method that the draft is for, or another draft"
        ),
        (
            "w: not checked: vLLM 0.32.0 could not tell whether its flags go together: OSError: no tokenizer here; "
            "mend it, or look at the log of its first start"
        ),
        (
            "y: not checked: vLLM 0.32.0 was not asked whether its flags go together: it reads what is not here; "
            "download target and draft, and write flags in launch.args"
        ),
    ]
    asked = json.loads((tmp_path / "seen.json").read_text(encoding="utf-8"))
    # No flag that this vLLM may lack: those are written once it is known what it has.
    assert asked["commands"]["t"] == [
        "--model", "acme/model", "--served-model-name", "t", "--host", "127.0.0.1", "--port", "9000",
        "--tensor-parallel-size", "1", "--max-num-seqs", "4", "--dtype", "bf",
    ]  # fmt: skip
    assert asked["configs"] == {"s": {"A": "1"}, "u": {}, "v": {}}


async def test_only_what_is_here_is_asked_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "none"))
    target = folder(tmp_path, "target")
    specs = [
        LaunchSpec("baseline", target, "t"),
        LaunchSpec("elsewhere", "acme/model", "t", "ngram", 4),
        LaunchSpec("no-draft-here", target, "t", "eagle3", 3, "acme/draft"),
        LaunchSpec("nowhere", "./nowhere", "t", "ngram", 4),
        LaunchSpec("unknown", target, "t", "dflesh", 4),
        LaunchSpec("flags-in-a-file", target, "t", args={"config": "flags.yaml"}),
    ]
    await engine.ask(answering(tmp_path), specs)
    asked = json.loads((tmp_path / "seen.json").read_text(encoding="utf-8"))
    assert asked["configs"] == {"baseline": {}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "#!/bin/sh\necho 'ModuleNotFoundError: No module named vllm' >&2; exit 1\n",
            "has no usable vLLM: ModuleNotFound",
        ),
        ("#!/bin/sh\ncat >/dev/null; echo hello\n", "answered something else"),
    ],
)
async def test_an_interpreter_without_vllm_is_told_of(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(engine.NoEngineError, match=message):
        await engine.ask(interpreter(tmp_path, text), [])


async def test_an_interpreter_that_is_not_there_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(engine.NoEngineError, match="No such file or directory"):
        await engine.ask(str(tmp_path / "python"), [])


BUSY = """#!{python}
import os, time
with open({mark!r}, "w") as mark:
    mark.write(str(os.getpid()))
time.sleep(600)
"""


async def test_one_that_is_asked_no_longer_does_not_go_on(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    os.mkfifo(mark)
    python = interpreter(tmp_path, BUSY.format(python=sys.executable, mark=str(mark)))
    asking = asyncio.create_task(engine.ask(python, []))
    process = os.pidfd_open(int(await asyncio.to_thread(mark.read_text, encoding="utf-8")))
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert select.select([process], [], [], 30)[0] == [process]
    os.close(process)


async def test_one_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "TIMEOUT", 0.2)
    with pytest.raises(engine.NoEngineError, match=r"did not answer within 0 s"):
        await engine.ask(interpreter(tmp_path, "#!/bin/sh\nexec sleep 600\n"), [])


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("", "no reason"),
        ("plain\nmore", "plain"),
        ("1 validation error\n", "1 validation error"),
        (
            "1 validation error for X\nmoe_backend\n  Input should be 'a' or 'b' [type=x, y]\n    For further",
            "moe_backend: Input should be 'a' or 'b'",
        ),
        ("1 validation error for X\n  Value error, no\nsuch thing [type=value_error]\n", "no"),
    ],
)
def test_errors_are_shortened(text: str, short: str) -> None:
    assert engine._short(text) == short
