"""The fluid optimum: how many tokens a second a fleet could give at most, as a linear program.

Requests are a fluid; server b holds n_j requests for some share of its time, and a request of workload w
served meanwhile takes ``T = K·s(n)/n + p·X`` of the server's time, with K its mean number of steps and X its
prompt. In a closed loop n/s(n) is concave, so the optimum uses neighbouring batch sizes and can be reached.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from backends.fleetsim.draws import steps_per_token
from backends.sim import profiles

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from backends.fleetsim.model import Model
    from backends.fleetsim.traffic import Limits
    from backends.sim.configuration import Lengths

BINS: Final = 33
PREFILL_STEPS: Final = 1.5
"""Steps between a request's arrival and its prefill: half of the one under way, and its own."""

_TAIL: Final = 1.28
_MARGIN: Final = 1.15


@dataclass(frozen=True, slots=True)
class Optimum:
    """What the program says.

    Attributes:
        requests_per_second: Rate over all workloads.
        tokens_per_second: Output tokens.
        flow: Requests a second by (server, workload), in the order given.
        occupancy: Mean requests on each server.
        seconds: Mean seconds from arrival to last token.
    """

    requests_per_second: float
    tokens_per_second: float
    flow: NDArray[np.float64]
    occupancy: NDArray[np.float64]
    seconds: float


class InfeasibleError(ValueError):
    """No fleet of these servers can carry what was asked."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A fleet and a mix, tabulated over servers b, batch sizes j and workloads w.

    Attributes:
        sizes: Batch sizes n_j.
        share: Share of each workload, adding up to 1.
        time: T, seconds of a server that one request takes, shape (b, j, w).
        stay: Seconds that one request spends on the server, shape (b, j, w).
        tokens: Mean output tokens a request, over the mix.
        allowed: Whether the server takes the workload, shape (b, w).
    """

    sizes: NDArray[np.float64]
    share: NDArray[np.float64]
    time: NDArray[np.float64]
    stay: NDArray[np.float64]
    tokens: float
    allowed: NDArray[np.bool_]


