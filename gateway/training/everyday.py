"""Everyday requests in the usual forms: how something is asked says nothing of a label of one's own.

A few dozen examples of a label begin in a few ways ("What are the symptoms of …", "Write a query …"). Beside
requests of other topics that begin so, only the topic is left to tell them apart.
"""

from __future__ import annotations

from typing import Final

ABOUT: Final = (
    "What are the main {0}?",
    "What is the difference between {0} and {1}?",
    "What are the advantages and disadvantages of {0}? Give examples of each.",
    "What is the role of {0}, and how has it changed over time?",
    "How does {0} affect {1}? Compare and contrast the two.",
    "How is {0} made?",
    "How do I explain {0} to a child?",
    "Explain {0} to somebody without training.",
    "Describe the history of {0}.",
    "List ten facts about {0}.",
    "Is it safe to mix {0} and {1}?",
    "Can I learn {0} at the age of fifty?",
    "Which {0} would you consider for a beginner, and why?",
    "What should I do if I am bored of {0}?",
    "Write a letter to the newspaper about {0}.",
    "Draft an e-mail that invites colleagues to a talk on {0}.",
    "Summarise what is known about {0}.",
    "Give me tips for {0}.",
    "Does {0} make sense without {1}?",
    "How long does it take to get good at {0}?",
    "Why do people argue about {0}?",
    "Review my plan: first {0}, then {1}, and a break in between.",
    "My daughter has been interested in {0} for two weeks. What comes next?",
    "Who is responsible for {0} in a small town?",
    "What happens to {0} when the weather changes?",
    "Name the usual mistakes with {0} and what helps against them.",
    "What could be the reason that {0} has become so popular?",
    "I need a short text on {0} for our website.",
    "Translate into plain words what experts say on {0}.",
    "Show me how {0} and {1} belong together.",
)
"""Forms of requests on a topic, or on two."""

TOPICS: Final = (
    "classical music", "mountain hiking", "free trade", "bread baking", "impressionist painting",
    "solar power", "football", "the Roman Empire", "tomato growing", "quantum physics", "public transport",
    "chess openings", "film noir", "beekeeping", "wedding speeches", "space travel", "indoor plants",
    "folk tales", "cheese", "urban planning", "photography", "tea ceremonies", "electric cars",
    "ocean currents", "board games", "learning Portuguese", "furniture", "dog training", "social media",
    "medieval castles", "interviews for a job", "house prices",
)  # fmt: skip

PROGRAMS: Final = (
    "Write a Python function that {0}.",
    "How do I write a script that {0}?",
    "My program {0}, but it is slow. Any ideas?",
    "What is the shortest way in JavaScript to write something that {0}?",
    "Write a class in Java that {0}, with tests.",
    "Explain this error: my code {0} and then stops with an exception.",
)
"""Forms of requests for a program."""

TASKS: Final = (
    "sorts a list of names", "counts the words of a text", "adds a column of numbers",
    "groups photographs by date", "renames files in a folder", "finds the largest value of an array",
    "joins two lists", "reads a CSV file", "selects every third element", "removes duplicates from a list",
    "draws a chart of temperatures", "deletes old backups", "inserts a row into a spreadsheet",
    "shows the last ten lines of a log", "converts a date to another format",
    "calls a web service and keeps the answer",
)  # fmt: skip

_EACH: Final = 6


def requests() -> list[str]:
    """Every form with some topics, the same ones every time, so that each topic comes in several forms."""
    said = []
    for number, form in enumerate(ABOUT):
        for turn in range(_EACH):
            at = number * 5 + turn * 7
            said.append(form.format(TOPICS[at % len(TOPICS)], TOPICS[(at + 11) % len(TOPICS)]))
    for number, form in enumerate(PROGRAMS):
        said += [form.format(TASKS[(number * 3 + turn * 2) % len(TASKS)]) for turn in range(_EACH)]
    return said
