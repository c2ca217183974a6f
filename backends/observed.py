"""What a running server shows of itself, and what of it says that it is still the same one."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from gateway.core.counters import Counters, parse_counters

if TYPE_CHECKING:
    from collections.abc import Mapping


_CACHE: Final = re.compile(r"^vllm:cache_config_info\{(.*)\}", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_CACHE_SETTINGS: Final = (
    "block_size", "cache_dtype", "enable_prefix_caching", "gpu_memory_utilization",
)  # fmt: skip
"""Labels that say how a cache was set up; others, such as its size, follow from what memory was free."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What a server shows of itself; None where it did not answer, which says nothing.

    Attributes:
        version: Of vLLM.
        models: Context lengths by model name, None where it does not say; adapters are left out, as they come
            and go while it runs. Empty if it did not answer.
        counters: Of its metrics.
        system_fingerprint: As in its answers, if they have one; it differs with the configuration.
        tells_acceptance: Whether its answers hold the acceptance of the request.
        cache: How its cache was set up, as its metrics say it.
    """

    version: str | None = None
    models: Mapping[str, int | None] = field(default_factory=dict)
    counters: Counters | None = None
    system_fingerprint: str | None = None
    tells_acceptance: bool | None = None
    cache: Mapping[str, str] = field(default_factory=dict)

    @property
    def draft_tokens(self) -> int | None:
        """N: each place in a draft has its own counter. None where its metrics do not tell."""
        if self.counters is None or not self.counters.whole:
            return None
        return len(self.counters.by_position)

    @property
    def identity(self) -> dict[str, object]:
        """What it answered of what changes only when it is started anew, by what it is.

        Settings of a method beyond N are in none of it: a restart with others shows in the counters alone.
        """
        told = {
            "version": self.version,
            "models": tuple(sorted(self.models.items())) or None,
            "draft tokens": self.draft_tokens,
            "system fingerprint": self.system_fingerprint,
            "cache": tuple(sorted(self.cache.items())) or None,
        }
        return {name: value for name, value in told.items() if value is not None}

    @property
    def fingerprint(self) -> str:
        """Twelve hex digits for what it answered; with all of it, another one is another server."""
        return digest(self.identity)


def digest(identity: Mapping[str, object]) -> str:
    """Twelve hex digits for an :attr:`Observed.identity`."""
    return sha256(repr(sorted(identity.items())).encode()).hexdigest()[:12]


def read(version: Any, models: Any, page: bytes | None, answer: Any, at: float) -> Observed:  # noqa: ANN401 - JSON
    """What a server's answers say; what has an odd shape counts as not said.

    Args:
        version: Of ``/version``.
        models: Of ``/v1/models``.
        page: Of ``/metrics``.
        answer: To a completion.
        at: Monotonic seconds.
    """
    number = version.get("version") if isinstance(version, dict) else None
    signed: object = None
    told: bool | None = None
    if isinstance(answer, dict) and "error" not in answer:
        signed, metrics = answer.get("system_fingerprint"), answer.get("metrics")
        told = bool(isinstance(metrics, dict) and metrics.get("speculative_decoding"))
    return Observed(
        version=number if isinstance(number, str) and number else None,
        models=_models(models),
        counters=None if page is None else parse_counters(page, at),
        system_fingerprint=signed if isinstance(signed, str) and signed else None,
        tells_acceptance=told,
        cache={} if page is None else _cache(page),
    )


def _cache(page: bytes) -> dict[str, str]:
    info = _CACHE.search(page.decode(errors="replace"))
    return {name: value for name, value in _LABEL.findall(info[1]) if name in _CACHE_SETTINGS} if info else {}


def _models(answer: Any) -> dict[str, int | None]:  # noqa: ANN401 - JSON
    listed = answer.get("data") if isinstance(answer, dict) else None
    found: dict[str, int | None] = {}
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict) and isinstance(name := one.get("id"), str) and not one.get("parent"):
            length = one.get("max_model_len")
            found[name] = length if isinstance(length, int) and not isinstance(length, bool) else None
    return found
