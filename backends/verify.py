"""Looks at a running server from outside: is it what its spec says, and is it still the same one?"""

from __future__ import annotations

import asyncio
import os
import re
from typing import TYPE_CHECKING, Any, Final, Self

import anyio
import httpx

from backends.measured import compared_versions
from backends.observed import digest, read
from backends.preflight.adaptive import check_answers
from backends.preflight.finding import Finding
from backends.preflight.schedule import KEY as SCHEDULE
from backends.reach import UnreadableCertificateError, client
from backends.render import REQUEST_METRICS_SINCE
from backends.versions import at_least, release
from gateway.core.counters import restarted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from backends.observed import Observed
    from backends.spec import LaunchSpec
    from gateway.core.counters import Counters

PROBE_TOKENS: Final = 8
"""Length of the answer that is asked for: long enough for a step with a draft."""

_VARIABLE: Final = ("ngram", "suffix")
"""Methods whose drafts are as long as what they find."""

_ALL_TELL_SINCE: Final = "0.32.0"
"""Before it, a stream whose last two pieces are put into one does not tell its acceptance."""

_IMAGE_VERSION: Final = re.compile(r":v?(\d+\.\d+\.\d+)[^/]*$")
"""Version of vLLM that the tag of an image names."""


class Verifier:
    """Compares servers with their specs. Use as an async context manager."""

    def __init__(
        self,
        *,
        launched: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 30.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Prepare to look at servers.

        Args:
            launched: Version of the vLLM that they were started with; None if it is not known.
            env: Environment that holds their keys; that of this process if left out.
            timeout: Seconds for one call.
            transport: Of the calls, if not the usual one.
        """
        self._env = os.environ if env is None else env
        self._timeout = timeout
        self._transport = transport
        self._launched = launched
        self._clients: dict[str, httpx.AsyncClient] = {}
        self._seen: dict[str, dict[str, object]] = {}
        self._counted: dict[str, Counters] = {}

    async def __aenter__(self) -> Self:
        """Open nothing yet: there is one client for each server."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the clients."""
        for one in self._clients.values():
            await one.aclose()

    def _client(self, spec: LaunchSpec) -> httpx.AsyncClient:
        # The key and the certificate are each server's own.
        known = self._clients.get(spec.name)
        if known is None:
            key = self._env.get(spec.api_key_env or "")
            known = client(key=key, certificate=spec.certificate, transport=self._transport)
            self._clients[spec.name] = known
        return known

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
        """What is not as the spec says, and whether the server was started anew since the last look.

        What a server does not answer this time is as it was: only what it answers can tell of a restart.
        """
        observed = await self.observe(spec)
        findings = [*compare(spec, observed), *_launched(spec, observed, self._launched)]
        before, now = self._seen.get(spec.name, {}), observed.identity
        if others := sorted(name for name in before.keys() & now.keys() if before[name] != now[name]):
            findings.append(_another(spec, others, digest(before), digest(before | now)))
        elif self._restarted(spec.name, observed.counters):
            findings.append(_started_anew(spec, digest(before | now)))
        if observed.counters is not None and observed.counters.whole:
            self._counted[spec.name] = observed.counters
        # After a restart, what it has not answered yet is unknown.
        self._seen[spec.name] = now if others else before | now
        return findings

    def _restarted(self, name: str, counters: Counters | None) -> bool:
        before = self._counted.get(name)
        return before is not None and counters is not None and restarted(before, counters)

    async def _get(self, spec: LaunchSpec, path: str) -> bytes | None:
        return await self._answer(spec, "GET", path)

    async def _json(self, spec: LaunchSpec, path: str) -> Any:  # noqa: ANN401 - JSON
        return _parsed(await self._get(spec, path))

    async def _probe(self, spec: LaunchSpec) -> Any:  # noqa: ANN401 - JSON
        body = {"model": spec.served_model, "prompt": "1 2 3", "max_tokens": PROBE_TOKENS, "temperature": 0}
        return _parsed(await self._answer(spec, "POST", "/v1/completions", body))

    async def _answer(self, spec: LaunchSpec, verb: str, path: str, body: object = None) -> bytes | None:
        """What is answered with 200."""
        try:
            with anyio.fail_after(self._timeout):
                response = await self._client(spec).request(verb, f"{spec.url}{path}", json=body)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, UnreadableCertificateError):
            return None
        return response.content if response.status_code == httpx.codes.OK else None


def _parsed(content: bytes | None) -> Any:  # noqa: ANN401 - JSON
    try:
        return None if content is None else httpx.Response(200, content=content).json()
    except (ValueError, RecursionError):
        return None


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
    return [*findings, *_version(spec, observed), *_speculation(spec, observed)]


