"""One spec to what starts it: the speculative config, the command line and the environment."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from backends.versions import at_least

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backends.methods import Platform
    from backends.spec import LaunchSpec

REQUEST_METRICS_SINCE: Final = "0.29.0"
"""First version with ``--per-request-spec-decode-metrics``."""

VISIBLE: Final = {"rocm": "HIP_VISIBLE_DEVICES", "cuda": "CUDA_VISIBLE_DEVICES"}
"""Variable that picks the GPUs, by platform; there is none for CPUs."""

OWN_ARGS: Final = {
    "model": "model",
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


def arguments(spec: LaunchSpec, *, host: str | None = None, version: str | None = None) -> list[str]:
    """Flags of the server, all but the target model.

    Args:
        spec: The server.
        host: Address to listen on; that of its URL if left out.
        version: Of vLLM; None for one that has everything.
    """
    flags: dict[str, Any] = {
        "served-model-name": spec.served_model,
        "host": host or spec.host,
        "port": spec.port,
        "tensor-parallel-size": spec.tensor_parallel,
    }
    if spec.max_model_len is not None:
        flags["max-model-len"] = spec.max_model_len
    flags |= _USUAL | dict(spec.args)
    config = speculative_config(spec)
    if config is not None:
        flags["speculative-config"] = json.dumps(config)
        # A server without a draft refuses to start with this flag.
        if version is None or at_least(version, REQUEST_METRICS_SINCE):
            flags.setdefault("per-request-spec-decode-metrics", "summary")
    return [word for name, value in flags.items() for word in _flag(name, value)]


def _flag(name: str, value: object) -> Iterator[str]:
    if value is False:
        return
    yield f"--{name}"
    if value is not True:
        yield str(value)


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


def argv(spec: LaunchSpec, python: str, *, version: str | None = None) -> list[str]:
    """The command line in an environment that has vLLM.

    The console script is not used: the CPU build's does not find its own package.

    Args:
        spec: The server.
        python: Interpreter of the environment.
        version: Of its vLLM.
    """
    module = "vllm.entrypoints.openai.api_server"
    return [python, "-m", module, "--model", spec.target, *arguments(spec, version=version)]
