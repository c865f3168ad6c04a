"""Which models of a race are worth having together.

Scores of rows that the models have not seen are there anyway, since everyone was judged on them.
They are pooled (``maps/pooling.py``), models that hardly count are left out, and the pool is judged
as the models were: on rows that its weights have not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from thresher.maps.pooling import Pool, pool_classes, pool_numbers
from thresher.race.runner import Runner, misses_of

__all__ = ["Stack", "best_stack"]

_PARTS = 5  # in which the weights of a pool are judged
_SHARE = 0.05  # of the weight of all: who has less is left out
_MOST = 5  # members: each is a fit on all rows, and a model to be kept


class Stack(NamedTuple):
    """Runners whose best models count together; scores and losses are of unseen rows."""

    members: list[Runner]
    pool: Pool
    scores: np.ndarray
    misses: np.ndarray

    @property
    def loss(self) -> float:
        return float(np.mean(self.misses))


def best_stack(
    runners: Sequence[Runner], y: np.ndarray, weight: np.ndarray | None, classes: np.ndarray,
    affordable: Callable[[list[Runner]], bool],
) -> Stack | None:  # fmt: skip
    """Of runners that were judged on the same rows, whose targets are ``y`` (class numbers).

    None where fewer than two of them are worth it.  ``affordable`` says whether there is time for a
    last fit of these members.
    """
    members = [runner for runner in runners if runner.top and runner.top.scores is not None]
    members = _affordable(sorted(members, key=lambda runner: runner.loss), affordable)
    while len(members) > 1:
        pool = _pooled([_scores(runner) for runner in members], y, weight, classes)
        shares = pool.weights * [_spread(runner) for runner in members]
        shares = shares / max(float(shares.sum()), 1e-300)
        least = int(np.argmin(shares))
        if shares[least] >= _SHARE and len(members) <= _MOST:
            return _judged(members, pool, y, weight, classes)
        del members[least]
    return None


def _affordable(members: list[Runner], affordable: Callable[[list[Runner]], bool]) -> list[Runner]:
    """The best, and each of the next for which there is time besides."""
    chosen: list[Runner] = []
    for runner in members:
        if not chosen or affordable([*chosen, runner]):
            chosen.append(runner)
    return chosen


def _judged(
    members: list[Runner], pool: Pool, y: np.ndarray, weight: np.ndarray | None,
    classes: np.ndarray,
) -> Stack:  # fmt: skip
    said = [_scores(runner) for runner in members]
    scores = np.empty_like(said[0])
    part = np.arange(y.size) % _PARTS
    for k in range(_PARTS):
        rest, here = part != k, part == k
        mine = None if weight is None else weight[rest]
        found = _pooled([s[rest] for s in said], y[rest], mine, classes)
        scores[here] = found.scores([s[here] for s in said])
    return Stack(members, pool, scores, misses_of(scores, y, classes))


def _pooled(
    said: list[np.ndarray], y: np.ndarray, weight: np.ndarray | None, classes: np.ndarray
) -> Pool:
    return (pool_classes if classes.size else pool_numbers)(said, y, weight)


def _scores(runner: Runner) -> Any:
    assert runner.top is not None
    return runner.top.scores


def _spread(runner: Runner) -> float:
    return float(np.std(_scores(runner)))
