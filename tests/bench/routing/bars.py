"""The bars of the yardstick: which cells each looks at, and what it asks of them."""

from dataclasses import dataclass, replace
from functools import partial
from statistics import mean, median

from tests.bench.routing.conversations import RULES
from tests.bench.routing.fleets import TARGETS
from tests.bench.routing.peers import PEERS

DIGITS = 3
"""Decimals of a figure as it is shown, and as it is held against its bar."""

LEAST = ("least requests",)
LOADS = (4, 16, 32, 96)
ALL = tuple(TARGETS)


@dataclass(frozen=True)
class Bar:
    """One line of the table.

    Attributes:
        number: As in the yardstick.
        title: What it is about.
        cells: The jobs without policy and seed, by a name for the cell.
        policies: Policies that run on each cell.
        judge: From {cell: {policy: figures, a list over seeds}} to criteria.
        quick: Names of the cells that the quick run takes.
    """

    number: int
    title: str
    cells: dict
    policies: tuple
    judge: object
    quick: tuple = ()


@dataclass(frozen=True)
class Criterion:
    """One figure against its bar.

    Attributes:
        what: In words.
        value: Seen.
        least: Asked for; at most where ``at_most``.
        reach: To reach for; None where there is no such figure.
        cell: The cell that it is the worst of; empty for what is no single cell's.
        ceiling: What the fluid optimum would have there: no router can do much better. None where the figure is
            not over a peer's.
    """

    what: str
    value: float
    least: float
    reach: float | None = None
    at_most: bool = False
    cell: str = ""
    ceiling: float | None = None

    def meets(self, bound):
        shown = round(self.value, DIGITS)
        return shown <= bound if self.at_most else shown >= bound

    @property
    def met(self):
        return self.meets(self.least)


def over(figures, policy, key):
    """Mean over seeds of one policy's figure, in every cell that has it."""
    return {cell: mean(one[key] for one in runs[policy]) for cell, runs in figures.items() if policy in runs}


def ratios(figures, key, rivals, *, lower=False):
    """Learned over the best of the rivals, by cell; paired seeds."""
    found = {}
    for cell, runs in figures.items():
        known = [mean(one[key] for one in runs[rival]) for rival in rivals if rival in runs]
        if known and "learned" in runs:
            best = min(known) if lower else max(known)
            found[cell] = mean(one[key] for one in runs["learned"]) / best
    return found


def ceilings(figures, rivals):
    """What the optimum has over the best of the rivals, by cell, where shares of it were measured."""
    shares = {
        cell: [mean(one["share"] for one in runs[rival]) for rival in rivals if rival in runs and "share" in runs[rival][0]]
        for cell, runs in figures.items()
    }  # fmt: skip
    return {cell: 1.0 / max(known) for cell, known in shares.items() if known}


def least(what, values, bound, reach=None):
    """The worst of some cells' figures against a bound; nothing where no cell has told yet."""
    return [_of_worst(what, values, min, bound, reach)] if values else []


def least_ratio(what, values, bound, ceilings, reach=None):
    """The same of ratios to peers. Where the optimum itself is below the bound, it is measured against that."""
    beyond = {cell: value / ceilings[cell] for cell, value in values.items() if ceilings[cell] < bound}
    within = {cell: value for cell, value in values.items() if cell not in beyond}
    found = [
        *least(what, within, bound, reach),
        *least(f"{what}, of the ceiling where that is below the bar", beyond, NEARLY),
    ]
    return [replace(one, ceiling=ceilings[one.cell]) for one in found]


NEARLY = 0.99
"""Part of the optimum that is asked for where no router can meet the bar."""


def most(what, values, bound, reach=None):
    """The worst where the highest is it."""
    return [_of_worst(what, values, max, bound, reach)] if values else []


def _of_worst(what, values, worst, bound, reach):
    cell = worst(values, key=values.get)
    return Criterion(what, values[cell], bound, reach, worst is max, cell)


def half(what, values, bound, reach=None):
    """The same of their median."""
    return [Criterion(what, median(values.values()), bound, reach)] if values else []


