"""What an answer says: from its start, or from where a prompt of ids leaves off."""

from __future__ import annotations

import json
import math
import zlib
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final

from backends.sim import profiles, tokens
from backends.sim.fields import RefusalError
from backends.sim.look import look
from backends.sim.prompt import ANSWER, asked
from backends.sim.schema import example
from backends.sim.text import begun, compose, starts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backends.sim.call import Call
    from backends.sim.look import Kind
    from backends.sim.prompt import Prompt

_SURE: Final = 8  # tokens of an answer that no prompt ends with by chance


@dataclass(frozen=True, slots=True)
class Wording:
    """What an answer says.

    Attributes:
        kind: What it is about.
        tokens: Ids of the whole answer; one that was told not to end goes on as far as it is needed.
        said: How many of them the prompt ends with.
    """

    kind: Kind
    tokens: Sequence[int]
    said: int = 0


class Writer:
    """Words the answers to one call.

    An answer is a run of paragraphs: where it starts is drawn, how long it is follows from the prompt and
    the start. So both can be found again in a prompt that ends with a part of the answer, and a greedy
    answer goes on as if it had never stopped.

    Args:
        call: The request.
        aside: A workload label given beside the request.
        rng: Decides answers that neither seed nor greedy sampling decides.
    """

    def __init__(self, call: Call, aside: str | None, rng: Random) -> None:
        self._call = call
        self._aside = aside or call.aside
        self._rng = rng
        self._fixed = call.seed is not None or call.temperature <= 0

    def draws(self, text: str, choice: int) -> Random:
        """What decides the answer to a prompt: on every server the same for a seeded or greedy request."""
        if not self._fixed:
            return self._rng
        return Random(f"{self._call.seed} {choice} {_key(text)}")  # noqa: S311 - not for secrets

    def word(self, prompt: Prompt, limit: int, choice: int) -> Wording:
        """The answer of one choice.

        Args:
            prompt: What it answers.
            limit: Tokens that will be generated at most.
            choice: Number of the choice among those of its prompt.

        Raises:
            RefusalError: A schema in the request is none.
        """
        if self._call.format in ("json_object", "json_schema"):
            return self._structured(prompt)
        if not self._call.chat and (found := self._begun(prompt.ids(), limit)):
            return found
        kind = look(asked(prompt.text), self._aside)
        start = self.draws(prompt.text, choice).randrange(starts(kind))
        return Wording(kind, self._written(prompt.text, kind, start, limit))

    def _begun(self, ids: Sequence[int], limit: int) -> Wording | None:
        """The answer that a prompt ends with a part of.

        The earliest place that it may begin at is the right one: had it begun later, then what came before
        would itself have been gone on with from the earlier place.
        """
        special = (at for at in range(len(ids), 0, -1) if ids[at - 1] < len(tokens.SPECIAL))
        for at in range(next(special, 0), len(ids)):
            if not (candidates := begun(ids, at)):
                continue
            said = len(ids) - at
            text = tokens.decode(ids[:at])
            own = look(asked(text), self._aside)
            drawn = (own, self.draws(text, 0).randrange(starts(own))) if self._fixed else None
            if said < _SURE and not text.endswith(ANSWER):
                candidates = [candidate for candidate in candidates if candidate == drawn]
            for kind, start in sorted(candidates, key=lambda one: (one != drawn, one[0] != own)):
                written = self._written(text, kind, start, said + limit)
                if len(written) > said:
                    return Wording(kind, written, said)
        return None

    def _written(self, text: str, kind: Kind, start: int, needed: int) -> list[int]:
        if self._call.ignore_eos:
            return compose(kind, start, needed, endless=True)
        draws = Random(f"{start} {_key(text)}")  # noqa: S311 - not for secrets
        return [*compose(kind, start, _length(kind, draws)), tokens.END_OF_TURN]

    def _structured(self, prompt: Prompt) -> Wording:
        """An answer in JSON, always the same one to a prompt; it goes on only after a conversation."""
        head, mark, rest = prompt.text.rpartition(ANSWER)
        if rest and mark:
            ids = prompt.ids()
            found = self._json(head + mark)
            said = len(ids) - len(tokens.encode(head + mark))
            if 0 < said < len(found.tokens) and list(found.tokens[:said]) == list(ids[-said:]):
                return Wording(found.kind, found.tokens, said)
        return self._json(prompt.text)

    def _json(self, text: str) -> Wording:
        value = structured(self._call.schema, Random(_key(text))) or {  # noqa: S311 - not for secrets
            "title": "Weekly review",
            "items": ["north entrance", "blue kettle"],
        }
        ids = tokens.encode(json.dumps(value, ensure_ascii=False, indent=2))
        end = () if self._call.ignore_eos else (tokens.END_OF_TURN,)
        return Wording(look(asked(text), self._aside), (*ids, *end))


def structured(schema: object, rng: Random) -> Any:  # noqa: ANN401 - a JSON value
    """A value that satisfies a schema.

    Raises:
        RefusalError: The schema is none.
    """
    try:
        return example(schema, rng)
    except ValueError as error:
        raise RefusalError(str(error)) from error


def _key(text: str) -> int:
    return zlib.crc32(text.encode())


def _length(kind: Kind, rng: Random) -> int:
    """Tokens of an answer, drawn from the lognormal lengths of its workload."""
    lengths = profiles.lengths(kind.workload)
    variance = math.log1p(lengths.variation**2)
    return round(rng.lognormvariate(math.log(lengths.output) - variance / 2, math.sqrt(variance)))
