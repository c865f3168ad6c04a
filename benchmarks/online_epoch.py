"""Claim: one online epoch over sparse rows costs at most 2.5 times reading them, and a third of
scikit-learn's.

Generated rows: 200,000 x 75 non-zeros x 47,236 features, columns from a Zipf law, float32.
*Reading* sums the values and the column numbers, once, as fast as one core can (vectorised); the
floor is bytes over the bandwidth that this loop reaches.  *Predictions only* and *updates only* are
the two halves of the work, by the solvers' own functions on all rows, without the chain between
them: an epoch predicts every row and, with the hinge loss here, updates for two rows of three.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from benchmarks import data
from benchmarks.measure import seconds, table, timed
from thresher._rows import as_rows
from thresher.losses import Hinge, Logistic, SquaredHinge
from thresher.penalties import L2
from thresher.solvers import AveragedSGD, Problem, driver


@njit(cache=True, fastmath={"reassoc"})
def read(values, columns):
    total, number = np.float32(0), np.uint32(0)
    for k in range(values.size):
        total += values[k]
        number ^= columns[k]
    return total, number


@njit(cache=True)
def read_in_order(values, columns):
    """The same without vector instructions: one addition after the other."""
    total, number = np.float32(0), np.uint32(0)
    for k in range(values.size):
        total += values[k]
        number ^= columns[k]
    return total, number


@njit(cache=True)
def predict_all(rows, w):
    total = 0.0
    for i in range(rows.indptr.size - 1):
        total += rows.dot(i, w)
    return total


@njit(cache=True)
def update_all(rows, w):
    for i in range(rows.indptr.size - 1):
        rows.add(i, 1e-6, w)


def run() -> str:
    from sklearn.linear_model import SGDClassifier

    split = data.zipf_rows()
    rows = as_rows(split.X)
    n, elements = split.X.shape[0], split.X.nnz
    floor = timed(lambda: read(rows.data, rows.indices), repeats=7)
    plain = timed(lambda: read_in_order(rows.data, rows.indices), repeats=7)
    chunk = driver.whole(rows, np.where(split.y > 0, 1.0, -1.0))
    lines = [
        _line("read the arrays, vectorised", floor, floor, elements),
        _line("read the arrays, in order", plain, floor, elements),
    ]
    w = np.zeros(rows.shape[1], dtype=rows.dtype)
    for title, half in (("predictions only", predict_all), ("updates only", update_all)):
        lines.append(_line(title, timed(lambda f=half: f(rows, w), repeats=7), floor, elements))
    for loss in (Hinge(), SquaredHinge(), Logistic()):
        problem = Problem(loss, L2(1.0 / n), rows.shape[1], dtype=rows.dtype)
        solver = AveragedSGD(eta0=0.5, every=2520)

        def epoch(solver=solver, problem=problem):
            return solver.update(problem, solver.init(problem), chunk)

        name = f"Thresher, {type(loss).__name__}, averaged"
        lines.append(_line(name, timed(epoch, repeats=7), floor, elements))
    for loss, average in (("hinge", False), ("log_loss", False), ("log_loss", True)):
        peer = SGDClassifier(
            loss, alpha=1.0 / n, max_iter=1, tol=None, average=average, random_state=0
        )
        time = timed(
            lambda peer=peer: peer.partial_fit(split.X, split.y, classes=[0, 1]), repeats=3
        )
        name = f"SGDClassifier, {loss}{', averaged' if average else ''}"
        lines.append(_line(name, time, floor, elements))
    gigabytes = (rows.data.nbytes + rows.indices.nbytes) / 1e9
    header = ["one pass in the given order", "CPU", "ns / non-zero", "times reading", "first call"]
    return (
        (__doc__ or "").strip()
        + f"\n\nFloor: {gigabytes:.3f} GB read at {gigabytes / floor.warm:.1f} GB/s.\n\n"
        + table(header, lines)
    )


def _line(name, time, floor, elements):
    return [name, seconds(time.warm), f"{time.warm / elements * 1e9:.2f}",
            f"{time.warm / floor.warm:.2f}", seconds(time.first)]  # fmt: skip


if __name__ == "__main__":
    print(run())
