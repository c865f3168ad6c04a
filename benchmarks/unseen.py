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

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import binomtest, loguniform, rankdata
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import ParameterSampler, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from benchmarks import data
from benchmarks.measure import table
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
_FLOOR = 0.5  # percent, added to errors in ratios


def run(names: list[str] | None = None, kept: Path | None = None) -> str:
    """``kept``: a file with the results so far, to go on with."""
    warnings.simplefilter("ignore")
    found: dict[str, dict[str, float]] = {}
    if kept is not None and kept.exists():
        found = json.loads(kept.read_text())
    for name in names or SETS:
        if name in found or not data.available(name):
            continue
        found[name] = _errors(load(name))
        shown = "  ".join(f"{key} {value:.2f}" for key, value in found[name].items())
        print(f"{name}: {shown}", flush=True)
        if kept is not None:
            kept.write_text(json.dumps(found))
    return (__doc__ or "").strip() + "\n\n" + _summary(found)


def load(name: str, rows: int = ROWS) -> data.Split:
    """A sample of a set's training rows, and other rows to judge on."""
    X, y = _rows(name)
    known, counts = np.unique(y, return_counts=True)
    usable = np.flatnonzero(np.isin(y, known[counts >= 10]))
    order = np.random.default_rng(len(name)).permutation(usable)
    cut = min(rows, int(0.7 * order.size))
    train, test = order[:cut], order[cut : cut + TEST_ROWS]
    seen, counts = np.unique(y[train], return_counts=True)
    train = train[np.isin(y[train], seen[counts >= 5])]
    test = test[np.isin(y[test], y[train])]
    return data.Split(X[train], y[train], X[test], y[test])


def _rows(name: str) -> tuple[Any, np.ndarray]:
    raw = data.read(name)
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


def _one_hot(codes: np.ndarray) -> np.ndarray:
    columns = [np.eye(int(c.max()) + 1, dtype=np.float32)[c.astype(int)] for c in codes.T]
    return np.hstack(columns)


# ---------------------------------------------------------------- ours and the peers


def _errors(split: data.Split) -> dict[str, float]:
    _compile(split)
    start = time.perf_counter()
    model = AutoClassifier(BUDGET, random_state=0).fit(split.X, split.y)
    found = {"seconds": time.perf_counter() - start, "Thresher": _error(model, split)}
    chosen = {}
    for title, (peer, space) in _peers(split.X).items():
        tuned, chosen[title] = _tuned(peer, space, split)
        found[title] = _error(tuned, split)
    found["user's choice"] = found[max(chosen, key=lambda title: chosen[title])]
    return found


_RACED: set[tuple[bool, bool]] = set()


def _compile(split: data.Split) -> None:
    """As for a user whose cache is filled: a race of each kind comes before the clock runs."""
    kind = sp.issparse(split.X), len(np.unique(split.y)) > 2
    if kind not in _RACED:
        AutoClassifier(40.0, random_state=1).fit(split.X[:500], split.y[:500])
        _RACED.add(kind)


def _tuned(model: Any, space: dict[str, Any], split: data.Split) -> tuple[Any, float]:
    """The model with the best settings that were tried in time, and their accuracy."""
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    start, best, settings = time.perf_counter(), -np.inf, {}
    for drawn in [{}, *ParameterSampler(space, 1000, random_state=0)]:
        tried = clone(model).set_params(**drawn)
        score = float(np.mean(cross_val_score(tried, split.X, split.y, cv=folds, n_jobs=2)))
        if score > best:
            best, settings = score, drawn
        if time.perf_counter() - start > BUDGET:
            break
    return clone(model).set_params(**settings).fit(split.X, split.y), best


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


def _summary(found: dict[str, dict[str, float]]) -> str:
    titles = ["Thresher", "user's choice", "extra trees", "boosting", "RBF SVC", "LinearSVC",
              "Nystroem + SGD", "tf-idf + LinearSVC"]  # fmt: skip
    lines = [
        [name, f"{one['seconds']:.0f}", *(f"{one[t]:.2f}" if t in one else "" for t in titles)]
        for name, one in found.items()
    ]
    parts = [table(["set", "s", *titles], lines)]
    for title in titles[1:]:
        parts.append(_against(title, [one for one in found.values() if title in one]))
    dense = [one for one in found.values() if "boosting" in one]
    ranks = np.mean([rankdata([one[t] for t in titles[:1] + titles[2:7]]) for one in dense], axis=0)
    listed = ", ".join(f"{t} {r:.2f}" for t, r in zip(titles[:1] + titles[2:7], ranks, strict=True))
    parts.append(f"Mean ranks on {len(dense)} dense sets: {listed}.")
    return "\n\n".join(parts)


def _against(title: str, found: list[dict[str, float]]) -> str:
    ours, theirs = (np.array([one[t] for one in found]) for t in ("Thresher", title))
    wins, losses = int(np.sum(ours < theirs)), int(np.sum(ours > theirs))
    ratio = float(np.exp(np.mean(np.log((ours + _FLOOR) / (theirs + _FLOOR)))))
    p = binomtest(wins, max(wins + losses, 1)).pvalue
    return (
        f"Against {title}: {wins} won, {losses} lost of {len(found)} (sign test p = {p:.2g}), "
        f"ratio of errors {ratio:.3f}, worst loss {np.max(ours - theirs):.2f} points."
    )


if __name__ == "__main__":
    print(run(sys.argv[2:] or None, Path(sys.argv[1]) if len(sys.argv) > 1 else None))
