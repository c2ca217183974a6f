"""One server to be started: what it serves, how it drafts, where it runs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from backends.flags import settings
from backends.methods import methods
from gateway.policy.machine import GpusSection, LaunchSection
from gateway.policy.schema import BackendSection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from backends.methods import Method, Scalar
    from backends.recipes import Recipe

FIRST_PORT: Final = 8101
_MAX_IN_FLIGHT: Final[int] = BackendSection.model_fields["max_in_flight"].default
_DIGITS: Final = 9
"""More than any count has."""
_PORTS: Final = {"http": 80, "https": 443}
API_KEY: Final = "VLLM_API_KEY"
"""Variable in which vLLM finds its API key; its flag goes before."""
_TRUE: Final = ("true", "1", "yes", "on", "y", "t")
"""What vLLM reads as true."""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """One server.

    Attributes:
        name: Its backend name in the fleet.
        target: Hugging Face id or folder of the target model.
        served_model: The name it answers to.
        host: Address of its URL, an IPv6 one without brackets; what it listens on when started here.
        scheme: Of its URL.
        draft_tokens: N; 0 without speculation.
        draft: Checkpoint of the draft, where the method has one of its own.
        block_size: Of the draft, where it is known without its checkpoint.
        tensor_parallel: GPUs that each layer is spread over.
        gpus: Which of this machine's; None to be given some.
        args: Further flags of ``vllm serve`` without ``--``; true stands for a bare flag.
        env: Further environment variables.
        speculative: Further keys of ``--speculative-config``.
        image: Container image; None for the usual one of the platform.
        hardware: GPU that the recipe was measured on, its architecture in brackets; ``""`` if unknown.
        refused: Request parameters that it is said to refuse; None for those of its method.
        max_in_flight: Requests the gateway may hold open on it at once.
        labels: Free text by name, for selectors of the policy.
        api_key_env: Environment variable that holds its API key.
        exporter: Where the gateway reads of its GPUs.
    """

    name: str
    target: str
    served_model: str
    method: str = "none"
    draft_tokens: int = 0
    draft: str | None = None
    block_size: int | None = None
    host: str = "127.0.0.1"
    port: int = FIRST_PORT
    tensor_parallel: int = 1
    max_model_len: int | None = None
    gpus: tuple[int, ...] | None = None
    args: Mapping[str, Scalar] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    speculative: Mapping[str, Any] = field(default_factory=dict)
    image: str | None = None
    hardware: str = ""
    scheme: str = "http"
    refused: tuple[str, ...] | None = None
    max_in_flight: int = _MAX_IN_FLIGHT
    labels: Mapping[str, str] = field(default_factory=dict)
    api_key_env: str | None = None
    exporter: GpusSection | None = None

    @property
    def known(self) -> Method:
        """What is known of its method.

        Raises:
            KeyError: There is no such method.
        """
        return methods()[self.method]

    @property
    def speculates(self) -> bool:
        """Whether it drafts at all."""
        return self.method != "none"

    @property
    def takes_draft(self) -> bool:
        """Whether the draft that it names can be one of its method."""
        if self.known.draft == "built_in":
            # Some targets' own layers are published as a checkpoint of their own, named after what they are.
            return "mtp" in (self.draft or "").lower()
        return self.known.draft == "separate"

    @property
    def refuses(self) -> tuple[str, ...]:
        """Request parameters that it answers with 400, sorted."""
        return tuple(sorted(self.known.refuses if self.refused is None else self.refused))

    @property
    def options(self) -> Mapping[str, Any]:
        """Keys of ``--speculative-config`` beside method, draft and N, as vLLM reads them: ``-`` is ``_``."""
        written = {key.replace("-", "_"): value for key, value in self.speculative.items()}
        return {**self.known.speculative, **written}

    @property
    def adaptive(self) -> bool:
        """Whether it verifies adaptively: asked for in any way of writing it that vLLM takes."""
        return str(self.options.get("enable_adaptive_verification")).lower() in _TRUE

    @property
    def flags(self) -> Mapping[str, Scalar]:
        """Its further flags by the names by which vLLM reads them."""
        return settings(self.args)

    def setting(self, flag: str, config: str, key: str) -> object:
        """What is set by a flag, or by a key of a flag that takes JSON; None where nothing is.

        Args:
            flag: Name of the flag that sets nothing else.
            config: Name of the flag that takes JSON.
            key: Of its value.
        """
        flags = self.flags
        for name in (flag, f"{config}.{key}"):
            if name in flags:
                return flags[name]
        try:
            held = json.loads(str(flags.get(config, "{}")))
        except (ValueError, RecursionError):
            return None
        return held.get(key) if isinstance(held, dict) else None

    @property
    def stages(self) -> int:
        """Into how many stages its layers are cut, each on GPUs of its own."""
        return whole(self.flags.get("pipeline-parallel-size")) or 1

    @property
    def draft_parallel(self) -> int:
        """GPUs that each layer of the draft is spread over."""
        return whole(self.options.get("draft_tensor_parallel_size")) or self.tensor_parallel

    @property
    def gpu_count(self) -> int:
        """GPUs that it takes: one for each rank of each way in which it is spread."""
        flags = self.flags
        replicas = flags.get("data-parallel-size-local")
        if replicas is None:
            # With a rank of its own it is one replica; the others are servers of theirs.
            alone = "data-parallel-rank" in flags
            replicas = 1 if alone else flags.get("data-parallel-size")
        slices = whole(flags.get("prefill-context-parallel-size")) or 1
        return self.tensor_parallel * self.stages * slices * (whole(replicas) or 1)

    @property
    def certificate(self) -> str:
        """File of the certificate that it shows; empty if it shows none."""
        return str(self.flags.get("ssl-certfile", ""))

    @property
    def gives_key(self) -> bool:
        """Whether its flags or variables hold its API key, and not only :attr:`api_key_env` names it."""
        return "api-key" in self.flags or API_KEY in self.env

    @property
    def url(self) -> str:
        """Where the gateway reaches it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS.get(self.scheme) else f":{self.port}"
        return f"{self.scheme}://{host}{port}"


