"""Looks at a running server from outside: is it what its spec says, and is it still the same one?"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Self

import httpx

from backends.methods import Rule
from backends.preflight.finding import Finding
from backends.preflight.schedule import KEY as SCHEDULE
from gateway.core.counters import Counters, parse_counters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backends.spec import LaunchSpec

PROBE_TOKENS: Final = 8
"""Length of the answer that is asked for: long enough for a step with a draft."""

_VARIABLE: Final = ("ngram", "suffix")
"""Methods whose drafts are as long as what they find."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What a server shows of itself.

    Attributes:
        version: Of vLLM; ``""`` if it does not say.
        models: Context lengths by model name, None where it does not say.
        counters: Of its metrics; None if it has none.
        system_fingerprint: As in its answers; it differs with the server's configuration.
        tells_acceptance: Whether its answers hold the acceptance of the request; None if it did not answer.
    """

    version: str = ""
    models: Mapping[str, int | None] = field(default_factory=dict)
    counters: Counters | None = None
    system_fingerprint: str = ""
    tells_acceptance: bool | None = None

    @property
    def draft_tokens(self) -> int:
        """N: each place in a draft has its own counter."""
        return len(self.counters.by_position) if self.counters else 0

    @property
    def fingerprint(self) -> str:
        """Twelve hex digits that change when the server is started anew with something else."""
        facts = (self.version, sorted(self.models.items()), self.draft_tokens, self.system_fingerprint)
        return sha256(repr(facts).encode()).hexdigest()[:12]


class Verifier:
    """Compares servers with their specs. Use as an async context manager."""

    def __init__(self, *, timeout: float = 30.0, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """Prepare to look at servers.

        Args:
            timeout: Seconds for one call.
            transport: Of the calls, if not the usual one.
        """
        self._client = httpx.AsyncClient(timeout=timeout, trust_env=False, transport=transport)
        self._seen: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        """Open the client."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the client."""
        await self._client.aclose()

    async def observe(self, spec: LaunchSpec) -> Observed:
        """Ask a server what it is; what it does not answer is left out."""
        version, models, page, answer = await asyncio.gather(
            self._json(spec, "/version"),
            self._json(spec, "/v1/models"),
            self._get(spec, "/metrics"),
            self._probe(spec),
        )
        return read(version, models, page, answer, asyncio.get_running_loop().time())

    async def verify(self, spec: LaunchSpec) -> list[Finding]:
        """What is not as the spec says, and whether the server is another one than at the last look."""
        observed = await self.observe(spec)
        findings = compare(spec, observed)
        before, now = self._seen.get(spec.name), observed.fingerprint
        if before is not None and before != now and observed.models:
            wrong = f"it was started anew with something else: {before} became {now}"
            findings.append(
                Finding(spec.name, wrong, "what was measured before does not count for it", warning=True)
            )
        if observed.models:
            self._seen[spec.name] = now
        return findings

    async def _get(self, spec: LaunchSpec, path: str) -> bytes | None:
        try:
            response = await self._client.get(f"{spec.url}{path}")
        except httpx.HTTPError:
            return None
        return response.content if response.status_code == httpx.codes.OK else None

    async def _json(self, spec: LaunchSpec, path: str) -> Any:  # noqa: ANN401 - JSON
        return _parsed(await self._get(spec, path))

    async def _probe(self, spec: LaunchSpec) -> Any:  # noqa: ANN401 - JSON
        body = {"model": spec.served_model, "prompt": "1 2 3", "max_tokens": PROBE_TOKENS, "temperature": 0}
        try:
            response = await self._client.post(f"{spec.url}/v1/completions", json=body)
        except httpx.HTTPError:
            return None
        return _parsed(response.content) if response.status_code == httpx.codes.OK else None


def _parsed(content: bytes | None) -> Any:  # noqa: ANN401 - JSON
    try:
        return None if content is None else httpx.Response(200, content=content).json()
    except ValueError:
        return None


def read(version: Any, models: Any, page: bytes | None, answer: Any, at: float) -> Observed:  # noqa: ANN401 - JSON
    """What a server's answers say; what has an odd shape counts as not said.

    Args:
        version: Of ``/version``.
        models: Of ``/v1/models``.
        page: Of ``/metrics``.
        answer: To a completion.
        at: Monotonic seconds.
    """
    listed = models.get("data") if isinstance(models, dict) else None
    answer = answer if isinstance(answer, dict) else {}
    metrics = answer.get("metrics")
    return Observed(
        version=str(version.get("version", "")) if isinstance(version, dict) else "",
        models={
            one["id"]: one.get("max_model_len")
            for one in (listed if isinstance(listed, list) else ())
            if isinstance(one, dict) and "id" in one
        },
        counters=None if page is None else parse_counters(page, at),
        system_fingerprint=str(answer.get("system_fingerprint") or ""),
        tells_acceptance=bool(isinstance(metrics, dict) and metrics.get("speculative_decoding"))
        if answer
        else None,
    )


def compare(spec: LaunchSpec, observed: Observed) -> list[Finding]:
    """What is not as the spec says.

    Nothing that a server shows names its method: it is taken from the spec and confirmed by behaviour.
    """
    if not observed.models:
        return [Finding(spec.name, f"{spec.url} does not list its models", "see its log, or start it again")]
    findings = []
    if spec.served_model not in observed.models:
        wrong = f"it serves {', '.join(observed.models)} and not {spec.served_model}"
        findings.append(Finding(spec.name, wrong, "start it with the served_model of the fleet file"))
    length = observed.models.get(spec.served_model)
    if spec.max_model_len is not None and length not in (None, spec.max_model_len):
        wrong = f"its context is {length} tokens and not {spec.max_model_len}"
        findings.append(Finding(spec.name, wrong, f"write 'max_model_len: {length}', or start it anew"))
    return findings + _speculation(spec, observed)


def _speculation(spec: LaunchSpec, observed: Observed) -> list[Finding]:
    counters = observed.counters
    if counters is None:
        return [Finding(spec.name, "it shows no metrics", "let the gateway reach /metrics")]
    if counters.speculates != spec.speculates:
        wrong = "it counts drafts, so it speculates"
        if spec.speculates:
            wrong = "it counts no drafts, so it does not speculate"
        return [Finding(spec.name, wrong, f"start it as method {spec.method}, or change the fleet file")]
    if not spec.speculates:
        return []
    findings = []
    if observed.draft_tokens != spec.draft_tokens:
        wrong = f"its drafts have {observed.draft_tokens} tokens and not {spec.draft_tokens}"
        right = f"write 'draft_tokens: {observed.draft_tokens}', or start it anew"
        findings.append(Finding(spec.name, wrong, right))
    elif counters.drafts and counters.drafted is not None:
        mean = counters.drafted / counters.drafts
        fixed = (
            spec.method not in _VARIABLE
            and spec.known.draft_tokens.rule is not Rule.NONE
            and SCHEDULE not in spec.speculative
            and not spec.speculative.get("enable_adaptive_verification")
        )
        # The last draft of an answer that fills the context is cut short.
        if fixed and abs(mean - spec.draft_tokens) > 0.05 * spec.draft_tokens:
            wrong = f"its drafts have {mean:.2f} tokens on average and not always {spec.draft_tokens}"
            findings.append(Finding(spec.name, wrong, "see whether it runs another method", warning=True))
    if observed.tells_acceptance is False:
        wrong = "its answers do not tell the acceptance of the request"
        right = "start it with --per-request-spec-decode-metrics summary"
        findings.append(Finding(spec.name, wrong, right, warning=True))
    return findings
