r"""RDA+: identify the manifold by dual averaging, then finish on it.

Dual averaging finds the zeros (and signs) of the optimum after finitely many steps, long before it
is near the optimum itself: the mean gradient converges where single gradients do not.  RDA+ runs it
until the pattern has been the same over tau steps and the rows were seen; adds the zero units whose
mean gradient is nearly strong enough, :math:`|\bar g_j| > \rho\lambda`, to be safe; and minimises
over this manifold by prox and reduced Newton steps (``_local.py``).  S. Lee's thesis, chapter 2;
S. Lee and S. J. Wright (2012).

The published method stops when the manifold has converged.  Here delta is taken over all
coordinates: units that the manifold missed join, and the local phase goes on.  So a manifold that
was found too early costs time, never the optimum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from thresher.functions import LinearFunction
from thresher.penalties import pattern_of
from thresher.solvers._identification import Ending, Watch, every_of, watched
from thresher.solvers._local import Options, Start, finish_on
from thresher.solvers._manifold import Units, of_copies, proximal_point, tempted
from thresher.solvers._manifold_sums import (
    ManifoldSums,
    added,
    added_up,
    delta_of,
    ended_at,
    opened,
    stepped,
)
from thresher.solvers._plus_start import first_sizes
from thresher.solvers._plus_states import (
    LOCAL,
    ONLINE,
    PlusState,
    TaskPlusState,
    check_plus_state,
)
from thresher.solvers._reservoir import Reservoir, joined
from thresher.solvers._states import combined, present
from thresher.solvers._task_local import finish_tasks_on
from thresher.solvers._task_rda import task_start, task_sums
from thresher.solvers.base import Chunk, Problem, Solver, check_batch
from thresher.solvers.lps import DELTA, check_options
from thresher.solvers.rda import RDA
from thresher.solvers.tasks import levels_of

__all__ = ["RDAPlus"]

_CLOSE = 1e-4  # delta in units of a usual gradient
_UNKNOWN = 1e300  # delta before phase two
_NEVER = 2**60  # rows
_FEW = 1000  # rows that phase one sees at least, where there are as many
_ABOUND = 100  # rows for each feature: with as many phase one pays, however few they are


@dataclass(frozen=True)
class RDAPlus(Solver):
    r"""Dual averaging until the zeros of the optimum are known, then Newton on what is left.

    Any penalty with a proximal map, over coordinates or groups, or over the weights of many tasks,
    and a smooth loss: what counts as a pattern is the penalty's own affair.  ``tol`` is the
    optimality measure delta: the root mean square over all coordinates and the intercept of the
    subgradient of least norm, in units of the gradient.  Without one it is 1e-4 of a usual
    gradient, whatever the units.

    In a stream (files, ``thresher train``) the first passes are online and each later pass takes
    one Newton step on the manifold, by sums over the rows; ``partial_fit`` is dual averaging.  With
    a ``reservoir`` one pass is enough: a uniform sample of so many rows is kept while they stream
    by, and the local phase ends at the optimum of the sample.  The state holds it until then, and
    so do checkpoints; a finished model holds no rows.
    States of other rows are merged as those of RDA in phase one, where the merged pattern counts as
    new, and exactly in phase two; states of different phases cannot be.

    Parameters
    ----------
    gamma : float or None, default=None
        Weight of the proximal term, beta_t = gamma sqrt(t).  None: by the size of the rows.
    tau : int, default=100
        Steps over which the pattern must have been the same.
    rho : float, default=0.85
        Zero units join the manifold if a gradient stronger by 1 / rho would move them; 1: none do.
    coverage : float, default=0.1
        Share of the rows that must have been seen before phase two.
    online_passes : float, default=0.1
        Phase two begins after so many passes, even if the pattern still changes; in a stream after
        whole ones.
    batch : int, default=8
        Rows per update of dual averaging.
    newton_threshold : int, default=2000
        Most non-zero weights whose Hessian is formed; beyond, steps go through the columns, or, for
        groups, are proximal gradient steps.  A stream stays online as long as there are more; of
        many tasks, whose Hessians are one for each, it is their numbers in all that are as many.
    gradient_fraction : float, default=1.0
        Share of the gradient that is taken for a local step (dense rows in memory).
    hessian_rows : int, default=0
        Rows that the Hessian is estimated from, in memory.  0: as many as take the time of a
        gradient, and at least 3000 and 50 for each weight.
    origin : float or None, default=None
        Where the bias starts.  None: at the best constant of a sample.
    goal : float, default=0.0
        delta at which it has converged.  0: the tolerance that was asked for, else 1e-4 of a usual
        gradient.
    every : int or None, default=None
        Steps between looks at the pattern.  None: as often as costs no more than the steps.
    rows : int or None, default=None
        All rows, where they are in memory; found by itself.
    in_parts : bool, default=False
        Rows come in parts, never all together; found by itself.
    least_rows : int, default=12000
        With fewer rows, all in memory, and fewer than 100 for each feature, phase two begins at
        once and from zero: phase one would cost more than it saves.  0: never.  Many tasks always
        begin with phase one.
    reservoir : int, default=0
        In a stream: rows that are kept for phase two, which then needs no further pass; 0: none.
        One model for each class against the rest keeps as many for each.
    floor : float, default=0.0
        Of many tasks: what beta starts from, as in ``RDA``; found by itself where ``gamma`` is.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from thresher import LinearClassifier
    >>> X, y = make_classification(300, 20, random_state=0)
    >>> model = LinearClassifier("logistic", penalty="l1", solver="rda_plus", alpha=0.05)
    >>> model.fit(X, y).status_.name, model.density_ < 0.5
    ('CONVERGED', True)
    """

    gamma: float | None = None
    tau: int = 100
    rho: float = 0.85
    coverage: float = 0.1
    online_passes: float = 0.1
    batch: int = 8
    newton_threshold: int = 2000
    gradient_fraction: float = 1.0
    hessian_rows: int = 0
    origin: float | None = None
    goal: float = 0.0
    every: int | None = None
    rows: int | None = None
    in_parts: bool = False
    reservoir: int = 0
    floor: float = 0.0
    least_rows: int = 12_000
    loss_needs = frozenset({"curvature"})
    default_penalty = "l1"
    default_passes = 30
    target_kinds = frozenset({"classes", "matrix", "pairs"})
    has_goal = True
    sum_fields = frozenset({"seen", "paid", "value", "sums", "mass"})

    # ------------------------------------------------------------ before the first step

    def check(self, problem: Problem) -> None:
        check_batch(self)
        check_options(self)
        if problem.has_tasks:
            levels_of(problem)
        if not 0.0 <= self.floor < math.inf:
            raise ValueError(f"RDAPlus: floor must be at least 0, got {self.floor}")
        if self.gamma is not None and not self.gamma > 0.0:
            raise ValueError(f"RDAPlus: gamma must be positive, got {self.gamma}")
        if not 0.0 < self.rho <= 1.0:
            raise ValueError(f"RDAPlus: rho must lie in (0, 1], got {self.rho}")
        if not 0.0 < self.coverage <= 1.0:
            raise ValueError(f"RDAPlus: coverage must lie in (0, 1], got {self.coverage}")
        if not 0.0 <= self.goal < math.inf:
            raise ValueError(f"RDAPlus: goal must be at least 0, got {self.goal}")
        if not self.online_passes > 0.0:
            raise ValueError(f"RDAPlus: online_passes must be positive, got {self.online_passes}")
        if not 0 <= self.reservoir < _NEVER:
            raise ValueError(f"RDAPlus: reservoir must be at least 0, got {self.reservoir}")
        if self.least_rows < 0:
            raise ValueError(f"RDAPlus: least_rows must be at least 0, got {self.least_rows}")
        if self.tau < 1:
            raise ValueError(f"RDAPlus: tau must be at least 1, got {self.tau}")

    def for_stream(self, problem: Problem) -> Solver:
        return replace(self, rows=None, in_parts=True)

    def prepare(self, problem: Problem, chunk: Chunk) -> tuple[Solver, Problem]:
        first = first_sizes(problem, chunk, self.origin)
        solver = replace(self, origin=first.origin)
        if self.gamma is None:
            solver = replace(solver, gamma=first.gamma, floor=first.floor or self.floor)
        if self.every is None:
            solver = replace(solver, every=every_of(problem, chunk, self.batch))
        if not self.in_parts:
            solver = replace(solver, rows=int(chunk.order.size))
        if self.goal == 0.0:
            goal = _CLOSE * first.gradient if problem.tol is None else problem.tol
            solver = replace(solver, goal=max(goal, 1e-300))
        return solver, problem

    def init(self, problem: Problem, chunk: Chunk | None = None) -> Any:
        copies, d = of_copies(problem), problem.n_features
        local = ManifoldSums.empty(copies)
        pattern = np.zeros_like(pattern_of(copies.penalty, local.point[:-1].T))
        sample = Reservoir.empty(problem) if self.reservoir and self.in_parts else None
        rest: Any = (pattern, 0, ONLINE, _UNKNOWN, *local, sample)
        if problem.has_tasks:
            return TaskPlusState(*task_start(problem), *rest)
        return PlusState(np.zeros(d), 0.0, 0, 0, 0.0, *rest)

    def _averaging(self) -> RDA:
        return RDA(
            gamma=self.gamma or 1.0, batch=self.batch, origin=self.origin or 0.0, floor=self.floor
        )

    def _ending(self) -> Ending:
        """Rows are counted where all of them are known; a stream ends phase one with a pass."""
        if self.rows is None:
            return Ending(self.tau, _NEVER, _NEVER)
        few = min(self.rows, _FEW)
        enough, most = (math.ceil(s * self.rows) for s in (self.coverage, self.online_passes))
        return Ending(self.tau, max(enough, few), max(enough, most, few))

    # ------------------------------------------------------------ the phases

    def _skips_phase_one(self, problem: Problem) -> bool:
        if self.rows is None or self.in_parts or problem.has_tasks:
            return False
        return self.rows < min(self.least_rows, _ABOUND * problem.n_features)

    def update(self, problem: Problem, state: Any, chunk: Chunk) -> Any:
        if self._skips_phase_one(problem):
            return state
        if state.phase == LOCAL:
            if not self.in_parts or state.sample is not None:
                return state
            units = Units.of(problem.penalty, problem.n_features)
            return state.on(added(of_copies(problem), units, state.local, chunk), state.delta)
        if state.sample is not None and state.sample.is_open:
            sample = state.sample.with_rows(chunk, problem.seed, state.seen, self.reservoir)
            state = state._replace(sample=sample)
        dual, watch = watched(
            self._averaging(), problem, state.dual_of(problem), state.watch, chunk, self.every or 1,
            self._ending(),
        )  # fmt: skip
        return state.averaged(dual, watch)

    def between(
        self, problem: Problem, state: Any, chunk: Chunk | None, done: int, planned: int | None
    ) -> Any:
        in_parts = chunk is None or self.in_parts
        if state.phase == LOCAL and in_parts:
            if state.mass <= 0.0:
                return state
            units = Units.of(problem.penalty, problem.n_features)
            problem, most = of_copies(problem), self._most(problem)
            delta = delta_of(problem, state.local)
            return state.on(stepped(problem, units, state.local, most), delta)
        if self._skips_phase_one(problem):
            assert chunk is not None
            return self._finished(problem, state, chunk)
        if state.step == 0 or not (state.phase == LOCAL or self._is_over(state, done)):
            return state
        if not in_parts:
            assert chunk is not None
            return self._finished(problem, state, chunk)
        units, inside, start = self._manifold(problem, state)
        if np.count_nonzero(inside) > self._most(problem):
            return state
        return state.on(opened(of_copies(problem), units, inside, start.w, start.bias), _UNKNOWN)

    def _is_over(self, state: Any, done: int) -> bool:
        """Whether phase one is, after so many passes."""
        ending = self._ending()._replace(enough=1)
        return ending.is_reached(state.dual, state.watch) or done >= self.online_passes

    def passed(self, problem: Problem, state: Any, done: int, planned: int | None) -> Any:
        """Phase two on the sample, which is dropped when it has converged."""
        sample = state.sample
        if sample is None or not sample.size:
            return state
        if state.phase == LOCAL or done == planned or self._is_over(state, done):
            state = self._finished(problem, state, sample.chunk())
        if state.phase == LOCAL and state.delta <= (self.goal or DELTA):
            sample = Reservoir.empty(problem)
        return state._replace(sample=sample._replace(is_open=False))

    def _most(self, problem: Problem) -> int:
        """Units of a manifold whose Hessian, or those of all tasks, is formed."""
        if not problem.has_tasks:
            return self.newton_threshold
        return int(self.newton_threshold / math.sqrt(problem.outputs))

    def polish(self, problem: Problem, state: Any, chunk: Chunk) -> Any:
        """Phase two, where the passes ended before it."""
        if state.phase == LOCAL or (state.step == 0 and not self._skips_phase_one(problem)):
            return state
        return self._finished(problem, state, chunk)

    def _manifold(self, problem: Problem, state: Any) -> tuple[Units, np.ndarray, Start]:
        """The units that phase two works on, and where it starts from."""
        units = Units.of(problem.penalty, problem.n_features)
        if state.phase == LOCAL:
            w, bias = state.point[:-1], state.point[-1]
            return units, units.with_any(state.inside > 0), Start(w, bias)
        if state.step == 0:
            none = np.zeros(of_copies(problem).n_features)
            w = proximal_point(of_copies(problem).penalty, none, none, 1.0)
            return units, units.with_any(w != 0.0), Start(w, self.origin or 0.0)
        online, dual = self._averaging(), state.dual_of(problem)
        w, bias = online.coordinates(problem, dual).T, online.finish(problem, dual).intercept
        rounds = state.step / (problem.outputs if problem.targets == "pairs" else 1)
        mean = state.gradient / rounds
        mean = mean if units.members is None else mean[units.members]
        near = tempted(of_copies(problem).penalty, units, w, mean, self.rho)
        inside = units.with_any(w != 0.0) | near
        return units, inside, Start(w, bias, self.origin or 0.0)

    def _finished(self, problem: Problem, state: Any, chunk: Chunk) -> Any:
        """Phase two at one go, with all rows in memory."""
        units, inside, start = self._manifold(problem, state)
        if problem.has_tasks:
            ended = finish_tasks_on(
                problem, chunk, inside, start.w, np.asarray(start.bias), self.newton_threshold,
                self.goal or DELTA,
            )  # fmt: skip
            return state.on(
                ended_at(problem, units, ended.inside, ended.w, ended.bias), ended.delta
            )
        options = Options(
            self.newton_threshold, self.gradient_fraction, self.hessian_rows, self.rho
        )
        problem = of_copies(problem)
        found = finish_on(problem, chunk, units, inside, start, options, self.goal or DELTA)
        local = ended_at(problem, units, found.inside, found.point.w, found.point.bias)
        return state.on(local, found.delta)

    # ------------------------------------------------------------ what was learned

    def finish(self, problem: Problem, state: Any) -> LinearFunction:
        if state.phase == ONLINE:
            return self._averaging().finish(problem, state.dual_of(problem))
        point = state.point if state.length == 1.0 else state.kept
        w = Units.of(problem.penalty, problem.n_features).summed(point[:-1])
        coef = np.ascontiguousarray(w.T, dtype=problem.dtype)
        return LinearFunction(coef, point[-1].copy() if problem.has_tasks else float(point[-1]))

    def residual(self, problem: Problem, state: Any, before: Any, after: Any) -> float:
        if state.phase == ONLINE:
            return math.inf
        return delta_of(of_copies(problem), state.local) if state.mass > 0.0 else state.delta

    def is_done(self, problem: Problem, state: Any, residual: float) -> bool:
        return residual <= (self.goal or DELTA)

    def merge(self, problem: Problem, states: Any, base: Any, weights: Any) -> Any:
        """Phase one: means of gradient sums and steps, as RDA's; of several shards nobody has
        watched the pattern, and it counts as new.  Phase two: sums over rows are added."""
        states, shares = present(states, weights)
        if any(s.phase != base.phase for s in states):
            raise ValueError("RDAPlus: states of different phases cannot be merged")
        if not states:
            return self.copy(base)
        if len(states) == 1:
            return self.copy(states[0])
        start = self.copy(base)
        if base.phase == LOCAL:
            return start.on(added_up([s.local for s in states], start.local), start.delta)
        duals = [s.dual for s in states]
        dual = combined(duals, base.dual, shares, frozenset({"seen", "paid"}))
        dual = task_sums(problem, dual) if problem.has_tasks else dual
        start = start.averaged(dual, Watch(start.pattern, int(dual.step)))
        if base.sample is None:
            return start
        samples = [base.sample, *(s.sample for s in states)]
        return start._replace(sample=joined(samples, self.reservoir))

    def check_state(self, problem: Problem, state: Any) -> None:
        """As of any solver; where sums are to come, the Hessian is that of the manifold."""
        check_plus_state(problem, state, self.init(problem), self.reservoir)
