r"""Multiple kernel learning: a kernel machine and the weights of its kernels at once.

.. math:: \min_{\theta \in \Theta} \max_z \sum_c y_c'z_c - \epsilon \|z_c\|_1
          - \tfrac12 \sum_q \theta_q s_q, \quad s_q = \sum_c z_c'K_q z_c

over the duals z of one or several machines (of classes) that share the weights.  For given weights
the maximum is a dual problem (``dual.py``), started from the last one's solution; it gives a value
and a cut for the search over weights (``level.py`` or ``block_descent.py``).  Any feasible z gives
a cut that is valid, and its own duality gap an upper bound: machines are solved only as far as the
bounds of the search ask for.

Memory: one weighted sum of kernels if it fits, else columns of it; never the single kernels.

Reference: Yang, Xu, Ye, King and Lyu, Efficient sparse generalized multiple kernel learning (2011);
Xu, Jin, King and Lyu, An extended level method for efficient multiple kernel learning (2009).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from thresher._clock import is_over
from thresher.kernels.bank import Bank
from thresher.kernels.column_cache import ColumnCache
from thresher.kernels.columns import Columns, GramColumns
from thresher.solvers.base import Solver, Status
from thresher.solvers.block_descent import block_descent
from thresher.solvers.dual import DualEvent
from thresher.solvers.kernel_balls import ElasticNetBall, KernelBall, NormBall
from thresher.solvers.level import Descent, Monitor, Search, Visit, level_method
from thresher.solvers.machines import KernelDual, Machine, classification, regression

__all__ = ["KernelWeights", "Learned", "Place", "Saddle", "Side", "learn_kernels"]

_COARSE, _FINE = 0.05, 1e-7  # tolerances of machines, in units of the targets: first, and finest
_ROUNDING = 1e-5  # of a quadratic form, in units of the squared sum of coefficients
_NOTHING = 1e-4  # weights below this share of the largest are dropped
_NEARLY_A_BOX = 32.0  # p of a ball in which rounding ends the small problems of the level method


@dataclass(frozen=True)
class KernelWeights(Solver):
    """How the weights of kernels are found.

    Parameters
    ----------
    v : float or None, default=0.5
        Of the ball v ||theta||_1 + (1 - v) ||theta||^2 <= 1: 1 for l1, 0 for l2; None: equal
        weights, which are not learned.
    p : float or None, default=None
        In place of v: the ball ||theta||_p <= 1.
    method : {"level", "block"}, default="level"
        Beyond p = 32 always "block".
    tau : float or "published", default=0.5
        Of the level method.
    gap : float, default=1e-3
        Between the bounds of the objective, as a share of it.
    max_steps : int, default=500
    machine : KernelDual
        Of the machines for given weights; its tolerance is that of the last one.

    Examples
    --------
    >>> from thresher.solvers.multiple_kernels import KernelWeights
    >>> KernelWeights(v=1.0).ball
    ElasticNetBall(v=1.0)
    """

    v: float | None = 0.5
    p: float | None = None
    method: str = "level"
    tau: float | str = 0.5
    gap: float = 1e-3
    max_steps: int = 500
    machine: KernelDual = field(default_factory=KernelDual)
    streaming = False
    linear = False

    @property
    def ball(self) -> KernelBall | None:
        """The set of the weights; None: they are equal."""
        if self.p is not None:
            return ElasticNetBall(1.0) if self.p == 1.0 else NormBall(self.p)
        return None if self.v is None else ElasticNetBall(self.v)

    def descend(
        self, saddle: Saddle, monitor: Monitor | None = None, search: Search | None = None
    ) -> Descent:
        """The best weights for these machines; ``search`` is one that was cut short."""
        ball = self.ball
        if ball is None:
            weights = np.full(saddle.bank.count, 1.0 / saddle.bank.count)
            visit = saddle(weights, math.inf)
            return Descent(weights, visit, visit.value, visit.value, 1, Status.CONVERGED)
        start = Search(ball.start(saddle.bank.count)) if search is None else search
        if self.method == "block" or (self.p or 0.0) > _NEARLY_A_BOX:
            return block_descent(
                saddle, ball, start, tol=self.gap, max_steps=self.max_steps, monitor=monitor,
                told=saddle.note,
            )  # fmt: skip
        return level_method(
            saddle, ball, start, tau=self.tau, tol=self.gap, max_steps=self.max_steps,
            monitor=monitor, told=saddle.note,
        )  # fmt: skip


class Side(NamedTuple):
    """What one machine is learned from: targets, bounds of its dual variables.

    Targets are -1 and +1 (``epsilon`` None), or numbers with a tube of half width ``epsilon``.
    """

    y: np.ndarray
    bounds: np.ndarray
    epsilon: float | None = None
    unit: float = 1.0  # of the targets

    def solved(
        self, solver: KernelDual, columns: Columns, start: np.ndarray, cache: ColumnCache | None,
        monitor: Callable[[DualEvent], Status | None] | None = None,
    ) -> Machine:  # fmt: skip
        if self.epsilon is None:
            return classification(
                solver, columns, self.y, self.bounds, start=start, monitor=monitor, cache=cache
            )
        return regression(
            solver, columns, self.y, self.bounds, self.epsilon, start=start, monitor=monitor,
            cache=cache,
        )  # fmt: skip

    def missing(self, machine: Machine) -> float:
        """What the dual objective lacks to the optimum at most.

        The gap of a machine sums up how far rows are within the margin, times their bounds: more
        than the objective itself where bounds are large.  A slightly larger multiple of the
        function has none there.
        """
        gap = max(machine.solution.gap, 0.0)
        square = float(machine.coef @ (machine.scores - machine.intercept))
        if self.epsilon is not None or not square > 0.0:
            return gap
        dual = self.constant(machine.coef) - 0.5 * square
        least = _least_multiple(square, self.bounds, self.y * machine.scores)
        return min(gap, max(least - dual, 0.0))

    def coefficients(self, z: np.ndarray) -> np.ndarray:
        """Of the rows, from the variables of the dual problem."""
        return z if z.size == self.y.size else z[: self.y.size] + z[self.y.size :]

    def constant(self, coef: np.ndarray) -> float:
        """What the dual objective is without its quadratic part."""
        return float(self.y @ coef) - (self.epsilon or 0.0) * float(np.abs(coef).sum())


def _least_multiple(square: float, bounds: np.ndarray, margins: np.ndarray) -> float:
    """The least of k^2 square / 2 + sum of bounds (1 - k margins)_+ over k > 0.

    Its derivative rises from kink to kink, which are the k at which rows leave the margin.
    """
    inside = margins > 0.0
    kinks, pulls = 1.0 / margins[inside], (bounds * margins)[inside]
    order = np.argsort(kinks)
    kinks, pulls = kinks[order], pulls[order]
    after = pulls.sum() - np.cumsum(pulls) + float((bounds * margins)[~inside].sum())
    at = int(np.searchsorted(square * kinks - after, 0.0))  # where the slope is upwards
    k = min(float(kinks[at]), float(after[at] + pulls[at]) / square) if kinks.size else 0.0
    return 0.5 * k * k * square + float(bounds @ np.maximum(1.0 - k * margins, 0.0))


class Place(NamedTuple):
    """Where learning stands: coefficients of the machines, and the search over weights, if any."""

    coefs: np.ndarray  # (machines, rows)
    search: Search | None


Told = Callable[[Place, DualEvent | None], Status | None]


class Saddle:
    """Machines for given weights, as the oracle of a search over weights.

    ``told`` is called with a :class:`Place` before each step of the search, and with the event
    besides after each step of a machine, which a Status ends; coefficients may be ``given``.
    """

    def __init__(
        self, bank: Bank, sides: list[Side], solver: KernelDual, told: Told | None = None,
        given: np.ndarray | None = None,
    ):  # fmt: skip
        self.bank, self.sides, self.solver = bank, sides, solver
        self.negative = 0  # signs met that a kernel is not positive definite
        self._told = told
        self._search: Search | None = None
        self._coefs = np.zeros((len(sides), bank.size)) if given is None else given.copy()
        self._unit = sides[0].unit
        self._tol = _COARSE * self._unit

    def __call__(self, weights: np.ndarray, accuracy: float) -> Visit:
        """Solved until what the machines miss together is below ``accuracy``."""
        with ExitStack() as opened:
            columns, cache = self._open(opened, weights)
            while True:
                machines = self._solve(columns, cache, self._tol)
                missing = sum(map(Side.missing, self.sides, machines))
                stopped = any(m.solution.status is Status.INTERRUPTED for m in machines)
                enough = missing <= accuracy or self._tol <= _FINE * self._unit
                if enough or stopped or is_over():
                    break
                self._tol *= 0.2
        constant = sum(
            side.constant(coef) for side, coef in zip(self.sides, self._coefs, strict=True)
        )
        forms = self.bank.forms(self._coefs).sum(axis=0)
        rounding = _ROUNDING * float((np.abs(self._coefs).sum(axis=1) ** 2).sum())
        self.negative += int(np.count_nonzero(forms < -rounding))
        value = constant - 0.5 * float(weights @ forms) + missing
        return Visit(value, constant, forms)

    def machines(self, weights: np.ndarray) -> list[Machine]:
        """Solved to the tolerance of the solver."""
        with ExitStack() as opened:
            return self._solve(*self._open(opened, weights), self.solver.tol)

    def _open(self, opened: ExitStack, weights: np.ndarray) -> tuple[Columns, ColumnCache | None]:
        memory = self.solver.memory
        if 8.0 * self.bank.size**2 <= memory:
            columns: Columns = GramColumns(self.bank.gram(weights, self.solver.threads))
        else:
            columns = self.bank.columns(weights)
        return columns, opened.enter_context(ColumnCache(columns, memory, self.solver.threads))

    def _solve(self, columns: Columns, cache: ColumnCache | None, tol: float) -> list[Machine]:
        solver, out = replace(self.solver, tol=tol), []
        for c, side in enumerate(self.sides):
            monitor = None if self._told is None else partial(self._after_step, c)
            out.append(side.solved(solver, columns, self._coefs[c], cache, monitor))
            self._coefs[c] = out[-1].coef
            self.negative += out[-1].solution.negative
        return out

    def note(self, search: Search) -> None:
        """Before a step of the search."""
        self._search = search
        if self._told is not None:
            self._told(Place(self._coefs.copy(), search), None)

    def _after_step(self, c: int, event: DualEvent) -> Status | None:
        """Of the machine number c."""
        assert self._told is not None
        coefs = self._coefs.copy()
        coefs[c] = self.sides[c].coefficients(event.z)
        return self._told(Place(coefs, self._search), event)


class Learned(NamedTuple):
    """Weights and the machines that they belong to.

    ``negative`` counts signs that a kernel is not positive definite: then bounds say nothing.
    """

    weights: np.ndarray
    machines: list[Machine]
    lower: float
    upper: float
    steps: int
    status: Status
    negative: int = 0


def learn_kernels(
    solver: KernelWeights, bank: Bank, sides: list[Side], monitor: Monitor | None = None,
    told: Told | None = None, at: Place | None = None,
) -> Learned:  # fmt: skip
    """Weights of the kernels of a bank and the machines of all sides, which share them.

    Parameters
    ----------
    solver : KernelWeights
    bank : Bank
    sides : list of Side
    monitor : callable or None, default=None
        Called with a ``Descent`` after each step of the search; a Status ends it.
    told : callable or None, default=None
        As :class:`Saddle` has it.
    at : Place or None, default=None
        From where learning goes on that was cut short.
    """
    saddle = Saddle(bank, sides, solver.machine, told, None if at is None else at.coefs)
    found = solver.descend(saddle, _timed(monitor), None if at is None else at.search)
    counts = (found.weights > _NOTHING * found.weights.max()) & (bank.factors != 0.0)
    weights = np.where(counts, found.weights, 0.0)
    machines = saddle.machines(weights)
    status = found.status or Status.COMPLETED
    return Learned(
        weights, machines, found.lower, found.upper, found.steps, status, saddle.negative
    )


def _timed(monitor: Monitor | None) -> Monitor:
    def told(descent: Descent) -> Status | None:
        answer = None if monitor is None else monitor(descent)
        return answer or (Status.OUT_OF_TIME if is_over() else None)

    return told
