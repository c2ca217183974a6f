"""Writes docs/methods.md from the methods, the recipes and the evidence: ``python -m backends.reference``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from backends.faults import FAULTS
from backends.measured import evidence, real_text
from backends.methods import Platform, Rule, methods
from backends.preflight.schedule import KEY as SCHEDULE
from backends.recipes import recipes
from backends.reference_text import COMPARED, HEAD, LATENCY
from gateway.core.fleet import METHODS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from backends.measured import Evidence, RealText, Run
    from backends.methods import Method, Support

_RULES: Final = {
    Rule.NONE: "none",
    Rule.ANY: "1 or more",
    Rule.MULTIPLE: "up to the number of layers, or a multiple of it",
    Rule.HEADS: "the number of heads",
    Rule.BELOW_BLOCK: "block size less 1 at most",
    Rule.WITHIN_BLOCK: "block size at most",
}
_DRAFTS: Final = {"none": "no weights", "built_in": "in the target", "separate": "a checkpoint of its own"}
_PLATFORMS: Final[dict[Platform, str]] = {"rocm": "ROCm", "cuda": "CUDA", "cpu": "CPU"}
_SIGNS: Final = {"accepted": "yes", "refused": "**400**", "degraded": "*other answer*", "failed": "*fails*"}

ADAPTIVE: Final = "enable_adaptive_verification"


def markdown() -> str:
    """The whole page."""
    known = [methods()[name] for name in METHODS]
    run = evidence()
    parts = [
        HEAD,
        "## What is known\n\n" + _known(known),
        "## What was verified\n\n" + _verified(known, run),
        "## What was not run\n\n" + _not_run(known, run),
        "## Request parameters\n\n" + _parameters(run),
        "## Prompt lookup on real text\n\n" + _lookup(real_text()),
        "## What drafting takes\n\n" + LATENCY,
        "## Known faults\n\n" + _faults(known),
        "## Recipes\n\n" + _recipes(),
    ]
    return "\n".join(parts)


def _known(known: Iterable[Method]) -> str:
    rows = [
        ("Method", "What drafts", "Draft", "Legal N", "Begin, then sweep", "vLLM from", *_PLATFORMS.values())
    ]
    for one in known:
        tokens = one.draft_tokens
        sweep = f"{tokens.default}; {', '.join(map(str, tokens.sweep))}" if tokens.sweep else ""
        if tokens.rule is Rule.HEADS:
            sweep = "no choice"
        supports = [one.platforms[platform] for platform in _PLATFORMS]
        rows.append(
            (
                f"`{one.name}`", one.about, _DRAFTS[one.draft], _RULES[tokens.rule], sweep, one.since.version,
                *map(_support, supports),
            )
        )  # fmt: skip
    scheduled = _listed(one.name for one in known if one.schedule)
    adaptive = _listed(one.name for one in known if one.adaptive)
    note = (
        "The version is the earliest one known to have the method; where vLLM is at hand it is asked itself. "
        "N may follow the batch size (`num_speculative_tokens_per_batch_size`) with "
        f"{scheduled}, and adaptive verification (`enable_adaptive_verification`) is there with {adaptive}.\n"
    )
    return _table(rows) + "\n" + note


def _support(one: Support) -> str:
    said = "yes" if one.runs else "no"
    said += f", from {one.since}" if one.since else ""
    return said + (f" ({one.note})" if one.note else "")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _variants(method: Method) -> Iterator[tuple[str, str]]:
    """Ways to start a method, by the key of ``--speculative-config`` that tells them apart and in words."""
    yield "", f"`{method.name}`"
    if method.schedule:
        yield SCHEDULE, f"`{method.name}`, N by batch size"
    if method.adaptive:
        yield ADAPTIVE, f"`{method.name}`, adaptive verification"


def _variant(run: Run) -> str:
    return next((key for key in (SCHEDULE, ADAPTIVE) if key in run.speculative), "")


def _label(run: Run) -> str:
    return dict(_variants(methods()[run.method]))[_variant(run)]


def _verified(known: Sequence[Method], run: Sequence[Evidence]) -> str:
    rows = [("Method", *(one.engine for one in run), "ROCm")]
    for method in known:
        for key, label in _variants(method):
            cells = (_cell(one, method, key) for one in run)
            rows.append((label, *cells, "not run: no AMD GPU was at hand"))
    lines = [f"- {one.engine}: `{one.command}`, {one.date}. {one.note}".rstrip() for one in run]
    return f"{_table(rows)}\n{COMPARED}\n" + "".join(f"{line}\n" for line in lines) + "\n" + _counts(run)


def _cell(one: Evidence, method: Method, key: str) -> str:
    """What was seen of a method on an engine."""
    for name, run in one.runs.items():
        if (run.method, _variant(run)) == (method.name, key):
            if name in one.failures:
                return f"not verified: {one.failures[name]}"
            return f"started from our spec; {_outcome(run)}"
    if not key and method.name in one.failures:
        return f"not verified: {one.failures[method.name]}"
    support = method.platforms["cpu" if one.device == "CPU" else "cuda"]
    return "not run" + (f": {support.note}" if support.note and not support.runs else "")


def _outcome(run: Run) -> str:
    if not run.explained:
        return "our counts are NOT the server's, see below"
    if run.server.steps is None:
        return "no speculation counters on either side, as it should be; as many answer tokens"
    but = f", but for {run.untold} of {run.requests} answers that told none" if run.differences else ""
    known = ", and are those known beforehand" if run.known else ""
    return f"our counts equal the server's, by position{but}{known}"


def _counts(run: Iterable[Evidence]) -> str:
    """The numbers themselves."""
    head = "Engine|Method|N|Requests|Answer tokens|Steps|Drafted|Accepted|By position|In the gateway"
    rows = [tuple(head.split("|"))]
    for one in run:
        for it in one.runs.values():
            told = it.server
            counted = (told.steps, told.drafted, told.accepted, " / ".join(map(str, told.by_position)))
            numbers = (it.draft_tokens or None, it.requests, told.tokens, *counted)
            same = "; ".join(it.differences) or "the same"
            rows.append(
                (one.engine, _label(it), *("–" if n in (None, "") else str(n) for n in numbers), same)
            )
    return _table(rows)


def _not_run(known: Sequence[Method], run: Sequence[Evidence]) -> str:
    """What the table above has no engine for, in sentences."""
    rocm = (
        "- ROCm: no server of any method, for want of an AMD GPU. Flags, environment and N for AMD GPUs are "
        "those of the sources that the recipes name; the check and what is rendered were tested, a start was "
        "not."
    )
    targets = (
        "- The published targets: no recipe was started. What ran were small models made for the tests, and "
        "SmolLM2-135M for prompt lookup on real text."
    )
    served = {(it.method, _variant(it)) for one in run for it in one.runs.values()}
    never = [
        f"- {label}: on no engine at all. Its launch spec was checked and rendered only."
        for method in known
        for key, label in _variants(method)
        if (method.name, key) not in served
    ]
    alike = [
        f"- {_label(it)}, on {one.engine}: "
        + (
            "drafts are counted whole, but not all were verified."
            if it.known is False
            else "no draft was shortened."
        )
        for one in run
        for it in one.runs.values()
        if _variant(it) and it.server.drafted == it.draft_tokens * (it.server.steps or 0)
    ]
    return "".join(f"{line}\n" for line in (rocm, *never, *alike, targets))


def _parameters(run: Iterable[Evidence]) -> str:
    tables = [_matrix(one) for one in run if one.parameters]
    note = (
        "Where a server answers 400 the capability filter goes by `refuses` of its backend, which is that by "
        "default, and the request goes to one that takes it. *Other answer*: a greedy request is answered "
        "otherwise than by the server without speculation.\n"
    )
    return "\n".join([*tables, note]) if tables else "Not measured yet.\n"


def _matrix(one: Evidence) -> str:
    rows = [("Parameter", *(_label(one.runs[name]) for name in one.parameters))]
    rows += [
        (f"`{parameter}`", *(_SIGNS[told[parameter]] for told in one.parameters.values()))
        for parameter in next(iter(one.parameters.values()))
    ]
    return f"On {one.engine}:\n\n{_table(rows)}"


def _lookup(run: RealText | None) -> str:
    if run is None:
        return "Not measured yet.\n"
    workloads = list(next(iter(run.mean_accepted_length.values())))
    rows = [("", *workloads)]
    for method, lengths in run.mean_accepted_length.items():
        for what, found in (
            ("mean accepted length", lengths),
            ("tokens a step", run.tokens_per_step[method]),
        ):
            rows.append((f"`{method}`, {what}", *(f"{found[workload]:.2f}" for workload in workloads)))
    note = (
        f"{run.model}: {run.prompts} prompts a workload, {run.tokens} tokens at most. The mean accepted "
        "length is over steps that had a draft; where nothing was found to repeat, a step has none, so "
        "tokens a step are fewer. An existence proof: workload moves a real engine. No benchmark: a small "
        "model repeats itself. "
        f"{run.differing} of {run.answers} answers were not those of the server without speculation. "
        f"{run.note}\n"
    )
    return _table(rows) + "\n" + note


def _faults(known: Iterable[Method]) -> str:
    lines = [f"- `{one.name}`: {fault}" for one in known for fault in one.faults]
    lines += [f"- {one.build} {one.wrong}: {one.right}." for one in FAULTS]
    return "\n".join(lines) + "\n"


def _recipes() -> str:
    rows = [("Recipe", "Target", "Measured on", "GPUs a server", "Methods and N")]
    for one in recipes().values():
        variants = ", ".join(
            f"`{name}` {it.draft_tokens}" if it.draft_tokens else f"`{name}`"
            for name, it in one.methods.items()
        )
        rows.append((f"`{one.name}`", one.target, one.hardware.gpu, str(one.tensor_parallel), variants))
    sources = sorted({one.source for one in recipes().values()})
    note = (
        f"Parallelism, environment, flags and drafts are those of {', '.join(sources)}; N is the fastest of "
        "those measured there, by the geometric mean over its four data sets. Each file names the origin of "
        "each value.\n"
    )
    return _table(rows) + "\n" + note


def _table(rows: Iterable[tuple[str, ...]]) -> str:
    head, *body = rows
    lines = [head, ("---",) * len(head), *body]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    sys.stdout.write(markdown())
