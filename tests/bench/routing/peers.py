"""Other gateways' routing rules, as far as their sources say, for comparison only."""

from collections import deque

import numpy as np

from backends.fleetsim.view import NOWHERE, Plain


class Random(Plain):
    """Any capable server."""

    def __init__(self, seed=0):
        self.random = np.random.default_rng(seed)

    def choose(self, request, view, now):
        able = view.capable(request)
        return able[int(self.random.random() * len(able))] if able else NOWHERE


class RoundRobin(Plain):
    """One after the other."""

    def __init__(self, seed=0):
        self.turn = -1

    def choose(self, request, view, now):
        able = view.capable(request)
        if not able:
            return NOWHERE
        self.turn += 1
        return able[self.turn % len(able)]


class LeastRequests(Plain):
    """Fewest open requests; ties by lot."""

    def __init__(self, seed=0):
        self.random = np.random.default_rng(seed)

    def choose(self, request, view, now):
        able = view.capable(request)
        if not able:
            return NOWHERE
        in_flight, lot = view.in_flight, self.random.random
        return min(able, key=lambda index: (in_flight[index], lot()))


class PeakEwma(Plain):
    """Power of two choices on latency (a peak-sensitive moving average) times open requests, as in tower."""

    decay = 10.0

    def __init__(self, seed=0):
        self.random = np.random.default_rng(seed)
        self.latency = {}

    def choose(self, request, view, now):
        able = view.capable(request)
        if not able:
            return NOWHERE
        first, second = self.random.random(2)
        one = int(first * len(able))
        other = (one + 1 + int(second * (len(able) - 1))) % len(able)
        pair = {able[one], able[other]}
        return min(pair, key=lambda index: self.cost(index, now) * (view.in_flight[index] + 1))

    def cost(self, index, now):
        value, at = self.latency.get(index, (0.03, now))
        return value * 2.0 ** (-(now - at) / (self.decay * 10.0))

    def ended(self, request, view, now):
        if request.first < 0:
            return
        seen = request.ended - request.sent
        value, at = self.latency.get(request.server, (seen, now))
        if seen < value:
            weight = 2.718281828 ** (-(now - at) / self.decay)
            seen = value * weight + seen * (1 - weight)
        self.latency[request.server] = seen, now


class LiteLlm(Plain):
    """Lowest mean of the last ten latencies a token, whatever the load; untried servers first."""

    def __init__(self, seed=0):
        self.random = np.random.default_rng(seed)
        self.last = {}

    def choose(self, request, view, now):
        able = view.capable(request)
        if not able:
            return NOWHERE
        lot = self.random.random
        return min(able, key=lambda index: (self.latency(index), lot()))

    def latency(self, index):
        seen = self.last.get(index)
        return sum(seen) / len(seen) if seen else 0.0

    def ended(self, request, view, now):
        if request.first >= 0:
            seen = self.last.setdefault(request.server, deque(maxlen=10))
            seen.append((request.ended - request.sent) / request.output_tokens)


class Table(Plain):
    """A list of servers by workload; fewest open requests among them.

    ``static table``: the configuration that is fastest for the workload at the calibration point.
    ``best pool``: the configuration that is fastest for the whole mix, for everything.
    """

    def __init__(self, table):
        self.table = table
        self.turn = 0

    def choose(self, request, view, now):
        able = view.capable(request)
        if not able:
            return NOWHERE
        named = [index for index in self.table[request.label] if index in able] or able
        self.turn += 1
        return min(
            named, key=lambda index: (view.in_flight[index], (index - self.turn) % len(view.in_flight))
        )


def speed(model, workload):
    """Tokens a second of one server at its calibration point."""
    batch = model.calibrated
    return batch * (1.0 + sum(model.survival(workload, batch))) / model.seconds[batch]


def static_table(models, mix):
    table = {}
    for workload in mix:
        most = max(speed(model, workload) for model in models)
        table[workload] = [i for i, m in enumerate(models) if speed(m, workload) >= most * (1 - 1e-9)]
    return Table(table)


def best_pool(models, mix):
    def overall(model):
        return 1.0 / sum(share / speed(model, workload) for workload, share in mix.items())

    most = max(overall(model) for model in models)
    best = [index for index, model in enumerate(models) if overall(model) >= most * (1 - 1e-9)]
    return Table(dict.fromkeys(mix, best))


class PrefixAware(Plain):
    """A conversation stays where it was, unless that server has half as many requests again as the mean."""

    def __init__(self, seed=0):
        self.least = LeastRequests(seed)
        self.homes = {}

    def choose(self, request, view, now):
        able = view.capable(request)
        home = self.homes.get(request.prefix) if request.prefix is not None else None
        mean = sum(view.in_flight) / len(view.in_flight)
        if home not in able or view.in_flight[home] > 1.5 * mean + 1:
            home = self.least.choose(request, view, now)
        if request.prefix is not None:
            self.homes[request.prefix] = home
        return home


class InferaBlocks(Plain):
    """Infera's cost: prompt blocks to compute + blocks in flight + blocks sent lately, which decay by pick."""

    block = 16

    def __init__(self, seed=0):
        self.homes = {}
        self.flight = None

    def choose(self, request, view, now):
        able = view.capable(request)
        if not able:
            return NOWHERE
        if self.flight is None:
            self.flight = [0.0] * len(view.in_flight)
            self.lately = [0.0] * len(view.in_flight)
        blocks = request.prompt_tokens // self.block + 1
        shared = request.shared_tokens // self.block

        def cost(index):
            cached = shared if self.homes.get(request.prefix) == index else 0
            return (blocks - cached) + self.flight[index] + self.lately[index]

        best = min(able, key=cost)
        self.lately = [value * 0.97 for value in self.lately]
        self.lately[best] += blocks
        self.flight[best] += blocks
        if request.prefix is not None:
            self.homes[request.prefix] = best
        return best

    def ended(self, request, view, now):
        if request.server >= 0 and self.flight is not None:
            self.flight[request.server] -= request.prompt_tokens // self.block + 1


PEERS = ("round robin", "least requests", "p2c peak ewma", "litellm latency", "static table", "best pool")
"""What "best peer" is the best of."""


def peer(name, models, mix, seed):
    if name == "static table":
        return static_table(models, mix)
    if name == "best pool":
        return best_pool(models, mix)
    return {
        "random": Random,
        "round robin": RoundRobin,
        "least requests": LeastRequests,
        "p2c peak ewma": PeakEwma,
        "litellm latency": LiteLlm,
        "prefix aware": PrefixAware,
        "infera blocks": InferaBlocks,
    }[name](seed)
