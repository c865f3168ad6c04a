r"""ASSET: projected subgradient steps on a kernel machine in its feature space.

.. math:: \min_{w, b}\; \tfrac\lambda2\|w\|^2 + \operatorname{mean}_i \ell(y_i, w\cdot x_i + b),
          \qquad \|w\| \le R,\; |b| \le B

by robust stochastic approximation (Nemirovski et al., 2009): with R the bound of ``_targets.py``,
of two classes the published :math:`1/\sqrt\lambda`, with :math:`D_Z = \sqrt{R^2 + B^2}` and
:math:`D_G` the root mean squared norm of a subgradient, found on a pilot sample,

.. math:: \eta_t = \theta \frac{D_Z}{D_G \sqrt t}, \quad
          w \leftarrow \Pi\bigl((1-\eta_t\lambda) w - \eta_t \ell' x\bigr), \quad
          b \leftarrow \mathrm{clip}(b - \eta_t \ell', -B, B),

and the model is the mean of the iterates from K on, weighted by their steps.  The bias is not
penalised.  ``star=True`` is ASSET*: steps :math:`1/(\lambda t)` without a bias, strongly convex.

Lee and Wright (2012); Algorithm 3 of Lee's thesis with its indices and the pilot's 1/M corrected.
Cost O(non-zeros) a row: weights are a scale times a direction, the norm is updated with them, and
the mean is kept as a multiple of the direction less a sum that only moves with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher._random import shuffled
from thresher._rows import AHEAD
from thresher.functions import LinearFunction
from thresher.solvers import driver
from thresher.solvers._states import combined, present
from thresher.solvers._targets import SIGNS, TargetUnits, is_on_ball, reach, shortened, units_of
from thresher.solvers.base import Chunk, Problem, Solver

__all__ = ["ASSET"]


class AssetState(NamedTuple):
    """w = scale * direction; the step-weighted sum of w is mass * direction - lag."""

    direction: np.ndarray
    lag: np.ndarray
    scale: float
    square: float  # squared norm of the direction
    mass: float
    bias: float
    bias_sum: float
    steps_sum: float
    step: int
    constant: float  # loss of the best constant prediction: it sets the radius R
    weights: float  # of the rows so far


@njit(cache=True, nogil=True)
def _visits(rows, y, weight, order, loss, lam, first, box, star, units, start, fit_bias, state):
    v, lag = state.direction, state.lag
    scale, square, mass = state.scale, state.square, state.mass
    bias, bias_sum, steps_sum, t = state.bias, state.bias_sum, state.steps_sum, state.step
    constant, weights = state.constant, state.weights
    radius = 1.0 / math.sqrt(lam)
    low, high = units.origin - box, units.origin + box
    for r in range(order.size):
        i = order[r]
        rows.fetch(order[min(r + AHEAD, order.size - 1)])
        t += 1
        eta = 1.0 / (lam * (t + units.delay)) if star else first / math.sqrt(t)
        inner = rows.dot(i, v)
        slope = shortened(rows, i, loss.deriv(y[i], scale * inner + bias), eta, units)
        slope *= weight[i]
        scale *= max(1.0 - eta * lam, 0.0)
        if scale < 1e-9:  # the first step of ASSET* forgets everything
            for j in range(v.size):
                lag[j] -= mass * v[j]
                v[j] *= scale
            mass, square, inner = 0.0, square * scale * scale, inner * scale
            scale = 1.0
        if slope != 0.0:
            move = -eta * slope / scale
            rows.add(i, move, v)
            if mass != 0.0:
                rows.add(i, move * mass, lag)
            square = max(square + move * (2.0 * inner + move * rows.sqnorm(i)), 0.0)
            if fit_bias:
                bias = min(max(bias - eta * slope, low), high)
        constant += weight[i] * loss.value(y[i], units.origin)
        weights += weight[i]
        norm, longest = scale * math.sqrt(square), radius * reach(constant, weights, units.floor)
        if norm > longest:
            scale *= longest / norm
        if t >= start:
            mass += eta * scale
            bias_sum += eta * bias
            steps_sum += eta
    return v, lag, scale, square, mass, bias, bias_sum, steps_sum, t, constant, weights


@njit(cache=True, nogil=True)
def _pilot(rows, y, weight, order, loss, units, fit_bias):
    """At the constant prediction: mean squared norm of the subgradients, and R sqrt(lambda); then
    the largest norm of a row and the largest distance of a target."""
    total, longest, furthest, constant, weights = 0.0, 0.0, 0.0, 0.0, 0.0
    for r in range(order.size):
        i = order[r]
        slope = weight[i] * loss.deriv(y[i], units.origin)
        square = rows.sqnorm(i)
        total += slope * slope * (square + (1.0 if fit_bias else 0.0))
        longest = max(longest, square)
        furthest = max(furthest, abs(y[i] - units.origin))
        constant += weight[i] * loss.value(y[i], units.origin)
        weights += weight[i]
    unit = reach(constant, weights, units.floor)
    return total / max(order.size, 1), unit, math.sqrt(longest), furthest


@dataclass(frozen=True)
class ASSET(Solver):
    """Robust stochastic approximation with an unpenalised bias in a box.

    Parameters
    ----------
    theta : float or None, default=None
        Factor of the steps D_Z / (D_G sqrt(t)); 1 is the theory's.  None: chosen on a sample.
    star : bool, default=False
        Steps 1 / (lambda t) and no bias (ASSET*).
    box : float or None, default=None
        Bound B of the bias, from where it starts.  None: the largest distance of a target of the
        pilot from there, + its largest row norm times R.
    pilot : int, default=1000
        Rows on which D_G is measured.
    rho : float, default=0.5
        Share of the planned visits before the mean begins; in a stream it begins at once.
    start : int or None, default=None
        Visit K at which it begins instead.
    first : float or None, default=None
        theta D_Z / D_G; set by ``fit``.
    units : TargetUnits or None, default=None
        Start of the bias, length and delay (of ASSET*) of the steps.  None: as for ``Pegasos``.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from thresher import LinearClassifier
    >>> X, y = make_classification(300, 20, random_state=0)
    >>> model = LinearClassifier("hinge", solver="asset", alpha=0.01, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.85)
    True
    """

    theta: float | None = None
    star: bool = False
    box: float | None = None
    pilot: int = 1000
    rho: float = 0.5
    start: int | None = None
    first: float | None = None
    units: TargetUnits | None = None
    penalty_needs = frozenset({"quadratic", "uniform"})
    sum_fields = frozenset({"constant", "weights"})
    default_passes = 10
    positive_fields = frozenset({"scale"})

    def check(self, problem: Problem) -> None:
        if not problem.ridge > 0.0:
            raise ValueError("ASSET needs a positive alpha: it bounds the weights")
        if self.star and problem.fit_intercept:
            raise ValueError(
                "ASSET(star=True) has no bias, which is not strongly convex: use "
                "fit_intercept=False, or star=False"
            )
        if self.theta is not None and not self.theta > 0.0:
            raise ValueError(f"ASSET: theta must be positive, got {self.theta}")
        if self.box is not None and not self.box > 0.0:
            raise ValueError(f"ASSET: box must be positive, got {self.box}")
        if not 0.0 <= self.rho < 1.0:
            raise ValueError(f"ASSET: rho must lie in [0, 1), got {self.rho}")

    def planned(self, visits: int) -> Solver:
        return self if self.start is not None else replace(self, start=1 + int(self.rho * visits))

    def prepare(self, problem: Problem, chunk: Chunk) -> tuple[Solver, Problem]:
        units = self.units or units_of(problem, chunk.rows, chunk, problem.ridge)
        if self.star:
            return replace(self, units=units), problem
        sample = shuffled(chunk.order, problem.seed, 6)[: self.pilot]
        rows, y, weight, _ = chunk
        square, unit, longest, furthest = _pilot(
            rows, y, weight, sample, problem.loss, units, problem.fit_intercept
        )
        radius = unit / math.sqrt(problem.ridge)
        # At an optimal bias some target lies on either side: |b| <= max |y| + ||w|| max ||x||.
        box = (self.box or furthest + longest * radius) if problem.fit_intercept else 0.0
        reach = math.hypot(radius, box) / max(math.sqrt(square), 1e-300)
        solver = replace(self, box=max(box, 1e-300), units=units)
        if self.theta is not None:
            return replace(solver, first=self.theta * reach), problem
        steps = _first_steps(reach, problem, units, chunk.order.size)
        firsts = driver.variants(replace(solver, start=None), "first", steps)
        best: Any = driver.best_on_sample(firsts, problem, chunk)
        found = replace(
            solver, first=best.first, theta=best.first / reach if reach else 1.0, start=self.start
        )
        return found, problem

    def init(self, problem: Problem, chunk: Chunk | None = None) -> AssetState:
        d = problem.n_features
        bias = (self.units or SIGNS).origin
        return AssetState(np.zeros(d), np.zeros(d), 1.0, 0.0, 0.0, bias, 0.0, 0.0, 0, 0.0, 0.0)

    def update(self, problem: Problem, state: AssetState, chunk: Chunk) -> AssetState:
        return AssetState(*_visits(
            *chunk, problem.loss, problem.ridge, self.first or 1.0, self.box or math.inf, self.star,
            self.units or SIGNS, self.start or 1, problem.fit_intercept, state,
        ))  # fmt: skip

    def finish(self, problem: Problem, state: AssetState) -> LinearFunction:
        if state.steps_sum > 0.0:
            coef = (state.mass * state.direction - state.lag) / state.steps_sum
            return LinearFunction(coef.astype(problem.dtype), state.bias_sum / state.steps_sum)
        return LinearFunction((state.scale * state.direction).astype(problem.dtype), state.bias)

    def is_at_bound(self, problem: Problem, state: AssetState) -> bool:
        units, norm = self.units or SIGNS, state.scale * math.sqrt(max(state.square, 0.0))
        if is_on_ball(norm, problem.ridge, state.constant, state.weights, units):
            return True
        box = self.box or math.inf
        return problem.fit_intercept and abs(state.bias - units.origin) >= (1.0 - 1e-6) * box

    def merge(self, problem: Problem, states: Any, base: AssetState, weights: Any) -> AssetState:
        """The mean path: w_t = sum_k p_k w_k,t with shares p_k of the mass, and so its mean over t.

        The step-weighted sums of the iterates and of their steps become weighted means, like the
        iterates themselves: where shards took equally many steps, their quotient is the mean of the
        mean path.  ``step`` is the clock of the steps and a weighted mean too.
        """
        states, shares = present(states, weights)
        if not states:
            return self.copy(base)
        merged = combined([_plain(s) for s in states], base, shares, self.sum_fields)
        return merged._replace(square=float(merged.direction @ merged.direction))


def _first_steps(reach: float, problem: Problem, units: TargetUnits, rows: int) -> list[float]:
    """Some to choose from, long ones first: the theory's and shorter ones.

    Where targets are numbers, steps are cut to Polyak's for each row.  If the theory's would be cut
    all through a first pass (rows of raw features may be long), the others begin with that of a
    mean row at the end of it.
    """
    shares = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003)
    longest = math.sqrt(rows) / (problem.ridge * units.delay) if units.delay > 0.0 else math.inf
    if reach <= longest:
        return [share * reach for share in shares]
    return [reach, *(share * longest for share in shares)]


def _plain(s: AssetState) -> AssetState:
    """With scale one, and the sum of the iterates wholly in ``lag``."""
    return s._replace(
        direction=s.scale * s.direction, lag=s.lag - s.mass * s.direction, scale=1.0, mass=0.0
    )
