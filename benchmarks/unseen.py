"""Claim: on data that nothing was tuned for, the best model in a given time beats what a user gets
by choosing among good peers in the same time.

``AutoClassifier`` against extra trees, histogram boosting, RBF SVC, LinearSVC, Nystroem + SGD and,
on counts, tf-idf + LinearSVC.  Every peer has the same wall clock and both cores for a random
search by 5-fold cross-validation, its defaults first; what the user gets is the peer with the best
cross-validation.  At most 1,000 training rows of each set, so that all sets together take an hour;
sets with fewer than 300 rows are left out.  No setting of the race was chosen by test errors of
these sets one by one: what could be chosen (how scores are pooled, which widths are tried) was
compared over all of them at once (``docs/performance.md``).

Test errors in percent.  A ratio is that of errors plus half a percent, so that sets without errors
count too.
"""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import loguniform, rankdata
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from benchmarks import data
from benchmarks.measure import table
from benchmarks.races import Found, against, raced, tuned
from thresher import AutoClassifier

BUDGET, ROWS, TEST_ROWS = 10.0, 1000, 5000
SETS = (
    "a9a", "adult", "australian", "breast_cancer_wisconsin", "cod_rna", "coil20", "covtype", "dna",
    "ijcnn1", "ionosphere", "isolet5", "kddcup99_10pct", "letter", "madelon", "magic", "mnist",
    "mushrooms", "optdigits", "pendigits", "phishing", "phoneme_esl", "pima_diabetes", "ringnorm",
    "segment", "shuttle", "skin_nonskin", "spambase", "splice", "twonorm", "usps", "vehicle",
    "vowel", "w8a", "waveform", "wdbc", "20newsgroups", "basehock", "pcmac", "relathe",
    "news20_libsvm", "sector", "lasvm_reuters", "cora", "citeseer",
)  # fmt: skip
# Nothing in a race was ever compared on these: topics are those of articles that have only one.
# Olivetti's faces are left out: boosting takes minutes for one setting (37 classes, 4,096 columns).
UNTOUCHED = ("dexter", "dorothea", "reuters21578 8", "reuters21578 52")
_FLOOR = 0.5  # percent, added to errors in ratios


def run(
    names: list[str] | None = None, kept: Path | None = None, rows: int = ROWS,
    budget: float = BUDGET,
) -> str:  # fmt: skip
    """``kept``: a file with the results so far, to go on with."""
    there = [name for name in names or SETS if data.available(re.split("[: ]", name)[0])]
    found = raced(there, lambda name: _errors(load(name, rows), budget), kept)
    return (__doc__ or "").strip() + "\n\n" + _summary(found)


def load(name: str, rows: int = ROWS) -> data.Split:
    """A sample of a set's training rows, and other rows to judge on; "vowel:2" is the third sample
    of vowel."""
    name, _, draw = name.partition(":")
    X, y = _rows(name)
    known, counts = np.unique(y, return_counts=True)
    usable = np.flatnonzero(np.isin(y, known[counts >= 10]))
    order = np.random.default_rng([len(name), int(draw)] if draw else len(name)).permutation(usable)
    cut = min(rows, int(0.7 * order.size))
    train, test = order[:cut], order[cut : cut + TEST_ROWS]
    seen, counts = np.unique(y[train], return_counts=True)
    train = train[np.isin(y[train], seen[counts >= 5])]
    test = test[np.isin(y[test], y[train])]
    return data.Split(X[train], y[train], X[test], y[test])


def _rows(name: str) -> tuple[Any, np.ndarray]:
    name, _, topics = name.partition(" ")
    raw = data.read(name)
    if topics:
        return _topics(raw, int(topics))
    if name == "covtype":
        X, y = data.covtype_columns(raw), raw["y"]
    elif name in ("adult", "kddcup99_10pct"):
        part = "_train" if "Xnum_train" in raw else ""
        X = np.hstack([raw["Xnum" + part], _one_hot(raw["Xcat" + part])])
        y = raw["y" + part]
    else:
        part = "_train" if "X_train" in raw else ""
        X, y = raw["X" + part], raw["y" + part]
    if name == "splice":
        X = _one_hot(X)
    y = np.asarray(y).ravel()
    if name in ("cora", "citeseer"):
        X, y = X[y != 255], y[y != 255]  # nodes without a label
    if sp.issparse(X):
        X = X.tocsr().astype(np.float64)
        return (X.toarray() if X.shape[1] <= 600 else X), y
    return X.astype(np.float64), y


def _topics(raw: dict[str, Any], most: int) -> tuple[Any, np.ndarray]:
    """Articles of one topic only, of the topics with the most of them."""
    alone = raw["y_train"].sum(axis=1) == 1
    topics = raw["y_train"][alone].argmax(axis=1)
    kept = np.isin(topics, np.argsort(-np.bincount(topics), kind="stable")[:most])
    return raw["X_train"][alone][kept].astype(np.float64), topics[kept]