def only(values, part):
    """Of cells with a word in their name."""
    return {cell: value for cell, value in values.items() if part in cell.split()}


def shares(middle, every, best_half, best_every, *, reach, reach_ratio):
    def judge(figures):
        share = over(figures, "learned", "share")
        ratio = ratios(figures, "tokens", PEERS)
        return [
            *half("share of the optimum, median", share, middle, reach),
            *least("share of the optimum, least", share, every),
            *least_ratio("x best peer, least", ratio, best_every, ceilings(figures, PEERS)),
            *half("x best peer, median", ratio, best_half, reach_ratio),
        ]

    return judge


def steady(mix, engines=False):
    cells = {}
    for target in ALL:
        for kind in ("one of each", "mixed N"):
            for load in LOADS:
                if engines:
                    spec = ("held-out", kind, target)
                    cells[f"{target} {kind} {load}"] = {
                        "kind": "closed",
                        "fleet": spec,
                        "mix": mix,
                        "load": load,
                    }
                    continue
                for times in (1, 2):
                    cells[f"{target} {kind} x{4 * times} {load}"] = {
                        "kind": "closed", "fleet": (kind, target, times), "mix": mix, "load": load,
                    }  # fmt: skip
    return cells


def quick_steady(engines=False):
    size = "" if engines else "x4 "
    return tuple(
        f"{target} {kind} {size}{load}"
        for target, kind, load in (
            ("G26", "one of each", 16), ("Q8", "one of each", 32), ("V4", "mixed N", 4), ("G31", "mixed N", 32),
        )
    )  # fmt: skip


def one_of_each(target, engines):
    return ("held-out", "one of each", target) if engines else ("one of each", target, 1)


def open_cells(engines=False):
    return {
        f"{target} {load:.0%}": {
            "kind": "open",
            "fleet": one_of_each(target, engines),
            "mix": "chat70",
            "load": load,
        }
        for target in ALL
        for load in (0.1, 0.3, 0.6, 0.85)
    }


def judge_open(figures, slack=0.0):
    value = over(figures, "learned", "mean")
    ratio = ratios(figures, "mean", PEERS, lower=True)
    tail = ratios(figures, "p99", PEERS, lower=True)
    return [
        *most("mean completion / R*, most", value, 1.08 + slack, 1.04 + slack),
        *most("mean x best peer, most", ratio, 1.02 + slack),
        Criterion("mean x best peer, median", median(ratio.values()), 0.95 + slack, at_most=True),
        *most("p99 x best peer, most", tail, 1.10 + slack),
        Criterion("p99 x best peer, median", median(tail.values()), 1.00 + slack, at_most=True),
    ]


def homogeneous():
    cells = {
        f"{target} {mix} {load}": {"kind": "closed", "fleet": ("best", target, 4), "mix": mix, "load": load}
        for target in ALL
        for mix in ("chat70", "equal")
        for load in LOADS
    }
    for target in ALL:
        cells[f"{target} says"] = {"kind": "advice", "fleet": ("best", target, 4), "mix": "equal", "load": 16}
    return cells


def judge_homogeneous(figures):
    measured = {cell: runs for cell, runs in figures.items() if "says" not in cell}
    ratio = ratios(measured, "tokens", LEAST)
    said = over({cell: runs for cell, runs in figures.items() if "says" in cell}, "learned", "routing")
    return [
        *least("x least requests, least", ratio, 0.98, 0.99),
        *half("x least requests, median", ratio, 0.98, 0.99),
        *most("gain of routing that the product claims, most", said, 0.02),
    ]


def advised():
    return {
        f"{target} {mix} {load}": {
            "kind": "advice", "fleet": ("one of each", target, 1), "mix": mix, "load": load,
        }
        for target in ALL
        for mix in ("chat70", "equal")
        for load in (8, 32)
    }  # fmt: skip


def judge_advised(figures):
    off, chosen = over(figures, "learned", "off"), over(figures, "learned", "of_best")
    gains, named = over(figures, "learned", "most"), over(figures, "learned", "named")
    worth = [named[cell] for cell in gains if gains[cell] > CLEAR]
    found = [
        *most("points between said and seen gain, most", off, 0.03, 0.02),
        *least("named configuration / best, least", chosen, 0.98),
    ]
    if worth:
        found.append(Criterion("consolidation named where it gains over 5 %, share", mean(worth), 1.0))
    return found


