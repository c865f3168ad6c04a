"""Claim: one online epoch over sparse rows costs at most 2.5 times reading them, and a third of
scikit-learn's.

Generated rows: 200,000 x 75 non-zeros x 47,236 features, columns from a Zipf law, float32.
*Reading* sums the values and the column numbers, once, as fast as one core can (vectorised); the
floor is bytes over the bandwidth that this loop reaches.  All in turn, the best of forty rounds.
*Predictions only* and *updates only* are the two halves of the work, by the solvers' own functions
on all rows, without the chain between them: an epoch predicts every row and, with the hinge loss
here, updates for two rows of three.  Passes are as ``fit`` makes them, where a row is predicted
before the update by the one before it; *in a stream* each waits for the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from benchmarks import data
from benchmarks.measure import seconds, table, timed_in_turn
from thresher._rows import as_rows
from thresher.losses import Hinge, Logistic, SquaredHinge
from thresher.penalties import L2
from thresher.solvers import AveragedSGD, Chunk, Problem, driver


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
    split = data.zipf_rows()
    rows = as_rows(split.X)
    w = np.zeros(rows.shape[1], dtype=rows.dtype)
    calls = {
        "read the arrays, vectorised": lambda: read(rows.data, rows.indices),
        "read the arrays, in order": lambda: read_in_order(rows.data, rows.indices),
        "predictions only": lambda: predict_all(rows, w),
        "updates only": lambda: update_all(rows, w),
        **_epochs(driver.whole(rows, np.where(split.y > 0, 1.0, -1.0))),
    }
    times = timed_in_turn(calls, rounds=40) | timed_in_turn(_peers(split), rounds=5)
    floor, elements = next(iter(times.values())), split.X.nnz
    lines = [_line(name, time, floor, elements) for name, time in times.items()]
    gigabytes = (rows.data.nbytes + rows.indices.nbytes) / 1e9
    header = ["one pass in the given order", "CPU", "ns / non-zero", "times reading", "first call"]
    return (
        (__doc__ or "").strip()
        + f"\n\nFloor: {gigabytes:.3f} GB read at {gigabytes / floor.warm:.1f} GB/s.\n\n"
        + table(header, lines)
    )


def _epochs(chunk: Chunk) -> dict[str, Callable[[], Any]]:
    n, d = chunk.rows.shape
    epochs = {}
    for loss in (Hinge(), SquaredHinge(), Logistic()):
        problem = Problem(loss, L2(1.0 / n), d, dtype=chunk.rows.dtype)
        stream = AveragedSGD(eta0=0.5, every=2520)
        for solver, how in ((stream.planned(n), ""), (stream, ", in a stream")):

            def epoch(solver=solver, problem=problem):
                return solver.update(problem, solver.init(problem), chunk)

            epochs[f"Thresher, {type(loss).__name__}, averaged{how}"] = epoch
    return epochs


def _peers(split: data.Split) -> dict[str, Callable[[], Any]]:
    from sklearn.linear_model import SGDClassifier

    peers = {}
    for loss, average in (("hinge", False), ("log_loss", False), ("log_loss", True)):
        options = {"max_iter": 1, "tol": None, "average": average, "random_state": 0}
        peer = SGDClassifier(loss, alpha=1.0 / split.y.size, **options)
        name = f"SGDClassifier, {loss}{', averaged' if average else ''}"
        peers[name] = lambda peer=peer: peer.partial_fit(split.X, split.y, classes=[0, 1])
    return peers


def _line(name, time, floor, elements):
    return [name, seconds(time.warm), f"{time.warm / elements * 1e9:.2f}",
            f"{time.warm / floor.warm:.2f}", seconds(time.first)]  # fmt: skip


if __name__ == "__main__":
    print(run())
