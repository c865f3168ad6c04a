r"""Phase one of RDA+: dual averaging that watches the manifold that its iterates lie on.

The pattern of the weights is compared every ``every`` steps: after each where rows are dense, as
all weights are at hand there, and as often as costs no more than the steps where they are sparse.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher._rows import AHEAD
from thresher.penalties import pattern_of
from thresher.solvers._batch import add_rows, slopes_at
from thresher.solvers._manifold import of_copies
from thresher.solvers.base import Chunk, Problem
from thresher.solvers.rda import RDA

__all__ = ["Ending", "Watch", "every_of", "watched"]


class Watch(NamedTuple):
    """The last pattern that was seen, and since which step it has been there."""

    pattern: np.ndarray
    since: int


class Ending(NamedTuple):
    """When phase one is over: the pattern has been the same for ``tau`` steps and ``enough`` rows
    were seen, or ``most`` rows were."""

    tau: int
    enough: int
    most: int

    def is_reached(self, dual: Any, watch: Watch) -> bool:
        stable = dual.step - watch.since >= self.tau and dual.seen >= self.enough
        return stable or dual.seen >= self.most


def every_of(problem: Problem, chunk: Chunk, batch: int) -> int:
    """Steps between looks at the pattern: a look costs the weights, a step the elements."""
    rows, features = chunk.rows.shape
    elements = batch * chunk.rows.stored / max(rows, 1)
    if problem.targets == "pairs":  # a row is of one task, a look at all
        features *= problem.outputs
    return max(1, math.ceil(features / max(elements, 1.0)))


@njit(cache=True, nogil=True)
def _average(
    rows, y, weight, order, loss, penalty, gamma, batch, fit_bias, origin, gradient, bias_gradient,
    step, paid, pattern, since, tau, enough, most, seen,
):  # fmt: skip
    """Dual averaging with all weights at hand, until it is over (``Ending``) or the rows are."""
    w, slopes = np.zeros(gradient.size), np.empty(batch)
    for first in range(0, order.size, batch):
        size = min(batch, order.size - first)
        beta, bias = gamma * math.sqrt(step), origin
        if step > 0:
            if fit_bias:
                bias -= bias_gradient / beta
            for j in range(w.size):
                w[j] = penalty.prox(-gradient[j] / beta, step / beta, j)
                found = penalty.pattern(w[j], j)
                if found != pattern[j]:
                    pattern[j] = found
                    since = step
        if seen >= most or (step - since >= tau and seen >= enough):
            break
        for r in range(first + AHEAD, min(first + AHEAD + size, order.size)):
            rows.fetch(order[r])
        total, cost = slopes_at(rows, y, weight, order, first, size, loss, w, bias, slopes)
        paid += cost
        bias_gradient += total
        seen += size
        step += 1
        add_rows(rows, order, first, size, 1.0, slopes, gradient)
    return bias_gradient, step, paid, since, seen


def watched(
    solver: RDA, problem: Problem, dual: Any, watch: Watch, chunk: Chunk, every: int,
    ending: Ending,
) -> tuple[Any, Watch]:  # fmt: skip
    """Dual averaging over the rows, until it is over or they are."""
    single = not problem.has_tasks and "grouped" not in problem.penalty.traits
    if every == 1 and not chunk.rows.is_sparse and single:
        pattern = watch.pattern.copy()
        bias, step, paid, since, seen = _average(
            *chunk, problem.loss, problem.penalty, solver.gamma, solver.batch,
            problem.fit_intercept, solver.origin or 0.0, dual.gradient, dual.bias_gradient,
            dual.step, dual.paid, pattern, watch.since, *ending, dual.seen,
        )  # fmt: skip
        dual = dual._replace(bias_gradient=bias, step=step, paid=paid, seen=seen)
        return dual, Watch(pattern, since)
    order, at = chunk.order, 0
    while at < order.size and not ending.is_reached(dual, watch):
        steps = every - dual.step % every
        part = order[at : at + steps * solver.batch]
        dual = solver.update(problem, dual, chunk._replace(order=part))
        at += part.size
        if dual.step % every == 0:
            watch = seen_at(solver, problem, dual, watch)
    return dual, watch


def seen_at(solver: RDA, problem: Problem, dual: Any, watch: Watch) -> Watch:
    """The watch after a look at the weights."""
    pattern = pattern_of(of_copies(problem).penalty, solver.coordinates(problem, dual))
    return watch if np.array_equal(pattern, watch.pattern) else Watch(pattern, dual.step)
