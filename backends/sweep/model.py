"""The words of a sweep: what is compared, under which conditions, and what one request showed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

SHORT: Final = "short"
"""Prompts as they are; other lengths are named by their thousands of tokens, such as ``8k``."""

GREEDY: Final = "greedy"
SAMPLED: Final = "sampled"
SAMPLINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    GREEDY: {"temperature": 0.0},
    SAMPLED: {"temperature": 0.8, "seed": 7},
}
"""Sampling parameters by name."""


class Candidate(NamedTuple):
    """One configuration of a server: a method and its N, 0 for none."""

    method: str
    draft_tokens: int = 0

    @property
    def label(self) -> str:
        """Its name in files and reports, such as ``dflash-7``."""
        return f"{self.method}-{self.draft_tokens}" if self.draft_tokens else self.method

    @property
    def is_baseline(self) -> bool:
        """Whether it decodes without speculation."""
        return self.method == BASELINE.method

    @staticmethod
    def of(label: str) -> Candidate:
        """The candidate with a label.

        Raises:
            ValueError: It is no label.
        """
        method, _, number = label.rpartition("-")
        if number.isdecimal() and int(number) and method and method != BASELINE.method:
            return Candidate(method, int(number))
        if label == BASELINE.method:
            return BASELINE
        raise ValueError(f"{label!r} is no configuration; write a method and its draft tokens: dflash-7")


BASELINE: Final = Candidate("none")


class Work(NamedTuple):
    """A kind of requests; attributes as of :class:`Condition`."""

    workload: str
    prompt: str = SHORT
    sampling: str = GREEDY

    @property
    def is_plain(self) -> bool:
        """Whether prompts are as they are and answers greedy."""
        return self == Work(self.workload)

    @property
    def label(self) -> str:
        """Its name in reports; what is usual is left out."""
        words = [self.workload]
        words += [self.prompt] if self.prompt != SHORT else []
        words += [self.sampling] if self.sampling != GREEDY else []
        return " ".join(words)


class Condition(NamedTuple):
    """What the candidates are compared under.

    Attributes:
        workload: Whose prompts.
        concurrency: Requests that are always open.
        prompt: :data:`SHORT`, or the length that prompts are filled up to, such as ``8k``.
        sampling: One of :data:`SAMPLINGS`.
    """

    workload: str
    concurrency: int
    prompt: str = SHORT
    sampling: str = GREEDY

    @property
    def work(self) -> Work:
        """Of which kind its requests are."""
        return Work(self.workload, self.prompt, self.sampling)

    @property
    def label(self) -> str:
        """Its name in reports; what is usual is left out."""
        words = [self.workload, f"c{self.concurrency}"]
        words += [self.prompt] if self.prompt != SHORT else []
        words += [self.sampling] if self.sampling != GREEDY else []
        return " ".join(words)


class Cell(NamedTuple):
    """What is measured: a candidate under a condition."""

    candidate: Candidate
    condition: Condition


@dataclass(frozen=True, slots=True)
class Sample:
    """One request as the client saw it; times in seconds.

    Attributes:
        round: In which of the cell's rounds, from 0.
        prompt_id: Which prompt.
        measured: False for the requests that only bring the server up to its load, or keep it there.
        error: Why it failed; empty if it went well.
        seconds: From sending it to its end.
        ttft: To the first token; None if none came.
        decode_tokens: Tokens after the first event.
        decode_seconds: In which they came.
        steps: Verification steps with a draft; None where the server did not tell.
        drafted: Draft tokens proposed, of the same.
        accepted: Draft tokens accepted, of the same.
        histogram: Steps by number of accepted drafts, index 0 to N.
        digest: Of the text; empty unless greedy.
        finish: Finish reason.
    """

    cell: Cell
    round: int
    prompt_id: str
    measured: bool = True
    error: str = ""
    seconds: float = 0.0
    ttft: float | None = None
    prompt_tokens: int = 0
    output_tokens: int = 0
    decode_tokens: int = 0
    decode_seconds: float = 0.0
    steps: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    histogram: tuple[int, ...] = ()
    digest: str = ""
    finish: str = ""

    def as_json(self) -> dict[str, Any]:
        """It as a line of a file."""
        return {**cell_json(self.cell), **{k: v for k, v in asdict(self).items() if k != "cell"}}

    @staticmethod
    def from_json(line: Mapping[str, Any]) -> Sample:
        """What :meth:`as_json` wrote.

        Raises:
            KeyError: Something is missing.
            TypeError: There is something unknown.
            ValueError: A label is none.
        """
        rest = {key: value for key, value in line.items() if key not in _CELL_KEYS}
        return Sample(cell_of(line), **{**rest, "histogram": tuple(rest.get("histogram", ()))})


@dataclass(frozen=True, slots=True)
class Round:
    """One round of a cell that went to its end.

    Attributes:
        number: Which one, from 0.
        seconds: How long it took, everything included.
        drafts: Steps with a draft that the server counted meanwhile; None where its counters do not tell.
        drafted: Draft tokens, of the same.
        by_position: Accepted draft tokens by position, of the same.
        memory: MiB in use on the GPUs of the machine; None where no tool tells.
    """

    cell: Cell
    number: int
    seconds: float
    drafts: float | None = None
    drafted: float | None = None
    by_position: tuple[float, ...] = ()
    memory: float | None = None

    def as_json(self) -> dict[str, Any]:
        """It as a line of a file."""
        return {**cell_json(self.cell), **{k: v for k, v in asdict(self).items() if k != "cell"}}

    @staticmethod
    def from_json(line: Mapping[str, Any]) -> Round:
        """What :meth:`as_json` wrote; fails as :meth:`Sample.from_json` does."""
        rest = {key: value for key, value in line.items() if key not in _CELL_KEYS}
        return Round(cell_of(line), **{**rest, "by_position": tuple(rest.get("by_position", ()))})


_CELL_KEYS: Final = ("candidate", *Condition._fields)


def cell_json(cell: Cell) -> dict[str, Any]:
    """A cell as keys of a line."""
    return {"candidate": cell.candidate.label, **cell.condition._asdict()}


def cell_of(line: Mapping[str, Any]) -> Cell:
    """The cell that a line is about.

    Raises:
        KeyError: Something is missing.
        ValueError: The candidate's label is none.
    """
    condition = Condition(**{name: line[name] for name in Condition._fields})
    return Cell(Candidate.of(line["candidate"]), condition)
