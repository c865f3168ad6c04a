"""Claim: RDA+ to delta = 1e-4 at least 1.5 times faster than our batch solver from zero where rows
abound and the solution is sparse, and never more than 1.2 times slower elsewhere.

l1-penalised logistic regression with a free intercept, strengths as fractions of the smallest one
with an empty model.  delta is the root mean square over all coordinates of the subgradient of least
norm, in units of the gradient: 1e-4 as published, and where 1e-3 of the strength is less, that (on
text gradients are smaller than 1e-4 to begin with); both for the two sets that the claim names.
*Batch* is proximal Newton from zero; it is charged with its iterations until delta is reached, and
not with looking.  RDA+ is charged with everything: its choices on a sample, both phases, and the
last look at all coordinates.  MNIST has raw pixels, as published; covtype is standardised.  CPU
seconds, the best of three in turn, warm.

*Defaults* (step size of phase one, share of the rows that it sees): chosen by the geometric mean of
the ratios over ten sets and two strengths, each set judged by what was best on the others.  For all
ten that was the same choice, gamma = 0.01 of the mean squared norm of the rows and a tenth of the
rows; with all rows seen before phase two, as published, the mean ratio was 0.94 instead of 1.25
(local phase as it was then; it has become faster on text since).  Phase one is skipped below 12,000
rows and 100 for each feature: the best of grids of both numbers by the geometric mean over 29 sets
(those here but MNIST and covtype, and 20 others) and four strengths; of rules with one number each
set was judged by what was best on the others, .915 instead of .877 of the batch solver's speed.
The numbers inside the local phase (parts and samples of the rows) were set by hand while looking at
MNIST and covtype, so that these two are not unseen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks import data
from benchmarks.measure import seconds, table, timed_in_turn, verdict
from thresher._rows import as_rows
from thresher.losses import Logistic
from thresher.penalties import L1
from thresher.solvers import Problem, ProximalNewton, RDAPlus, driver
from thresher.solvers._manifold import distance
from thresher.solvers._views import View, gradient_at
from thresher.solvers.auto import largest_useful_strength

PUBLISHED, RELATIVE = 1e-4, 1e-3  # delta; in units of the strength
FRACTIONS = (0.3, 0.1, 0.03, 0.01)
#: sets where rows abound, and the others
MANY = ("mnist even/odd", "covtype")
OTHERS = ("mnist 6/7", "a9a", "ijcnn1", "cod_rna", "w8a", "phishing", "spambase", "magic",
          "madelon", "dexter", "20news_binary")  # fmt: skip
_FOLDERS = {"mnist even/odd": "mnist", "mnist 6/7": "mnist"}


def run(names: list[str] | None = None) -> str:
    lines: list[list[Any]] = []
    for name in names or (*MANY, *OTHERS):
        if not data.available(_FOLDERS.get(name, name)):
            lines.append([name, "not at hand"] + [""] * 9)
            continue
        X, y = load(name)
        chunk = driver.whole(as_rows(X), y)
        base = Problem(Logistic(), L1(1.0), X.shape[1], dtype=X.dtype)
        largest = largest_useful_strength(base, chunk)
        for fraction in FRACTIONS:
            strength = fraction * largest
            tight = min(PUBLISHED, RELATIVE * strength)
            for goal in sorted({tight, PUBLISHED if name in MANY else tight}, reverse=True):
                lines.append(_line(name, base, chunk, fraction, strength, goal))
                print("  ".join(str(cell) for cell in lines[-1]), flush=True)
    header = ["set", "rows x features", "fraction", "delta", "non-zeros", "manifold", "iterations",
              "batch", "RDA+", "ratio", "as claimed"]  # fmt: skip
    return (__doc__ or "").strip() + "\n\n" + table(header, lines)


def load(name: str) -> tuple[Any, np.ndarray]:
    """Rows in single precision and signs."""
    if name in ("mnist even/odd", "mnist 6/7"):
        split = data.load("mnist")
        kept = np.isin(split.y, (6, 7)) | (name == "mnist even/odd")
        X = split.X[kept] * np.float32(255)
        return X, np.where(split.y[kept] % 2 == 0, 1.0, -1.0)
    if name in ("covtype", "a9a", "ijcnn1", "cod_rna", "20news_binary"):
        split = data.load(name)
        return split.X, np.where(split.y == np.max(split.y), 1.0, -1.0)
    raw = data.read(name)
    X, y = (raw[key] if key in raw else raw[f"{key}_train"] for key in ("X", "y"))
    X = X.astype(np.float32)
    if not sp.issparse(X):
        X = ((X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)).astype(np.float32)
    return X, np.where(y == np.max(y), 1.0, -1.0)


def _line(
    name: str, base: Problem, chunk: Any, fraction: float, strength: float, goal: float
) -> list[Any]:
    problem = replace(base, penalty=L1(strength), tol=goal)
    solver, plus = ProximalNewton(), RDAPlus()
    iterations = _iterations(solver, problem, chunk, goal)

    def batch() -> Any:
        state = solver.init(problem, chunk)
        for _ in range(iterations):
            state = solver.update(problem, state, chunk)
        return state

    def online() -> Any:
        return driver.learn(plus, problem, chunk, driver.Plan(30))

    result = online()
    times = timed_in_turn({"batch": batch, "RDA+": online}, 3)
    ratio = times["batch"].warm / times["RDA+"].warm
    kept = ratio >= (1.5 if name in MANY else 1.0 / 1.2) and result.residual <= goal
    rows, features = chunk.rows.shape
    return [
        name, f"{rows} x {features}", fraction, f"{goal:.1e}", np.count_nonzero(result.coef),
        int(result.state.inside.sum()), iterations, seconds(times["batch"].warm),
        seconds(times["RDA+"].warm), f"{ratio:.2f}", verdict(kept),
    ]  # fmt: skip


def _iterations(solver: ProximalNewton, problem: Problem, chunk: Any, goal: float) -> int:
    """Of proximal Newton from zero until delta is reached."""
    state, view = solver.init(problem, chunk), View.whole(chunk)
    for count in range(1, 201):
        state = solver.update(problem, state, chunk)
        gradient = gradient_at(problem, view, state.p)
        if distance(problem.penalty, state.w, gradient[:-1], float(gradient[-1])) <= goal:
            return count
    return 200


if __name__ == "__main__":
    import sys

    print(run(sys.argv[1:]))
