"""What was run on real engines, as backends/evidence keeps it."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

from pydantic import Field

from backends.data_files import Data
from backends.versions import release

Model = TypeVar("Model", bound=Data)


class Tally(Data):
    """What one side counted over a set of requests.

    Attributes:
        tokens: Of the answers.
        steps: Verification steps with a draft; None where nothing counts drafts, which is not zero.
        drafted: Draft tokens proposed.
        accepted: Draft tokens accepted.
        by_position: Those by their place in the draft.
    """

    tokens: int
    steps: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    by_position: tuple[int, ...] = ()


def _numbers(tally: Tally) -> dict[str, int]:
    """Each number that a side has, by what it is."""
    single = tally.model_dump(exclude={"by_position"}, exclude_none=True)
    return single | {f"at {place}": number for place, number in enumerate(tally.by_position)}


class Run(Data):
    """One server, started from a launch spec and driven through the gateway.

    Attributes:
        speculative: Further keys of ``--speculative-config``.
        requests: In the set that both sides counted.
        untold: Of them, answers that should have told their acceptance and did not.
        longest: Most tokens in one of the answers.
        gateway: By the gateway's ``/metrics``.
        server: By the server's own.
        known: Whether the server counted of requests alone on it what was known beforehand; None where its
            checkpoint was not made to bring something certain.
    """

    method: str
    draft_tokens: int
    speculative: dict[str, Any] = Field(default_factory=dict)
    requests: int
    untold: int = 0
    longest: int
    gateway: Tally
    server: Tally
    known: bool | None = None

    @property
    def differences(self) -> tuple[str, ...]:
        """Every number that is not the same on both sides, in words."""
        ours, theirs = self.gateway.model_dump(), self.server.model_dump()
        return tuple(
            f"{name.replace('_', ' ')}: {ours[name]} in the gateway, {theirs[name]} in the server"
            for name in ours
            if ours[name] != theirs[name]
        )

    @property
    def explained(self) -> bool:
        """Whether all that differs can be of the answers that did not tell their acceptance."""
        ours, theirs = _numbers(self.gateway), _numbers(self.server)
        lacks = {name: theirs[name] - ours.get(name, 0) for name in theirs}
        # An answer's steps and accepted tokens are at most its tokens; its last step may go past its end.
        most = self.untold * (self.longest + self.draft_tokens)
        return (
            ours.keys() == theirs.keys()
            and lacks["tokens"] == 0
            and all(number >= 0 for number in lacks.values())
            and lacks.get("steps", 0) + lacks.get("accepted", 0) <= most
        )


class Evidence(Data):
    """What was run on one kind of engine, on one day.

    Attributes:
        version: Of vLLM.
        device: What it ran on.
        date: Day of the run, ISO 8601.
        command: What ran it.
        runs: By the server's name.
        parameters: What became of each request parameter, by the server's name.
        failures: Servers that did not start or serve, and why.
        note: What is different there, in a sentence.
    """

    version: str
    device: str
    date: str
    command: str
    runs: dict[str, Run]
    parameters: dict[str, dict[str, str]]
    failures: dict[str, str] = Field(default_factory=dict)
    note: str = ""

    @property
    def engine(self) -> str:
        """Version and device in words."""
        return f"vLLM {self.version} on {self.device}"


class RealText(Data):
    """Acceptance of prompt lookup on real text.

    Attributes:
        prompts: Of each workload.
        tokens: Of each answer at most.
        differing: Answers that were not those of the server without speculation.
        note: What else was seen.
        mean_accepted_length: Tokens of a step that had a draft, by method and workload.
        tokens_per_step: The same over all steps, those without a proposal included.
    """

    model: str
    prompts: int
    tokens: int
    differing: int
    answers: int
    mean_accepted_length: dict[str, dict[str, float]]
    tokens_per_step: dict[str, dict[str, float]]
    note: str


def _read(name: str, model: type[Model]) -> Model | None:
    entry = files("backends").joinpath("evidence", name)
    return model.model_validate(json.loads(entry.read_bytes())) if entry.is_file() else None


@cache
def evidence() -> tuple[Evidence, ...]:
    """What was run on each kind of engine."""
    found = (_read(name, Evidence) for name in ("cpu.json", "gpu.json"))
    return tuple(one for one in found if one is not None)


def compared_versions(method: str) -> tuple[str, ...]:
    """Versions of vLLM on which the gateway's counts of a method were those of the server, oldest first."""
    found = {
        one.version
        for one in evidence()
        if any(run.method == method and not run.differences for run in one.runs.values())
    }
    return tuple(sorted(found, key=lambda version: release(version) or ()))


def real_text() -> RealText | None:
    """What was measured on real text, if it was."""
    return _read("real-text.json", RealText)
