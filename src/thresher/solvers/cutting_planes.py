r"""Cutting planes for losses made of straight lines: hinge, pinball, epsilon-insensitive.

The mean loss R is the upper envelope of planes, one for every choice of a line for each row.  A
pass over the rows at a point gives the plane that touches R there: the sums over the rows of slope
times row, of the slope, and of what the line is at zero.  Such *cuts* bound the objective from
below, by the minimum above them (``_cut_set.py``); the best point that was met bounds it from
above.  The number of passes to a gap does not depend on the number of rows.

``CuttingPlane``
    takes the next cut at that minimum (Joachims, 2006).
``OCAS``
    first goes from the best point so far to the best one on the line to that minimum
    (``_kinked_line.py``), and takes the cut a little of the rest of the way further (Franc and
    Sonnenburg, 2009).
``MCPA``
    splits the rows into ``partitions``, each with a cut of its own from the same pass, and lets
    idle cuts rest (Lee, 2011).

*How far further.*  At the best point itself the losses of some rows have their kinks, and a cut
there may be the one that is known already; far beyond it cuts say little of the optimum.  Published
are a tenth of the way (OCAS), and none where that does not stand still (MCPA, ``on_demand``).  A
fiftieth needs fewer passes than either: over 16 problems .87 of those of MCPA on demand with ten
partitions, .81 with one, to a gap of 1e-2, and .79 and .74 to 1e-4 (geometric means).

*Rows in memory* keep their predictions, so that a round is one product of rows and weights, a
search in O(n) and one sum; and a free intercept is held to where the best point has it, so that few
cuts do not throw it about (``_cut_set.py``).  *Rows in parts*, of a file or on many machines, take
two passes a round: one adds up the kinks between the best point and the minimum in bins, one the
cuts, and states of different rows are added.  A row's partition is a function of the row, wherever
it lies.

Residual: (f - bound) / f.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from thresher.functions import LinearFunction
from thresher.solvers import _cut_set as cut_set
from thresher.solvers._cut_passes import (
    CUTTING,
    SEARCHING,
    CutState,
    Predictions,
    emptied,
    first_step,
    is_first,
    mean_loss_of,
    mean_of,
    partitions_of,
    passed,
)
from thresher.solvers._cut_set import Shrinking
from thresher.solvers._kinked_line import BINS, root_of_bins, search
from thresher.solvers._states import added, check_arrays
from thresher.solvers.base import Chunk, Near, Problem, Solver, precisions
from thresher.solvers.newton import predict

__all__ = ["MCPA", "OCAS", "CuttingPlane"]

_QUADRATIC = 1e-3  # of the gap: how far from the minimum above the cuts one may stay
_STUCK = 3  # rounds without a new cut after which there is none
_HELD = 10.0  # how strongly a free intercept is held, at a gap of one; see ``_cut_set.py``
_EXACT = 1e-9  # the gap that rounding may leave


@dataclass(frozen=True)
class CuttingPlane(Solver):
    """Cutting planes as first published: each cut at the minimum above all cuts before.

    For losses made of straight lines with an l2 penalty.  The base of :class:`OCAS` and
    :class:`MCPA`, which need far fewer passes.

    Parameters
    ----------
    penalize_intercept : bool, default=False
        Let the penalty see the intercept as the weight of a constant feature, as LIBLINEAR does.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from thresher import LinearClassifier
    >>> X, y = make_classification(300, 5, random_state=0)
    >>> model = LinearClassifier("hinge", solver="cutting_plane", alpha=0.1).fit(X, y)
    >>> model.status_.name, bool(model.score(X, y) > 0.85)
    ('CONVERGED', True)
    """

    penalize_intercept: bool = False
    loss_needs = frozenset({"kinks"})
    penalty_needs = frozenset({"quadratic"})
    default_passes = 500
    by_passes = True
    sum_fields = frozenset({
        "value", "new_slopes", "new_offsets", "kinks", "start", "spread", "steep", "mass", "step",
    })  # fmt: skip
    merges_exactly = True
    #: whether to search along the line to the minimum above the cuts
    searches: ClassVar[bool] = False

    @property
    def by_rows(self) -> bool:
        return False

    @property
    def blocks(self) -> int:
        """Parts of the rows, each with cuts of its own."""
        return 1

    def shrinking(self, features: int) -> Shrinking | None:
        """When cuts rest; None: never."""
        return None

    def perturbation(self, state: CutState, share: float) -> float:
        """Of the way from the best point to the minimum above the cuts, where to take the next.

        ``share`` of that way is what the search has just gained.
        """
        return 1.0

    def check(self, problem: Problem) -> None:
        if not np.all(precisions(problem) > 0.0):
            raise ValueError(
                f"{type(self).__name__} needs a penalty on every weight: raise alpha above 0"
            )

    # ------------------------------------------------------------ states

    def init(self, problem: Problem, chunk: Chunk | None = None) -> CutState:
        d, P = problem.n_features, self.blocks
        minimum, best, trial, point = (np.zeros(d + 1) for _ in range(4))
        return CutState(
            *cut_set.empty(d), minimum, 0.0, best, -1.0, trial, point, 0.0, 0, 0, CUTTING,
            0.0, np.zeros((P, d + 1)), np.zeros(P), np.zeros(BINS), 0.0, 0.0, 0.0, 0.0, 0, None,
        )  # fmt: skip

    def start_from(self, problem: Problem, chunk: Chunk, near: Near) -> CutState:
        w = np.append(near.coef, near.intercept).astype(np.float64)
        state = self.init(problem, chunk)
        return state._replace(minimum=w, best=w.copy(), trial=w.copy(), point=w.copy())

    def update(self, problem: Problem, s: CutState, chunk: Chunk) -> CutState:
        return passed(problem, s, chunk)

    def between(
        self, problem: Problem, state: CutState, chunk: Chunk | None, done: int,
        planned: int | None,
    ) -> CutState:  # fmt: skip
        if chunk is not None and state.memory is None:
            state = self._remembering(problem, state, chunk)
        if not state.mass > 0.0:
            return state
        if state.phase == SEARCHING:
            return self._tried(problem, state)
        state = self._solved(problem, _judged(self, problem, state))
        if chunk is not None:
            return self._searched(problem, state, chunk)
        if self.searches:
            return emptied(state._replace(phase=SEARCHING))
        return emptied(state._replace(trial=state.minimum.copy(), point=state.minimum.copy()))

    def finish(self, problem: Problem, state: CutState) -> LinearFunction:
        w = first_step(problem, state) if is_first(state) else _judged(self, problem, state).best
        return LinearFunction(w[:-1].astype(problem.dtype), float(w[-1]))

    def residual(self, problem: Problem, state: CutState, before: Any, after: Any) -> float:
        if state.best_value < 0.0 or not state.rounds:
            return math.inf
        return max(state.best_value - state.lower, 0.0) / max(state.best_value, 1e-300)

    def is_done(self, problem: Problem, state: CutState, residual: float) -> bool:
        """Also where no cut is left that is not there yet, and rounding is all of the gap."""
        exact = state.stalled >= _STUCK and residual <= _EXACT
        return exact or super().is_done(problem, state, residual)

    def merge(self, problem: Problem, states: Any, base: CutState, weights: Any) -> CutState:
        """Cuts of one pass are cuts of all rows once they are added; those before are shared."""
        sums = added(states, base, weights, self.sum_fields - {"step"}, "mass")
        return self.copy(base._replace(memory=None))._replace(**sums)

    def check_state(self, problem: Problem, state: CutState) -> None:
        fresh = self.init(problem)
        known = type(state) is type(fresh) and isinstance(state.offsets, np.ndarray)
        cuts = state.offsets.shape if known else ()
        if len(cuts) != 1:
            raise ValueError("the state has no cuts")
        awake = int(np.count_nonzero(~np.asarray(state.resting, dtype=bool)))
        sized: Any = {
            name: np.zeros((*cuts, *getattr(fresh, name).shape[1:]), getattr(fresh, name).dtype)
            for name in ("slopes", "offsets", "block", "alpha", "idle", "resting")
        }
        check_arrays(state, fresh._replace(**sized, products=np.zeros((awake, awake))))
        if state.memory is not None:
            raise ValueError("predictions belong to rows in memory, not to a file")
        if np.any((state.block < 0) | (state.block >= self.blocks)):
            raise ValueError("the state's cuts are of other partitions")
        if np.any(state.alpha < 0.0) or state.mass < 0.0 or state.phase not in (0, 1):
            raise ValueError("the state's weights, mass or phase are none")

    # ------------------------------------------------------------ a round

    def _remembering(self, problem: Problem, s: CutState, chunk: Chunk) -> CutState:
        p = np.zeros(chunk.size)
        predict(chunk.rows, chunk.order, s.best[:-1], s.best[-1], p)
        part = partitions_of(problem, chunk, self.blocks)
        value = self.objective(problem, s.best, mean_loss_of(problem, chunk, p))
        return s._replace(memory=Predictions(p, p.copy(), part, mean_of(chunk)), best_value=value)

    def objective(self, problem: Problem, w: np.ndarray, loss: float) -> float:
        return loss + 0.5 * float(np.sum(self._precision(problem) * w * w))

    def _precision(self, problem: Problem) -> np.ndarray:
        """Of weights and intercept."""
        own = precisions(problem)
        return np.append(own, (self._pull(problem) or 0.0))

    def _pull(self, problem: Problem) -> float | None:
        """The penalty on the intercept, None if it is free, 0 if there is none."""
        if not problem.fit_intercept:
            return 0.0
        return float(np.mean(precisions(problem))) if self.penalize_intercept else None

    def _solved(self, problem: Problem, s: CutState) -> CutState:
        """With the cuts of the pass, and the minimum above them."""
        precision = precisions(problem)
        slopes, offsets = s.new_slopes / s.mass, s.new_offsets / s.mass
        if not problem.fit_intercept:
            slopes[:, -1] = 0.0
        cuts, fresh = cut_set.with_cuts(s.cuts, slopes, offsets, precision)
        gap = max(_QUADRATIC * (s.best_value - s.lower), 1e-15 * s.best_value)
        found = cut_set.relaxed(
            cuts, self.blocks, precision, float(s.best[-1]), self._pull(problem), gap,
            self._held(s, precision) if fresh else None,
        )  # fmt: skip
        rule, rounds, cuts = self.shrinking(problem.n_features), s.rounds + 1, found.cuts
        if rule is not None:
            cuts = cut_set.shrunk(cuts, found.w, rounds, rule, precision)
        return s._replace(
            **cuts._asdict(), minimum=found.w, lower=max(s.lower, found.lower), rounds=rounds,
            stalled=0 if fresh else s.stalled + 1,
        )  # fmt: skip

    def _held(self, s: CutState, precision: np.ndarray) -> cut_set.Held | None:
        """Only where a search goes on from the point, and the mean of the rows is known.

        Never so strongly that losses, whose slopes are about one, cannot move it by as much as they
        are: where the penalty is strong it would creep to where they want it.
        """
        strength = _HELD * (s.best_value - s.lower) / max(s.best_value, 1e-300)
        if s.memory is None or not self.searches or not strength > _EXACT:
            return None
        strength = min(strength, 1.0 / (float(np.mean(precision)) * s.best_value))
        mean = s.memory.mean
        return cut_set.Held(mean, float(s.best[:-1] @ mean + s.best[-1]), strength)

    def _searched(self, problem: Problem, s: CutState, chunk: Chunk) -> CutState:
        """From rows in memory: the best point on the line, and the next one to cut at."""
        memory = s.memory
        assert memory is not None
        rows, y, weight, order = chunk
        q = np.zeros(chunk.size)
        predict(rows, order, s.minimum[:-1], s.minimum[-1], q)
        p, k = memory.best, 1.0
        if self.searches:
            shares = weight / float(np.sum(weight[order]))
            k = search(y, shares, order, problem.loss, p, q, *self._parabola(problem, s))
        trial, reached = s.best + k * (s.minimum - s.best), p + k * (q - p)
        value = self.objective(problem, trial, mean_loss_of(problem, chunk, reached))
        if value < s.best_value:
            s = s._replace(best=trial, best_value=value)
            p = reached
        else:
            k = 0.0
        share = self.perturbation(s, k)
        point = (1.0 - share) * s.best + share * s.minimum
        memory = memory._replace(best=p, point=(1.0 - share) * p + share * q)
        return emptied(s._replace(trial=s.best, point=point, share=share, memory=memory))

    def _parabola(self, problem: Problem, s: CutState) -> tuple[float, float]:
        """Half the second and the first derivative of the penalty from the best point on."""
        way, precision = s.minimum - s.best, self._precision(problem)
        return float(np.sum(precision * way * way)), float(np.sum(precision * way * s.best))

    def _tried(self, problem: Problem, s: CutState) -> CutState:
        """After a pass that searched: where the next cuts are taken."""
        square, slope = self._parabola(problem, s)
        k = root_of_bins(s.kinks / s.mass, slope + s.start / s.mass, square)
        trial = s.best + k * (s.minimum - s.best)
        share = self.perturbation(s, k)
        point = (1.0 - share) * trial + share * s.minimum
        return emptied(s._replace(trial=trial, point=point, share=share, phase=CUTTING))


@dataclass(frozen=True)
class OCAS(CuttingPlane):
    """Cutting planes with an exact search along lines; Franc and Sonnenburg (2009).

    Parameters
    ----------
    penalize_intercept : bool, default=False
        Let the penalty see the intercept as the weight of a constant feature, as LIBLINEAR does.
    beyond : float, default=0.02
        Part of the way from the best point to the minimum above the cuts at which to take cuts;
        0.1: as published.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from thresher import LinearClassifier
    >>> X, y = make_classification(300, 5, random_state=0)
    >>> LinearClassifier("hinge", solver="ocas", alpha=0.01).fit(X, y).status_.name
    'CONVERGED'
    """

    beyond: float = 0.02
    searches = True

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if not 0.0 < self.beyond <= 1.0:
            raise ValueError(f"{type(self).__name__}: beyond must lie in (0, 1], got {self.beyond}")

    def perturbation(self, state: CutState, share: float) -> float:
        return 1.0 if state.stalled else self.beyond


@dataclass(frozen=True)
class MCPA(OCAS):
    """Cutting planes for every part of the rows, with cuts at the best point; Lee (2011).

    Parameters
    ----------
    penalize_intercept : bool, default=False
        Let the penalty see the intercept as the weight of a constant feature, as LIBLINEAR does.
    beyond : float, default=0.02
        Part of the way from the best point to the minimum above the cuts at which to take cuts.
    partitions : int, default=10
        Parts of the rows with cuts of their own: more of them need fewer passes, and more time
        and memory between these.
    rest : int, default=5
        A cut that had no weight for so many rounds rests.
    recheck : int, default=50
        Resting cuts come back after so many rounds, or are forgotten.
    memory : float, default=5e8
        Bytes for the cuts and their inner products; the longest idle ones make room.
    on_demand : bool, default=False
        Take cuts at the best point itself, and beyond it only where that would stand still: as
        published, with ``beyond=0.1``.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from thresher import LinearClassifier
    >>> from thresher.solvers import MCPA
    >>> X, y = make_classification(300, 5, random_state=0)
    >>> one, ten = (LinearClassifier("hinge", solver=MCPA(partitions=p), alpha=0.01).fit(X, y)
    ...             for p in (1, 10))
    >>> ten.n_iter_ < one.n_iter_
    True
    """

    partitions: int = 10
    rest: int = 5
    recheck: int = 50
    memory: float = 5e8
    on_demand: bool = False

    def check(self, problem: Problem) -> None:
        super().check(problem)
        for name in ("partitions", "rest", "recheck"):
            if getattr(self, name) < 1:
                raise ValueError(f"MCPA: {name} must be at least 1, got {getattr(self, name)}")

    @property
    def blocks(self) -> int:
        return self.partitions

    def shrinking(self, features: int) -> Shrinking | None:
        """Of m cuts, 8 m (features + m) bytes."""
        most = (math.sqrt(features * features + 0.5 * self.memory) - features) / 2.0
        return Shrinking(self.rest, self.recheck, max(int(most), 4 * self.partitions))

    def perturbation(self, state: CutState, share: float) -> float:
        """The further, the longer no cut was new.

        On demand it is wanted where the last cut was taken at the best point, still the best.
        """
        if self.on_demand and not state.stalled:
            return self.beyond if state.share == 0.0 and share == 0.0 else 0.0
        return float(min(1.0, self.beyond * 10.0 ** min(state.stalled - self.on_demand, 9)))


def _judged(solver: CuttingPlane, problem: Problem, s: CutState) -> CutState:
    """With the trial as the best point, if the pass has shown that it is."""
    if s.memory is not None or s.phase != CUTTING or not s.mass > 0.0:
        return s
    value = solver.objective(problem, s.trial, s.value / s.mass)
    if 0.0 <= s.best_value <= value:
        return s
    return s._replace(best=s.trial.copy(), best_value=value)
