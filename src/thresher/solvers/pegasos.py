r"""Stochastic gradient steps on a quadratically penalised loss, with w held as scale * direction.

.. math:: \min_{w,b}\ \tfrac{\lambda}{2}\|w\|^2 + \operatorname{mean}_i\, \ell(y_i, w\cdot x_i + b)

Each update draws a mini-batch A of k rows and moves

.. math:: w \leftarrow (1 - \eta_t\lambda)\, w
          - \frac{\eta_t}{k} \sum_{i\in A} \ell'(y_i, w\cdot x_i + b)\, x_i .

Shrinking multiplies the scale, the projection onto a ball too, and the average of the iterates is
kept as a combination of two vectors, so that an update costs O(non-zeros of the batch) whatever
the number of features (``_scaled_steps.py``).

``Pegasos``: Shalev-Shwartz et al. (2011), with any loss as in Jumutc, Huang and Suykens (2013).
``WeightedPegasos``: Jumutc and Suykens (2013).  ``SGD`` with step-weighted window averaging:
Nemirovski et al. (2009), as in S. Lee's thesis (1.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from thresher import schedules
from thresher._rows import Rows, scaled
from thresher.dimensions import Float
from thresher.functions import LinearFunction
from thresher.penalties import WeightedL2
from thresher.solvers import relevance
from thresher.solvers._scaled_steps import mean_residual, scaled_sgd, subgradient_sgd
from thresher.solvers._states import combined, present
from thresher.solvers._targets import (
    SIGNS,
    TargetUnits,
    is_on_ball,
    never_rests,
    units_of,
    with_origin,
    with_origin_of_stream,
)
from thresher.solvers.base import AddUp, Chunk, Problem, Solver, check_batch, precisions
from thresher.solvers.step_lengths import tuned_schedule

__all__ = ["SGD", "Pegasos", "WeightedPegasos"]


class ScaledState(NamedTuple):
    """w = scale * direction; the average is (mass * direction - offset) / mass_of_weights."""

    direction: np.ndarray
    offset: np.ndarray
    scale: float
    sqnorm: float  # of direction
    mass: float  # sum of (averaging weight * scale) since the window opened, in units of direction
    total: float  # sum of averaging weights
    bias: float
    bias_total: float
    step: int
    seen: int
    paid: float  # loss suffered online: each row's loss just before its update
    constant: float  # loss of the best constant prediction: it sets the radius of the ball
    weights: float  # of the rows so far


def _plain(s: ScaledState) -> ScaledState:
    """With scale one, and the sum of the iterates wholly in ``offset``."""
    return s._replace(
        direction=s.scale * s.direction.astype(np.float64), scale=1.0, mass=0.0,
        offset=s.offset - s.mass * s.direction.astype(np.float64),
    )  # fmt: skip


class _ScaledSolver(Solver):
    """Shared by the solvers that keep w = scale * direction."""

    default_passes = 10
    positive_fields = frozenset({"scale"})
    sum_fields = frozenset({"seen", "paid", "constant", "weights"})

    units: TargetUnits | None = None

    def init(self, problem: Problem, chunk: Chunk | None = None) -> ScaledState:
        zeros = np.zeros(problem.n_features, dtype=problem.dtype)
        bias = (self.units or SIGNS).origin
        return ScaledState(zeros, zeros.copy(), 1.0, 0.0, 0.0, 0.0, bias, 0.0, 0, 0, 0.0, 0.0, 0.0)

    def finish(self, problem: Problem, state: ScaledState) -> LinearFunction:
        if state.total > 0.0:
            mean = (state.mass * state.direction.astype(np.float64) - state.offset) / state.total
            return LinearFunction(mean.astype(problem.dtype), state.bias_total / state.total)
        return LinearFunction((state.scale * state.direction).astype(problem.dtype), state.bias)

    def merge(self, problem: Problem, states: Any, base: ScaledState, weights: Any) -> ScaledState:
        """The mean path: w_t = sum_k p_k w_k,t with shares p_k of the mass, and so its average.

        An average is A / S with A = sum_t eta_t w_t and S = sum_t eta_t.  Both become weighted
        means, like the iterates: where shards took equally many steps, the quotient is the average
        of the mean path, and a shard whose window has not opened adds nothing to either.  ``step``
        is the clock of the steps and a weighted mean too: K iterates that were averaged after t
        steps have forgotten the start as one does after t steps.  ``seen`` and ``paid`` add up.
        """
        states, shares = present(states, weights)
        if not states:
            return self.copy(base)
        merged = combined([_plain(s) for s in states], base, shares, self.sum_fields)
        return merged._replace(sqnorm=float(np.dot(merged.direction, merged.direction)))


@dataclass(frozen=True)
class Pegasos(_ScaledSolver):
    """Pegasos with any loss: steps 1/(lambda t), optional projection onto a ball.

    The default learner of SALSA.  Prefer it for its fixed, parameter-free steps; the faster and
    more accurate default for large data is ``AveragedSGD``.  Cost per update: O(non-zeros of the
    batch).  With a ``WeightedL2`` penalty the same steps run in the coordinates sqrt(lambda_j) w_j,
    which is the weighted coordinate-wise Pegasos.

    Two classes are learned as published, but for ``average``.  Where targets are numbers, the bias
    starts at their mean and the steps, 1/(lambda (t + delay)), at Polyak's there, so that they are
    in the units of the targets; the model is a mean of the iterates.  So it is with a loss for
    numbers (least squares, Huber) where the targets are classes, but that the bias starts at zero.

    Parameters
    ----------
    batch : int, default=1
        Rows per update (k).
    project : bool, default=True
        Keep ||w|| within 1/sqrt(lambda), for two classes; where targets are numbers, ||w||^2 within
        the mean loss of their mean as a prediction / lambda, where the optimum of a loss that is
        nowhere negative lies.
    bias : {"gradient", "residual"}, default="gradient"
        Steps of at most 1/sqrt(t), or the thesis's mean residual of the batch, and of all rows at
        the end (needs batch > 1).
    schedule : Schedule or None, default=None
        Steps other than these.
    average : bool or None, default=None
        The model is the mean of the iterates, weighted by t (Lacoste-Julien, Schmidt and Bach,
        2012), instead of the last one.  None: where targets are numbers, or the loss charges rows
        beyond the margin too (pinball, least squares): no step is zero then, and the last iterate
        is where the last rows have led; False is as published.
    units : TargetUnits or None, default=None
        Start of the bias, length and delay of the steps.  None: found on a sample of the rows, of a
        stream on the first.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from thresher import LinearClassifier
    >>> X, y = make_classification(300, 20, random_state=0)
    >>> from thresher.solvers import Pegasos
    >>> model = LinearClassifier("hinge", solver=Pegasos(batch=10), alpha=0.01, random_state=0)
    >>> bool(model.fit(X, y).score(X, y) > 0.85)
    True
    """

    batch: int = 1
    project: bool = True
    bias: str = "gradient"
    schedule: schedules.Schedule | None = None
    average: bool | None = None
    units: TargetUnits | None = None
    penalty_needs = frozenset({"quadratic"})

    def check(self, problem: Problem) -> None:
        check_batch(self)
        name = type(self).__name__
        if self.bias not in ("gradient", "residual"):
            raise ValueError(f"{name}: bias must be 'gradient' or 'residual', got {self.bias!r}")
        if self.bias == "residual" and self.batch == 1 and problem.fit_intercept:
            raise ValueError(
                f"{name}: bias='residual' is the mean residual of a batch, which meets the target "
                "of a single row exactly and leaves nothing to learn: use batch > 1 or "
                "bias='gradient'"
            )
        if not np.all(precisions(problem) > 0.0):
            raise ValueError(
                "Pegasos steps are 1/(alpha t): alpha and all weights must be positive"
            )

    def prepare(self, problem: Problem, chunk: Chunk) -> tuple[Solver, Problem]:
        """Steps for targets that are numbers; those of signs are as published."""
        lam, rows = _strength_and_rows(problem, chunk)
        units = self.units or units_of(problem, rows, chunk, lam)
        average = never_rests(problem, units) if self.average is None else self.average
        return replace(self, average=average, units=units), problem

    def update(self, problem: Problem, state: ScaledState, chunk: Chunk) -> ScaledState:
        lam, rows = _strength_and_rows(problem, chunk)
        units = self.units or SIGNS
        schedule = self.schedule or schedules.Pegasos(lam, units.delay)
        radius = 1.0 / math.sqrt(lam) if self.project else math.inf
        # Steps that begin in the units of the targets are safe for a bias too.
        own = 3 if units.delay > 0.0 and self.schedule is None else 1
        mode = {"gradient": own, "residual": 2}[self.bias] if problem.fit_intercept else 0
        return ScaledState(*scaled_sgd(
            rows, chunk.y, chunk.weight, chunk.order, problem.loss, schedule, lam, self.batch,
            radius, units, 0 if self.average else -1, True, mode, state,
        ))  # fmt: skip

    def finish(self, problem: Problem, state: ScaledState) -> LinearFunction:
        coef, bias = super().finish(problem, state)
        if "uniform" not in problem.penalty.traits:
            coef = (coef * precisions(problem) ** -0.5).astype(problem.dtype)
        return LinearFunction(coef, bias)

    def is_at_bound(self, problem: Problem, state: ScaledState) -> bool:
        lam = problem.ridge if "uniform" in problem.penalty.traits else 1.0
        norm = state.scale * math.sqrt(max(state.sqnorm, 0.0))
        units = self.units or SIGNS
        return self.project and is_on_ball(norm, lam, state.constant, state.weights, units)

    def polish(self, problem: Problem, state: ScaledState, chunk: Chunk) -> ScaledState:
        if self.bias == "gradient" or not problem.fit_intercept:
            return state
        coef, _ = self.finish(problem, state)
        bias = mean_residual(*chunk, coef)
        return state._replace(bias=bias, bias_total=bias * state.total)


def _strength_and_rows(problem: Problem, chunk: Chunk) -> tuple[float, Rows]:
    """The strong convexity, and the rows, in the coordinates sqrt(lambda_j) w_j if they differ."""
    if "uniform" in problem.penalty.traits:
        return problem.ridge, chunk.rows
    return 1.0, scaled(chunk.rows, None, precisions(problem) ** -0.5)


@dataclass(frozen=True)
class WeightedPegasos(Solver):
    """Pegasos with a penalty weight per coordinate, lambda_j = alpha * precision_j.

    ``prepare`` chooses the precisions; what then runs is ``Pegasos`` with a ``WeightedL2`` penalty:
    a fitted estimator has the precisions as ``penalty_.weights`` (with several classes, those of
    the first against the rest).

    Parameters
    ----------
    precisions : {"ard", "cv", "tuned"} or array of shape (n_features,), default="ard"
        "ard": automatic relevance determination, the inverse of the learned prior variances, for
        thousands of features at most; "cv": coordinate-wise search by cross-validation, for few
        features; "tuned": equal, until ``TunedClassifier``, ``TunedRegressor`` or ``--tune`` finds
        one for each feature, ``solver__precisions__0`` and so on, by any of their searches (as
        published: ``search="csa+simplex"``, ``cv=10``, for tens of features); or positive numbers.
        They are normalised so that alpha keeps its meaning: the first so that rows keep their mean
        squared length in the coordinates sqrt(lambda_j) w_j, the others to geometric mean one.
    batch : int, default=1
        Rows per update.
    project : bool, default=True
        Keep the weights in a ball, as ``Pegasos`` does.
    bias : {"gradient", "residual"}, default="gradient"
        As for ``Pegasos``.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from thresher import LinearClassifier
    >>> X, y = make_classification(300, 20, random_state=0)
    >>> model = LinearClassifier("logistic", solver="weighted_pegasos", alpha=0.1, random_state=0)
    >>> bool(model.fit(X, y).score(X, y) > 0.8)
    True
    """

    precisions: Any = "ard"
    batch: int = 1
    project: bool = True
    bias: str = "gradient"
    penalty_needs = frozenset({"quadratic", "uniform"})
    default_passes = 10

    def check(self, problem: Problem) -> None:
        if isinstance(self.precisions, str) and self.precisions not in relevance.METHODS:
            raise ValueError(
                f"WeightedPegasos: precisions must be numbers or one of "
                f"{', '.join(relevance.METHODS)}, got {self.precisions!r}"
            )
        if isinstance(self.precisions, str) and self.precisions == "ard":
            d, most = problem.n_features, relevance.LARGEST
            if d > most:
                raise ValueError(
                    f"WeightedPegasos: precisions='ard' holds several matrices of {d} x {d} "
                    f"numbers, {8 * d * d / 2**30:.1f} GiB each, and is for at most {most} "
                    "features: give precisions as numbers, or use solver='pegasos'"
                )
        self._inner().check(problem)

    def feature_space(self, features: int) -> dict[str, Any]:
        """One precision for each feature; their common factor is alpha's."""
        if not (isinstance(self.precisions, str) and self.precisions == "tuned"):
            return {}
        return {f"precisions__{j}": Float(1e-2, 1e2, log=True) for j in range(features)}

    def _inner(self) -> Pegasos:
        return Pegasos(self.batch, self.project, self.bias)

    def surveyed(self, add_up: AddUp) -> Solver:
        """Relevance is a matter of sums over all rows."""
        ard = isinstance(self.precisions, str) and self.precisions == "ard"
        return replace(self, precisions=add_up(relevance.sums_of)) if ard else self

    def prepare(self, problem: Problem, chunk: Chunk) -> tuple[Solver, Problem]:
        weights = relevance.precisions(self.precisions, self._inner(), problem, chunk)
        problem = replace(problem, penalty=WeightedL2(weights, problem.ridge))
        return self._inner().prepare(problem, chunk)


