r"""Classes, rows of no class, and rows that nobody has labelled: 3C-SVM by concave-convex steps.

With :math:`H_s(u) = \max(0, s - u)` and :math:`I_\epsilon(u) = \max(0, |u| - \epsilon)`,

.. math:: \min_{w, b} \tfrac12\|w\|^2 + \sum_{\text{labelled}} c_i H_1(y_i f_i)
          + \sum_{\text{irrelevant}} c_i I_\epsilon(f_i)
          + \sum_{\text{unlabelled}} c_i \min\{H_1(|f_i|),\, 1 + \kappa,\, I_\epsilon(f_i)\}

An unlabelled row is taken for a member of a class where the function is sure of it, and for one of
no class where it is not; its loss is nothing for :math:`|f| \le \epsilon` and :math:`|f| \ge 1`.
:math:`-1 < \kappa \le 0` cuts off the top of the hinge.  Unlabelled rows may also be said to be all
relevant (S3VM, the transductive machine) or all irrelevant (U-SVM, which is convex).

The losses of a row are at most two hinges, :math:`c\,H_s(u)` of :math:`u = f` and of
:math:`u = -f`, less concave parts: :math:`\min\{H_1(|u|), 1 + \kappa\} = H_1(u) - H_\kappa(u) +
H_1(-u) - H_\kappa(-u) - (1 - \kappa)`.  A step says of every unlabelled row which of the losses is
the smaller one now, puts tangents in place of the concave parts, and solves the convex problem
that is left (``Convex``).  The objective never rises.  The dual of a step has a variable
:math:`z = \pm(a - \mu)` for every hinge, with :math:`\mu = c` where the tangent is taken and zero
elsewhere:

.. math:: \min_z \tfrac12 \|\sum_j z_j \varphi(x_j)\|^2 + p'z, \quad l \le z \le u,
          \quad \sum_j z_j = 0

References: Yang, Zhu, King and Lyu, Can irrelevant data help semi-supervised learning, why and how?
(CIKM 2011); Weston et al., Inference with the universum (2006); Collobert et al., Large scale
transductive SVMs (2006).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from thresher.solvers.base import Status

__all__ = [
    "READINGS", "STARTS", "Convex", "Descent", "Hinges", "Position", "Stage", "ThreeClass",
    "descend",
]  # fmt: skip

#: what unlabelled rows may be taken for
READINGS = ("mixed", "relevant", "irrelevant")
STARTS = ("auto", "irrelevant", "labelled")


class Hinges(NamedTuple):
    """Hinges of f (first row of each array) and of -f (second), of all rows.

    A hinge costs max(-lower (f + p), -upper (f + p)); equal bounds: there is none.
    """

    p: np.ndarray  # (2, rows)
    lower: np.ndarray
    upper: np.ndarray


class Convex(NamedTuple):
    """The problem of a step: rows are taken for what ``sides`` says.

    Parameters
    ----------
    epsilon : float
    y : array of shape (n,)
        Targets: -1, +1, 0 for irrelevant, NaN for unlabelled.
    cost : array of shape (n,)
        The c of every row.
    sides : int array of shape (n,)
        -1 and +1, 0 for irrelevant; 2: a member of either class.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.solvers.universum import Convex
    >>> y, sides = np.array([1.0, np.nan, np.nan]), np.array([1, -1, 0])
    >>> step = Convex(0.1, y, np.array([5.0, 2.0, 2.0]), sides)
    >>> step.hinges().lower.tolist(), step.hinges().upper.tolist()
    ([[0.0, -2.0, 0.0], [0.0, -2.0, -2.0]], [[5.0, 0.0, 2.0], [0.0, 0.0, 0.0]])
    """

    epsilon: float
    y: np.ndarray
    cost: np.ndarray
    sides: np.ndarray

    def hinges(self) -> Hinges:
        """As bounds and linear parts of dual variables."""
        y, sides = self.y, self.sides
        unknown, none = np.isnan(y), sides == 0
        p, lower, upper = (np.zeros((2, y.size)) for _ in range(3))
        for k, sign in enumerate((1.0, -1.0)):
            p[k] = np.where(none, sign * self.epsilon, -sign)
            there = np.where(unknown | none | (sides == sign), self.cost, 0.0)
            tangent = unknown & (sides == -sign)  # mu = c
            low, high = np.where(tangent, -there, 0.0), np.where(tangent, 0.0, there)
            lower[k], upper[k] = (low, high) if sign > 0.0 else (0.0 - high, 0.0 - low)
        return Hinges(p, lower, upper)


class Stage(NamedTuple):
    """The solution of a step."""

    scores: np.ndarray
    coef: np.ndarray  # of the rows, or of their features
    intercept: float
    squared_norm: float
    start: np.ndarray  # for the next step
    status: Status
    steps: int
    violation: float
    negative: int = 0


@dataclass(frozen=True)
class ThreeClass:
    """What a row costs at a score: targets are -1, +1, 0 for irrelevant and NaN for unlabelled.

    Parameters
    ----------
    epsilon : float, default=0.1
        Within which the scores of irrelevant rows cost nothing.
    kappa : float, default=0.0
        In (-1, 0]: an unlabelled row costs at most 1 + kappa.
    unlabelled : {"mixed", "relevant", "irrelevant"}, default="mixed"
        What rows without a label are taken for.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.solvers.universum import ThreeClass
    >>> scores = np.array([-2.0, -0.5, 0.1, 0.7])
    >>> ThreeClass(epsilon=0.1).values(np.full(4, np.nan), scores).round(3).tolist()
    [0.0, 0.4, 0.0, 0.3]
    """

    epsilon: float = 0.1
    kappa: float = 0.0
    unlabelled: str = "mixed"

    def values(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """The loss of every row."""
        unknown = np.isnan(y)
        tube = np.maximum(np.abs(f) - self.epsilon, 0.0)
        with np.errstate(invalid="ignore"):
            out = np.where(y == 0.0, tube, np.maximum(1.0 - y * f, 0.0))
        relevant = self._taken_for_members(f)
        return np.where(unknown, np.where(relevant, self._doubt(f), tube), out)

    def _doubt(self, f: np.ndarray) -> np.ndarray:
        return np.minimum(np.maximum(1.0 - np.abs(f), 0.0), 1.0 + self.kappa)

    def _taken_for_members(self, f: np.ndarray) -> np.ndarray:
        if self.unlabelled != "mixed":
            return np.full(f.shape, self.unlabelled == "relevant")
        return self.are_members(f)

    def are_members(self, f: np.ndarray) -> np.ndarray:
        """Where being a member of a class costs no more than being of none."""
        return self._doubt(f) <= np.maximum(np.abs(f) - self.epsilon, 0.0)

    def sides(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """What every row is taken for: -1 and +1, 0 for irrelevant; 2: a member of either class.

        Labelled and irrelevant rows are what they are.
        """
        with np.errstate(invalid="ignore"):
            member = np.where(f > -self.kappa, 1, np.where(f < self.kappa, -1, 2))
        if self.kappa == 0.0:  # on the line itself: any tangent will do
            member = np.where(f >= 0.0, 1, -1)
        unknown = np.isnan(y)
        told = np.where(unknown, 0.0, y).astype(np.int8)
        guessed = np.where(self._taken_for_members(f), member, 0).astype(np.int8)
        return np.where(unknown, guessed, told)


class Position(NamedTuple):
    """A step that begins or goes on: what rows are taken for, and where it starts.

    ``path`` are the objectives of the steps before it.
    """

    sides: np.ndarray
    start: np.ndarray | None
    path: list[float]


class Descent(NamedTuple):
    """Where the steps ended, and the objective after each of them."""

    stage: Stage
    path: list[float]
    sides: np.ndarray
    status: Status
    steps: int


Step = Callable[[Convex, np.ndarray | None], Stage]
Told = Callable[[Position], Status | None]


def descend(
    loss: ThreeClass, y: np.ndarray, cost: np.ndarray, step: Step, *, start: str = "auto",
    max_steps: int = 50, tol: float = 1e-6, told: Told | None = None, at: Position | None = None,
) -> Descent:  # fmt: skip
    """Concave-convex steps until nothing changes.

    Parameters
    ----------
    loss : ThreeClass
    y : array of shape (n,)
        Targets: -1, +1, 0 for irrelevant, NaN for unlabelled.
    cost : array of shape (n,)
        The c of every row.
    step : callable
        Solves a ``Convex`` problem, from the ``start`` of the stage before.
    start : {"auto", "irrelevant", "labelled"}, default="auto"
        The first function: that of the U-SVM, which takes unlabelled rows for irrelevant, or that
        of the other rows alone; "auto": "labelled" where they are all relevant.
    max_steps : int, default=50
        After the first.
    tol : float, default=1e-6
        A step that lowers the objective by less than this share of it is the last.
    told : callable or None, default=None
        Called with a :class:`Position` before each step; a Status that it returns ends the descent,
        unless nothing was found yet.
    at : Position or None, default=None
        From where a descent goes on that was cut short.
    """
    unknown = np.isnan(y)
    if start == "auto":
        start = "labelled" if loss.unlabelled == "relevant" else "irrelevant"
    alone = start == "labelled" and loss.unlabelled != "irrelevant"
    is_convex = loss.unlabelled == "irrelevant" or not unknown.any()
    if at is None:
        at = Position(np.where(unknown, 0.0, y).astype(np.int8), None, [])
    path, stage, steps = [*at.path], None, 0
    while True:
        answer = None if told is None else told(at)
        if stage is not None and answer is not None:
            status = answer
            break
        without = alone and not at.path  # the first step
        now_cost = np.where(unknown, 0.0, cost) if without else cost
        found = step(Convex(loss.epsilon, y, now_cost, at.sides), at.start)
        steps += found.steps
        value = _objective(loss, y, cost, found)
        gain = path[-1] - value if path and math.isfinite(path[-1]) else math.inf
        if gain >= 0.0:
            path.append(value)
        if gain >= 0.0 or stage is None:
            stage = found
        status = found.status
        if status is not Status.CONVERGED or is_convex or gain <= tol * abs(path[-1]):
            break
        sides = loss.sides(y, stage.scores)
        if not without and np.array_equal(sides, at.sides):
            break
        if len(path) > max_steps:
            status = Status.MAX_ITER
            break
        at = Position(sides, stage.start, [*path])
    return Descent(stage, path, loss.sides(y, stage.scores), status, steps)


def _objective(loss: ThreeClass, y: np.ndarray, cost: np.ndarray, stage: Stage) -> float:
    return 0.5 * stage.squared_norm + float(cost @ loss.values(y, stage.scores))
