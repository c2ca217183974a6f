"""How tools are offered, asked for and declined, and how a conversation goes on."""

from __future__ import annotations

import re
from typing import Final

# The use of a tool is asked for by name.
TOOL_ASKED: Final = re.compile(
    r"\b(?:use|using|with|via|through|call) (?:the |an? |your |my )?[\w ,'-]{0,40}\b(?:api|tools?|"
    r"plugin|database)\b"
)
# A message about the answer before it ...
_FOLLOWING: Final = """
it its this that instead also now again same line lines error errors add change modify extend handle version
faster shorter test tests comment comments
"""
FOLLOWS: Final = frozenset(_FOLLOWING.split())
# ... or away from it.
SWITCH: Final = re.compile(
    r"\b(?:unrelated|something else|another (?:question|topic|thing)|different (?:question|topic|thing)|"
    r"change of topic|by the way|new topic|switching|on a different note|forget (?:the|that)|thanks|"
    r"thank you|cheers)\b"
)
# The assistant asked for something that it needs.
ASKED_BACK: Final = re.compile(
    r"\b(?:please (?:provide|tell|give|specify|share|enter|confirm|let me know)\b|(?:need|"
    r"require) (?:your|the|a|some)\b)"
)
# Tools described as text, and how to call them.
TOOL_TEXT: Final = re.compile(
    r"\b(?:tool[ _]calls?\b|action input\b|function[ _]calls?\b|following (?:tools|functions|actions)\b|"
    r"(?:access to|call|use) (?:these|the following|any of the following) (?:tools|functions|apis)\b|"
    r"one action from the list\b)|<tools>|</tool|\"arguments\"|\"parameters\"\s*:\s*\{"
)
# Documents supplied in the system prompt.
CONTEXT: Final = re.compile(
    r"\b(?:supplied|provided|following|given|these|this|retrieved) (?:documents?|context|passages?|"
    r"sources?|articles?|text|information|excerpts?|knowledge)\b|^[^\w\n]*(?:documents?|context|passages?|"
    r"sources?)\s?\W",
    re.MULTILINE,
)
# Verbs with which somebody orders a deed rather than a text, and what else does.
DEEDS: Final = """
book order send set turn play schedule remind search lookup find fetch get check cancel add delete remove
update change create show call track put move reschedule tell let reserve buy convert retrieve list open
close start stop post pay transfer register upload download run log browse recommend generate apply locate
rent verify query provide need
"""
TOOL_ACTION: Final = re.compile(
    r"\b(?:look up|give me|looking for|help me|want to|can you|could you|use the|using the|am i)\b"
)
# Words that ask for text although tools are there, or forbid their use.
DECLINED: Final = re.compile(
    r"\b(?:do not|don't|dont|without|no need to|never) (?:run|running|use|using|call|calling|send|"
    r"sending|book|search|searching|execute|touch|touching|look|open|check|the tools?|any tools?)\b"
)
PLAIN_ORDER: Final = re.compile(
    r"\b(?:just (?:show|tell|explain|answer|guess)|what can you do|from memory|in your own words)\b"
)
THANKS: Final = re.compile(r"\W*(?:thanks|thank you|cheers|great|perfect|ok thanks)\b")
# Beginnings that ask for text.
PLAIN_REQUEST: Final = re.compile(
    r"^(?:please )?(?:explain|describe|why|write|compose|discuss|compare|what is the difference|"
    r"how does|how do|what are|imagine|pretend|tell me (?:a|about)|draft|brainstorm|translate|"
    r"summari[sz]e|prove|solve|implement|suggest|rewrite|paraphrase|what do you think|should i|is it|"
    r"who (?:was|is|were)|what was|what were|in what|which of|name )\b"
)
