r"""Support vector regression with free functions: the dual with K equality rows, by working sets.

.. math:: \min_{w,\beta}\; \tfrac12\|w\|^2 + \sum_i c_i \max(|y_i - h(x_i)| - \epsilon, 0), \qquad
          h(x) = \langle w, \phi(x)\rangle + \sum_{j \le K} \beta_j \psi_j(x)

The functions psi are not penalised, so that each adds an equality to the dual (``_equality_qp``),
and its multiplier is the coefficient beta (Smola, Friess and Schoelkopf, 1999; Lee, 2011, chapter
4).  Rows are those of the kernel followed by the values of the psi.

*Decomposition* (algorithm 4).  A working set B of variables is optimised, the others rest; the
gradient changes by the kernel columns of the rows that moved; the next B takes the ``fresh``
variables that violate their conditions most, and the rest of its places goes to members of the
last B, free ones first, the latest ones first.  Equalities have no say in the choice, which is a
sort.  Fewer fresh ones are taken as fewer variables change.

*Inner solvers*.  "interior" (``_interior_point``) is the default; "pdsg" and "multipliers"
(``_saddle_steps``) are the published first-order ones; a working set that they do not solve in the
steps they are given is solved by the first.  Each also solves the whole problem at once
(``decompose=False``), there without such help.

*Start*.  Where rows abound, the program with a low-rank kernel (``_incomplete_cholesky``) is solved
first, by the interior-point method: in few dimensions that is nearly the solution, and every kernel
column of a support vector is needed once anyway.

The free functions are made orthonormal over the rows first: neither their units nor how they lean
on each other matters to steps or conditions.  Residual: the largest violation of a condition, in
units of ``unit``, and of an equality, in mean widths of the bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from thresher.functions.expansion import Expansion
from thresher.functions.semiparametric import SemiparametricFunction, trailing
from thresher.kernels.column_cache import ColumnCache
from thresher.kernels.columns import KernelColumns, fitting_precision
from thresher.kernels.functions import Kernel
from thresher.solvers._equality_qp import Block, EqualityQP, violations
from thresher.solvers._incomplete_cholesky import incomplete_cholesky
from thresher.solvers._interior_point import LowRank, WholeMatrix, interior_point
from thresher.solvers._saddle_steps import ridge_scales, saddle_steps
from thresher.solvers.base import Chunk, Near, Problem, Solver

__all__ = ["INNER", "SemiparametricDual", "orthonormal", "split"]

INNER = ("interior", "pdsg", "multipliers")
_LEAST_FRESH = 10
_WORK = 3e7  # multiplications of first-order steps between two looks at the whole
_DEPENDENT = 1e-7  # of a function's size must be left beside the others


class Work(NamedTuple):
    """What belongs to rows in memory, and to no file."""

    qp: EqualityQP
    X: Any  # the rows of the kernel, in double precision
    triangle: np.ndarray  # psi = orthonormal @ triangle
    order: np.ndarray


class DualState(NamedTuple):
    z: np.ndarray
    eta: np.ndarray  # of the orthonormal functions
    images: np.ndarray  # K times the coefficients of the rows
    chosen: np.ndarray  # the working set, the latest members first
    fresh: int
    scales: np.ndarray  # of the dual steps of a first-order solver that goes on
    rescued: int  # working sets that a first-order solver gave up
    dual: np.ndarray  # coefficient of every row of the chunk
    violation: float
    gap: float  # relative
    step: int
    work: Work


@dataclass(frozen=True)
class SemiparametricDual(Solver):
    """Kernel regression with a tube and free functions, exactly.

    Parameters
    ----------
    kernel : Kernel
        Of all but the last ``free`` columns of the rows.
    free : int, default=1
        So many last columns are the values of functions that are not penalised.
    inner : {"interior", "pdsg", "multipliers"}, default="interior"
        Who solves a working set.
    decompose : bool, default=True
        False: all variables at once, with the whole kernel matrix in ``memory``.
    working : int, default=512
        Most variables of a working set.
    fresh : int or None, default=None
        Most new ones in each; None: two fifths, or a fifth for the first-order solvers.
    group : int, default=2
        Variables of one step of "pdsg".
    ridge : float, default=1e-2
        Of the scales of dual steps, see ``_saddle_steps``.
    start : {"low_rank", "zero"}, default="low_rank"
        Where to start from rows that are many times a working set.
    unit : float, default=1.0
        What violations are measured by; in the units of the targets.
    memory : float, default=4e8
        Bytes for kernel columns.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import RBF
    >>> from thresher._rows import as_rows
    >>> from thresher.losses import EpsilonInsensitive
    >>> from thresher.penalties import L2
    >>> from thresher.solvers import Problem, driver
    >>> from thresher.solvers.semiparametric import SemiparametricDual
    >>> x = np.linspace(0.0, 6.0, 60)
    >>> y = 3.0 * x + np.exp(-4.0 * (x - 2.0) ** 2)
    >>> rows = as_rows(np.column_stack([x, x, np.ones(60)]))  # the kernel's x, then psi = x, 1
    >>> problem = Problem(EpsilonInsensitive(0.01), L2(1 / 60), 3, False, tol=1e-4)
    >>> solver = SemiparametricDual(RBF(1.0), free=2)
    >>> result = driver.learn(solver, problem, driver.whole(rows, y), driver.Plan(100))
    >>> result.status.name, bool(abs(result.function.beta[0] - 3.0) < 0.1)
    ('CONVERGED', True)
    """

    kernel: Kernel
    free: int = 1
    inner: str = "interior"
    decompose: bool = True
    working: int = 512
    fresh: int | None = None
    group: int = 2
    ridge: float = 1e-2
    start: str = "low_rank"
    unit: float = 1.0
    memory: float = 4e8

    loss_needs = frozenset({"tube"})
    penalty_needs = frozenset({"uniform", "quadratic"})
    streaming = False
    linear = False
    asks_function = False
    default_passes = 1000

    # ------------------------------------------------------------ the problem

    def check(self, problem: Problem) -> None:
        name = type(self).__name__
        if self.inner not in INNER:
            raise ValueError(f"{name}: inner must be one of {', '.join(INNER)}, got {self.inner!r}")
        if self.start not in ("low_rank", "zero"):
            raise ValueError(f"{name}: start must be 'low_rank' or 'zero', got {self.start!r}")
        if not 0 <= self.free < problem.n_features:
            raise ValueError(f"{name}: {self.free} of {problem.n_features} columns cannot be free")
        if self.working < 2 * (self.free + 1):
            raise ValueError(
                f"{name}: working={self.working} variables cannot hold {self.free} equalities: "
                f"raise it to {2 * (self.free + 1)} at least"
            )
        if self.fresh is not None and not 0 < self.fresh <= self.working:
            raise ValueError(
                f"{name}: fresh must lie between 1 and working={self.working}, got {self.fresh}"
            )
        for field in ("ridge", "unit", "memory"):
            if not getattr(self, field) > 0.0:
                raise ValueError(f"{name}: {field} must be positive, got {getattr(self, field)}")
        if not problem.ridge > 0.0:
            raise ValueError(f"{name}: needs a penalty with a positive strength (alpha)")

    def _work(self, problem: Problem, chunk: Chunk) -> Work:
        order = chunk.order
        X, psi = split(problem, chunk, self.free)
        basis, triangle = orthonormal(psi)
        bound = chunk.weight[order] / (problem.ridge * float(np.sum(chunk.weight[order])))
        y = chunk.y[order].astype(np.float64)
        n, whole = order.size, not self.decompose
        self._refuse_memory(n, whole)
        precision = fitting_precision(self.kernel, X, float(np.max(bound)), self._tol(problem))
        columns = KernelColumns(self.kernel, X, np.float64 if whole else precision)
        cache = ColumnCache(columns, self.memory)
        loss: Any = problem.loss
        qp = EqualityQP.tube(self.kernel, X, cache, y, float(loss.epsilon), bound, basis)
        return Work(qp, X, triangle, order)

    def _refuse_memory(self, rows: int, whole: bool) -> None:
        needed = 8.0 * rows * rows if whole else 8.0 * rows
        if needed > self.memory:
            what = f"the kernel of {rows} rows takes"
            what = what if whole else f"two kernel columns of {rows} rows take"
            raise ValueError(
                f"{what} {needed:,.0f} bytes: raise memory={self.memory:.3g} to that"
                + (" or use decompose=True" if whole else "")
            )

    def _tol(self, problem: Problem) -> float:
        return (problem.tol or 1e-3) * self.unit

    # ------------------------------------------------------------ states

    def init(self, problem: Problem, chunk: Chunk | None = None) -> DualState:
        assert chunk is not None, "the dual belongs to rows in memory"
        work = self._work(problem, chunk)
        qp, many = work.qp, 2 * chunk.order.size > self.working
        z, eta = np.zeros(qp.row.size), np.zeros(self.free)
        images = np.zeros(qp.columns.source.size)
        if self.start == "low_rank" and self.decompose and many:
            z, eta = self._roughly(problem, qp)
            images = qp.images(qp.weights(z))
        return self._looked(problem, work, chunk.size, z, eta, images, None)

    def start_from(self, problem: Problem, chunk: Chunk, near: Near) -> DualState | None:
        """Coefficients of rows and of functions, cut to the new bounds."""
        if near.dual is None or near.dual.size != chunk.size or near.coef.size != self.free:
            return None
        work = self._work(problem, chunk)
        qp = work.qp
        given = near.dual[chunk.order] * (near.problem.ridge / problem.ridge)
        z = np.clip(np.concatenate([given, given]), qp.lower, qp.upper)
        eta = work.triangle @ near.coef
        images = qp.images(qp.weights(z))
        return self._looked(problem, work, chunk.size, z, eta, images, None)

    def _roughly(self, problem: Problem, qp: EqualityQP) -> tuple[np.ndarray, np.ndarray]:
        """The solution with a kernel of low rank."""
        n, tol = qp.columns.source.size, self._tol(problem)
        G, _ = incomplete_cholesky(qp.columns, min(256, n // 8), 1e-6)
        z, eta, _ = interior_point(
            LowRank(G, qp.row), qp.linear, qp.lower, qp.upper, qp.A[:, qp.row], qp.target,
            (np.zeros(qp.row.size), np.zeros(self.free)), 0.1 * tol,
            float(np.mean(qp.columns.source.diagonal)),
        )  # fmt: skip
        return z, eta

    def _looked(
        self, problem: Problem, work: Work, size: int, z: np.ndarray, eta: np.ndarray,
        images: np.ndarray, before: DualState | None,
    ) -> DualState:  # fmt: skip
        """The state of these variables: what they violate, and who is to move next."""
        qp = work.qp
        wrong = violations(z, qp.slopes(images, eta), qp.lower, qp.upper)
        residue = float(np.max(np.abs(qp.residue(z)), initial=0.0)) / qp.width
        violation = max(float(np.max(wrong, initial=0.0)) / self.unit, residue)
        objective = qp.objective(z, images)
        gap = max(qp.gap(z, images, eta), 0.0) / max(abs(objective), 1e-300)
        dual = np.zeros(size)
        dual[work.order] = qp.weights(z)
        chosen, fresh = self._chosen(qp, z, wrong, before)
        scales = np.empty(0) if before is None else before.scales
        step, rescued = (0, 0) if before is None else (before.step + 1, before.rescued)
        return DualState(
            z, eta, images, chosen, fresh, scales, rescued, dual, violation, gap, step, work
        )

    def _chosen(
        self, qp: EqualityQP, z: np.ndarray, wrong: np.ndarray, before: DualState | None
    ) -> tuple[np.ndarray, int]:
        """The next working set, and how many new ones it may have taken."""
        if not self.decompose or z.size <= self.working:
            return np.arange(z.size), z.size
        first_order = self.inner != "interior"
        share = 5 if first_order else 2.5
        most = max(int(self.working / share), 1) if self.fresh is None else self.fresh
        fresh = self.working if before is None else min(before.fresh, most)
        new = np.argpartition(-wrong, fresh - 1)[:fresh]
        new = new[wrong[new] > 0.0]
        new = new[np.lexsort((new, -wrong[new]))]
        if before is None:
            rest = np.flatnonzero((z > qp.lower) & (z < qp.upper))
            old = rest[~np.isin(rest, new)]
        else:
            old = before.chosen[~np.isin(before.chosen, new)]
            kind = np.where(z[old] >= qp.upper[old], 2, np.where(z[old] <= qp.lower[old], 1, 0))
            old = old[np.argsort(kind, kind="stable")]
        chosen = np.concatenate([new, old])[: self.working]
        if before is None:
            return chosen, most
        entered = int(np.count_nonzero(~np.isin(new, before.chosen)))
        # The rule fills the set with members that have settled; a set that is solved exactly is
        # better used by more new ones.
        least = _LEAST_FRESH if first_order else most // 2
        return chosen, max(min(least, most), min(fresh, entered))

    # ------------------------------------------------------------ the algorithm

    def update(self, problem: Problem, state: DualState, chunk: Chunk) -> DualState:
        """One working set; none where the start was the solution already."""
        if state.violation <= (problem.tol or 1e-3):
            return state._replace(step=state.step + 1)
        qp, chosen = state.work.qp, state.chosen
        block = qp.block(chosen, state.z, state.images)
        tol, start = self._tol(problem), (state.z[chosen], state.eta)
        scales, rescued = state.scales, state.rescued
        if self.inner == "interior":
            moved, eta = self._solved(block, start, tol)
        else:
            if self.decompose or not scales.size:
                scales = ridge_scales(block, self.ridge)
            most = max(int(_WORK / (block.Q.shape[0] + chosen.size)), 1000)
            found = saddle_steps(
                block, *start, scales, group=self.group if self.inner == "pdsg" else 1,
                patient=self.inner == "multipliers", most=most,
                tol=0.5 * tol if self.decompose else tol, unit=self.unit,
            )  # fmt: skip
            moved, eta, scales = found.z, found.eta, found.scales
            if self.decompose and found.violation > tol:
                moved, eta = self._solved(block, start, tol)
                rescued += 1
        z, images = state.z.copy(), state.images.copy()
        z[chosen] = moved
        qp.moved(images, qp.weights(z) - qp.weights(state.z))
        before = state._replace(scales=scales, rescued=rescued)
        return self._looked(problem, state.work, state.dual.size, z, eta, images, before)

    def _solved(self, block: Block, start: tuple[np.ndarray, np.ndarray], tol: float) -> Any:
        """The working set by the interior-point method."""
        z, eta, _ = interior_point(
            WholeMatrix(block.Q, block.row), block.linear, block.lower, block.upper, block.A,
            block.target, start, 0.1 * tol, float(np.mean(np.diag(block.Q))),
        )  # fmt: skip
        return z, eta

    def finish(self, problem: Problem, state: DualState) -> SemiparametricFunction:
        work = state.work
        weights = work.qp.weights(state.z)
        used = np.flatnonzero(weights)
        vectors = work.X[used]
        vectors = vectors.toarray() if hasattr(vectors, "toarray") else vectors
        part = Expansion(
            self.kernel, np.array(vectors, dtype=np.float64), weights[None, used], np.zeros(1)
        )
        beta = solve_triangular(work.triangle, state.eta) if self.free else np.zeros(0)
        return SemiparametricFunction(part, trailing(part.features, self.free), beta)

    def residual(self, problem: Problem, state: DualState, before: Any, after: Any) -> float:
        return state.violation

    def is_sound(self, problem: Problem, state: DualState) -> bool:
        return bool(np.all(np.isfinite(state.z)) and np.all(np.isfinite(state.eta)))


def split(problem: Problem, chunk: Chunk, free: int) -> tuple[Any, np.ndarray]:
    """The rows to visit, in double precision: those of the kernel, and values of free functions."""
    table = chunk.rows.taken(chunk.order)
    d = problem.n_features - free
    X, psi = table[:, :d], table[:, d:]
    psi = np.asarray(psi.toarray() if hasattr(psi, "toarray") else psi, dtype=np.float64)
    return X.tocsr() if hasattr(X, "tocsr") else np.ascontiguousarray(X), psi


def orthonormal(psi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Functions of mean square one and mean products zero, and the triangle that makes psi of them.

    ValueError if one of them says nothing beside those before it.
    """
    n = psi.shape[0]
    if not psi.shape[1]:
        return psi, np.zeros((0, 0))
    size = np.sqrt(np.mean(psi**2, axis=0))
    if not np.all(size > 0.0):
        raise ValueError(f"free function {int(np.argmin(size))} is zero on every row")
    basis, triangle = np.linalg.qr(psi / size)
    left = np.abs(np.diag(triangle)) / math.sqrt(n)
    if psi.shape[1] > n or not np.all(left > _DEPENDENT):
        place = int(np.argmax(left <= _DEPENDENT)) if psi.shape[1] <= n else n
        raise ValueError(
            f"free function {place} depends on those before it on these {n} rows: leave it out"
        )
    return basis * math.sqrt(n), triangle * size / math.sqrt(n)