def _one_hot(codes: np.ndarray) -> np.ndarray:
    columns = [np.eye(int(c.max()) + 1, dtype=np.float32)[c.astype(int)] for c in codes.T]
    return np.hstack(columns)


# ---------------------------------------------------------------- ours and the peers


def _errors(split: data.Split, budget: float) -> dict[str, float]:
    _compile(split)
    start = time.perf_counter()
    model = AutoClassifier(budget, random_state=0).fit(split.X, split.y)
    found = {"seconds": time.perf_counter() - start, "Thresher": _error(model, split)}
    chosen = {}
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    for title, (peer, space) in _peers(split.X).items():
        best, chosen[title] = tuned(peer, space, split, folds, "accuracy", budget)
        found[title] = _error(best, split)
    found["user's choice"] = found[max(chosen, key=lambda title: chosen[title])]
    return found


_RACED: set[tuple[bool, bool]] = set()


def _compile(split: data.Split) -> None:
    """As for a user whose cache is filled: a race of each kind comes before the clock runs."""
    kind = sp.issparse(split.X), len(np.unique(split.y)) > 2
    if kind not in _RACED:
        AutoClassifier(40.0, random_state=1).fit(split.X[:500], split.y[:500])
        _RACED.add(kind)


def _error(model: Any, split: data.Split) -> float:
    return 100 * float(np.mean(model.predict(split.X_test) != split.y_test))


def _peers(X: Any) -> dict[str, tuple[Any, dict[str, Any]]]:
    if sp.issparse(X):
        counts = make_pipeline(TfidfTransformer(sublinear_tf=True), LinearSVC())
        plain = make_pipeline(StandardScaler(with_mean=False), LinearSVC())
        space = {"linearsvc__C": loguniform(1e-2, 1e2)}
        trees = ExtraTreesClassifier(300, random_state=0)
        return {
            "tf-idf + LinearSVC": (counts, space), "LinearSVC": (plain, space),
            "extra trees": (trees, {"min_samples_leaf": [1, 2, 5]}),
        }  # fmt: skip
    d = X.shape[1]
    return {
        "extra trees": (
            ExtraTreesClassifier(300, random_state=0),
            {"max_features": ["sqrt", 0.3, 1.0], "min_samples_leaf": [1, 2, 5]},
        ),
        "boosting": (
            HistGradientBoostingClassifier(random_state=0),
            {
                "learning_rate": loguniform(0.02, 0.5),
                "max_leaf_nodes": [7, 15, 31, 63],
                "max_iter": [50, 100, 200],
                "l2_regularization": loguniform(1e-4, 10.0),
            },
        ),
        "RBF SVC": (
            make_pipeline(StandardScaler(), SVC(C=10.0)),
            {"svc__C": loguniform(1e-1, 1e3), "svc__gamma": loguniform(0.03 / d, 30.0 / d)},
        ),
        "LinearSVC": (
            make_pipeline(StandardScaler(), LinearSVC()),
            {"linearsvc__C": loguniform(1e-4, 1e2)},
        ),
        "Nystroem + SGD": (
            make_pipeline(StandardScaler(), Nystroem(n_components=300), SGDClassifier()),
            {
                "nystroem__gamma": loguniform(0.03 / d, 30.0 / d),
                "sgdclassifier__alpha": loguniform(1e-6, 1e-2),
            },
        ),
    }


# ---------------------------------------------------------------- the table


def _summary(found: Found) -> str:
    titles = ["Thresher", "user's choice", "extra trees", "boosting", "RBF SVC", "LinearSVC",
              "Nystroem + SGD", "tf-idf + LinearSVC"]  # fmt: skip
    lines = [
        [name, f"{one['seconds']:.0f}", *(f"{one[t]:.2f}" if t in one else "" for t in titles)]
        for name, one in found.items()
    ]
    parts = [table(["set", "s", *titles], lines)]
    for title in titles[1:]:
        beside = [one for one in found.values() if title in one]
        if beside:
            parts.append(against(title, beside, _FLOOR))
    dense = [one for one in found.values() if "boosting" in one]
    if not dense:
        return "\n\n".join(parts)
    ranks = np.mean([rankdata([one[t] for t in titles[:1] + titles[2:7]]) for one in dense], axis=0)
    listed = ", ".join(f"{t} {r:.2f}" for t, r in zip(titles[:1] + titles[2:7], ranks, strict=True))
    parts.append(f"Mean ranks on {len(dense)} dense sets: {listed}.")
    return "\n\n".join(parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kept", type=Path, help="a JSON file of the results so far")
    parser.add_argument("names", nargs="*", help="all if none; untouched: those of no study")
    parser.add_argument("--rows", type=int, default=ROWS, help="training rows at most")
    parser.add_argument(
        "--seconds", type=float, default=BUDGET, help="for a race, and for each peer"
    )
    asked = parser.parse_args()
    names = list(UNTOUCHED) if asked.names == ["untouched"] else asked.names
    print(run(names or None, asked.kept, asked.rows, asked.seconds))
