"""Steps of 3C-SVM on rows of features: each is a linear problem with a loss of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from thresher._rows import Rows, as_rows
from thresher.losses import EpsilonInsensitive, Hinge, Loss
from thresher.penalties import L2
from thresher.solvers import driver
from thresher.solvers.base import Near, Problem
from thresher.solvers.newton import predict
from thresher.solvers.smoothing import SmoothedNewton
from thresher.solvers.universum import Convex, Stage

__all__ = ["FeatureSteps", "SidedHinges"]

_EITHER = 3.0
_WARM = 0.03  # first rounding of kinks where a step starts from the one before
_HINGE, _TUBE = Hinge(), EpsilonInsensitive()


@dataclass(frozen=True)
class SidedHinges(Loss):
    """What a row costs in a step; the target says which hinges it has.

    -1 and +1 are labels, 0 is irrelevant; an unlabelled row is -2 or +2 where it is taken for a
    member of that class, 3 for one of either.

    Parameters
    ----------
    hinge : Loss, default=Hinge()
    tube : Loss, default=EpsilonInsensitive()
        Of irrelevant rows.
    offset : float, default=0.0
        Added to all predictions.

    Examples
    --------
    >>> from thresher.solvers.universum_features import SidedHinges
    >>> SidedHinges().value(2.0, 0.25), SidedHinges().value(0.0, 0.5), SidedHinges().value(3.0, 0.0)
    (0.75, 0.4, 2.0)
    """

    hinge: Any = _HINGE
    tube: Any = _TUBE
    offset: float = 0.0

    def value(self, y, p):
        p = p + self.offset
        if y == 0.0:
            return self.tube.value(0.0, p)
        if abs(y) == 1.0:
            return self.hinge.value(y, p)
        if y == _EITHER:
            return self.hinge.value(1.0, p) + self.hinge.value(-1.0, p)
        m = 0.5 * y * p
        return self.hinge.value(1.0, m) + self.hinge.value(1.0, m + 2.0)

    def deriv(self, y, p):
        p = p + self.offset
        if y == 0.0:
            return self.tube.deriv(0.0, p)
        if abs(y) == 1.0:
            return self.hinge.deriv(y, p)
        if y == _EITHER:
            return self.hinge.deriv(1.0, p) + self.hinge.deriv(-1.0, p)
        m = 0.5 * y * p
        return 0.5 * y * (self.hinge.deriv(1.0, m) + self.hinge.deriv(1.0, m + 2.0))

    def curvature(self, y, p):
        p = p + self.offset
        if y == 0.0:
            return self.tube.curvature(0.0, p)
        if abs(y) == 1.0:
            return self.hinge.curvature(y, p)
        if y == _EITHER:
            return self.hinge.curvature(1.0, p) + self.hinge.curvature(-1.0, p)
        m = 0.5 * y * p
        return self.hinge.curvature(1.0, m) + self.hinge.curvature(1.0, m + 2.0)

    def smoothed(self, width):
        return SidedHinges(self.hinge.smoothed(width), self.tube.smoothed(width), self.offset)


class FeatureSteps:
    r"""Solves a ``Convex`` step for a linear function of features; its intercept costs nothing.

    With a ``balance`` c, the mean score of the rows ``members``, whose mean is m, the function is
    :math:`w \cdot (x - m) + c`: rows are shifted, and there is no intercept to be found.

    Parameters
    ----------
    rows : Rows
    members : int array, default=()
        The rows of the balance.
    balance : float or None, default=None
    tol : float, default=1e-4
        Of a step: how far its objective may be from the least, relative to it.
    seed : int, default=0
    monitor : callable or None, default=None
        As ``driver.learn`` takes it.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher._rows import as_rows
    >>> from thresher.solvers.universum import ThreeClass, descend
    >>> from thresher.solvers.universum_features import FeatureSteps
    >>> rows = as_rows(np.array([[-2.0], [2.0], [-1.9], [2.1], [0.1]]))
    >>> y = np.array([-1.0, 1.0, np.nan, np.nan, np.nan])
    >>> found = descend(ThreeClass(), y, np.ones(5), FeatureSteps(rows), start="labelled")
    >>> found.sides.tolist()
    [-1, 1, -1, 1, 0]
    """

    def __init__(
        self, rows: Rows, members: Any = (), balance: float | None = None, tol: float = 1e-4,
        seed: int = 0, monitor: driver.Monitor | None = None,
    ):  # fmt: skip
        self._balance, self._tol, self._seed, self._monitor = balance, tol, seed, monitor
        self._rows, self._mean = rows, None
        if balance is not None:
            if rows.is_sparse:
                raise ValueError(
                    "a balance shifts the features, which would fill in the zeros of sparse rows: "
                    "use algorithm='exact', or dense rows"
                )
            self._mean = rows.taken(np.asarray(members)).mean(axis=0)
            self._rows = as_rows(rows.taken(np.arange(rows.shape[0])) - self._mean)

    def __enter__(self) -> FeatureSteps:
        return self

    def __exit__(self, *_: Any) -> None:
        """There is nothing to close."""

    @property
    def variables(self) -> int:
        """Of a start: the weights, and the intercept."""
        return int(self._rows.shape[1]) + 1

    def __call__(self, step: Convex, start: np.ndarray | None) -> Stage:
        """The solution, from the weights of the step before."""
        loss = SidedHinges(Hinge(), EpsilonInsensitive(step.epsilon), self._balance or 0.0)
        mass = float(step.cost.sum())
        d = self._rows.shape[1]
        problem = Problem(
            loss, L2(1.0 / mass), d, self._balance is None, np.float64, self._seed, self._tol
        )
        unknown = np.isnan(step.y)
        y = np.where(unknown & (np.abs(step.sides) == 1), 2.0 * step.sides, step.sides)
        y = np.where(unknown & (step.sides == 2), _EITHER, y)
        chunk = driver.whole(self._rows, y, step.cost)
        near = None
        if start is not None:
            near = Near(problem, start[:-1], float(start[-1]), None)
        solver = SmoothedNewton() if start is None else SmoothedNewton(width=_WARM)
        plan = driver.Plan(solver.default_passes)
        result = driver.learn(solver, problem, chunk, plan, near, self._monitor)
        w = result.function.coef.astype(np.float64)
        scores = np.empty(self._rows.shape[0])
        predict(self._rows, np.arange(scores.size), w, float(result.function.intercept), scores)
        intercept = float(result.function.intercept)
        start = np.append(w, intercept)
        if self._mean is not None and self._balance is not None:
            scores += self._balance
            intercept = float(self._balance - w @ self._mean)
        return Stage(
            scores, w, intercept, float(w @ w), start, result.status, result.passes, result.residual
        )