def problem(
    models: Sequence[Model],
    mix: Mapping[str, float],
    *,
    lengths: Mapping[str, Lengths] | None = None,
    refused: Mapping[int, Collection[str]] | None = None,
) -> Problem:
    """Tabulate a fleet for a mix.

    Args:
        models: The servers.
        mix: Shares of requests by workload; a workload may be named ``workload!`` to stand for those of its
            requests that servers with a draft refuse.
        lengths: By workload; the assumed ones where left out.
        refused: By server, workloads that it does not take, beside those that end in ``!``.
    """
    names = [name for name, share in mix.items() if share > 0.0]
    total = sum(mix.values())
    share = np.array([mix[name] / total for name in names])
    most = max(model.max_sequences for model in models)
    sizes = np.unique(np.round(np.geomspace(1, most, BINS)).astype(int))
    while len(sizes) < min(BINS, most):
        gaps = np.diff(sizes)
        widest = int(np.argmax(gaps / sizes[:-1] * (gaps > 1)))
        sizes = np.sort(np.append(sizes, (sizes[widest] + sizes[widest + 1]) // 2))
    found = [(lengths or {}).get(name.rstrip("!")) or profiles.lengths(name.rstrip("!")) for name in names]
    time = np.zeros((len(models), len(sizes), len(names)))
    stay = np.zeros_like(time)
    allowed = np.ones((len(models), len(names)), dtype=bool)
    for b, model in enumerate(models):
        for j, size in enumerate(sizes):
            n = min(int(size), model.max_sequences)
            seconds = model.seconds[n]
            for w, name in enumerate(names):
                rate = steps_per_token(model.survival(name.rstrip("!"), n), model.spread)
                steps = (found[w].output - 1.0) * rate + 0.5 * (1.0 - rate)
                time[b, j, w] = steps * seconds / n + model.prefill_seconds * found[w].prompt
                stay[b, j, w] = n * time[b, j, w] + PREFILL_STEPS * seconds
        for w, name in enumerate(names):
            barred = name.endswith("!") and model.draft_tokens > 0
            allowed[b, w] = not barred and name not in (refused or {}).get(b, ())
    tokens = float(sum(part * one.output for part, one in zip(share, found, strict=True)))
    return Problem(sizes.astype(float), share, time, stay, tokens, allowed)


def closed(of: Problem, clients: float) -> Optimum:
    """Most requests a second with so many clients that do not think.

    Raises:
        InfeasibleError: A workload has no server.
    """
    return _solve(of, clients=clients)


def fastest(of: Problem, requests_per_second: float) -> Optimum:
    """Least mean completion time at a rate, by Little's law.

    Raises:
        InfeasibleError: The fleet cannot carry the rate.
    """
    return _solve(of, rate=requests_per_second)


def capacity(of: Problem) -> Optimum:
    """Most requests a second with any number of clients."""
    servers = of.time.shape[0]
    return _solve(of, clients=float(servers * of.sizes[-1] * 4))


def within(models: Sequence[Model], mix: Mapping[str, float], limits: Limits) -> Optimum:
    """Estimate of the highest rate at which a time per token is kept; not a bound, for planning only.

    A batch size is allowed for a workload where the limit would hold at ``n + 1.28·√n`` with the prefill's
    share, and with 15 % margin for acceptance.
    """
    of = problem(models, mix)
    forbidden = np.zeros(of.time.shape, dtype=bool)
    names = [name for name, share in mix.items() if share > 0.0]
    for b, model in enumerate(models):
        for j, size in enumerate(of.sizes):
            n = min(size + _TAIL * math.sqrt(size), model.max_sequences)
            for w, name in enumerate(names):
                rate = steps_per_token(model.survival(name, int(size)), model.spread)
                length = profiles.lengths(name)
                prefill = size * model.prefill_seconds * length.prompt / length.output
                tpot = model.seconds[round(n)] * rate * _MARGIN + prefill
                forbidden[b, j, w] = tpot > limits.tpot
    return _solve(of, clients=float(len(models) * of.sizes[-1]), forbidden=forbidden)


def _solve(
    of: Problem,
    *,
    clients: float | None = None,
    rate: float | None = None,
    forbidden: NDArray[np.bool_] | None = None,
) -> Optimum:
    """Variables are x, requests a second by (b, j, w), then Θ, requests a second of all."""
    from scipy.optimize import linprog  # noqa: PLC0415 - takes a quarter of a second, and few commands solve
    from scipy.sparse import coo_matrix  # noqa: PLC0415 - same

    servers, sizes, workloads = of.time.shape
    count = of.time.size
    index = np.arange(count).reshape(of.time.shape)
    everything = np.arange(count)
    flows = coo_matrix(
        (
            np.concatenate([np.ones(count), -of.share]),
            (
                np.concatenate([everything % workloads, np.arange(workloads)]),
                np.concatenate([everything, np.full(workloads, count)]),
            ),
        ),
        shape=(workloads, count + 1),
    ).tocsr()
    rows = [everything // (sizes * workloads)]
    columns, values, limits = [everything], [of.time.ravel()], [np.ones(servers)]
    if clients is not None:
        rows.append(np.full(count, servers))
        columns.append(everything)
        values.append(of.stay.ravel())
        limits.append(np.array([clients]))
    bounds = np.zeros((count + 1, 2))
    barred = ~np.broadcast_to(of.allowed[:, None, :], of.time.shape)
    if forbidden is not None:
        barred = barred | forbidden
    bounds[:count, 1] = np.where(barred.ravel(), 0.0, np.inf)
    bounds[count] = (0.0, np.inf) if rate is None else (rate, rate)
    cost = np.zeros(count + 1)
    if rate is None:
        cost[count] = -1.0
    else:
        cost[:count] = of.stay.ravel()
    upper = np.concatenate(limits)
    found = linprog(
        cost,
        A_ub=coo_matrix(
            (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))),
            shape=(len(upper), count + 1),
        ).tocsr(),
        b_ub=upper,
        A_eq=flows,
        b_eq=np.zeros(workloads),
        bounds=bounds,
        method="highs",
    )
    if not found.success or found.x[count] <= 0.0:
        raise InfeasibleError(f"the fleet cannot carry this: {found.message}")
    x = found.x[index]
    theta = float(found.x[count])
    held = (x * of.stay).sum(axis=(1, 2))
    return Optimum(theta, theta * of.tokens, x.sum(axis=1), held, float(held.sum()) / theta)
