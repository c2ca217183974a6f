"""A fleet as files of other people's supervisors: Docker Compose and Kubernetes."""

from __future__ import annotations

import itertools
import re
from io import StringIO
from typing import TYPE_CHECKING, Any, Final

from ruamel.yaml import YAML

from backends.placement import place
from backends.render import VISIBLE, arguments, environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from backends.methods import Platform
    from backends.spec import LaunchSpec

IMAGES: Final[dict[str, str]] = {
    "rocm": "vllm/vllm-openai-rocm:v0.32.0",
    "cuda": "vllm/vllm-openai:v0.32.0",
}
"""The usual image of a platform."""

_ANYWHERE: Final = "0.0.0.0"
_MODELS: Final = "/models"
_PORT: Final = 8000
_MINUTES_TO_START: Final = 60


class NoImageError(ValueError):
    """A server names no image and its platform has no usual one; the text says so."""


def _image(spec: LaunchSpec, platform: Platform) -> str:
    image = spec.image or IMAGES.get(platform)
    if image is None:
        raise NoImageError(f"{spec.name}: there is no usual image for {platform}; set launch.image")
    return image


def compose(specs: Sequence[LaunchSpec], platform: Platform) -> str:
    """A Compose file with a service for each server, on the ports of their URLs.

    Raises:
        NoImageError: A server has no image.
    """
    gpus = place(specs, itertools.count())
    return to_yaml({"services": {spec.name: _service(spec, platform, gpus[spec.name]) for spec in specs}})


def _service(spec: LaunchSpec, platform: Platform, gpus: tuple[int, ...]) -> dict[str, Any]:
    probe = f"import urllib.request as u; u.urlopen('http://127.0.0.1:{spec.port}/health')"
    service: dict[str, Any] = {
        "image": _image(spec, platform),
        "entrypoint": ["vllm", "serve"],
        "command": [spec.target, *arguments(spec, host=_ANYWHERE)],
        "environment": {**environment(spec, platform, gpus), "HF_HOME": _MODELS},
        "ports": [f"127.0.0.1:{spec.port}:{spec.port}"],
        "volumes": [f"${{HF_HOME:-./models}}:{_MODELS}"],
        "ipc": "host",
        "restart": "unless-stopped",
        "healthcheck": {
            "test": ["CMD", "python3", "-c", probe],
            "interval": "10s",
            "timeout": "5s",
            "start_period": f"{_MINUTES_TO_START}m",
        },
    }
    if platform == "rocm":
        service |= {
            "devices": ["/dev/kfd", "/dev/dri"],
            "group_add": ["video"],
            "cap_add": ["SYS_PTRACE"],
            "security_opt": ["seccomp=unconfined"],
        }
    elif platform == "cuda":
        # Docker numbers what it hands in from 0, so the variable would name others.
        del service["environment"][VISIBLE["cuda"]]
        device = {"driver": "nvidia", "device_ids": [str(index) for index in gpus], "capabilities": ["gpu"]}
        service["deploy"] = {"resources": {"reservations": {"devices": [device]}}}
    return service


def kubernetes(specs: Iterable[LaunchSpec], platform: Platform) -> str:
    """A Deployment and a Service for each server. Models come from a volume claim named ``models``.

    Raises:
        NoImageError: A server has no image.
    """
    return "---\n".join(
        to_yaml(document) for spec in specs for document in (_deployment(spec, platform), _kube_service(spec))
    )


def kubernetes_name(name: str) -> str:
    """A server's name as Kubernetes wants it: lower case, with dashes for all else."""
    return re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")[:63]


def _labels(spec: LaunchSpec) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "vllm",
        "app.kubernetes.io/instance": kubernetes_name(spec.name),
        "app.kubernetes.io/part-of": "specroute",
        "specroute/method": spec.method,
        "specroute/draft-tokens": str(spec.draft_tokens),
    }


def _deployment(spec: LaunchSpec, platform: Platform) -> dict[str, Any]:
    name = kubernetes_name(spec.name)
    words = arguments(spec, host=_ANYWHERE)
    words[words.index("--port") + 1] = str(_PORT)
    env = {**environment(spec, platform), "HF_HOME": _MODELS}
    health = {"httpGet": {"path": "/health", "port": "http"}}
    container: dict[str, Any] = {
        "name": "vllm",
        "image": _image(spec, platform),
        "command": ["vllm", "serve"],
        "args": [spec.target, *words],
        "env": [{"name": key, "value": value} for key, value in env.items()],
        "ports": [{"name": "http", "containerPort": _PORT}],
        "startupProbe": {**health, "periodSeconds": 10, "failureThreshold": _MINUTES_TO_START * 6},
        "readinessProbe": {**health, "periodSeconds": 5},
        "livenessProbe": {**health, "periodSeconds": 10, "failureThreshold": 6},
        "volumeMounts": [{"name": "models", "mountPath": _MODELS}, {"name": "shm", "mountPath": "/dev/shm"}],  # noqa: S108 - not a temporary file
    }
    resource = {"rocm": "amd.com/gpu", "cuda": "nvidia.com/gpu"}.get(platform)
    if resource is not None:
        container["resources"] = {"limits": {resource: spec.tensor_parallel}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": _labels(spec)},
        "spec": {
            "replicas": 1,
            # Two generations side by side would need twice the GPUs.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app.kubernetes.io/instance": name}},
            "template": {
                "metadata": {"labels": _labels(spec)},
                "spec": {
                    "terminationGracePeriodSeconds": 60,
                    "containers": [container],
                    "volumes": [
                        {"name": "models", "persistentVolumeClaim": {"claimName": "models"}},
                        {"name": "shm", "emptyDir": {"medium": "Memory"}},
                    ],
                },
            },
        },
    }


def _kube_service(spec: LaunchSpec) -> dict[str, Any]:
    name = kubernetes_name(spec.name)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": _labels(spec)},
        "spec": {
            "selector": {"app.kubernetes.io/instance": name},
            "ports": [{"name": "http", "port": _PORT, "targetPort": "http"}],
        },
    }


def _text(representer: Any, text: str) -> Any:  # noqa: ANN401 - ruamel's
    # Written plainly, these would be read as other texts.
    style = '"' if text.startswith("?") or not text.isprintable() else None
    return representer.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def to_yaml(document: Any) -> str:  # noqa: ANN401 - YAML data
    """YAML text with its keys in the order given, lists and mappings of scalars on one line."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = None  # its third state: what is short stands on one line
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.representer.ignore_aliases = lambda _data: True
    yaml.representer.add_representer(str, _text)
    yaml.width = 110
    out = StringIO()
    yaml.dump(document, out)
    return out.getvalue()