@dataclass(frozen=True)
class SGD(_ScaledSolver):
    """SGD with the step-weighted average of the iterates after ``average_from`` updates.

    Uniform quadratic penalties cost O(non-zeros) per update.  Any other penalty with a ``subgrad``
    is followed by its subgradient, which touches all d coordinates: O(d) per update, amortised by
    ``batch``; finite averages are then dense, see FOBOS and RDA for exact zeros.

    Parameters
    ----------
    schedule : Schedule or None, default=None
        Step sizes.  None: theta / sqrt(t) with theta chosen on a sample of the rows.
    average_from : int or None, default=0
        First update of the averaging window.  None: no average, the last iterate.
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
    >>> from thresher import schedules
    >>> from thresher.solvers import SGD
    >>> solver = SGD(schedules.InverseRoot(0.1), average_from=300)
    >>> model = LinearClassifier("logistic", solver=solver, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.85)
    True
    """

    schedule: schedules.Schedule | None = None
    average_from: int | None = 0
    batch: int = 1
    origin: float | None = None
    penalty_needs = frozenset({"subgrad"})

    def check(self, problem: Problem) -> None:
        check_batch(self)

    def prepare(self, problem: Problem, chunk: Chunk) -> tuple[Solver, Problem]:
        return tuned_schedule(with_origin(self, problem, chunk), problem, chunk), problem

    def for_stream(self, problem: Problem) -> Solver:
        return with_origin_of_stream(self, self.schedule is not None)

    def init(self, problem: Problem, chunk: Chunk | None = None) -> ScaledState:
        return super().init(problem, chunk)._replace(bias=self.origin or 0.0)

    def update(self, problem: Problem, state: ScaledState, chunk: Chunk) -> ScaledState:
        kernel = scaled_sgd if "uniform" in problem.penalty.traits else subgradient_sgd
        strength: Any = problem.ridge if kernel is scaled_sgd else problem.penalty
        average_from = -1 if self.average_from is None else self.average_from
        return ScaledState(*kernel(
            chunk.rows, chunk.y, chunk.weight, chunk.order, problem.loss,
            self.schedule or schedules.InverseRoot(), strength, self.batch, math.inf, SIGNS,
            average_from, False, int(problem.fit_intercept), state,
        ))  # fmt: skip
