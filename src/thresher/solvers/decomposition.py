r"""The dual of a kernel machine by decomposition: hundreds of variables at a time.

.. math:: \min_z \tfrac12 z'Qz + p'z, \quad l \le z \le u, \quad \sum_{v \in g} z_v = r_g

for every group g of an equality.  A step renews the working set (``_dual_choice.py``), solves the
problem of its members by pairs (``_dual_pairs.py``), and adds the columns of those that moved to
the gradient of all.  Columns are computed once and kept as long as memory lasts.

Cost of a step with a working set of q, of which m move: a visit of all n variables, some 10 q to
100 q pairs of q multiplications each, and m n kernel values that are not kept yet.

References: Joachims, Making large-scale SVM learning practical (1998); Fan, Chen and Lin, JMLR
(2005); Chang and Lin, LIBSVM (2011).  Working sets of hundreds, renewed in part, take a tenth of
LIBSVM's time where a kernel value costs more than a few additions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from thresher.kernels.column_cache import POOL, ColumnCache
from thresher.solvers._dual_choice import gradient, renew, violations
from thresher.solvers._dual_pairs import LANES, add_columns, gather, place_rows, take_steps

__all__ = ["NOT_FINITE", "Decomposition"]

NOT_FINITE = (
    "the kernel gives values that are not finite, or the gradient overflows: scale the features or "
    "lower C"
)

_NEW = 0.4  # share of the working set that may be new in a step
_INNER = 0.1  # a working set is solved to this share of the violation of all
_FINEST = 0.3  # but not below this share of the tolerance
_LONGEST = 100  # pairs in a step for each member, at most
_STALLED = 50  # steps after which a decrease below _ROUNDING says that rounding is in charge
_ROUNDING = 1e-9


class Decomposition:
    """A dual problem on its way: ``step`` until ``violation`` is small.

    ``problem`` is a ``thresher.solvers.dual.DualProblem`` with its variables sorted by group, ``z``
    a feasible start; z, and all that is found of it, is changed in place.
    """

    def __init__(self, problem: Any, z: np.ndarray, cache: ColumnCache, tol: float, working: int):
        self.problem, self.z, self.cache, self.tol = problem, z, cache, tol
        self.steps = self.pairs = self.negative = 0
        n, groups = z.size, problem.starts.size - 1
        sizes = np.diff(problem.starts)
        share = np.maximum(working * sizes // max(n, 1), min(working // groups, 2 * LANES))
        slots = -(-np.minimum(np.maximum(share, 2), sizes) // LANES)  # whole blocks of lanes
        self._blocks = np.concatenate([[0], np.cumsum(slots)]).astype(np.int64)
        self._seats = self._blocks * LANES
        total = int(self._seats[-1])
        self._members = np.full(total, -1, dtype=np.int64)
        self._recent = np.zeros(total, dtype=np.int64)
        self._fresh = np.zeros(total, dtype=np.int64)
        self._slot_of = np.full(n, -1, dtype=np.int64)
        self._held = np.zeros(groups, dtype=np.int64)
        self._taken = np.zeros(n, dtype=np.bool_)
        self._buffers = [POOL.lend(total * total) for _ in range(2)]
        self._values = self._buffers[0][: total * total]
        self._Q = self._buffers[1][: total * total].reshape(total, total)
        self._Q[:] = 0.0
        self._inside = np.zeros((7, total))  # numbers of the members, in their slots
        self._whole = bool(np.all(np.diff(self._seats) >= sizes))
        self.has_stalled = False  # rounding keeps it from coming closer
        self._before = math.inf
        self.high, self.low = np.zeros(groups), np.zeros(groups)
        self.G = np.empty(n)
        self.sums = np.zeros((problem.coupling.shape[0], cache.source.size))
        self.refresh()

    def close(self) -> None:
        """Give the memory back; no step may follow."""
        while self._buffers:
            POOL.give_back(self._buffers.pop())

    # ------------------------------------------------------------ the gradient

    def refresh(self) -> None:
        """The gradient of all variables from nothing but z."""
        self.sums[:] = 0.0
        moved = np.flatnonzero(self.z)
        self._move(moved, self.z[moved])
        self._look()

    def _move(self, variables: np.ndarray, steps: np.ndarray) -> None:
        """Add the columns of variables, times their steps, to the sums of their blocks."""
        problem, cache = self.problem, self.cache
        rows = problem.rows[variables]
        steps = steps * problem.signs[variables]
        if problem.is_plain:
            coefs = steps[None, :]
        else:  # several variables of the same kernel row
            rows, place = np.unique(rows, return_inverse=True)
            coefs = np.zeros((self.sums.shape[0], rows.size))
            np.add.at(coefs, (problem.block[variables], place), steps)
        for start in range(0, rows.size, cache.capacity):
            part = slice(start, start + cache.capacity)
            places = cache.places(rows[part])
            for sums, coef in zip(self.sums, coefs[:, part], strict=True):
                kept = np.flatnonzero(coef)
                self._add(sums, places[kept], coef[kept])

    def _add(self, sums: np.ndarray, places: np.ndarray, factors: np.ndarray) -> None:
        table = self.cache.table
        self.cache.over_spans(lambda a, b: add_columns(sums, table, places, factors, a, b))

    def _look(self) -> None:
        problem = self.problem
        gradient(
            self.sums, problem.coupling, problem.block, problem.rows, problem.signs, problem.p,
            self.G,
        )  # fmt: skip
        #: how much the KKT conditions are violated by, in units of the gradient
        self.violation = violations(
            self.G, self.z, problem.lower, problem.upper, problem.starts, self.high, self.low
        )

    # ------------------------------------------------------------ how far it is

    @property
    def objective(self) -> float:
        return 0.5 * float(self.z @ self.G + self.z @ self.problem.p)

    def multipliers(self) -> np.ndarray:
        """Of the equalities: the gradient of a group's free variables, or what bounds it."""
        problem = self.problem
        free = (problem.lower < self.z) & (self.z < problem.upper)
        out = np.empty(self.high.size)
        for g, start in enumerate(problem.starts[:-1]):
            part = slice(start, problem.starts[g + 1])
            inside = self.G[part][free[part]]
            high, low = self.high[g], self.low[g]
            if inside.size:
                out[g] = inside.mean()
            elif math.isfinite(high) and math.isfinite(low):
                out[g] = -0.5 * (high + low)
            else:
                out[g] = -(high if math.isfinite(high) else low if math.isfinite(low) else 0.0)
        return out

    # ------------------------------------------------------------ one step

    def step(self) -> None:
        """Renew the working set, solve it, and bring the gradient up to date."""
        problem = self.problem
        count = renew(
            self.G, self.z, problem.lower, problem.upper, problem.starts, self._seats, self.high,
            self.low, self.tol, 1.0 if self.steps == 0 else _NEW, self._members, self._slot_of,
            self._recent, self._held, self._taken, self._fresh,
        )  # fmt: skip
        slots = np.flatnonzero(self._members >= 0)
        self._fill(self._fresh[:count], slots)
        members = self._members[slots]
        moved, steps = self._solve(slots, members)
        self._move(moved, steps)
        self._look()
        self.steps += 1
        if self.steps % _STALLED == 0:
            now = self.objective
            self.has_stalled = not now < self._before - _ROUNDING * abs(now)
            self._before = now

    def _inner_tolerance(self, members: np.ndarray) -> float:
        """Finer where the working set has room for all support vectors: it will hardly change."""
        if self._whole:
            return _FINEST * self.tol
        roomy = self.steps > 0 and 2 * np.count_nonzero(self.z) < members.size
        return max(0.0 if roomy else _INNER * self.violation, _FINEST * self.tol)

    def _fill(self, fresh: np.ndarray, slots: np.ndarray) -> None:
        """Values of the fresh slots with all others; of all, where most are fresh."""
        problem = self.problem
        if not fresh.size:
            return
        fresh = slots if 2 * fresh.size >= slots.size else fresh
        rows = problem.rows[self._members[slots]]
        mine = rows if fresh is slots else problem.rows[self._members[fresh]]

        def place(start: int, stop: int) -> bool:
            """Those with some of the others, in a part of the buffer: parts do not meet."""
            part = slice(fresh.size * start, fresh.size * stop)
            values = self._values[part].reshape(fresh.size, stop - start)
            self.cache.source.block(mine, rows[start:stop], values)
            return place_rows(
                self._Q, values, fresh, slots[start:stop], self._members, problem.block,
                problem.signs, problem.coupling, problem.is_plain,
            )  # fmt: skip

        if not all(self.cache.over_parts(place, slots.size)):
            raise ArithmeticError(NOT_FINITE)

    def _solve(self, slots: np.ndarray, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of members; the variables that moved, and by how much."""
        problem, total = self.problem, self._members.size
        z, G, lower, upper, diagonal, rise, fall = self._inside
        gather(
            slots, members, self.z, self.G, problem.lower, problem.upper, problem.diagonal, z, G,
            lower, upper, diagonal, rise, fall,
        )  # fmt: skip
        tol = self._inner_tolerance(members)
        shape = (total // LANES, LANES)
        pairs, negative, _ = take_steps(
            self._Q.reshape(total, *shape), diagonal.reshape(shape), G.reshape(shape), z, lower,
            upper, rise.reshape(shape), fall.reshape(shape), self._blocks, tol,
            _LONGEST * max(members.size, LANES),
        )  # fmt: skip
        self.pairs += pairs
        self.negative += negative
        steps = z[slots] - self.z[members]
        moved = np.flatnonzero(steps)
        self.z[members] = z[slots]
        return members[moved], steps[moved]
