"""Claim: groups of features cost little: an online epoch of the group lasso at most 1.5 times that
of l1, and the batch optimum at most half the time of skglm and celer, a tenth of group-lasso's.

*Online*: generated rows, 200,000 x 75 non-zeros x 47,236 features, columns from a Zipf law, groups
of 1 to 50 neighbours, logistic loss, one pass in the given order by the solvers themselves, all in
turn.

*Batch*: CPU seconds, the second call, to an objective within 1e-4 of the best that anybody found,
of the cheapest of the tolerances tried that reaches it; no intercept, the same objective for all,
at a tenth of the strength that leaves nothing.  skglm gets its column-wise matrix, converted
outside the timing.  celer has least squares only, group-lasso (two tolerances) no
weights within groups that skglm and we share, so that it takes part in the group lasso only; for
the logistic loss skglm takes neither sparse rows nor weights within groups.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from benchmarks import data
from benchmarks.measure import seconds, table, timed_in_turn
from thresher._rows import as_rows
from thresher.losses import LeastSquares, Logistic
from thresher.penalties import L1, GroupL2, SparseGroupL2
from thresher.schedules import InverseRoot
from thresher.solvers import FOBOS, RDA, AdaptiveRDA, Problem, ProximalNewton, driver

NEAR = 1e-4
WITHIN = 0.5


def run(names: list[str] | None = None) -> str:
    return "\n\n".join([(__doc__ or "").strip(), _online(), _batch()])


# ---------------------------------------------------------------- online


def _online() -> str:
    split = data.zipf_rows()
    rows = as_rows(split.X)
    chunk = driver.whole(rows, np.where(split.y > 0, 1.0, -1.0))
    sizes = np.random.default_rng(0).integers(1, 51, rows.shape[1])
    groups = np.repeat(np.arange(sizes.size), sizes)[: rows.shape[1]]
    l1, group, sparse = L1(1e-4), GroupL2(groups, 1e-4), SparseGroupL2(groups, 1e-4, WITHIN)
    rda, fobos, adaptive = RDA(5.0), FOBOS(InverseRoot(0.5)), AdaptiveRDA(1.0)
    kinds = {
        "dual averaging, l1": (rda, l1), "dual averaging, group lasso": (rda, group),
        "dual averaging, sparse group lasso": (rda, sparse),
        "adaptive dual averaging, l1": (adaptive, l1),
        "adaptive dual averaging, group lasso": (adaptive, group),
        "FOBOS, l1": (fobos, l1), "FOBOS, group lasso": (fobos, group),
    }  # fmt: skip

    def epoch(solver: Any, penalty: Any) -> Any:
        problem = Problem(Logistic(), penalty, rows.shape[1], dtype=rows.dtype)
        return solver.finish(problem, solver.update(problem, solver.init(problem, chunk), chunk))

    calls = {name: (lambda kind=kind: epoch(*kind)) for name, kind in kinds.items()}
    used = {name: np.count_nonzero(call().coef) for name, call in calls.items()}
    times = timed_in_turn(calls, rounds=10)
    lines, base = [], 1.0
    for name, found in times.items():
        base = found.warm if name.endswith("l1") else base
        lines.append([name, seconds(found.warm), f"{found.warm / base:.2f}", used[name],
                      seconds(found.first)])  # fmt: skip
        print("  ".join(map(str, lines[-1])), flush=True)
    return table(["one epoch", "CPU", "times l1", "non-zeros", "first call"], lines)


# ---------------------------------------------------------------- batch


class Case(NamedTuple):
    """A problem that all solve: the matrix, targets, groups of equal size, loss, penalty."""

    name: str
    X: Any
    y: np.ndarray
    size: int
    logistic: bool
    sparse: bool
    strength: float

    @property
    def groups(self) -> np.ndarray:
        return np.arange(self.X.shape[1]) // self.size

    @property
    def problem(self) -> Problem:
        penalty: Any = GroupL2(self.groups, self.strength)
        if self.sparse:
            penalty = SparseGroupL2(self.groups, self.strength, WITHIN)
        loss = Logistic() if self.logistic else LeastSquares()
        return Problem(loss, penalty, self.X.shape[1], fit_intercept=False)


def _shapes() -> dict[str, tuple[Any, int, int]]:
    """Matrix, size of the groups and how many of them are active."""
    rng = np.random.default_rng(0)

    def dense(n: int, d: int) -> np.ndarray:
        X = rng.normal(size=(n, d))
        X[:, 1:] = 0.9 * X[:, 1:] + 0.4 * X[:, :-1]
        return X

    thin = sp.random_array((20_000, 20_000), density=0.003, rng=rng, format="csr")
    return {
        "n >> d: 50,000 x 300": (dense(50_000, 300), 10, 6),
        "d >> n: 400 x 10,000": (dense(400, 10_000), 10, 8),
        "sparse: 20,000 x 20,000, 60 a row": (thin, 10, 40),
    }


def _cases() -> list[Case]:
    rng, out = np.random.default_rng(1), []
    for name, (X, size, active) in _shapes().items():
        groups = np.arange(X.shape[1]) // size
        chosen = rng.choice(groups.max() + 1, active, replace=False)
        p = X @ np.where(np.isin(groups, chosen), rng.normal(size=X.shape[1]), 0.0)
        p /= p.std()
        for logistic in (False, True):
            if logistic:
                y = np.where(rng.uniform(size=p.size) < 1.0 / (1.0 + np.exp(-3.0 * p)), 1.0, -1.0)
            else:
                y = p + 0.5 * rng.normal(size=p.size)
            gradient = X.T @ (y * (0.5 if logistic else 1.0)) / y.size
            for sparse in (False, True):
                kind = SparseGroupL2(groups, within=WITHIN) if sparse else GroupL2(groups)
                out.append(Case(name, X, y, size, logistic, sparse, 0.1 * kind.emptying(gradient)))
    return out


Solve = Callable[[float], np.ndarray]  # of a tolerance: the weights


def _ours(case: Case) -> Solve:
    chunk = driver.whole(as_rows(case.X), case.y)

    def solve(tol: float) -> np.ndarray:
        problem = Problem(**{**vars(case.problem), "tol": tol})
        return driver.learn(ProximalNewton(), problem, chunk, driver.Plan(200)).coef

    return solve


def _skglm(case: Case) -> Solve:
    from skglm.datafits import LogisticGroup, QuadraticGroup
    from skglm.penalties import WeightedGroupL2, WeightedL1GroupL2
    from skglm.solvers import GroupBCD, GroupProxNewton
    from skglm.utils.data import grp_converter
    from skglm.utils.jit_compilation import compiled_clone

    thin, d = sp.issparse(case.X), case.X.shape[1]
    X = sp.csc_matrix(case.X) if thin else np.asfortranarray(case.X)
    indices, pointers = grp_converter(case.size, d)
    weights = np.full(d // case.size, math.sqrt(case.size))
    penalty: Any = WeightedGroupL2(case.strength, weights, pointers, indices)
    if case.sparse:
        each = np.full(d, WITHIN)
        penalty = WeightedL1GroupL2(case.strength, weights, each, pointers, indices)
    datafit = compiled_clone(
        (LogisticGroup if case.logistic else QuadraticGroup)(pointers, indices)
    )
    penalty = compiled_clone(penalty)

    def solve(tol: float) -> np.ndarray:
        kind: Any = GroupProxNewton if case.logistic else GroupBCD
        how = {"ws_strategy": "fixpoint"} if case.sparse and not case.logistic else {}
        solver = kind(fit_intercept=False, tol=tol, max_iter=50, **how)
        if thin:
            datafit.initialize_sparse(X.data, X.indptr, X.indices, case.y)
        else:
            datafit.initialize(X, case.y)
        return solver.solve(X, case.y, datafit, penalty)[0]

    return solve


def _celer(case: Case) -> Solve | None:
    from celer import GroupLasso

    if case.logistic or case.sparse:
        return None
    X = sp.csc_matrix(case.X) if sp.issparse(case.X) else np.asfortranarray(case.X)
    weights = np.full(case.X.shape[1] // case.size, math.sqrt(case.size))

    def solve(tol: float) -> np.ndarray:
        model = GroupLasso(case.size, case.strength, tol=tol, fit_intercept=False, weights=weights)
        return model.fit(X, case.y).coef_

    return solve


def _group_lasso(case: Case) -> Solve | None:
    from group_lasso import GroupLasso, LogisticGroupLasso

    if case.sparse:
        return None
    # Its penalties are weighed by the roots of the sizes too.  Half our strength is its least
    # squares' (by trial); its logistic model has weights of both classes, w / 2 and -w / 2.
    kind = LogisticGroupLasso if case.logistic else GroupLasso
    strength = case.strength * (math.sqrt(0.5) if case.logistic else 0.5)

    def solve(tol: float) -> np.ndarray:
        model = kind(groups=case.groups, group_reg=strength, l1_reg=0.0, tol=tol, n_iter=1000,
                     fit_intercept=False, supress_warning=True)  # fmt: skip
        model.fit(case.X, case.y if not case.logistic else case.y > 0)
        w = np.asarray(model.coef_)
        return w[:, -1] - w[:, 0] if case.logistic else w.ravel()

    return solve


PEERS = {"Thresher": _ours, "skglm": _skglm, "celer": _celer, "group-lasso": _group_lasso}
TOLERANCES = {
    "Thresher": (1e-2, 1e-3, 1e-4, 1e-5), "skglm": (1e-2, 1e-3, 1e-4, 1e-5, 1e-6),
    "celer": (1e-2, 1e-3, 1e-4, 1e-6), "group-lasso": (1e-3, 1e-4),
}  # fmt: skip


class Run(NamedTuple):
    cpu: float
    value: float


def _tried(case: Case, name: str) -> list[Run]:
    """Objective and time at each tolerance; the first call of all compiles."""
    solve = PEERS[name](case)
    if solve is None:
        return []
    chunk, problem, out = driver.whole(as_rows(case.X), case.y), case.problem, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name != "group-lasso":
            solve(TOLERANCES[name][0])
        for tol in TOLERANCES[name]:
            start = time.process_time()
            w = np.ascontiguousarray(solve(tol), dtype=np.float64)
            cpu = time.process_time() - start
            out.append(Run(cpu, driver.objective(problem, chunk, w, 0.0)))
            still = len(out) > 1 and out[-2].value <= out[-1].value * (1.0 + 1e-7)
            if cpu > 20.0 or still:
                break
    return out


def _batch() -> str:
    lines = []
    for case in _cases():
        runs = {}
        for name in PEERS:
            try:
                runs[name] = _tried(case, name)
            except Exception as error:
                print(f"{name}: {type(error).__name__}: {str(error)[:80]}", flush=True)
                runs[name] = []
        best = min(run.value for found in runs.values() for run in found)
        times = {name: _first_near(found, best) for name, found in runs.items()}
        lines.append(_line(case, runs, times))
        print("  ".join(map(str, lines[-1])), flush=True)
    return table(
        ["rows", "loss", "penalty", *PEERS, "of skglm", "of celer", "of group-lasso"], lines
    )


def _first_near(found: list[Run], best: float) -> float:
    return min((r.cpu for r in found if r.value <= best * (1.0 + NEAR)), default=math.nan)


def _line(case: Case, runs: dict[str, list[Run]], times: dict[str, float]) -> list[Any]:
    cells: list[Any] = [case.name, "logistic" if case.logistic else "least squares",
                        "sparse group" if case.sparse else "group"]  # fmt: skip
    for name, cpu in times.items():
        missed = f"not in {seconds(sum(r.cpu for r in runs[name]))}" if runs[name] else "-"
        cells.append(missed if math.isnan(cpu) else seconds(cpu))
    for name in ("skglm", "celer", "group-lasso"):
        ratio = times["Thresher"] / times.get(name, math.nan)
        cells.append("" if math.isnan(ratio) else f"{ratio:.2f}")
    return cells


if __name__ == "__main__":
    print(run())
