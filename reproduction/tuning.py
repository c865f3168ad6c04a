"""Tuning as the theses did: coupled simulated annealing from five starts, then a simplex.

Both are the package's own (``thresher.search``); here they minimise a function of hyper-parameters
instead of an estimator's cross-validated criterion.  Ranges are searched by their logarithms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import optuna
from optuna.distributions import FloatDistribution
from optuna.samplers import BaseSampler

from thresher.search import CSASampler
from thresher.search.simplex import nelder_mead

Params = dict[str, float]
Ranges = dict[str, tuple[float, float]]
Objective = Callable[[Params], float]
CHAINS = 5
ANNEALED = 0.7  # of the evaluations, where a simplex follows: as in the package's "csa+simplex"


class Found(NamedTuple):
    params: Params
    value: float


def tuned(
    objective: Objective,
    ranges: Ranges,
    evaluations: int,
    seed: int,
    simplex: bool = True,
    first: Params | None = None,
) -> Found:
    """The best point of ``evaluations``; ``first`` is where one of the chains begins."""
    if not simplex:
        return sampled(objective, ranges, evaluations, CSASampler(CHAINS, seed=seed), first)
    whole = max(CHAINS, CHAINS * round(ANNEALED * evaluations / CHAINS))
    annealed = min(evaluations, whole)
    best = sampled(objective, ranges, annealed, CSASampler(CHAINS, seed=seed), first)
    return refined(objective, ranges, evaluations - annealed, best)


def sampled(
    objective: Objective,
    ranges: Ranges,
    evaluations: int,
    sampler: BaseSampler,
    first: Params | None = None,
) -> Found:
    """The best of the points that an Optuna sampler proposes; the earliest of equal ones."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=sampler)
    space = {name: FloatDistribution(low, high, log=True) for name, (low, high) in ranges.items()}
    if first is not None:
        study.enqueue_trial(first)
    for _ in range(evaluations):
        trial = study.ask(space)
        study.tell(trial, objective(trial.params))
    return Found(study.best_params, study.best_value)


def refined(objective: Objective, ranges: Ranges, evaluations: int, start: Found) -> Found:
    """Nelder and Mead's simplex from ``start``, for so many evaluations or until it is small."""
    low, high = np.log(np.array(list(ranges.values()))).T

    def named(u: np.ndarray) -> Params:
        logs = np.clip(low + u * (high - low), low, high)
        return {name: float(np.exp(x)) for name, x in zip(ranges, logs, strict=True)}

    origin = np.log([start.params[name] for name in ranges])
    proposals = nelder_mead((origin - low) / (high - low), start.value)
    best, left = start, evaluations
    points = next(proposals, None)
    while points is not None and left > 0:
        points = points[:left]
        left -= len(points)
        settings = [named(u) for u in points]
        values = [objective(params) for params in settings]
        best = min([best, *map(Found, settings, values)], key=lambda found: found.value)
        if left == 0:
            break
        try:
            points = proposals.send(np.array(values))
        except StopIteration:
            break
    return best
