r"""Pegasos for coupled classes and rows of none: one function a class, their normals kept apart.

.. math:: \min_w\ \frac\lambda2 \sum_{jp} M_{jp} \langle w_j, w_p\rangle
          + \operatorname{mean}_i \sum_j \max(0,\ 1 - y_{ij} (\langle w_j, x_i\rangle + b_j)),
          \qquad M = (\gamma - 1) I + 11'

with y_ij = +1 if row i is of class j and -1 if not; a row of no class is -1 for all.  The
intercepts are weights of a constant feature, and penalised like the others.

M has the eigenvalues gamma - 1 + c, for the mean of the classes, and gamma - 1, for what they
differ by.  So the weights are held as W = a (V - mean V) + b mean V: shrinking multiplies the two
numbers a and b, and an update costs O(non-zeros x classes) whatever the number of features.  The
average of the iterates is kept the same way.

The steps are 1 / (lambda m (t + d)), m = min(1, gamma - 1) the curvature that is there for certain,
and d such that the first step changes the score of a usual row by one and no shrinking overshoots
zero.  As published they are 1 / (lambda t), which is safe for gamma >= 2 only, overshoots while
t < gamma - 1 + c, and leaves a short stream with what its first rows have said.

The optimum lies within the ball of radius sqrt(c / (lambda (gamma - 1))), by the smallest
eigenvalue of M; the published radius, by the largest one, may cut it off.

Reference: Jumutc and Suykens, Multi-class supervised novelty detection, IEEE TPAMI (2014), Alg. 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher.functions import LinearFunction
from thresher.solvers._states import combined, present
from thresher.solvers.base import Chunk, Problem, Solver, check_batch
from thresher.solvers.step_lengths import mean_sqnorm

__all__ = ["RADII", "NoveltyPegasos"]

RADII = ("corrected", "published", None)
_SMALL = 1e-9


class CoupledState(NamedTuple):
    """W = apart (V - mean V) + mean_scale mean V, over the classes; V is ``table`` and ``bias``.

    The sum of the weighted iterates is the same with the two masses, less ``past`` and
    ``past_bias``.
    """

    table: np.ndarray  # (features, classes)
    bias: np.ndarray
    past: np.ndarray
    past_bias: np.ndarray
    apart: float
    mean_scale: float
    apart_mass: float
    mean_mass: float
    total: float  # of averaging weights
    apart_square: float  # squared norm of V - mean V
    mean_square: float  # squared norm of mean V, once for each class
    step: int
    seen: int
    weights: float  # of the rows so far


@njit(cache=True, nogil=True)
def _mix(values, apart, mean_scale, out):
    """out = apart (values - mean) + mean_scale mean."""
    mean = 0.0
    for c in range(values.size):
        mean += values[c]
    mean /= values.size
    for c in range(values.size):
        out[c] = apart * (values[c] - mean) + mean_scale * mean


@njit(cache=True, nogil=True)
def _mix_rows(table, apart, mean_scale):
    """The same for every row of a table, in place."""
    for j in range(table.shape[0]):
        _mix(table[j], apart, mean_scale, table[j])


@njit(cache=True, nogil=True)
def _flush(table, bias, past, past_bias, apart, mean_scale, apart_mass, mean_mass):
    """Write the two numbers into the table, and the masses into the past."""
    mixed = np.empty(bias.size)
    for j in range(table.shape[0]):
        _mix(table[j], apart_mass, mean_mass, mixed)
        for c in range(mixed.size):
            past[j, c] -= mixed[c]
    _mix(bias, apart_mass, mean_mass, mixed)
    for c in range(mixed.size):
        past_bias[c] -= mixed[c]
    _mix_rows(table, apart, mean_scale)
    _mix(bias, apart, mean_scale, bias)


@njit(cache=True, nogil=True)
def _learn(
    rows, y, weight, order, lam, gamma, modulus, delay, batch, radius, average, constant, state
):
    """Updates of one chunk; ``radius`` is for rows of mean weight one, inf: no ball."""
    table, bias, past, past_bias = state.table, state.bias, state.past, state.past_bias
    apart, mean_scale = state.apart, state.mean_scale
    apart_mass, mean_mass, total = state.apart_mass, state.mean_mass, state.total
    apart_square, mean_square = state.apart_square, state.mean_square
    step, seen, weights = state.step, state.seen, state.weights
    classes = bias.size
    raw = np.empty(classes, dtype=table.dtype)
    scores, slopes = np.empty(classes), np.zeros((batch, classes))
    push, pushed, inner = np.empty(classes), np.empty(classes), np.empty(classes, table.dtype)
    for first in range(0, order.size, batch):
        size = min(batch, order.size - first)
        step += 1
        eta = 1.0 / (lam * modulus * (step + delay))
        for r in range(size):
            i = order[first + r]
            raw[:] = 0.0
            rows.dots(i, table, raw)
            for c in range(classes):
                push[c] = raw[c] + constant * bias[c]
            _mix(push, apart, mean_scale, scores)
            for c in range(classes):
                sign = 1.0 if y[i] == c else -1.0
                slopes[r, c] = weight[i] * sign / size if sign * scores[c] < 1.0 else 0.0
            weights += weight[i]
        seen += size

        apart *= 1.0 - eta * lam * (gamma - 1.0)
        mean_scale *= 1.0 - eta * lam * (gamma - 1.0 + classes)
        # With one class there is nothing that classes differ by.
        if abs(mean_scale) < _SMALL or (abs(apart) < _SMALL and classes > 1):
            _flush(table, bias, past, past_bias, apart, mean_scale, apart_mass, mean_mass)
            apart_square *= apart * apart
            mean_square *= mean_scale * mean_scale
            apart = mean_scale = 1.0
            apart_mass = mean_mass = 0.0
        over = 0.0 if classes == 1 else 1.0 / apart
        for r in range(size):
            some = False
            for c in range(classes):
                some = some or slopes[r, c] != 0.0
            if not some:
                continue
            i = order[first + r]
            for c in range(classes):
                push[c] = eta * slopes[r, c]
            _mix(push, over, 1.0 / mean_scale, push)
            _mix(push, apart_mass, mean_mass, pushed)
            inner[:] = 0.0
            rows.dots(i, table, inner)
            square = rows.sqnorm(i) + constant * constant
            mean_push, mean_inner = 0.0, 0.0
            for c in range(classes):
                mean_push += push[c] / classes
                mean_inner += (inner[c] + constant * bias[c]) / classes
            for c in range(classes):
                off = push[c] - mean_push
                near = inner[c] + constant * bias[c] - mean_inner
                apart_square += off * (2.0 * near + off * square)
            mean_square += classes * mean_push * (2.0 * mean_inner + mean_push * square)
            for k in range(rows.start(i), rows.stop(i)):
                x, j = rows.element(i, k), rows.column(i, k)
                for c in range(classes):
                    table[j, c] += x * push[c]
                    past[j, c] += x * pushed[c]
            for c in range(classes):
                bias[c] += constant * push[c]
                past_bias[c] += constant * pushed[c]
        if radius < math.inf:
            norm = math.sqrt(
                max(apart * apart * apart_square, 0.0)
                + max(mean_scale * mean_scale * mean_square, 0.0)
            )
            longest = radius * math.sqrt(weights / seen)
            if norm > longest:
                apart *= longest / norm
                mean_scale *= longest / norm
        if average:
            apart_mass += step * apart
            mean_mass += step * mean_scale
            total += step
    return (
        table, bias, past, past_bias, apart, mean_scale, apart_mass, mean_mass, total,
        apart_square, mean_square, step, seen, weights,
    )  # fmt: skip


@dataclass(frozen=True)
class NoveltyPegasos(Solver):
    r"""Stochastic gradient steps for one function a class with coupled normals.

    Targets are class numbers; any other number is a row of no class.  The strength of the penalty
    is lambda; the loss is the hinge.

    Parameters
    ----------
    gamma : float, default=2.0
        Weight of the squared normals beside their inner products, larger than 1.
    radius : {"corrected", "published", None}, default="corrected"
        Of the ball that the weights are kept within: sqrt(c / (lambda (gamma - 1))), where the
        optimum lies; as published, sqrt(c / (lambda (gamma + c - 1))), which may cut it off; or no
        ball.
    average : bool, default=True
        The model is the mean of the iterates, weighted by t; False: the last one, as published.
    delayed : bool, default=True
        Steps of 1 / (lambda m (t + d)) with the m and d of the module's text; False: 1 / (lambda t)
        as published, for gamma >= 2.
    first : float or None, default=None
        The first step, where they are delayed.  None: one over the mean squared norm of the rows,
        of a stream of its first ones.
    batch : int, default=1
        Rows per update.
    constant : float, default=1.0
        Value of the constant feature that gives each class an intercept; 0: none.

    Examples
    --------
    Two classes and rows of neither:

    >>> import numpy as np
    >>> from thresher._rows import as_rows
    >>> from thresher.losses import Hinge
    >>> from thresher.penalties import L2
    >>> from thresher.solvers import Problem, driver
    >>> from thresher.solvers.novelty_pegasos import NoveltyPegasos
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2)) * 0.3 + np.repeat([[2, 0], [0, 2], [-2, -2]], 100, axis=0)
    >>> y = np.repeat([0.0, 1.0, -1.0], 100)
    >>> problem = Problem(Hinge(), L2(0.01), 2, outputs=2)
    >>> found = driver.learn(NoveltyPegasos(), problem, driver.whole(as_rows(X), y), driver.Plan(5))
    >>> scores = found.function.scores(X)
    >>> bool(np.all(scores[y < 0].max(axis=1) < 0)), bool(np.all(scores[:100].argmax(1) == 0))
    (True, True)
    """

    gamma: float = 2.0
    radius: str | None = "corrected"
    average: bool = True
    delayed: bool = True
    first: float | None = None
    batch: int = 1
    constant: float = 1.0
    loss_needs = frozenset()
    penalty_needs = frozenset({"quadratic", "uniform"})
    default_passes = 10
    joint = True
    by_codes = True
    sum_fields = frozenset({"seen", "weights"})

    def __post_init__(self) -> None:
        if not 1.0 < self.gamma < math.inf:
            raise ValueError(f"NoveltyPegasos: gamma must be larger than 1, got {self.gamma}")
        if not 0.0 <= self.constant < math.inf:
            raise ValueError(f"NoveltyPegasos: constant must be at least 0, got {self.constant}")
        if self.first is not None and not 0.0 < self.first < math.inf:
            raise ValueError(f"NoveltyPegasos: first must be a positive step, got {self.first}")
        if self.radius not in RADII:
            known = ", ".join(map(repr, RADII))
            raise ValueError(f"NoveltyPegasos: radius must be one of {known}, got {self.radius!r}")

    def check(self, problem: Problem) -> None:
        check_batch(self)
        if not 0.0 < problem.ridge < math.inf:
            raise ValueError(f"alpha must be positive and finite, got {problem.ridge}")

    def ball(self, problem: Problem) -> float:
        """The radius, for rows of mean weight one."""
        if self.radius is None:
            return math.inf
        c = problem.outputs
        curvature = self.gamma - 1.0 + (c if self.radius == "published" else 0.0)
        return math.sqrt(c / (problem.ridge * curvature))

    def prepare(self, problem: Problem, chunk: Chunk) -> tuple[Solver, Problem]:
        if self.first is not None or not self.delayed:
            return self, problem
        square = mean_sqnorm(chunk) + self.constant**2
        usual = 0.0 < square < math.inf
        return replace(self, first=1.0 / square if usual else 1.0), problem

    def rates(self, problem: Problem) -> tuple[float, float]:
        """The m and d of the steps 1 / (lambda m (t + d))."""
        if not self.delayed:
            return 1.0, 0.0
        modulus = min(1.0, self.gamma - 1.0)
        delay = (self.gamma - 1.0 + problem.outputs) / modulus
        if self.first is not None:
            delay = max(delay, 1.0 / (problem.ridge * modulus * self.first))
        return modulus, delay - 1.0

    def init(self, problem: Problem, chunk: Chunk | None = None) -> CoupledState:
        shape = (problem.n_features, problem.outputs)
        return CoupledState(
            np.zeros(shape, problem.dtype), np.zeros(shape[1]), np.zeros(shape), np.zeros(shape[1]),
            1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0.0,
        )  # fmt: skip

    def update(self, problem: Problem, state: CoupledState, chunk: Chunk) -> CoupledState:
        modulus, delay = self.rates(problem)
        return CoupledState(*_learn(
            chunk.rows, chunk.y, chunk.weight, chunk.order, problem.ridge, float(self.gamma),
            modulus, delay, self.batch, self.ball(problem), self.average, float(self.constant),
            state,
        ))  # fmt: skip

    def finish(self, problem: Problem, state: CoupledState) -> LinearFunction:
        if state.total > 0.0:
            scales = (state.apart_mass, state.mean_mass)
            coef = (_mixed(state.table, *scales) - state.past) / state.total
            bias = (_mixed(state.bias, *scales) - state.past_bias) / state.total
        else:
            scales = (state.apart, state.mean_scale)
            coef, bias = _mixed(state.table, *scales), _mixed(state.bias, *scales)
        coef = np.ascontiguousarray(coef.T).astype(problem.dtype)
        return LinearFunction(coef, self.constant * bias)

    def is_at_bound(self, problem: Problem, state: CoupledState) -> bool:
        squares = state.apart**2 * state.apart_square + state.mean_scale**2 * state.mean_square
        longest = self.ball(problem) * math.sqrt(state.weights / max(state.seen, 1))
        return math.sqrt(max(squares, 0.0)) > 0.999 * longest

    def merge(
        self, problem: Problem, states: Any, base: CoupledState, weights: Any
    ) -> CoupledState:
        """The mean path, as that of ``Pegasos``: iterates, their averages and the clock are means
        weighted by mass."""
        states, shares = present(states, weights)
        if not states:
            return self.copy(base)
        merged = combined([_plain(s) for s in states], base, shares, self.sum_fields)
        whole = np.vstack([merged.table.astype(np.float64), merged.bias])
        mean = whole.mean(axis=1, keepdims=True)
        return merged._replace(
            apart_square=float(np.sum((whole - mean) ** 2)),
            mean_square=float(np.sum(mean**2) * whole.shape[1]),
        )


def _mixed(table: np.ndarray, apart: float, mean_scale: float) -> np.ndarray:
    values = table.astype(np.float64)
    mean = values.mean(axis=-1, keepdims=True)
    return apart * (values - mean) + mean_scale * mean


def _plain(s: CoupledState) -> CoupledState:
    """With both numbers one, and the sum of the iterates wholly in the past."""
    scales, masses = (s.apart, s.mean_scale), (s.apart_mass, s.mean_mass)
    return s._replace(
        table=_mixed(s.table, *scales), bias=_mixed(s.bias, *scales), apart=1.0, mean_scale=1.0,
        apart_mass=0.0, mean_mass=0.0, past=s.past - _mixed(s.table, *masses),
        past_bias=s.past_bias - _mixed(s.bias, *masses),
    )  # fmt: skip