CLEAR = 0.05


def composing():
    return {
        f"{target} {mix} {load}": {
            "kind": "compose",
            "fleet": ("published", target),
            "mix": mix,
            "load": load,
        }
        for target in ALL
        for mix in ("chat70", "equal", "rag")
        for load in (4, 32)
    }


def judge_composing(figures):
    best, alone = over(figures, "learned", "of_best"), over(figures, "learned", "of_alone")
    return [
        *least("composed / best of one or two kinds, least", best, 0.98),
        *least("composed / best of one kind, least", alone, 0.99),
    ]


def lookups():
    return {
        f"{target} {load}": {"kind": "closed", "fleet": ("lookup", target), "mix": "rag", "load": load}
        for target in ("G31", "Q8", "K25")
        for load in (4, 8, 32)
    }


def judge_lookups(figures):
    share = over(figures, "learned", "share")
    ratio = ratios(figures, "tokens", LEAST)
    return [
        *least("share of the optimum, least", share, 0.95, 0.98),
        *least_ratio("x least requests, least", ratio, 1.20, ceilings(figures, LEAST), 1.28),
    ]


def domains():
    return {
        f"{target} {mix} {load}": {"kind": "closed", "fleet": ("domain", target), "mix": mix, "load": load}
        for target in ("G31", "G26", "K25")
        for mix in ("code60", "equal")
        for load in (8, 32)
    }


def judge_domains(figures):
    share = over(figures, "learned", "share")
    ratio, highest = ratios(figures, "tokens", PEERS), ceilings(figures, PEERS)
    return [
        *least("share of the optimum, least", share, 0.95, 0.98),
        *least_ratio("x best peer, equal, least", only(ratio, "equal"), 1.10, highest),
        *least_ratio("x best peer, code, least", only(ratio, "code60"), 1.00, highest),
    ]


def refusing():
    return {
        f"{target} {part:.0%} {load}": {
            "kind": "refused", "fleet": ("refusing", target), "mix": "chat70", "load": load, "refused": part,
        }
        for target in ("G31", "G26", "K25")
        for part in (0.02, 0.10, 0.30)
        for load in (8, 32)
    }  # fmt: skip


def judge_refusing(figures):
    share = over(figures, "learned", "share")
    ratio, highest = ratios(figures, "tokens", LEAST), ceilings(figures, LEAST)
    refused = over(figures, "learned", "refused")
    return [
        *most("answers with 400, most", refused, 0.0),
        *least("share of the optimum, least", share, 0.97, 0.985),
        *least_ratio("x least requests, 2%, least", only(ratio, "2%"), 1.02, highest),
        *least_ratio("x least requests, 10%, least", only(ratio, "10%"), 1.02, highest),
        *least_ratio("x least requests, 30%, least", only(ratio, "30%"), 0.98, highest),
    ]


def hardware():
    cells = {}
    for target in ("G31", "G26", "K25", "Q8"):
        for load in (8, 32):
            for kind in ("hardware", "sick"):
                cells[f"{target} {kind} {load}"] = {
                    "kind": "closed", "fleet": (kind, target), "mix": "chat70", "load": load,
                }  # fmt: skip
            cells[f"{target} turned-sick {load}"] = {
                "kind": "sickening", "fleet": ("best", target, 4), "mix": "chat70", "load": load,
            }  # fmt: skip
    return cells


def judge_hardware(figures):
    share = over(figures, "learned", "share")
    ratio, highest = ratios(figures, "tokens", LEAST), ceilings(figures, LEAST)
    steady_shares = {cell: value for cell, value in share.items() if "turned-sick" not in cell}
    return [
        *least("share of the optimum, least", steady_shares, 0.97, 0.99),
        *least_ratio("x least requests, mixed hardware, least", only(ratio, "hardware"), 1.01, highest),
        *least_ratio("x least requests, one sick, least", only(ratio, "sick"), 1.05, highest),
        *least("share 30 s after one fell sick, least", only(share, "turned-sick"), 0.95),
    ]


