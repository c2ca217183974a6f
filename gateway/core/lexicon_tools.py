"""How tools are offered, asked for and declined, and how a conversation goes on."""

from __future__ import annotations

import re
from typing import Final

from gateway.core.phrase import phrase

# The use of a tool is asked for by name.
TOOL_ASKED: Final = re.compile(
    r"\b(?:use|using|with|via|through|call) (?:the |an? |your |my )?[\w ,'-]{0,40}\b(?:api|tools?|plugin|"
    r"database)\b"
)
# A message about the answer before it ...
FOLLOWS: Final = re.compile(
    r"\b(?:it|its|this|that|instead|also|now|again|same|lines?|errors?|add|change|modify|extend|handle|"
    r"version|faster|shorter|tests?|comments?)\b"
)
# ... or away from it.
SWITCH: Final = re.compile(
    r"\b(?:unrelated|something else|another (?:question|topic|thing)|different (?:question|topic|thing)|"
    r"change of topic|by the way|new topic|switching|on a different note|forget (?:the|that)|thanks|"
    r"thank you|cheers)\b"
)
# The assistant asked for something that it needs.
ASKED_BACK: Final = re.compile(
    r"\?\s*$|\bplease (?:provide|tell|give|specify|share|enter|confirm|let me know)\b|\b(?:need|"
    r"require) (?:your|the|a|some)\b"
)
# Tools described as text, and how to call them.
TOOL_TEXT: Final = phrase(
    r"<tools>|</tool|\btool[ _]calls?\b|\baction input\b|\bfunction[ _]calls?\b|\"arguments\"|"
    r"\"parameters\"\s*:\s*\{|\bfollowing (?:tools|functions|actions)\b|\b(?:access to|call|"
    r"use) (?:these|"
    r"the following|any of the following) (?:tools|functions|apis)\b|\bone action from the list\b",
    "tools tool function functions action actions arguments parameters apis",
)
# Verbs with which somebody orders a deed rather than a text.
TOOL_ACTION: Final = re.compile(
    r"\b(?:book|order|send|set|turn|play|schedule|remind|search|look up|lookup|find|fetch|get|check|cancel|"
    r"add|delete|remove|update|change|create|show|call|track|"
    r"reserve|buy|convert|retrieve|list|open|close|start|stop|post|pay|transfer|register|upload|download|"
    r"run|log|browse|recommend|generate|apply|locate|rent|verify|query|provide|tell me|give me|need|"
    r"looking for|help me|want to|would like|can you|could you|use the|using the|am i)\b"
)
# Words that ask for text although tools are there, or forbid their use.
PLAIN_ORDER: Final = phrase(
    r"\b(?:do not|don't|dont|without|no need to|never) (?:run|running|use|using|call|calling|send|"
    r"sending|book|search|"
    r"searching|execute|touch|touching|look|open|check|the tools?|any tools?)\b|"
    r"\bjust (?:show|tell|explain|answer|guess)\b|"
    r"^\W*(?:thanks|thank you|cheers|great|perfect|ok thanks)\b|\bwhat can you do\b|\bfrom memory\b|"
    r"\bin your own words\b",
    "not don't don dont without need never just thanks thank cheers great perfect what from own",
)
# Beginnings that ask for text.
PLAIN_REQUEST: Final = re.compile(
    r"^(?:please )?(?:explain|describe|why|write|compose|discuss|compare|what is the difference|how does|"
    r"how do|what are|imagine|pretend|tell me (?:a|about)|draft|brainstorm|translate|summari[sz]e|prove|"
    r"solve|implement|suggest|rewrite|paraphrase|what do you think|should i|is it|who (?:was|is|were)|"
    r"what was|what were|in what|which of|name )\b"
)
