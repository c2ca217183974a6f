"""Where an agent's loop of calls and results stands: whether the next turn is another call, or the answer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gateway.core.values import value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.core.features import Turn

_RESULT_CHARS: Final = 300
"""What is read of the beginning of the last result."""

_FAILED: Final = re.compile(
    r"\berror|\bfail|\bexception\b|\bnot found\b|\bno such\b|\bdenied\b|\binvalid\b|\btimed? ?out\b|"
    r"\bconflict\b|\bunavailable\b|\btraceback\b|\bunknown\b"
)
_DONE: Final = re.compile(
    r"\bok\b|\bsuccess|\b(?:sent|created|booked|confirmed|updated|deleted|done|completed?|scheduled|saved|added|"
    r"cancell?ed|passed|wrote|written|executed|closed|refunded|transferred|reserved|posted|removed|edited|"
    r"applied|merged|started|finished)\b"
)
_STEPS: Final = re.compile(
    r"\b(?:then|after(?:wards)?|once|if|unless|each|every|all|both|everywhere|until|also|first|"
    r"next|and (?:let|tell|send|book|save|add|create|check|fix|run|update|mail|email|post|notify|put|set|"
    r"open|close|report|file|order|pay|reply|make|switch|turn|move|write|delete|remove))\b"
)
_CHANGE: Final = re.compile(
    r"\b(?:fix|send|book|create|update|refactor|delete|remove|deploy|cancel|reply|answer|merge|rename|add|move|"
    r"replace|implement|save|order|reserve|schedule|reschedule|invite|assign|close|restart|migrate|install|"
    r"commit|turn|switch|set|pay|refund|transfer|reset|rollback|roll|bring|post|publish|upload|open|sign|"
    r"register|subscribe|buy|upgrade|write|make|change|enable|disable|plan|get us|get me)\b"
)


@value(frozen=True, slots=True)
class Loop:
    """What a request shows whose conversation holds calls; all but the first where it ends with a result.

    Attributes:
        turns: Calls and results in the whole conversation.
        results: Results since the last user message.
        failed: The last one says that something went wrong.
        done: It says that something was done.
        long: It is longer than is read of it.
        steps: The user asked for several steps.
        change: The user asked for something to be changed, not only to be told.
    """

    turns: int = 0
    results: int = 0
    failed: bool = False
    done: bool = False
    long: bool = False
    steps: bool = False
    change: bool = False


NOTHING: Final = Loop()


def read(turns: Sequence[Turn], since: Sequence[Turn], text: str) -> Loop:
    """Reads where the loop stands.

    Args:
        turns: All turns.
        since: Those after the last user message.
        text: What is read of that message, in lower case.
    """
    count = 0
    for turn in turns:
        count += turn.calls_tool or turn.role == "tool"
    if not count:
        return NOTHING
    if not since or since[-1].role != "tool":
        return Loop(count)
    result = since[-1].text[:_RESULT_CHARS].lower()
    return Loop(
        turns=count,
        results=sum(turn.role == "tool" for turn in since),
        failed=_FAILED.search(result) is not None,
        done=_DONE.search(result) is not None,
        long=since[-1].chars > _RESULT_CHARS,
        steps=_STEPS.search(text) is not None,
        change=_CHANGE.search(text) is not None,
    )
