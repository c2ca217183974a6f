"""What policy.yaml may say of service classes and of learning, as pydantic models."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from gateway.core.policy import AUTO, CANARY, FROZEN, MODES, SHADOW, STATIC
from gateway.policy.machine import Count, Section, Text
from gateway.policy.scalars import (
    Duration,
    DurationOrNever,
    Endpoint,
    Listed,
    Name,
    Pattern,
    Share,
    mistake,
    share,
)

_PLAIN: Final = tuple(mode for mode in MODES if mode != CANARY)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


def mode(written: object) -> tuple[str, float]:
    """A mode, and the share of the requests that the learnt score decides.

    Raises:
        PydanticCustomError: It is none.
    """
    if isinstance(written, dict) and list(written) == [CANARY]:
        return CANARY, share(written[CANARY])
    if isinstance(written, str) and written in _PLAIN:
        return written, 1.0 if written in {AUTO, FROZEN} else 0.0
    right = f"write {', '.join(_PLAIN)} or {{canary: 10%}}"
    raise mistake(f"{written!r} is not a mode", right)


def _digest(written: str) -> str:
    if not _DIGEST.fullmatch(written):
        raise mistake(f"{written!r} is not a SHA-256 digest", "write what `printf %s KEY | sha256sum` says")
    return written


Mode = Annotated[
    tuple[str, float],
    BeforeValidator(mode),
    WithJsonSchema({
        "anyOf": [
            {"enum": list(_PLAIN)},
            {
                "type": "object",
                "properties": {CANARY: {"type": ["string", "number"]}},
                "required": [CANARY],
                "additionalProperties": False,
            },
        ]
    }),
]  # fmt: skip
KeyDigest = Annotated[
    str, BeforeValidator(_digest), WithJsonSchema({"type": "string", "pattern": _DIGEST.pattern})
]


class LearningSection(Section):
    """What is made of what the gateway learns of its servers."""

    mode: Mode = Field(
        default=(STATIC, 0.0),
        description="static: the routes' scores decide; shadow: the same, and it is noted what the learnt "
        "score would do; {canary: 10%}: it decides for a share; auto: for all; frozen: for all, by the file.",
        examples=[AUTO, SHADOW],
    )
    explore: Share = Field(
        default=0.03,
        description="Share of the requests of each workload that may go where the most is to be learnt.",
    )
    floor: Share = Field(
        default=0.01,
        description="Share of the requests of each workload that goes to a baseline at least.",
    )
    file: Text | None = Field(
        default=None, description="File of `specroute learned`, beside the policy, to begin with or to go by."
    )

    @model_validator(mode="after")
    def _frozen_needs_a_file(self) -> Self:
        if self.mode[0] == FROZEN and self.file is None:
            raise mistake("there is nothing to go by", "add 'file: learned.yaml', from `specroute learned`")
        return self


class ClassMatchSection(Section):
    """Which requests are of a class; what is left out matches all, what is given must all match."""

    header: dict[Text, Pattern] = Field(
        default_factory=dict, description="Request header → regular expression that its whole value matches."
    )
    key_sha256: Listed[KeyDigest] = Field(
        default_factory=list, description="SHA-256 digests of the API keys of those who ask."
    )
    tenant: Listed[Text] = Field(default_factory=list, description="Tenant names.")
    endpoint: Listed[Endpoint] = Field(default_factory=list, description="API endpoints.")
    model: Listed[Text] = Field(default_factory=list, description="Model names as clients send them.")
    stream: bool | None = Field(default=None, description="true: only streams; false: only whole answers.")
    min_max_tokens: Count | None = Field(
        default=None, description="Least max_tokens; a request without has no limit."
    )
    max_max_tokens: Count | None = Field(default=None, description="Most max_tokens.")


class ClassSection(Section):
    """A service class: which requests are of it, and what their answers must keep."""

    name: Name = Field(description="Unique in the policy.", examples=["interactive"])
    match: ClassMatchSection = Field(
        default_factory=ClassMatchSection, description="Left out: every request."
    )
    ttft: Duration | None = Field(default=None, description="Longest time to the first token.")
    tpot: Duration | None = Field(default=None, description="Longest time for each token after it.")
    priority: int = Field(default=0, description="Who gets room first where requests wait: the higher.")
    wait: DurationOrNever | None = Field(
        default=None, description="How long its requests wait for room; left out: as `queue` says."
    )
    stand_ins: bool = Field(
        default=True,
        description="false: no hosted model answers what `match` fits, whatever class the caller names.",
    )


def settings(section: LearningSection) -> dict[str, Any]:
    """What the core's settings are made of."""
    name, decides = section.mode
    learns = name in {CANARY, AUTO}
    return {
        "mode": name,
        "share": decides,
        "explore": section.explore if learns else 0.0,
        "floor": section.floor if learns else 0.0,
    }
