"""Policies that know the true parameters: they say what could be had, not what a product can do."""

from backends.fleetsim import fluid
from backends.fleetsim.draws import steps_per_token
from backends.fleetsim.view import NOWHERE, Plain
from backends.sim import profiles


class Oracle(Plain):
    """Predicted completion plus harm to the others on the server, with true curves and mean lengths.

    Args:
        models: The servers.
        mix: Workloads; all alike to it where ``blind``.
        eta: Weight of the harm.
        blind: Whether it does not look at the label.
        price: Seconds for each request newly pushed over its limit of time per token; 0 for none.
    """

    def __init__(self, models, mix, *, eta=1.0, blind=False, lengths=None):
        total = sum(mix.values())
        of = {w: (lengths or {}).get(w) or profiles.lengths(w) for w in mix}
        self.steps, self.eta = [], eta
        for model in models:
            known = {
                w: (of[w].output - 1) * steps_per_token(model.survival(w, 16), model.spread) for w in mix
            }
            if blind:
                mean = sum(mix[w] / total * known[w] for w in mix)
                known = dict.fromkeys(mix, mean)
            self.steps.append(known)
        self.seconds = [model.seconds for model in models]
        self.prefill = [model.prefill_seconds for model in models]

    def choose(self, request, view, now):
        best, least = NOWHERE, float("inf")
        label, prompt, eta = request.label, request.prompt_tokens, self.eta
        for index in view.capable(request):
            seconds, queue = self.seconds[index], view.in_flight[index]
            size = min(queue, len(seconds) - 2)
            then, before = seconds[size + 1], seconds[size] if size else 0.0
            prefill, steps = self.prefill[index] * prompt, self.steps[index][label]
            wait = (queue - size) * steps * then / size if queue > size else 0.0
            cost = wait + prefill + (1.5 + steps) * then + eta * size * (steps * (then - before) + prefill)
            if cost < least:
                best, least = index, cost
        return best


class FluidSplit(Plain):
    """Keeps to the optimum's shares: the server that is furthest behind its share of the workload is next."""

    def __init__(self, models, mix, clients):
        names = [name for name, share in mix.items() if share]
        flow = fluid.closed(fluid.problem(models, mix), clients).flow
        self.share = {name: flow[:, at] / flow[:, at].sum() for at, name in enumerate(names)}
        self.counts = {name: [0] * len(models) for name in names}

    def choose(self, request, view, now):
        share, sent = self.share[request.label], self.counts[request.label]
        total = sum(sent) + 1
        best = max(view.capable(request), key=lambda index: share[index] * total - sent[index])
        sent[best] += 1
        return best
