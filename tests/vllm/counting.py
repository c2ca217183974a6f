"""One set of requests through the gateway to one server, and what both counted of it: each by its own /metrics."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import httpx

from backends.measured import Run, Tally
from tests.vllm import chain
from tests.vllm.asking import ask, eventually

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backends.spec import LaunchSpec

_SAMPLE: Final = re.compile(r"^(\w[\w:]*)\{([^}]*)\} (\S+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')

GATEWAY: Final = {
    "tokens": "specroute_output_tokens_total",
    "steps": "specroute_speculation_steps_total",
    "drafted": "specroute_speculation_drafted_tokens_total",
    "accepted": "specroute_speculation_accepted_tokens_total",
    "by_position": "specroute_speculation_accepted_at_position_total",
}
"""What the gateway calls them."""

SERVER: Final = {
    "tokens": "vllm:generation_tokens_total",
    "steps": "vllm:spec_decode_num_drafts_total",
    "drafted": "vllm:spec_decode_num_draft_tokens_total",
    "accepted": "vllm:spec_decode_num_accepted_tokens_total",
    "by_position": "vllm:spec_decode_num_accepted_tokens_per_pos_total",
}
"""What vLLM calls them."""

BELIEFS: Final[dict[str, dict[str, Any]]] = {
    "draft-model": {},
    "eagle3": {},
    "medusa": {},
    "gemma4-mtp": {},
    "dspark": {},
    # These cannot err after as many tokens as the others.
    "eagle": {"believed": chain.mostly_right()},
    "mtp": {"believed": chain.mostly_right()},
    # Its second token and those after it are the first once more.
    "dflash": {"depth": 1},
}
"""How the drafts whose acceptance is known beforehand differ from the faulty one."""

CONCURRENT: Final = 8

Asked = dict[str, Any]


def requests() -> tuple[list[Asked], list[Asked]]:
    """The set: requests one after the other, and further ones all at once."""
    alone = [
        {"last": last, "endpoint": endpoint, "stream": stream}
        for last in (chain.LOOPING, chain.UNREPEATED, chain.MULTIBYTE)
        for endpoint in ("chat", "completions")
        for stream in (False, True)
    ]
    together = [
        {
            "last": chain.UNREPEATED + 31 * number,
            "stream": number % 2 == 0,
            "temperature": number % 3 / 2,
            "seed": number,
        }
        for number in range(2 * CONCURRENT)
    ]
    for number, one in enumerate([*alone, *together]):
        one["extra_body"] = {"ignore_eos": True}
        # So that the last step of many is cut short by the limit.
        one["max_tokens"] = 60 + number
    return alone, together


def samples(page: str, names: Mapping[str, str], backend: str = "") -> dict[str, Any]:
    """Totals by the fields of a tally; those that a page does not have are left out."""
    fields = {name: field for field, name in names.items()}
    found: dict[str, Any] = {}
    for name, labels, value in _SAMPLE.findall(page):
        told = dict(_LABEL.findall(labels))
        if name not in fields or (backend and told.get("backend") != backend):
            continue
        field = fields[name]
        if field == "by_position":
            places = found.setdefault(field, {})
            place = int(told["position"])
            places[place] = places.get(place, 0) + round(float(value))
        else:
            found[field] = found.get(field, 0) + round(float(value))
    return found


def tally(before: Mapping[str, Any], after: Mapping[str, Any]) -> Tally:
    """What was added between two looks."""
    grown: dict[str, Any] = {
        field: value - before.get(field, 0) for field, value in after.items() if field != "by_position"
    }
    earlier = before.get("by_position", {})
    places = sorted(after.get("by_position", {}).items())
    return Tally(
        **{"tokens": 0} | grown, by_position=tuple(value - earlier.get(place, 0) for place, value in places)
    )


def untold(page: str, backend: str) -> int:
    """Answers that the gateway found to tell no acceptance, on a server that drafts."""
    return sum(
        round(float(value))
        for name, labels, value in _SAMPLE.findall(page)
        if name == "specroute_speculation_requests_total"
        and {"backend": backend, "grade": "not_measured"}.items() <= dict(_LABEL.findall(labels)).items()
    )


def foreseen(spec: LaunchSpec, asked: Sequence[Asked]) -> Tally | None:
    """What a server counts of greedy requests that it gets one after the other; None where that is not known."""
    if spec.method not in BELIEFS:
        return None
    told = [
        chain.acceptance(one["last"], one["max_tokens"], spec.draft_tokens, **BELIEFS[spec.method])
        for one in asked
    ]
    return Tally(
        tokens=sum(one["max_tokens"] for one in asked),
        steps=sum(one.steps for one in told),
        drafted=sum(one.drafted for one in told),
        accepted=sum(one.accepted for one in told),
        by_position=tuple(
            sum(sum(one.histogram[place:]) for one in told) for place in range(1, spec.draft_tokens + 1)
        ),
    )


def count(gateway: str, spec: LaunchSpec, *, more: Sequence[Asked] = (), within: float = 20.0) -> Run:
    """Send the set and read both pages before and after.

    Args:
        gateway: Its address; its policy must allow a request to name its server.
        spec: The server, as it was started.
        more: Further requests, sent to the server past the gateway.
        within: Seconds that the two may take until they agree, or are taken to differ.

    Raises:
        RuntimeError: A request was not answered.
    """
    alone, together = requests()
    page = _page(gateway)
    before, silent = samples(page, GATEWAY, spec.name), untold(page, spec.name)
    theirs = samples(_page(spec.url), SERVER)

    def run() -> Run:
        page = _page(gateway)
        return Run(
            method=spec.method,
            draft_tokens=spec.draft_tokens,
            speculative=dict(spec.speculative),
            requests=len(alone) + len(together),
            untold=untold(page, spec.name) - silent,
            longest=max(one["max_tokens"] for one in [*alone, *together]),
            gateway=tally(before, samples(page, GATEWAY, spec.name)),
            server=tally(theirs, samples(_page(spec.url), SERVER)),
            known=known,
        )

    for one in alone:
        _send(gateway, spec.name, one)
    known = _known(spec, alone, theirs, within)
    with ThreadPoolExecutor(CONCURRENT) as pool:
        list(pool.map(lambda one: _send(gateway, spec.name, one), together))
    for one in more:
        _send(spec.url, "", one)
    wanted = sum(one["max_tokens"] for one in [*alone, *together, *more])
    # Both have counted all tokens at some time; whether the rest is the same then is the question.
    return eventually(
        run, lambda found: found.server.tokens >= wanted and not found.differences, within=within
    )


def _known(spec: LaunchSpec, asked: Sequence[Asked], before: Mapping[str, Any], within: float) -> bool | None:
    """Whether a server's counters grew by what was foreseen."""
    expected = foreseen(spec, asked)
    if expected is None:
        return None
    grown = eventually(
        lambda: tally(before, samples(_page(spec.url), SERVER)),
        lambda found: found == expected,
        within=within,
    )
    if grown != expected:
        print(f"  {spec.name}: foreseen {expected}, counted {grown}", flush=True)
    return grown == expected


def _send(url: str, backend: str, one: Asked) -> None:
    answer = ask(url, backend=backend, **one)
    if answer.status != 200 or b'"error"' in answer.body:
        raise RuntimeError(f"{backend or url}: {one} was answered {answer.status} {answer.body[:300]!r}")


def _page(url: str) -> str:
    return httpx.get(f"{url}/metrics", timeout=30, trust_env=False).text
