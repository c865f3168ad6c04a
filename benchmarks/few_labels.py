"""Claim: from few labels and many rows without, a machine that can also predict new rows errs less
than scikit-learn's transductions, self-training and a machine that sees the labels only, untuned.

Three and ten labels a class, drawn at random, twice each; at most 1,200 rows of a set, classes of
at least 20; columns standardised by all rows; errors in percent on the rows whose labels were
hidden, means over the draws.  Nothing is tuned: all Gaussians have the width of the median
heuristic, everything else is as it comes.  LabelSpreading is shown with the Gaussian and with its
graph of neighbours; self-training wraps an SVC with calibrated scores, which needs three labels a
class at least.  A ratio is that of errors plus half a percent.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.semi_supervised import LabelPropagation, LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC

from benchmarks import data, unseen
from benchmarks.measure import table
from thresher import SemiSupervisedClassifier
from thresher.kernels import RBF
from thresher.kernels.width import median_gamma

SPARSE = ("20newsgroups", "basehock", "pcmac", "relathe", "news20_libsvm", "sector",
          "lasvm_reuters", "cora", "citeseer")  # fmt: skip
SETS = tuple(name for name in unseen.SETS if name not in SPARSE)
MOST, LEAST, LABELS, DRAWS = 1200, 20, (3, 10), 2
GROWING, SIZES = "mnist", (1000, 4000, 16_000)
_NOBODY = -1  # scikit-learn's label of rows without one

OURS = "Thresher"
MACHINES: dict[str, Callable[[float], Any]] = {
    OURS: lambda gamma: SemiSupervisedClassifier(random_state=0),
    "Thresher, LapSVM": lambda gamma: SemiSupervisedClassifier("lap_svm", random_state=0),
    "LabelSpreading": lambda gamma: LabelSpreading(gamma=gamma),
    "its neighbours": lambda gamma: LabelSpreading(kernel="knn"),
    "LabelPropagation": lambda gamma: LabelPropagation(gamma=gamma),
    "self-training": lambda gamma: SelfTrainingClassifier(
        CalibratedClassifierCV(SVC(C=10.0, gamma=gamma), cv=3, ensemble=False)
    ),
    "labels only": lambda gamma: SVC(C=10.0, gamma=gamma),
}

TIMED = [title for title in MACHINES if title != "self-training"]
_TRANSDUCTIONS = ("LabelSpreading", "its neighbours", "LabelPropagation")


def run() -> str:
    warnings.simplefilter("ignore")
    parts = [(__doc__ or "").strip(), _errors()]
    if data.available(GROWING):
        parts.append(_times())
    return "\n\n".join(parts)


def _errors() -> str:
    lines, found = [], []
    for name in SETS:
        if not data.available(name):
            continue
        split = unseen.load(name, MOST)
        X, y = _standardised(split.X, split.y)
        for labels in LABELS:
            errors = dict.fromkeys(MACHINES, 0.0)
            for draw in range(DRAWS):
                known = _labelled(y, labels, draw)
                for title in MACHINES:
                    errors[title] += _fitted(title, X, y, known)[0] / DRAWS
            found.append(list(errors.values()))
            shown = [f"{error:.2f}" for error in found[-1]]
            lines.append([name, y.size, np.unique(y).size, labels, *shown])
            print(*lines[-1], flush=True)
    header = ["set", "rows", "classes", "labels", *MACHINES]
    return table(header, lines) + "\n\n" + _compared(np.array(found))


def _compared(errors: np.ndarray) -> str:
    told = []
    for k, title in enumerate(MACHINES):
        wins, losses = (int(np.sum(s * (errors[:, 0] - errors[:, k]) < 0)) for s in (1, -1))
        ratio = np.exp(np.mean(np.log((errors[:, 0] + 0.5) / (errors[:, k] + 0.5))))
        if k:
            told.append(f"Against {title}: {wins} won, {losses} lost, errors {ratio:.3f} times.")
    return "\n\n".join(told)


def _times() -> str:
    """By rows; the machines of scikit-learn hold all kernel values, ours until memory ends."""
    lines = []
    for size in SIZES:
        split = unseen.load(GROWING, size)
        X, y = _standardised(split.X, split.y)
        known = _labelled(y, LABELS[-1], 0)
        told = [_fitted(title, X, y, known) for title in TIMED]
        lines.append([f"{size:,}", *(f"{error:.2f} in {seconds:.1f}" for error, seconds in told)])
        print(*lines[-1], flush=True)
    told = f"{GROWING} by rows, {LABELS[-1]} labels a class: errors in percent, and CPU seconds."
    return told + "\n\n" + table(["rows", *TIMED], lines)


def _fitted(title: str, X: Any, y: np.ndarray, known: np.ndarray) -> tuple[float, float]:
    """Percent of wrong rows among those without a label, and CPU seconds."""
    model = MACHINES[title](median_gamma(RBF(), X, 0))
    start = time.process_time()
    if title == "labels only":
        guess = model.fit(X[known], y[known]).predict(X)
    else:
        nobody = np.nan if title.startswith(OURS) else _NOBODY
        labels = np.full(y.size, nobody)
        labels[known] = y[known]
        model.fit(X, labels)
        guess = model.transduction_ if title in _TRANSDUCTIONS else model.predict(X)
    seconds = time.process_time() - start
    hidden = np.ones(y.size, dtype=bool)
    hidden[known] = False
    return 100 * float(np.mean(guess[hidden] != y[hidden])), seconds


def _labelled(y: np.ndarray, labels: int, draw: int) -> np.ndarray:
    rng = np.random.default_rng(draw)
    return np.concatenate(
        [rng.choice(np.flatnonzero(y == label), labels, replace=False) for label in np.unique(y)]
    )


def _standardised(X: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of classes that are large enough, and the numbers of their classes."""
    known, counts = np.unique(labels, return_counts=True)
    kept = np.isin(labels, known[counts >= LEAST])
    X, y = X[kept], np.unique(labels[kept], return_inverse=True)[1]
    deviation = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0), y
