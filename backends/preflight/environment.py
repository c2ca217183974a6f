"""Whether a server can be given its environment, and its other texts, on a command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from backends.preflight.finding import Finding
from backends.render import VISIBLE
from gateway.policy.variables import NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backends.spec import LaunchSpec

_RENUMBER: Final = (*VISIBLE.values(), "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
"""Variables that pick GPUs, or give those that others pick other numbers."""
_RUNNER: Final = "VLLM_USE_V2_MODEL_RUNNER"


def check_environment(spec: LaunchSpec) -> Iterator[Finding]:
    """Findings about ``launch.env`` and about texts that no process can be started with."""
    for variable in spec.env:
        if not NAME.fullmatch(variable):
            wrong = f"{variable!r} cannot be the name of an environment variable"
            yield Finding(spec.name, wrong, "use letters, digits and '_', no digit first")
        elif variable in _RENUMBER:
            right = "remove it from env and set launch.gpus"
            yield Finding(spec.name, f"{variable} is set by specroute", right)
    runner = spec.env.get(_RUNNER)
    needed = spec.known.model_runner
    if needed and runner in ("0", "1") and runner != str(needed - 1):
        wrong = f"{spec.method} runs on vLLM's model runner {needed} alone, and {_RUNNER} is {runner}"
        yield Finding(spec.name, wrong, f"remove {_RUNNER}")
    if spec.target.startswith("-"):
        wrong = f"the model {spec.target} begins with a dash, so vLLM takes it for a flag"
        yield Finding(spec.name, wrong, "name an id, or write ./ before a folder")
    texts = {
        "model": spec.target, "served_model": spec.served_model, "draft": spec.draft, "image": spec.image,
        **{f"args {key}": value for key, value in spec.args.items()},
        **{f"env {key}": value for key, value in spec.env.items()},
    }  # fmt: skip
    for where, text in texts.items():
        if isinstance(text, str) and "\0" in text:
            yield Finding(spec.name, f"{where} holds a zero byte, which no process can be given", "remove it")
