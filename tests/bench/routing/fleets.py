"""The fleets of the yardstick: which configurations stand side by side."""

from functools import lru_cache

from backends.fleetsim import catalogue
from backends.fleetsim import model as models

G26 = "google/gemma-4-26B-A4B-it"
G31 = "google/gemma-4-31B-it"
Q8 = "Qwen/Qwen3-8B"
K25 = "moonshotai/Kimi-K2.5"
V4 = catalogue.DEEPSEEK
TARGETS = {"G26": G26, "G31": G31, "Q8": Q8, "K25": K25, "V4": V4}

# No speculation, the best of the autoregressive drafts, and the best of the block drafts.
ONE_OF_EACH = {
    "G26": (("none", 0), ("gemma4-mtp", 5), ("eagle3", 4), ("dflash", 7)),
    "G31": (("none", 0), ("gemma4-mtp", 4), ("dflash", 7), ("dspark", 7)),
    "Q8": (("none", 0), ("eagle3", 5), ("dflash", 7), ("dspark", 7)),
    "K25": (("none", 0), ("eagle3", 4), ("dflash", 3), ("dflash", 7)),
    "V4": (("none", 0), ("dspark", 1), ("dspark", 3), ("dspark", 6)),
}
MIXED_N = {
    "G26": tuple(("dflash", n) for n in (3, 7, 11, 15)),
    "G31": tuple(("dflash", n) for n in (3, 7, 11, 15)),
    "Q8": tuple(("dspark", n) for n in (3, 7, 11, 15)),
    "K25": tuple(("dflash", n) for n in (3, 7, 11, 15)),
    "V4": tuple(("dspark", n) for n in (1, 3, 5, 7)),
}
FLEETS = {"one of each": ONE_OF_EACH, "mixed N": MIXED_N}


@lru_cache(maxsize=256)
def engine(target, method, draft_tokens):
    return catalogue.engine(TARGETS[target], method, draft_tokens)


def fleet(kind, target, times=1):
    """Models of a fleet; with ``times`` copies of each."""
    return [engine(target, *which) for _ in range(times) for which in FLEETS[kind][target]]


def published(target):
    """Every configuration of a target that was published, the baseline first."""
    found = catalogue.configurations(TARGETS[target])
    return [models.of(one) for one in found if one.method not in {"ngram", "suffix"}]


BEST = {
    "G26": ("gemma4-mtp", 5),
    "G31": ("dflash", 7),
    "Q8": ("dspark", 7),
    "K25": ("dflash", 7),
    "V4": ("dspark", 3),
}
"""One good configuration of each target, for fleets of one kind."""

GRAPH_TOKENS = 512
CLIFF = 1.4
"""Beyond the largest captured graph a step takes so much longer; the published cliff is far higher still."""


def held_out(kind, target):
    """The same fleets on engines whose form no learner assumes: a measured table, staircases, cliffs, adaptive N."""
    if target == "V4":
        return [catalogue.as_measured(n, name=f"v4-{n}") for _, n in FLEETS[kind]["V4"]]
    made = [models.with_cliff(one, GRAPH_TOKENS, CLIFF) for one in fleet(kind, target)]
    draft = max(made, key=lambda one: one.draft_tokens)
    at = made.index(draft)
    method = draft.method
    shorter = min(
        (n for m, n in _lengths(target) if m == method and n < draft.draft_tokens), default=draft.draft_tokens
    )
    none = engine(target, "none", 0)
    parts = ((24, draft), (96, engine(target, method, shorter)), (256, none))
    made[at] = models.adaptive(parts, name=f"{method}-adaptive")
    return made


def _lengths(target):
    return [(one.method, one.draft_tokens) for one in catalogue.configurations(TARGETS[target])]


def domain(target):
    """Two servers whose draft was trained for code, two for everything else: +20 % accepted at home, -35 % away."""
    base = engine(target, *BEST[target])
    one = ("code",)
    others = ("math", "chat", "tool_use", "multilingual", "grounded")
    home, away = 1.2, 0.65
    x = models.with_acceptance(base, dict.fromkeys(one, home) | dict.fromkeys(others, away), name="domain-x")
    y = models.with_acceptance(base, dict.fromkeys(one, away) | dict.fromkeys(others, home), name="domain-y")
    return [x, x, y, y]


def lookup(target):
    """Two servers that look drafts up in the prompt, two with a draft model."""
    draft = ("gemma4-mtp", 4) if target == "G31" else BEST[target]
    return [engine(target, "ngram", 8)] * 2 + [engine(target, *draft)] * 2


def build(spec):
    """The models that a cell's fleet stands for.

    Args:
        spec: ``[kind, target, times]`` for the fleets above, and for single purposes ``["held-out", kind,
            target]``, ``["domain", target]``, ``["lookup", target]``, ``["best", target, count]``,
            ``["refusing", target]``, ``["hardware", target]``, ``["sick", target]``, or ``["named", target,
            [[method, N], ...]]``.
    """
    kind, *rest = spec
    if kind == "held-out":
        return held_out(*rest)
    if kind in {"domain", "lookup"}:
        return {"domain": domain, "lookup": lookup}[kind](*rest)
    target = rest[0]
    best = engine(target, *BEST[target])
    if kind == "best":
        return [best] * rest[1]
    if kind == "refusing":
        return [engine(target, "none", 0)] + [best] * 3
    if kind == "hardware":
        return [best, best, *[models.scaled(best, 0.6, name="fast")] * 2]
    if kind == "sick":
        return [models.scaled(best, 2.5, name="sick"), best, best, best]
    if kind == "named":
        return [engine(target, *which) for which in rest[1]]
    return fleet(kind, *rest)
