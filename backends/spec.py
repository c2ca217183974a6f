"""One server to be started: what it serves, how it drafts, where it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from backends.methods import methods

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from backends.methods import Method, Scalar
    from backends.recipes import Recipe
    from gateway.policy.schema import BackendSection

FIRST_PORT: Final = 8101


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """One server.

    Attributes:
        name: Its backend name in the fleet.
        target: Hugging Face id or folder of the target model.
        served_model: The name it answers to.
        host: Address of its URL; what it listens on when started here.
        draft_tokens: N; 0 without speculation.
        draft: Checkpoint of the draft, where the method has one of its own.
        block_size: Of the draft, where it is known without its checkpoint.
        tensor_parallel: GPUs it is spread over.
        gpus: Which of this machine's; None to be given some.
        args: Further flags of ``vllm serve`` without ``--``; true stands for a bare flag.
        env: Further environment variables.
        speculative: Further keys of ``--speculative-config``.
        image: Container image; None for the usual one of the platform.
        hardware: GPU that the recipe was measured on, its architecture in brackets; ``""`` if unknown.
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
    def refuses(self) -> tuple[str, ...]:
        """Request parameters that it answers with 400, sorted."""
        adaptive = self.known.adaptive if self.speculative.get("enable_adaptive_verification") else None
        return tuple(sorted({*self.known.refuses, *(adaptive.refuses if adaptive else ())}))

    @property
    def url(self) -> str:
        """Where the gateway reaches it."""
        return f"http://{self.host}:{self.port}"


class UnknownMethodError(ValueError):
    """A recipe has no such method; the text says which it has."""


def from_recipe(
    recipe: Recipe, names: Iterable[str], *, first_port: int = FIRST_PORT
) -> Iterator[LaunchSpec]:
    """A fleet of one recipe, a server for each method named.

    Args:
        recipe: The target.
        names: Methods, in the order of the servers; ``mtp:3`` asks for another N than the recipe's.
        first_port: Of the first server; the others follow.

    Raises:
        UnknownMethodError: The recipe has no such method, or what stands behind the colon is no number.
    """
    for offset, asked in enumerate(names):
        name, _, tokens = asked.partition(":")
        variant = recipe.methods.get(name)
        if variant is None:
            known = ", ".join(recipe.methods)
            raise UnknownMethodError(f"{recipe.name} has no method {name!r}; methods: {known}")
        if tokens and not tokens.isdecimal():
            raise UnknownMethodError(f"{asked!r} is not a method with its draft tokens; write {name}:3")
        draft_tokens = int(tokens) if tokens else variant.draft_tokens
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
        port=url.port or (443 if url.scheme == "https" else 80),
        tensor_parallel=launch.tensor_parallel,
        max_model_len=section.max_model_len,
        gpus=None if launch.gpus is None else tuple(launch.gpus),
        args=dict(launch.args),
        env=dict(launch.env),
        speculative=dict(launch.speculative),
        image=launch.image,
        hardware=launch.hardware,
    )
