"""A fleet as files of other people's supervisors: Docker Compose and Kubernetes."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import replace
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ruamel.yaml import YAML

from backends.checkpoint import is_path
from backends.hosts import published
from backends.placement import place
from backends.render import VISIBLE, arguments, environment, key_from
from backends.spec import API_KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backends.methods import Platform
    from backends.spec import LaunchSpec

IMAGES: Final[dict[str, str]] = {
    "rocm": "vllm/vllm-openai-rocm:v0.32.0",
    "cuda": "vllm/vllm-openai:v0.32.0",
}
"""The usual image of a platform."""

_ANYWHERE: Final = "0.0.0.0"
MODELS: Final = "/models"
"""Where a container has its models."""
_KEYS: Final = "vllm-keys"
"""Secret that holds the servers' keys by the names of their variables."""
_TLS: Final = ("ssl-certfile", "ssl-keyfile", "ssl-ca-certs")
"""Flags that name files of the machine that a server runs on."""
_PORT: Final = 8000
_MINUTES_TO_START: Final = 60
_OLD_SCALAR: Final = re.compile(
    r"y|n|yes|no|on|off|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?", re.IGNORECASE
)
"""What YAML 1.1 reads as a truth or as a number to the base 60, and YAML 1.2 as text."""
_LONGEST_NAME: Final = 63
_DIGEST: Final = 6
"""Hexadecimal digits."""


class NotRenderableError(ValueError):
    """A fleet cannot be written in a form; the text says why and what would be right."""


def _image(spec: LaunchSpec, platform: Platform) -> str:
    image = spec.image or IMAGES.get(platform)
    if image is None:
        raise NotRenderableError(f"{spec.name}: there is no usual image for {platform}; set launch.image")
    return image


def _folders(spec: LaunchSpec) -> dict[str, str]:
    """Checkpoints of a server that are named by their place on this machine, and that place in full."""
    named = (spec.target, spec.draft or "")
    # An id looks like a path of two parts, and vLLM takes it for one where there is such a folder.
    return {
        name: str(Path(name).expanduser().absolute())
        for name in named
        if is_path(name) or (name and Path(name).is_dir())
    }


def _tls_files(spec: LaunchSpec) -> dict[str, str]:
    """Files of its certificate by the flags that name them, each with its place on this machine in full."""
    return {flag: str(Path(str(spec.flags[flag])).absolute()) for flag in _TLS if flag in spec.flags}


def compose(specs: Sequence[LaunchSpec], platform: Platform) -> str:
    """A Compose file with a service for each server, on the ports of their URLs.

    Raises:
        NotRenderableError: A server has no image, or two have the same port.
    """
    takers: dict[int, str] = {}
    for spec in specs:
        if (other := takers.setdefault(spec.port, spec.name)) != spec.name:
            wrong = f"port {spec.port} is also that of {other}, and a Compose file is of one machine"
            raise NotRenderableError(f"{spec.name}: {wrong}; give each its own port")
    gpus = place(specs, itertools.count())
    return to_yaml({"services": {spec.name: _service(spec, platform, gpus[spec.name]) for spec in specs}})