def _version(spec: LaunchSpec, observed: Observed) -> Iterator[Finding]:
    version = observed.version
    if version is None or release(version) is None:
        return
    known = [(spec.method, spec.known.since.version)]
    if spec.known.adaptive is not None and spec.adaptive:
        known.append(("adaptive verification", spec.known.adaptive.since))
    for what, since in known:
        if not at_least(version, since):
            wrong = f"it is vLLM {version}, and {what} is known from {since} on"
            yield Finding(spec.name, wrong, f"use vLLM {since} or newer", warning=True)
    yield from check_answers(spec, version)
    named = _IMAGE_VERSION.search(spec.image or "")
    if named and release(named[1]) != release(version):
        wrong = f"it is vLLM {version} and its image is of {named[1]}"
        yield Finding(spec.name, wrong, "start it from its image, or name the one it runs")
    compared = compared_versions(spec.method)
    if compared and not at_least(compared[-1], version):
        tried = ", ".join(compared)
        wrong = f"it is vLLM {version}, newer than any whose counts were compared with ours ({tried})"
        right = "see whether specroute_backend_counters_mismatch stays near 0"
        yield Finding(spec.name, wrong, right, warning=True)


def _launched(spec: LaunchSpec, observed: Observed, launched: str | None) -> Iterator[Finding]:
    version = observed.version
    numbers = release(version or ""), release(launched or "")
    if None not in numbers and numbers[0] != numbers[1]:
        wrong = f"it is vLLM {version} and {launched} was started"
        yield Finding(spec.name, wrong, "see whether another server has its port")


def _another(spec: LaunchSpec, others: list[str], before: str, now: str) -> Finding:
    changed = " and ".join(filter(None, [", ".join(others[:-1]), others[-1]]))
    wrong = f"it was started anew with something else: its {changed} changed ({before} became {now})"
    return Finding(spec.name, wrong, "what was measured before does not count for it", warning=True)


def _started_anew(spec: LaunchSpec, shown: str) -> Finding:
    alike = f"shows the same as before ({shown}), as it does with other settings of its method"
    right = "what was measured before counts only if it was started as before"
    return Finding(spec.name, f"it was started anew and {alike}", right, warning=True)


def _speculation(spec: LaunchSpec, observed: Observed) -> Iterator[Finding]:
    counters = observed.counters
    if counters is None:
        yield Finding(spec.name, "it shows no metrics", "let the gateway reach /metrics")
    elif counters.generated is None:
        wrong = "its /metrics has no counters of vLLM"
        yield Finding(spec.name, wrong, "start it without --disable-log-stats")
    elif not counters.whole:
        wrong = "its /metrics has some counters of drafts and lacks others"
        yield Finding(spec.name, wrong, "see whether something cuts the page short")
    elif counters.speculates != spec.speculates:
        wrong = "it counts drafts, so it speculates"
        if spec.speculates:
            wrong = "it counts no drafts, so it does not speculate"
        yield Finding(spec.name, wrong, f"start it as method {spec.method}, or change the fleet file")
    elif spec.speculates:
        yield from _drafts(spec, observed, counters)


def _drafts(spec: LaunchSpec, observed: Observed, counters: Counters) -> Iterator[Finding]:
    """Findings about a server that drafts, as it should."""
    if observed.draft_tokens != spec.draft_tokens:
        wrong = f"its drafts have {observed.draft_tokens} tokens and not {spec.draft_tokens}"
        right = f"write 'draft_tokens: {observed.draft_tokens}', or start it anew"
        yield Finding(spec.name, wrong, right)
    elif counters.drafts and counters.drafted is not None and _drafts_alike(spec):
        mean = counters.drafted / counters.drafts
        # The last draft of an answer that fills the context is cut short.
        if abs(mean - spec.draft_tokens) > 0.05 * spec.draft_tokens:
            wrong = f"its drafts have {mean:.2f} tokens on average and not always {spec.draft_tokens}"
            yield Finding(spec.name, wrong, "see whether it runs another method", warning=True)
    if observed.tells_acceptance is False:
        wrong = "its answers do not tell the acceptance of the request"
        right = "start it with --per-request-spec-decode-metrics summary"
        if observed.version is not None and not at_least(observed.version, REQUEST_METRICS_SINCE):
            wrong += f", and vLLM {observed.version} cannot"
            right = f"use vLLM {REQUEST_METRICS_SINCE} or newer"
        yield Finding(spec.name, wrong, right, warning=True)
    elif (
        observed.tells_acceptance
        and observed.version is not None
        and not at_least(observed.version, _ALL_TELL_SINCE)
    ):
        wrong = f"vLLM {observed.version} loses the acceptance of some streams"
        yield Finding(spec.name, wrong, f"use vLLM {_ALL_TELL_SINCE} or newer", warning=True)


def _drafts_alike(spec: LaunchSpec) -> bool:
    """Whether every draft is as long as N says."""
    return spec.method not in _VARIABLE and SCHEDULE not in spec.options and not spec.adaptive
