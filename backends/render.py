"""One spec to what starts it: the speculative config, the command line and the environment."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any, Final

from backends.flags import Kind, listed
from backends.spec import API_KEY
from backends.versions import at_least

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from backends.methods import Platform
    from backends.spec import LaunchSpec

REQUEST_METRICS_SINCE: Final = "0.29.0"
"""First version with ``--per-request-spec-decode-metrics``."""

METRICS: Final = "per-request-spec-decode-metrics"
"""The flag by which a server tells the acceptance of each request."""

VISIBLE: Final = {"rocm": "HIP_VISIBLE_DEVICES", "cuda": "CUDA_VISIBLE_DEVICES"}
"""Variable that picks the GPUs, by platform; there is none for CPUs."""

OWN_ARGS: Final = {
    "model": "model",
    "device-ids": "launch.gpus",
    "served-model-name": "served_model",
    "host": "url",
    "port": "url",
    "tensor-parallel-size": "launch.tensor_parallel",
    "max-model-len": "max_model_len",
    "speculative-config": "method, draft_tokens, draft and launch.speculative",
    "spec-method": "method",
    "spec-model": "draft",
    "spec-tokens": "draft_tokens",
}
"""Flags that are written from fields of a backend, and from which."""

_USUAL: Final = {"enable-prompt-tokens-details": True, "enable-request-id-headers": True}


def speculative_config(spec: LaunchSpec) -> dict[str, Any] | None:
    """What ``--speculative-config`` holds; None without speculation.

    Raises:
        KeyError: There is no such method.
    """
    method = spec.known
    if method.engine is None:
        return None
    config: dict[str, Any] = {"method": method.engine}
    if spec.draft is not None:
        config["model"] = spec.draft
    config["num_speculative_tokens"] = spec.draft_tokens
    return config | dict(spec.options)


def arguments(
    spec: LaunchSpec,
    *,
    host: str | None = None,
    version: str | None = None,
    known: Collection[str] | None = None,
) -> list[str]:
    """Flags of the server, all but the target model.

    Args:
        spec: The server.
        host: Address to listen on; that of its URL if left out.
        version: Of vLLM; None for one that has everything.
        known: The flags that it has, where it was asked.
    """
    flags: dict[str, Any] = {
        "served-model-name": spec.served_model,
        "host": host or spec.host,
        "port": spec.port,
        "tensor-parallel-size": spec.tensor_parallel,
    }
    if spec.max_model_len is not None:
        flags["max-model-len"] = spec.max_model_len
    flags |= {name: value for name, value in _USUAL.items() if known is None or name in known}
    flags |= spec.flags
    config = speculative_config(spec)
    if config is not None:
        flags["speculative-config"] = json.dumps(config)
        # A server without a draft refuses to start with this flag.
        if (
            METRICS in known
            if known is not None
            else version is None or at_least(version, REQUEST_METRICS_SINCE)
        ):
            flags.setdefault(METRICS, "summary")
    return [word for name, value in flags.items() for word in _flag(name, value)]


def _flag(name: str, value: object) -> Iterator[str]:
    if value is False:
        if listed().get(name) is Kind.SWITCH:
            yield f"--no-{name}"
    elif value is True:
        yield f"--{name}"
    elif str(value).startswith("-"):
        # A word of its own would be read as the next flag.
        yield f"--{name}={value}"
    else:
        yield from (f"--{name}", str(value))


def environment(spec: LaunchSpec, platform: Platform, gpus: Sequence[int] = ()) -> dict[str, str]:
    """Variables that the server needs besides those that are set anyway.

    Args:
        spec: The server.
        platform: What it runs on.
        gpus: The GPUs it may see; empty for all.
    """
    env = dict(spec.env)
    if gpus and platform in VISIBLE:
        env[VISIBLE[platform]] = ",".join(map(str, gpus))
    return env


def key_from(spec: LaunchSpec) -> str | None:
    """Variable whose value the server is given as its API key; None where it has none, or is given it."""
    return None if spec.gives_key else spec.api_key_env


def argv(
    spec: LaunchSpec, python: str, *, version: str | None = None, known: Collection[str] | None = None
) -> list[str]:
    """The command line in an environment that has vLLM; other arguments are as of :func:`arguments`.

    The console script is not used: the CPU build's does not find its own package.

    Args:
        spec: The server.
        python: Interpreter of the environment.
        version: Of its vLLM.
        known: The flags that it has.
    """
    module = "vllm.entrypoints.openai.api_server"
    words = arguments(spec, version=version, known=known)
    return [python, "-m", module, "--model", spec.target, *words]


def shell(spec: LaunchSpec, platform: Platform, python: str, gpus: Sequence[int] = ()) -> str:
    """One command of a shell that starts the server; arguments as of :func:`environment` and :func:`argv`."""
    env = [f"{name}={shlex.quote(value)}" for name, value in environment(spec, platform, gpus).items()]
    if variable := key_from(spec):
        env.append(f'{API_KEY}="${variable}"')
    return " ".join([*env, shlex.join(argv(spec, python))])