def _service(spec: LaunchSpec, platform: Platform, gpus: tuple[int, ...]) -> dict[str, Any]:
    url = f"'{spec.scheme}://127.0.0.1:{spec.port}/health'"
    probe = f"import urllib.request as u; u.urlopen({url})"
    if spec.scheme == "https":  # its certificate is for the name by which others reach it
        context = "context=ssl._create_unverified_context()"
        probe = f"import ssl, urllib.request as u; u.urlopen({url}, {context})"
    folders, files = _folders(spec), _tls_files(spec)
    words = [folders.get(spec.target, spec.target)]
    inside = replace(spec, draft=folders.get(spec.draft or "", spec.draft), args={**spec.flags, **files})
    words += arguments(inside, host=_ANYWHERE)
    env = environment(spec, platform, gpus)
    service: dict[str, Any] = {
        "image": _literal(_image(spec, platform)),
        "entrypoint": ["vllm", "serve"],
        "command": [_literal(word) for word in words],
        "environment": {
            **{name: _literal(value) for name, value in env.items()},
            **({API_KEY: f"${{{variable}:?}}"} if (variable := key_from(spec)) else {}),
            "HF_HOME": MODELS,
        },
        # Who names a server by its service is in the same network and needs no port of the machine.
        **({} if spec.host == spec.name else {"ports": [published(spec.host, spec.port)]}),
        "volumes": [
            f"${{HF_HOME:-./models}}:{MODELS}",
            *(f"{place}:{place}:ro" for place in map(_literal, (*folders.values(), *files.values()))),
        ],
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
        service["environment"].pop(VISIBLE["cuda"], None)
        device = {"driver": "nvidia", "device_ids": [str(index) for index in gpus], "capabilities": ["gpu"]}
        service["deploy"] = {"resources": {"reservations": {"devices": [device]}}}
    return service


def _literal(text: str) -> str:
    """A text of which Compose fills nothing in."""
    return text.replace("$", "$$")


def kubernetes(specs: Sequence[LaunchSpec], platform: Platform) -> str:
    """A Deployment and a Service for each server.

    Models come from a volume claim named ``models``, keys from a secret named ``vllm-keys``.

    Raises:
        NotRenderableError: A server has no image, or a checkpoint or a certificate lies on this machine.
    """
    names = kubernetes_names([spec.name for spec in specs])
    documents: list[Any] = []
    for spec in specs:
        for folder in _folders(spec):
            if not folder.startswith(f"{MODELS}/"):
                wrong = f"no other machine has the folder {folder}"
                raise NotRenderableError(
                    f"{spec.name}: {wrong}; name an id, or a folder of the claim in {MODELS}"
                )
        for file in _tls_files(spec).values():
            if not file.startswith(f"{MODELS}/"):
                wrong = f"no other machine has the file {file}"
                raise NotRenderableError(
                    f"{spec.name}: {wrong}; name one of the claim in {MODELS}, or leave TLS to the cluster"
                )
        documents += (_deployment(spec, platform, names[spec.name]), _kube_service(spec, names[spec.name]))
    return "---\n".join(map(to_yaml, documents))


def kubernetes_names(names: Sequence[str]) -> dict[str, str]:
    """Names of servers as Kubernetes wants them, no two the same.

    They are labels of DNS that begin with a letter, as those of a Service must: at most 63 small letters,
    digits and dashes. Names that would be the same, or would be cut, end in a digest of what they were.
    """
    plain = {name: _dns(name) for name in names}
    times = Counter(plain.values())
    return {
        name: _digested(one, name) if times[one] > 1 or len(one) > _LONGEST_NAME else one
        for name, one in plain.items()
    }


def _digested(plain: str, name: str) -> str:
    kept = plain[: _LONGEST_NAME - _DIGEST - 1].rstrip("-")
    return f"{kept}-{sha256(name.encode()).hexdigest()[:_DIGEST]}"


def _dns(name: str) -> str:
    text = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")
    return text if text[:1].isalpha() else f"vllm-{text}".rstrip("-")


def _unexpanded(text: str) -> str:
    """A text in which Kubernetes fills in no variable."""
    return text.replace("$(", "$$(")


def _labels(spec: LaunchSpec, name: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "vllm",
        "app.kubernetes.io/instance": name,
        "app.kubernetes.io/part-of": "specroute",
        "specroute/method": spec.method,
        "specroute/draft-tokens": str(spec.draft_tokens),
    }


def _deployment(spec: LaunchSpec, platform: Platform, name: str) -> dict[str, Any]:
    words = arguments(spec, host=_ANYWHERE)
    words[words.index("--port") + 1] = str(_PORT)
    env = {**environment(spec, platform), "HF_HOME": MODELS}
    keys = [variable] if (variable := key_from(spec)) else []
    secure = {"scheme": "HTTPS"} if spec.scheme == "https" else {}
    health = {"httpGet": {"path": "/health", "port": "http", **secure}}
    container: dict[str, Any] = {
        "name": "vllm",
        "image": _image(spec, platform),
        "command": ["vllm", "serve"],
        "args": [_unexpanded(word) for word in (spec.target, *words)],
        "env": [
            *({"name": key, "value": _unexpanded(value)} for key, value in env.items()),
            *(
                {"name": API_KEY, "valueFrom": {"secretKeyRef": {"name": _KEYS, "key": variable}}}
                for variable in keys
            ),
        ],
        "ports": [{"name": "http", "containerPort": _PORT}],
        "startupProbe": {**health, "periodSeconds": 10, "failureThreshold": _MINUTES_TO_START * 6},
        "readinessProbe": {**health, "periodSeconds": 5},
        "livenessProbe": {**health, "periodSeconds": 10, "failureThreshold": 6},
        "volumeMounts": [{"name": "models", "mountPath": MODELS}, {"name": "shm", "mountPath": "/dev/shm"}],  # noqa: S108 - not a temporary file
    }
    resource = {"rocm": "amd.com/gpu", "cuda": "nvidia.com/gpu"}.get(platform)
    if resource is not None:
        container["resources"] = {"limits": {resource: spec.gpu_count}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": _labels(spec, name)},
        "spec": {
            "replicas": 1,
            # Two generations side by side would need twice the GPUs.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app.kubernetes.io/instance": name}},
            "template": {
                "metadata": {"labels": _labels(spec, name)},
                "spec": {
                    # Of a Service called vllm it would make VLLM_PORT, which vLLM reads as a number.
                    "enableServiceLinks": False,
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


def _kube_service(spec: LaunchSpec, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": _labels(spec, name)},
        "spec": {
            "selector": {"app.kubernetes.io/instance": name},
            "ports": [{"name": "http", "port": _PORT, "targetPort": "http"}],
        },
    }


def _text(representer: Any, text: str) -> Any:  # noqa: ANN401 - ruamel's
    # Written plainly, these would be read as other texts, or by readers of YAML 1.1 as truths and numbers.
    plain = text.isprintable() and not text.startswith("?") and not _OLD_SCALAR.fullmatch(text)
    style = None if plain else '"'
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
