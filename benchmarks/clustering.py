"""Claim: k-means on covtype (581,012 rows, 7 and 50 clusters) takes at most half the time of
scikit-learn's KMeans and MiniBatchKMeans at equal inertia, and no more time with an l1 penalty.

One thread, CPU seconds, medians over seeds; one start each for the peers, as they come otherwise.
Inertia is that of all rows.  *equal* means within half a percent of the peer's median or below.
MiniBatchKMeans ends above the others, so that the time to its inertia is shown too: that of the
first of our settings of increasing effort that is at least as good.  The l1 penalty is 0.05 in
standard deviations; its inertia is not compared, since its centres are shrunk.
"""

from __future__ import annotations

import time
import warnings
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from benchmarks import data
from benchmarks.measure import seconds, table, verdict
from thresher import StochasticKMeans

SEEDS = 5
CLUSTERS = (7, 50)
EQUAL = 1.005
EFFORTS: dict[str, dict[str, Any]] = {
    "one pass": {"max_iter": 1, "n_init": 1},
    "three passes": {"max_iter": 3},
    "default": {},
}


class Run(NamedTuple):
    seconds: float
    inertia: float


def run(names: list[str] | None = None, rows: int | None = None) -> str:
    lines: list[list[Any]] = []
    for name in names or ("covtype", "covtype, raw units"):
        if not data.available("covtype"):
            lines.append([name, "", "not at hand"] + [""] * 5)
            continue
        X = data.covtype_columns(data.read("covtype"))[:rows]
        X = X if "raw" in name else _standardised(X)
        for k in CLUSTERS:
            lines += _compare(name, k, X)
    header = ["set", "clusters", "model", "CPU", "inertia", "times KMeans", "equal", "met"]
    return (__doc__ or "").strip() + "\n\n" + table(header, lines)


def _standardised(X: np.ndarray) -> np.ndarray:
    deviation = X.std(axis=0)
    return ((X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1)).astype(np.float32)


def _compare(name: str, k: int, X: np.ndarray) -> list[list[Any]]:
    from sklearn.cluster import KMeans, MiniBatchKMeans

    def ours(**options: Any) -> Run:
        return _timed(lambda seed: StochasticKMeans(k, random_state=seed, **options), X)

    ours(max_iter=1)  # compiles
    peer = _timed(lambda seed: KMeans(k, n_init=1, random_state=seed), X)
    quick = _timed(lambda seed: MiniBatchKMeans(k, n_init=1, random_state=seed), X)
    found = {label: ours(**options) for label, options in EFFORTS.items()}
    default, unit = found["default"], float(X.var(axis=0).mean()) ** 0.5
    sparse = ours(alpha=0.05 * unit)
    enough = next((r for r in found.values() if r.inertia <= EQUAL * quick.inertia), default)

    def line(label: str, one: Run, equal: str, met: str) -> list[Any]:
        share = f"{one.seconds / peer.seconds:.2f}"
        return [name, k, label, seconds(one.seconds), f"{one.inertia:.5g}", share, equal, met]

    same = default.inertia <= EQUAL * peer.inertia
    reached = enough.inertia <= EQUAL * quick.inertia
    half, fast = 0.5 * peer.seconds, 0.5 * quick.seconds
    return [
        line("KMeans", peer, "", ""),
        line("MiniBatchKMeans", quick, "", ""),
        line("Thresher", default, verdict(same), verdict(same and default.seconds <= half)),
        line("Thresher, to MiniBatchKMeans' inertia", enough, verdict(reached),
             verdict(reached and enough.seconds <= fast)),
        line("Thresher, l1", sparse, "", verdict(sparse.seconds <= 1.05 * default.seconds)),
    ]  # fmt: skip


def _timed(make: Any, X: np.ndarray) -> Run:
    runs = []
    for seed in range(SEEDS):
        model = make(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start = time.process_time()
            model.fit(X)
        runs.append(Run(time.process_time() - start, _inertia(X, model.labels_)))
    return Run(*(median(values) for values in zip(*runs, strict=True)))


def _inertia(X: np.ndarray, labels: np.ndarray) -> float:
    """Of the clusters themselves, about their means: the same measure for everybody."""
    total = 0.0
    for c in np.unique(labels):
        part = X[labels == c].astype(np.float64)
        total += float(np.sum((part - part.mean(axis=0)) ** 2))
    return total