def whole(written: object) -> int | None:
    """A whole number from 1 on, as a number or as text; None for anything else."""
    if isinstance(written, str) and written.isascii() and written.isdecimal() and len(written) <= _DIGITS:
        written = int(written)
    return written if isinstance(written, int) and not isinstance(written, bool) and written > 0 else None


class UnknownMethodError(ValueError):
    """A recipe cannot be run with the methods asked for; the text says what would be right."""


def from_recipe(
    recipe: Recipe, names: Iterable[str], *, first_port: int = FIRST_PORT
) -> Iterator[LaunchSpec]:
    """A fleet of one recipe, a server for each method named.

    Args:
        recipe: The target.
        names: Methods, in the order of the servers; ``mtp:3`` asks for another N than the recipe's.
        first_port: Of the first server; the others follow.

    Raises:
        UnknownMethodError: The recipe has no such method, two are the same, or what stands behind the colon
            is no number of tokens.
    """
    seen: dict[tuple[str, int], str] = {}
    for offset, asked in enumerate(names):
        name, colon, tokens = (part.strip() for part in asked.partition(":"))
        variant = recipe.methods.get(name)
        if variant is None:
            known = ", ".join(recipe.methods)
            raise UnknownMethodError(f"{recipe.name} has no method {name!r}; methods: {known}")
        if colon and whole(tokens) is None:
            right = f"{name}:{variant.draft_tokens}" if variant.draft_tokens else name
            raise UnknownMethodError(f"{asked!r} is not a method with its draft tokens; write {right}")
        draft_tokens = whole(tokens) or variant.draft_tokens
        if other := seen.get((name, draft_tokens)):
            wrong = f"{asked!r} is the same server as {other!r}"
            raise UnknownMethodError(f"{wrong}; name it once, or with another number of draft tokens")
        seen[name, draft_tokens] = asked
        yield LaunchSpec(
            name=f"{recipe.name}-{name}-n{draft_tokens}" if draft_tokens else f"{recipe.name}-{name}",
            target=recipe.target,
            served_model=recipe.served_model,
            method=name,
            draft_tokens=draft_tokens,
            draft=variant.draft,
            block_size=variant.block_size,
            port=first_port + offset,
            tensor_parallel=recipe.tensor_parallel,
            max_model_len=recipe.max_model_len,
            args={**recipe.args, **variant.args},
            env={**recipe.env, **variant.env},
            speculative=dict(variant.speculative),
            hardware=f"{recipe.hardware.gpu} ({recipe.hardware.arch})",
            labels={"hardware": recipe.hardware.gpu},
        )


def from_section(section: BackendSection) -> LaunchSpec:
    """The server that a backend of a fleet file stands for."""
    url, launch = urlsplit(section.url), section.launch
    return LaunchSpec(
        name=section.name,
        target=section.model,
        served_model=section.served_model or section.model,
        method=section.method,
        draft_tokens=section.draft_tokens,
        draft=section.draft,
        block_size=launch.block_size,
        host=url.hostname or "127.0.0.1",
        port=url.port or _PORTS[url.scheme],
        scheme=url.scheme,
        tensor_parallel=launch.tensor_parallel,
        max_model_len=section.max_model_len,
        gpus=None if launch.gpus is None else tuple(launch.gpus),
        args=dict(launch.args),
        env=dict(launch.env),
        speculative=dict(launch.speculative),
        image=launch.image,
        hardware=launch.hardware,
        refused=None if section.refuses is None else tuple(section.refuses),
        max_in_flight=section.max_in_flight,
        labels=dict(section.labels),
        api_key_env=section.api_key_env,
        exporter=section.gpus,
    )


def to_section(spec: LaunchSpec) -> BackendSection:
    """The backend of a fleet file that a server is; :func:`from_section` the other way round."""
    return BackendSection(
        name=spec.name,
        url=spec.url,
        model=spec.target,
        served_model=spec.served_model,
        method=spec.method,
        draft_tokens=spec.draft_tokens,
        draft=spec.draft,
        refuses=None if spec.refused is None else list(spec.refused),
        max_in_flight=spec.max_in_flight,
        max_model_len=spec.max_model_len,
        labels=dict(spec.labels),
        api_key_env=spec.api_key_env,
        gpus=spec.exporter,
        launch=LaunchSection(
            tensor_parallel=spec.tensor_parallel,
            gpus=None if spec.gpus is None else list(spec.gpus),
            args=dict(spec.args),
            env=dict(spec.env),
            speculative=dict(spec.speculative),
            block_size=spec.block_size,
            image=spec.image,
            hardware=spec.hardware,
        ),
    )
