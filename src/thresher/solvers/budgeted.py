r"""Kernel Pegasos on a budget of support vectors (BSGD), for one or several outputs.

.. math:: f_c(x) = \sum_j \alpha_{cj} k(z_j, x) + b_c, \qquad
          \min_f\ \tfrac\lambda2 \sum_c \|f_c\|^2 + \tfrac1n \sum_i s_i\,\ell(y_i, f(x_i))

by steps of length :math:`\eta_t = 1/(\lambda t + 1/\eta_0)`; Pegasos as published has
:math:`\eta_0 = \infty`.  Kept is :math:`u = \alpha/\eta_t`: a step then leaves all old coefficients
alone and gives the new vector minus the slope of the loss.  Whenever a vector would exceed the
budget B one is given up:

=================  ===========================================================  =================
``merge``          the lightest and its best partner become one (`merging.py`)  O(D B)
``remove``         the smallest ||alpha||^2 k(z, z) is dropped                  O(C B)
``remove_random``  any is dropped                                               O(1)
``project``        the one whose loss is smallest after it has been             O(B^2)
                   projected onto all the others
=================  ===========================================================  =================

Cost of a step O(non-zeros * B + C B) (`expansion.py`).  The result is the last iterate or an
average of the iterates that weighs step t by :math:`t^{memory}`; it is kept up to date at the cost
of the changed coefficients, and maintenance maps it like the iterate itself.

Wang, Crammer and Vucetic, "Breaking the curse of kernelization" (2012); Djuric (2014), chapter 5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher._lanes import LANES
from thresher._random import uniform
from thresher._terms import Term, capabilities
from thresher.functions import Expansion
from thresher.kernels import RBF, Kernel, expansion
from thresher.kernels.expansion import in_precision, packed
from thresher.losses import Loss
from thresher.solvers import merging
from thresher.solvers.base import Chunk, Problem, Solver
from thresher.solvers.joined_budgets import joined
from thresher.solvers.merging import MAINTENANCE, MERGE, PROJECT, RANDOM

__all__ = ["MAINTENANCE", "Budgeted", "BudgetedState", "CrammerSinger", "OneOutput"]


class BudgetedState(NamedTuple):
    """alpha = coef / (lam * step + 1 / eta0); slot ``empty`` is free, ``size`` others are used."""

    vectors: np.ndarray  # (features, slots)
    norms: np.ndarray  # (slots,)
    coef: np.ndarray  # (outputs, slots)
    lag: np.ndarray  # (outputs, slots): sum of iterates = weight * coef - lag
    bias: np.ndarray  # (outputs,), in the units of coef
    bias_lag: np.ndarray
    inverse: np.ndarray  # (slots, slots), empty unless projecting
    size: int
    empty: int
    step: int
    weight: float  # sum of t^memory times the step's length
    total: float  # sum of t^memory


# ---------------------------------------------------------------- terms


@dataclass(frozen=True)
class OneOutput(Term):
    """Two classes (y = -1, +1) or regression: any loss."""

    loss: Loss

    def slopes(self, y, scores, out):
        out[0] = self.loss.deriv(y, scores[0])
        return out[0] != 0.0


@dataclass(frozen=True)
class CrammerSinger(Term):
    """Several classes (y a class number): max(0, 1 - f_y + the best other f_c)."""

    def slopes(self, y, scores, out):
        own = int(y)
        rival = 1 if own == 0 else 0
        for c in range(scores.size):
            out[c] = 0.0
            if c != own and scores[c] > scores[rival]:
                rival = c
        if scores[own] - scores[rival] >= 1.0:
            return False
        out[own], out[rival] = -1.0, 1.0
        return True


# ---------------------------------------------------------------- the update


@njit(cache=True, nogil=True)
def _twin(columns, values, start, stop, square, vectors, norms, inner, used, empty):
    """The slot of a support vector equal to the row, or -1."""
    for j in range(used):
        if j != empty and abs(square + norms[j] - 2.0 * inner[j]) <= 1e-5 * square:
            k, same = start, True
            for d in range(vectors.shape[0]):
                x = values.dtype.type(0.0)
                if k < stop and columns[k] == d:
                    x = values[k]
                    k += 1
                if vectors[d, j] != x:
                    same = False
                    break
            if same:
                return j
    return -1


@njit(cache=True, nogil=True)
def _update(block, order, y, weight, rule, kernel, lam, rest, limit, anchor, budget, maintenance,
            memory, seed, table, state):  # fmt: skip
    vectors, norms, coef, lag = state.vectors, state.norms, state.coef, state.lag
    bias, bias_lag, inverse = state.bias, state.bias_lag, state.inverse
    size, empty, step = state.size, state.empty, state.step
    seen, total = state.weight, state.total
    slots, outputs = norms.size, coef.shape[0]
    columns, values, starts, squares = block
    own_columns, own_values = np.empty(vectors.shape[0], np.uint32), np.empty_like(vectors[:, 0])
    inner, kernels, mass, cost = (
        np.zeros_like(norms), np.zeros_like(norms), np.zeros_like(norms), np.zeros_like(norms)
    )  # fmt: skip
    margins, slopes = np.zeros(outputs), np.zeros(outputs)
    for r in range(order.size):
        i = order[r]
        used = size + 1  # the slots in use and the free one, wherever it lies
        width = min(slots, used + (-used) % LANES)
        start, stop, square = starts[r], starts[r + 1], squares[r]
        expansion.inner_products(columns, values, start, stop, vectors, width, inner)
        expansion.kernel_values(kernel, inner, norms, square, width, kernels)
        expansion.combine(coef, kernels, width, margins)
        scale = lam * step + rest
        unit = 1.0 / scale if scale > 0.0 else 0.0
        for c in range(outputs):
            margins[c] = (margins[c] + anchor * bias[c]) * unit
        step += 1
        if rule.slopes(y[i], margins, slopes):
            own = kernel.of(square, square, square)
            length = -weight[i]
            scale = lam * step + rest
            if limit < math.inf:  # a step that overshoots the row's own target would diverge
                length *= min(1.0, limit * scale / (weight[i] * (own + anchor)))
            slot = _twin(columns, values, start, stop, square, vectors, norms, inner, used, empty)
            if slot < 0:
                slot = empty
                if inverse.size > 0:
                    kernels[slot] = 0.0
                    merging.border(inverse, kernels, slot, own, used, cost)
                for d in range(vectors.shape[0]):
                    vectors[d, slot] = 0.0
                for k in range(start, stop):
                    vectors[columns[k], slot] = values[k]
                norms[slot] = square
                for c in range(outputs):
                    coef[c, slot] = 0.0
                    lag[c, slot] = 0.0
                size += 1
                empty = size
            for c in range(outputs):
                move = length * slopes[c]
                coef[c, slot] += move
                lag[c, slot] += seen * move
                bias[c] += move
                bias_lag[c] += seen * move
            if size > budget:
                if maintenance == MERGE:
                    empty = merging.merge_lightest(
                        kernel, state, size, table, own_columns, own_values, inner, kernels, mass,
                        cost,
                    )  # fmt: skip
                elif maintenance == PROJECT:
                    empty = merging.project(coef, lag, inverse, size, mass)
                elif maintenance == RANDOM:
                    empty = int(uniform(seed, step, 0) * size)
                else:
                    empty = merging.lightest(kernel, norms, coef, size, mass)
                for c in range(outputs):
                    coef[c, empty] = 0.0
                    lag[c, empty] = 0.0
                size -= 1
        share = float(step) ** memory
        total += share
        seen += share / (lam * step + rest)
    # A plain tuple: an interrupt while Python builds a NamedTuple for compiled code is fatal.
    return (vectors, norms, coef, lag, bias, bias_lag, inverse, size, empty, step, seen,
            total)  # fmt: skip


@dataclass(frozen=True)
class Budgeted(Solver):
    """Kernel stochastic gradient descent with a bounded number of support vectors.

    One output learns with any loss; several (class numbers as targets) with the hinge loss of
    Crammer and Singer.  The strength of the penalty is lambda.

    Parameters
    ----------
    kernel : Kernel, default=RBF()
        Merging needs ``RBF``, projecting one with the trait "positive".
    budget : int, default=200
        Most support vectors.
    maintenance : {"merge", "remove", "remove_random", "project"}, default="merge"
    constant : float, default=0.0
        Value of a constant feature beside the kernel; 0: no intercept.
    eta0 : float or None, default=None
        Length of the first step.  None: what moves a prediction by about one.
    memory : float or None, default=16.0
        The model is the average of the iterates weighed by t^memory; None: the last iterate.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher._rows import as_rows
    >>> from thresher.losses import Hinge
    >>> from thresher.penalties import L2
    >>> from thresher.solvers import Problem, driver
    >>> from thresher.solvers.budgeted import Budgeted
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = np.where((X**2).sum(axis=1) < 1.4, 1.0, -1.0)
    >>> problem = Problem(Hinge(), L2(1e-3), 2)
    >>> rows = driver.whole(as_rows(X), y)
    >>> found = driver.learn(Budgeted(budget=20), problem, rows, driver.Plan(3)).function
    >>> found.describe(), bool(np.mean(np.sign(found.scores(X)[:, 0]) == y) > 0.9)
    ('20 support vectors', True)
    """

    kernel: Kernel = RBF()  # noqa: RUF009 (a frozen value)
    budget: int = 200
    maintenance: str = "merge"
    constant: float = 0.0
    eta0: float | None = None
    memory: float | None = 16.0
    penalty_needs = frozenset({"quadratic", "uniform"})
    default_passes = 5
    joint = True
    linear = False

    def check(self, problem: Problem) -> None:
        """Refuse what cannot work, before any work."""
        name = type(self.kernel).__name__
        if self.maintenance not in MAINTENANCE:
            raise ValueError(
                f"maintenance={self.maintenance!r} is unknown: use one of {', '.join(MAINTENANCE)}"
            )
        if self.maintenance == "merge" and not isinstance(self.kernel, RBF):
            raise ValueError(
                f"maintenance='merge' needs the RBF kernel, got {name}: only there do two support "
                "vectors have a best single one on the line between them; use 'project' or 'remove'"
            )
        if self.maintenance == "project" and "positive" not in capabilities(self.kernel):
            raise ValueError(
                f"maintenance='project' needs a positive definite kernel, which {name} is not (or "
                "does not declare by the trait 'positive'); use 'remove'"
            )
        if self.budget < 1:
            raise ValueError(f"budget must be at least 1, got {self.budget}")
        if self.eta0 is not None and not self.eta0 > 0.0:
            raise ValueError(f"eta0 must be positive (or None), got {self.eta0}")
        if not (problem.ridge > 0.0 and math.isfinite(problem.ridge)):
            raise ValueError(f"alpha must be positive and finite, got {problem.ridge}")

    def prepare(self, problem: Problem, chunk: Chunk) -> tuple[Solver, Problem]:
        """The first step from some rows, if it is not given."""
        if self.eta0 is not None:
            return self, problem
        return replace(self, eta0=self._first_step(problem, chunk)), problem

    def _first_step(self, problem: Problem, chunk: Chunk) -> float:
        """1 / mean k(x, x) of some rows, times the spread of numbers that are to be predicted."""
        block, part = next(packed(chunk.rows, chunk.order[:200], np.float64))
        sizes = [abs(float(self.kernel.of(s, s, s))) for s in block.squares[: part.size].tolist()]
        step = 1.0 / max(float(np.mean(sizes)), 1e-12)
        if "regression" in problem.loss.tasks and math.isinf(problem.loss.smoothness):
            step *= float(np.std(chunk.y)) or 1.0
        return step

    def init(self, problem: Problem, chunk: Chunk | None = None) -> BudgetedState:
        slots = self._slots
        shape, outputs = (problem.outputs, slots), problem.outputs
        square = slots if self.maintenance == "project" else 0
        return BudgetedState(
            np.zeros((problem.n_features, slots), problem.dtype), np.zeros(slots, problem.dtype),
            np.zeros(shape, problem.dtype), np.zeros(shape), np.zeros(outputs),
            np.zeros(outputs), np.zeros((square, square)), 0, 0, 0, 0.0, 0.0,
        )  # fmt: skip

    def update(self, problem: Problem, state: BudgetedState, chunk: Chunk) -> BudgetedState:
        """Go over the rows of ``chunk`` in its order; reuses the arrays of ``state``."""
        one = problem.outputs == 1
        table = merging.signed_table() if one else merging.joint_table()
        rule: Any = OneOutput(problem.loss) if one else CrammerSinger()
        memory = 0.0 if self.memory is None else float(self.memory)
        kernel = in_precision(self.kernel, problem.dtype)
        y, weight = np.asarray(chunk.y, np.float64), np.asarray(chunk.weight, np.float64)
        for block, order in packed(chunk.rows, chunk.order, problem.dtype):
            state = BudgetedState(*_update(
                block, order, y, weight, rule, kernel, problem.ridge, 1.0 / self._eta0,
                _limit(problem), self.constant * self.constant, self.budget,
                MAINTENANCE.index(self.maintenance), memory, problem.seed, table, state,
            ))  # fmt: skip
        return state

    def finish(self, problem: Problem, state: BudgetedState) -> Expansion:
        """Support vectors, their coefficients and the intercepts."""
        if self.memory is None:
            unit = 1.0 / max(problem.ridge * state.step + 1.0 / self._eta0, 1e-300)
            coef, bias = state.coef * unit, state.bias * unit
        else:
            unit = 1.0 / max(state.total, 1e-300)
            coef = (state.weight * state.coef.astype(np.float64) - state.lag) * unit
            bias = (state.weight * state.bias - state.bias_lag) * unit
        used = np.any(coef != 0.0, axis=0)
        vectors = np.ascontiguousarray(state.vectors[:, used].T)
        intercept = self.constant**2 * bias
        return Expansion(self.kernel, vectors, coef[:, used].astype(np.float64), intercept)

    @property
    def no_merger(self) -> str:
        """Measured: on few rows the machines of two shards without half of their vectors are no
        better than none."""
        if self.maintenance in ("merge", "project"):
            return ""
        return (
            "with maintenance='remove' most of what the shards have learned would be dropped "
            "(maintenance='merge' and 'project' can)"
        )

    def merge(
        self, problem: Problem, states: Sequence[Any], base: Any, weights: Sequence[float]
    ) -> BudgetedState:
        """The mean of the functions, brought back under the budget by ``maintenance``."""
        table = merging.signed_table() if problem.outputs == 1 else merging.joint_table()
        return joined(
            states, base, weights, problem.ridge, 1.0 / self._eta0, self.budget,
            MAINTENANCE.index(self.maintenance), in_precision(self.kernel, problem.dtype), table,
            problem.seed,
        )  # fmt: skip

    def residual(self, problem: Problem, state: BudgetedState, before: Any, after: Any) -> float:
        """Nobody knows it: merged vectors are not those before."""
        return math.nan

    def check_state(self, problem: Problem, state: BudgetedState) -> None:
        vectors: Any = getattr(state, "vectors", None)
        if np.ndim(vectors) != 2 or vectors.shape[1] != self._slots:  # before they are asked for
            raise ValueError("the state has no room for the budget")
        super().check_state(problem, state)
        if not 0 <= state.empty <= state.size <= self.budget:
            raise ValueError("the state counts more support vectors than the budget")
        diagonal = np.diag(state.inverse)[: state.size + 1]  # empty unless projecting
        if np.any((diagonal <= 0.0) & (np.arange(diagonal.size) != state.empty)):
            raise ValueError("the state's inverse is not that of a positive matrix")

    @property
    def _slots(self) -> int:
        """One more than the budget, in whole registers."""
        return self.budget + 1 + -(self.budget + 1) % LANES

    @property
    def _eta0(self) -> float:
        return 1.0 if self.eta0 is None else self.eta0


def _limit(problem: Problem) -> float:
    """Largest stable step times k(x, x), for losses whose slope grows without bound."""
    if problem.outputs > 1 or math.isinf(problem.loss.smoothness):
        return math.inf
    return 1.0 / problem.loss.smoothness
