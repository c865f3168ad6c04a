"""Claim: `UniversumClassifier` learns from 100,000 unlabelled rows on landmarks in time that grows
about linearly with them, and in less than scikit-learn's self-training on as many landmarks takes.

Covertype, spruce against lodgepole pine; the other five kinds of trees are irrelevant rows among
the unlabelled ones. 200 labelled rows, {components} landmarks, columns standardised, nothing tuned:
ours with its defaults, self-training around logistic regression (C = 10) on scikit-learn's Nyström
map (γ = 0.01, about one over the median squared distance), label spreading over 20 neighbours, for
{most:,} rows at most. Accuracies are of 20,000 other rows of the two kinds. CPU seconds, one
thread, after everything was compiled.
"""

from __future__ import annotations

import resource
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from reproduction import data
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from benchmarks.measure import busy, seconds, table, verdict
from thresher import KernelClassifier, UniversumClassifier

SIZES = (10_000, 30_000, 100_000)
COMPONENTS, MOST_SPREAD, TESTED = 300, 10_000, 20_000
KINDS = ("irrelevant", "mixed", "relevant")
NAMES = {"irrelevant": "U-SVM", "mixed": "3C-SVM", "relevant": "S3VM"}


def run(sizes: tuple[int, ...] = SIZES) -> str:
    if not data.available("covtype"):
        return "covtype is not among the data."
    X, y = _rows()
    crowded = busy()
    lines, took = [], {}
    KernelClassifier("hinge", scale=True).fit(X[:500], y[:500])  # compiles, as the next
    for kind in KINDS:
        UniversumClassifier(kind, algorithm="mapped", scale=True).fit(*_drawn(X, y, 500)[:2])
    for free in sizes:
        rows, labels, tested, truth = _drawn(X, y, free)
        known = ~np.isnan(labels)
        for name, fit in _methods(rows, labels, known, free).items():
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model = fit()
            cpu = time.process_time() - start
            took[name, free] = cpu
            steps = str(model.n_iter_) if name in NAMES.values() else "–"
            right = 100.0 * np.mean(model.predict(tested) == truth)
            lines.append([f"{free:,}", name, seconds(cpu), steps, f"{right:.1f}"])
    small, large = sizes[0], sizes[-1]
    growth = took["3C-SVM", large] / took["3C-SVM", small]
    linear = growth <= 1.5 * large / small
    faster = took["3C-SVM", large] <= took["self-training", large]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    head = ["unlabelled rows", "method", "CPU time", "steps", "accuracy"]
    return "\n\n".join([
        (__doc__ or "").strip().format(components=COMPONENTS, most=MOST_SPREAD),
        table(head, lines),
        f"{large // small} times the rows take {growth:.1f} times the time of 3C-SVM; about "
        f"linear: {verdict(linear)}. Less than self-training: {verdict(faster)}. The process took "
        f"at most {memory:.1f} GiB, with all data and methods. {crowded}",
    ])  # fmt: skip


def _methods(
    rows: np.ndarray, labels: np.ndarray, known: np.ndarray, free: int
) -> dict[str, Callable[[], Any]]:
    codes = np.where(known, np.nan_to_num(labels), -1).astype(int)

    def machine(unlabelled: str) -> Callable[[], Any]:
        made = UniversumClassifier(
            unlabelled, algorithm="mapped", n_components=COMPONENTS, scale=True, random_state=0
        )
        return lambda: made.fit(rows, labels)

    labelled = KernelClassifier("hinge", scale=True, random_state=0)
    landmarks = Nystroem(n_components=min(COMPONENTS, rows.shape[0]), gamma=0.01, random_state=0)
    trained = make_pipeline(StandardScaler(), landmarks, LogisticRegression(C=10.0, max_iter=200))
    spread = make_pipeline(StandardScaler(), LabelSpreading(kernel="knn", n_neighbors=20))
    methods: dict[str, Callable[[], Any]] = {
        "labelled rows alone": lambda: labelled.fit(rows[known], labels[known]),
        **{NAMES[kind]: machine(kind) for kind in KINDS},
        "self-training": lambda: SelfTrainingClassifier(trained, threshold=0.9).fit(rows, codes),
    }
    if free <= MOST_SPREAD:
        methods["label spreading"] = lambda: spread.fit(rows, codes)
    return methods


def _rows() -> tuple[np.ndarray, np.ndarray]:
    raw = data.read("covtype")
    order = np.random.default_rng(0).permutation(raw["y"].size)
    return data.columns("covtype", raw)[order], raw["y"][order]


def _drawn(X: np.ndarray, y: np.ndarray, free: int) -> tuple[np.ndarray, ...]:
    member = np.flatnonzero(np.isin(y, (1, 2)))
    known = np.concatenate([member[y[member] == kind][:100] for kind in (1, 2)])
    rest = np.setdiff1d(np.arange(y.size), known)
    tested = rest[free:][np.isin(y[rest[free:]], (1, 2))][-TESTED:]
    used = np.concatenate([known, rest[:free]])
    labels = np.full(used.size, np.nan)
    labels[: known.size] = y[known]
    rows = X[used].astype(np.float64)
    return rows, labels, X[tested].astype(np.float64), y[tested]