def moving(engines=False):
    cells = {
        f"{target} drift {load}": {
            "kind": "drift", "fleet": one_of_each(target, engines), "mixes": ("chat70", "code60"), "load": load,
        }
        for target in ALL
        for load in (8, 32)
    }  # fmt: skip
    cells["Q8 ramp 8–96"] = {
        "kind": "ramp", "fleet": one_of_each("Q8", engines), "mix": "chat70", "loads": (8, 96),
    }  # fmt: skip
    return cells


def judge_moving(figures, slack=0.0):
    share = over(figures, "learned", "share")
    ratio = ratios(figures, "tokens", PEERS)
    return [
        *least("share of the time-average optimum, least", share, 0.95 - slack, 0.98 - slack),
        *least_ratio("x best peer, least", ratio, 1.04 - slack, ceilings(figures, PEERS)),
    ]


def capacities():
    return {
        f"{target} {mix}": {"kind": "slo", "fleet": ("one of each", target, 1), "mix": mix}
        for target in ALL
        for mix in ("chat70", "equal")
    }


def judge_capacities(figures):
    ratio = ratios(figures, "rate", LEAST)
    against = ratios(figures, "rate", PEERS)
    return [
        *half("λ* x least requests, median", ratio, 1.15, 1.3),
        *least("λ* x best peer, least", against, 0.98),
    ]


CHAT_RATES = {"G31": 2.7, "G26": 3.4, "K25": 0.8, "V4": 2.8}
"""Chat requests a second: nine tenths of what the fastest server holds under its limit."""


def two_classes():
    cells = {}
    for target, rate in CHAT_RATES.items():
        for name, spec in (("homogeneous", ("best", target, 4)), ("mixed", ("one of each", target, 1))):
            cells[f"{target} {name}"] = {"kind": "classes", "fleet": spec, "chat_rate": rate}
    return cells


SPLITS = tuple(f"split {count}" for count in (1, 2, 3))
GREEDY = ("round robin", "least requests", "p2c peak ewma", "litellm latency")


def judge_classes(figures):
    return [
        *least("bulk x best peer without pools, least", ratios(figures, "bulk", GREEDY), 2.0),
        *least("bulk x best split by hand, least", ratios(figures, "bulk", SPLITS), 0.90, 0.97),
    ]


BARS = (
    Bar(
        1, "steady, diverse", steady("equal"), ("learned", *PEERS),
        shares(0.95, 0.93, 1.07, 1.03, reach=0.975, reach_ratio=1.12), quick_steady(),
    ),
    Bar(
        2, "steady, chat-heavy", steady("chat70"), ("learned", *PEERS),
        shares(0.97, 0.95, 1.03, 1.00, reach=0.985, reach_ratio=1.05), quick_steady(),
    ),
    Bar(
        3, "open loop, light to heavy", open_cells(), ("learned", *PEERS), judge_open,
        ("G26 10%", "G31 60%", "Q8 85%"),
    ),
    Bar(
        4, "homogeneous", homogeneous(), ("learned", "least requests"), judge_homogeneous,
        ("G31 chat70 4", "G26 equal 32", "G31 says"),
    ),
    Bar(
        5, "advice on one of each", advised(), ("learned",), judge_advised,
        ("G26 chat70 32", "Q8 chat70 8", "V4 equal 8"),
    ),
    Bar(6, "copy-heavy", lookups(), ("learned", "least requests"), judge_lookups, ("G31 8", "K25 8")),
    Bar(
        7, "domain drafts", domains(), ("learned", *PEERS), judge_domains,
        ("G31 code60 8", "G31 equal 8"),
    ),
    Bar(
        8, "refused parameters", refusing(), ("learned", "least requests"), judge_refusing,
        ("G31 2% 8", "G31 10% 8", "G31 30% 8"),
    ),
    Bar(
        9, "mixed hardware, sick server", hardware(), ("learned", "least requests"), judge_hardware,
        ("G31 hardware 8", "G31 sick 8", "G31 turned-sick 8"),
    ),
    Bar(
        10, "drifting mix, load ramp", moving(), ("learned", *PEERS), judge_moving,
        ("G31 drift 8", "Q8 ramp 8–96"),
    ),
    Bar(
        12, "two classes", two_classes(), ("learned", *GREEDY, *SPLITS), judge_classes, ("G31 homogeneous",),
    ),
    Bar(
        11, "capacity under limits, one class", capacities(), ("learned", *PEERS), judge_capacities,
        ("G31 chat70",),
    ),
    Bar(
        13, "fleet composed of what is known", composing(), ("learned",), judge_composing,
        ("K25 equal 32",),
    ),
)  # fmt: skip


