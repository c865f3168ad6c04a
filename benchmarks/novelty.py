"""Claim: untuned, `NoveltyClassifier` keeps the share of false alarms that it was asked for, and
finds rows of a class that it has never seen about as well as the best of three usual makeshifts: a
one-class machine for each class, a threshold on the margins of an SVM, an isolation forest for each
class.

One class of each set is left out of the training rows and makes the outliers, each of the first
two in turn; at most 600 rows of the others are learned from, columns standardised, and as many are
kept to judge.  All are to reject five percent of new rows of known classes; the thresholds of
the peers are found by five folds, as ours are.  *Error* is of known rows, rejected ones among them;
*AUC* tells known rows from outliers whatever the threshold.  CPU seconds of one fit with its folds,
one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from reproduction import data
from reproduction.novelty import ForestEach, Margin, OneClassEach, threshold_of
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from benchmarks.measure import seconds, table, verdict
from thresher import NoveltyClassifier
from thresher.kernels.functions import RBF
from thresher.kernels.width import median_gamma

SETS = ("vehicle", "segment", "vowel", "optdigits", "pendigits", "usps")
MOST, TURNS, SHARE = 600, 2, 0.05


class Task(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    new: np.ndarray
    truth: np.ndarray
    odd: np.ndarray


class Measured(NamedTuple):
    error: float
    false_alarms: float
    detection: float
    auc: float
    cpu: float


Method = Callable[[Task], tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]]


def run(sets: tuple[str, ...] = SETS, turns: int = TURNS, most: int = MOST) -> str:
    lines, means = [], {}
    for name in sets:
        if not data.available(name):
            lines.append([name, "not found"])
            continue
        found: dict[str, list[Measured]] = {method: [] for method in METHODS}
        for turn in range(turns):
            task = drawn(name, turn, most)
            for method, call in METHODS.items():
                found[method].append(_measured(call, task))
        for method, results in found.items():
            mean = Measured(*np.mean(results, axis=0))
            means.setdefault(method, []).append(mean)
            shares = [f"{value:.3f}" for value in mean[:-1]]
            lines.append([name, method, *shares, seconds(mean.cpu)])
    header = ["set", "method", "error", "false alarms", "detection", "AUC", "CPU"]
    overall = {m: np.mean(results, axis=0) for m, results in means.items()}
    rows = [[m, *(f"{v:.3f}" for v in mean[:-1]), seconds(mean[-1])] for m, mean in overall.items()]
    ours, *_ = overall.values()
    best = max(overall[m][3] for m in PEERS)
    told = (
        f"False alarms within two points of {SHARE:.0%}: "
        f"{verdict(abs(ours[1] - SHARE) < 0.02)}. AUC of the default within a point of the best "
        f"peer's ({best:.3f}): {verdict(ours[3] > best - 0.01)}."
    )
    return "\n\n".join([
        (__doc__ or "").strip(), table(header, lines), "Means over the sets:",
        table(["method", *header[2:]], rows), told,
    ])  # fmt: skip


def drawn(name: str, turn: int, most: int) -> Task:
    raw = data.read(name)
    X, y = data.columns(name, raw), data.labels(name, raw)
    rng = np.random.default_rng(turn)
    order = rng.permutation(y.size)
    X, y = X[order], y[order]
    stranger = np.unique(y)[turn]
    known = np.flatnonzero(y != stranger)
    size = min(most, known.size // 2)
    train, test = known[:size], known[size : 2 * size]
    mean, deviation = X[train].mean(axis=0), X[train].std(axis=0)
    X = (X - mean) / np.where(deviation > 0.0, deviation, 1.0)
    labels = np.unique(y[train])
    test = test[np.isin(y[test], labels)]
    codes = np.searchsorted(labels, y)
    return Task(X[train], codes[train], X[test], codes[test], X[y == stranger][:size])


def _measured(call: Method, task: Task) -> Measured:
    with threadpool_limits(1):
        start = time.process_time()
        scores, threshold = call(task)
        cpu = time.process_time() - start
        known, odd = scores(task.new), scores(task.odd).max(axis=1)
    rejected = known.max(axis=1) <= threshold
    wrong = rejected | (known.argmax(axis=1) != task.truth)
    truth = np.repeat([1, 0], [known.shape[0], odd.size])
    area = roc_auc_score(truth, np.append(known.max(axis=1), odd))
    return Measured(
        float(wrong.mean()), float(rejected.mean()), float(np.mean(odd <= threshold)), area, cpu
    )


def _ours(algorithm: str, **params: Any) -> Method:
    def call(task: Task) -> Any:
        model = NoveltyClassifier(algorithm, false_alarms=SHARE, random_state=0, **params)
        return model.fit(task.X, task.y).decision_function, 0.0

    return call


def _peer(make: Callable[[Task], Callable[[], Any]]) -> Method:
    def call(task: Task) -> Any:
        model, threshold = threshold_of(make(task), task, SHARE)
        return model.scores, threshold

    return call


PEERS: dict[str, Method] = {
    "one-class SVM each": _peer(
        lambda task: lambda: OneClassEach(0.1, median_gamma(RBF(), task.X))
    ),
    "SVM, threshold": _peer(lambda task: Margin),
    "isolation forest each": _peer(lambda task: ForestEach),
}
METHODS: dict[str, Method] = {
    "exact": _ours("exact"),
    "exact, margin": _ours("exact", reading="margin"),
    "least squares": _ours("least_squares"),
    "pegasos": _ours("pegasos"),
    **PEERS,
}
