r"""Stochastic proximal gradient: a step on the loss, then the penalty's proximal map.

.. math:: w \leftarrow \operatorname{prox}_{\eta_t\psi}\bigl(w - \eta_t g_t\bigr)

``FOBOS``: Duchi and Singer (2009).  ``TruncatedGradient``: Langford, Li and Zhang (2009), of which
FOBOS with an l1 penalty is the case every=1, ceiling=inf.

With a *lazy* penalty a coordinate waits until a row needs it.  Write w = s v, where s carries the
quadratic part; the l1-like rest then acts on v with step eta/s, and pending steps simply add up
(U below).  An update costs O(non-zeros of the batch), and gives exactly the dense result.
Penalties over groups are in a file of their own, ``_block_fobos.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher import schedules
from thresher.functions import LinearFunction
from thresher.solvers._batch import add_rows, slopes_at
from thresher.solvers._block_fobos import block_copies, block_fobos, block_fobos_start, settled
from thresher.solvers._states import combined, present
from thresher.solvers._targets import with_origin, with_origin_of_stream
from thresher.solvers.base import Chunk, Problem, Solver, check_batch
from thresher.solvers.step_lengths import tuned_schedule

__all__ = ["FOBOS", "TruncatedGradient"]


class ProximalState(NamedTuple):
    """w = scale * direction; coordinate j still owes the steps from due[j] to ``steps``."""

    direction: np.ndarray
    due: np.ndarray
    scale: float
    steps: float
    bias: float
    step: int
    seen: int
    paid: float


@njit(cache=True, nogil=True)
def _settle(v, due, steps, scale, ceiling, penalty, j):
    """Apply the proximal steps that coordinate j has waited for."""
    if steps > due[j]:
        if abs(scale * v[j]) <= ceiling:
            v[j] = penalty.rest(v[j], steps - due[j], j)
        due[j] = steps


@njit(cache=True, nogil=True)
def _lazy(
    rows, y, weight, order, loss, penalty, ridge, schedule, every, ceiling, batch, fit_bias, state
):
    v, due, scale, steps = state.direction, state.due, state.scale, state.steps
    bias, step, seen, paid = state.bias, state.step, state.seen, state.paid
    slopes = np.empty(batch)
    for first in range(0, order.size, batch):
        size = min(batch, order.size - first)
        step += 1
        eta = schedule.at(step)
        slope_sum = 0.0
        for r in range(size):
            i = order[first + r]
            for k in range(rows.start(i), rows.stop(i)):
                _settle(v, due, steps, scale, ceiling, penalty, rows.column(i, k))
            p = scale * rows.dot(i, v) + bias
            paid += weight[i] * loss.value(y[i], p)
            slopes[r] = weight[i] * loss.deriv(y[i], p) / size
            slope_sum += slopes[r]
        seen += size
        for r in range(size):
            if slopes[r] != 0.0:
                rows.add(order[first + r], -eta * slopes[r] / scale, v)
        if step % every == 0:
            steps += every * eta / scale
        scale /= 1.0 + eta * ridge
        if fit_bias:
            bias -= min(eta, 1.0 / math.sqrt(step)) * slope_sum
        if scale < 1e-9:
            for j in range(v.size):
                _settle(v, due, steps, scale, ceiling, penalty, j)
                v[j] *= scale
                due[j] = 0.0
            scale, steps = 1.0, 0.0
    return v, due, scale, steps, bias, step, seen, paid


@njit(cache=True, nogil=True)
def _settled(v, due, steps, scale, ceiling, penalty, w):
    for j in range(v.size):
        u = v[j]
        if steps > due[j] and abs(scale * u) <= ceiling:
            u = penalty.rest(u, steps - due[j], j)
        w[j] = scale * u


@njit(cache=True, nogil=True)
def _eager(rows, y, weight, order, loss, penalty, schedule, batch, fit_bias, state):
    """Any penalty: its proximal map on all d coordinates after every mini-batch."""
    w, bias = state.direction, state.bias
    step, seen, paid = state.step, state.seen, state.paid
    slopes = np.empty(batch)
    for first in range(0, order.size, batch):
        size = min(batch, order.size - first)
        step += 1
        eta = schedule.at(step)
        slope_sum, loss_sum = slopes_at(rows, y, weight, order, first, size, loss, w, bias, slopes)
        paid += loss_sum
        seen += size
        add_rows(rows, order, first, size, -eta, slopes, w)
        for j in range(w.size):
            w[j] = penalty.prox(w[j], eta, j)
        if fit_bias:
            bias -= min(eta, 1.0 / math.sqrt(step)) * slope_sum
    return w, state.due, 1.0, 0.0, bias, step, seen, paid


class _Proximal(Solver):
    default_passes = 10
    positive_fields = frozenset({"scale"})
    default_penalty = "l1"
    sum_fields = frozenset({"seen", "paid"})
    every: int = 1
    ceiling: float = math.inf
    schedule: schedules.Schedule | None = None
    origin: float | None = None

    def check(self, problem: Problem) -> None:
        check_batch(self)

    def prepare(self, problem: Problem, chunk: Chunk) -> tuple[Solver, Problem]:
        return tuned_schedule(with_origin(self, problem, chunk), problem, chunk), problem

    def for_stream(self, problem: Problem) -> Solver:
        return with_origin_of_stream(self, self.schedule is not None)

    def init(self, problem: Problem, chunk: Chunk | None = None) -> Any:
        if "grouped" in problem.penalty.traits:
            return block_fobos_start(problem, self.origin or 0.0)
        zeros, due = np.zeros(problem.n_features, problem.dtype), np.zeros(problem.n_features)
        return ProximalState(zeros, due, 1.0, 0.0, self.origin or 0.0, 0, 0, 0.0)

    def update(self, problem: Problem, state: Any, chunk: Chunk) -> Any:
        schedule = self.schedule or schedules.InverseRoot()
        if "grouped" in problem.penalty.traits:
            return block_fobos(problem, state, chunk, schedule, self.batch)
        if "lazy" not in problem.penalty.traits:
            return ProximalState(*_eager(
                *chunk, problem.loss, problem.penalty, schedule, self.batch,
                problem.fit_intercept, state,
            ))  # fmt: skip
        return ProximalState(*_lazy(
            *chunk, problem.loss, problem.penalty, problem.ridge, schedule, self.every,
            self.ceiling, self.batch, problem.fit_intercept, state,
        ))  # fmt: skip

    def finish(self, problem: Problem, state: Any) -> LinearFunction:
        if "grouped" in problem.penalty.traits:
            return LinearFunction(block_copies(problem, state), state.bias)
        if "lazy" not in problem.penalty.traits:
            return LinearFunction(state.direction.copy(), state.bias)
        w = np.empty_like(state.direction)
        _settled(
            state.direction, state.due, state.steps, state.scale, self.ceiling, problem.penalty, w
        )
        return LinearFunction(w, state.bias)

    def merge(self, problem: Problem, states: Any, base: Any, weights: Any) -> Any:
        """w = sum_k m_k w_k / sum_k m_k, each w_k after the proximal steps that it still owes.

        Zeros are those that all shards have.  ``step``, the clock of the steps, is a weighted mean
        too; ``seen`` and ``paid`` add up.
        """
        states, shares = present(states, weights)
        if not states:
            return self.copy(base)
        paid = [self._plain(problem, s) for s in states]
        merged = combined(paid, base, shares, self.sum_fields)
        # Norms of a mean are not the means of norms: they are summed anew.
        return settled(problem, merged) if "grouped" in problem.penalty.traits else merged

    def _plain(self, problem: Problem, s: Any) -> Any:
        """With scale one, and no coordinate owing a step."""
        if "grouped" in problem.penalty.traits:
            return settled(problem, s)
        if "lazy" not in problem.penalty.traits:
            return s
        w = np.empty_like(s.direction)
        _settled(s.direction, s.due, s.steps, s.scale, self.ceiling, problem.penalty, w)
        return s._replace(direction=w, due=np.zeros_like(s.due), scale=1.0, steps=0.0)


@dataclass(frozen=True)
class FOBOS(_Proximal):
    """Forward-backward splitting with any penalty that has a proximal map.

    Exact zeros, O(non-zeros) per update for lazy penalties (L1, elastic net, weighted L1, box, L2,
    group lasso), O(d) per update for others, amortised by ``batch``.

    Parameters
    ----------
    schedule : Schedule or None, default=None
        Step sizes.  None: theta / sqrt(t) with theta chosen on a sample of the rows.
    batch : int, default=1
        Rows per update.
    origin : float or None, default=None
        Where the bias starts.  None: at the mean target where targets are numbers, else at zero; in
        a stream with a schedule given, at zero.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from thresher import LinearClassifier
    >>> X, y = make_classification(300, 20, random_state=0)
    >>> model = LinearClassifier("logistic", solver="fobos", alpha=0.05, random_state=0)
    >>> bool(model.fit(X, y).score(X, y) > 0.85), model.density_ < 1.0
    (True, True)
    """

    schedule: schedules.Schedule | None = None
    batch: int = 1
    origin: float | None = None


@dataclass(frozen=True)
class TruncatedGradient(_Proximal):
    """SGD whose weights are pulled to zero every so often.

    At every ``every``-th update, weights of at most ``ceiling`` in size are soft-thresholded by
    every * eta * strength.

    Parameters
    ----------
    schedule : Schedule or None, default=None
        Step sizes.  None: theta / sqrt(t) with theta chosen on a sample of the rows.
    every : int, default=10
        Updates between truncations (K).
    ceiling : float, default=inf
        Larger weights are never truncated (theta).
    batch : int, default=1
        Rows per update.
    origin : float or None, default=None
        Where the bias starts.  None: at the mean target where targets are numbers, else at zero; in
        a stream with a schedule given, at zero.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from thresher import LinearClassifier
    >>> X, y = make_classification(300, 20, random_state=0)
    >>> from thresher.solvers import TruncatedGradient
    >>> solver = TruncatedGradient(every=5)
    >>> model = LinearClassifier("logistic", solver=solver, alpha=0.05, random_state=0)
    >>> bool(model.fit(X, y).score(X, y) > 0.85), model.density_ < 1.0
    (True, True)
    """

    schedule: schedules.Schedule | None = None
    every: int = 10
    ceiling: float = math.inf
    batch: int = 1
    origin: float | None = None
    penalty_needs = frozenset({"rest", "lazy"})

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if self.every < 1 or not self.ceiling > 0.0:
            raise ValueError("TruncatedGradient: needs every >= 1 and ceiling > 0")
        if math.isfinite(self.ceiling) and problem.ridge > 0.0:
            raise ValueError(
                "TruncatedGradient: a finite ceiling needs a penalty without quadratic part, "
                "which would let waiting weights slip under the ceiling; use 'l1'"
            )