def replays():
    """Logs of least requests with a share to the baseline, and of the learnt policy with little exploration."""
    one_of_each = {"kind": "replay", "fleet": ("one of each", "G31", 1), "mix": "equal"}
    return {
        f"G31 {load:.0%} {other}{f', {LITTLE} {by}' if by else ''}": {
            **one_of_each, "load": load, "other": other, **({"by": by} if by else {}),
        }
        for by, others in (
            ("", ("by workload", "least requests", "learned")),
            ("learned", ("by workload", "least requests")),
        )
        for load in (0.1, 0.3)
        for other in others
    }  # fmt: skip


def judge_replays(figures):
    off = over(figures, "learned", "off")
    seldom = {cell: value for cell, value in off.items() if LITTLE in cell}
    often = {cell: value for cell, value in off.items() if LITTLE not in cell}
    return [
        *least("truth inside the interval, least share", over(figures, "learned", "inside"), 0.9),
        *least("the same of the difference, least share", over(figures, "learned", "difference_inside"), 0.9),
        *most("off by, mean, most", often, 0.05),
        *most("off by where little was explored, mean, most", seldom, 0.10),
    ]


LITTLE = "log by"
"""In the names of cells whose log tells little of where the other policy sends requests."""


REPLAY = Bar(
    14, "estimates from a log", replays(), ("learned",), judge_replays,
    ("G31 10% by workload", "G31 30% learned"),
)  # fmt: skip
"""Not a bar of the yardstick: a demand on ``specroute replay``. Its 95 % interval is to hold the truth; ask for
``--bars 14 --seeds 100``."""


def talks():
    return {
        f"{target} {kind} {load}": {"kind": "talk", "fleet": spec, "mix": "chat70", "load": load}
        for target in ("G31", "G26", "K25")
        for kind, spec in (("alike", ("best", target, 4)), ("one of each", ("one of each", target, 1)))
        for load in (8, 32)
    }


def judge_talks(figures):
    ratio = ratios(figures, "tokens", RULES)
    return [
        *least("x best rule, least", ratio, 0.98, 1.0),
        *half("x best rule, median", ratio, 0.99, 1.02),
    ]


TALKS = Bar(
    15, "conversations and prefix caches", talks(), ("learned", *RULES), judge_talks, ("G31 one of each 8",)
)
"""Not a bar of the yardstick: rules that look at prefixes stand here, where there are some."""

SLACK = 0.02
"""Points by which a bar may be missed on engines whose form no learner assumes."""

HELD_OUT = (
    Bar(
        1, "steady, diverse, held-out engines", steady("equal", engines=True), ("learned", *PEERS),
        shares(0.93, 0.91, 1.05, 1.01, reach=0.95, reach_ratio=1.07), quick_steady(engines=True),
    ),
    Bar(
        2, "steady, chat-heavy, held-out engines", steady("chat70", engines=True), ("learned", *PEERS),
        shares(0.95, 0.93, 1.01, 0.98, reach=0.97, reach_ratio=1.03), quick_steady(engines=True),
    ),
    Bar(
        3, "open loop, held-out engines", open_cells(engines=True), ("learned", *PEERS),
        partial(judge_open, slack=SLACK), ("G31 60%",),
    ),
    Bar(
        10, "drift and ramp, held-out engines", moving(engines=True), ("learned", *PEERS),
        partial(judge_moving, slack=SLACK), ("G31 drift 8",),
    ),
)  # fmt: skip
