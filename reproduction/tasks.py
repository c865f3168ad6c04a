"""Multi-task feature selection: Yang, King and Lyu's conjoint table, and the school data.

The ratings of the published table (180 people, 20 computers each, 14 attributes, one of them
presumably a constant) are not to be had: data of that shape are generated, and the pattern of the
table is looked for.  The school data (139 schools, 15,362 pupils) are real.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold

from reproduction import data
from reproduction.protocol import Settings
from reproduction.report import Absent, missing, table
from thresher import MultiTaskRegressor
from thresher.solvers import RDA

PEOPLE, RATINGS, ATTRIBUTES = 180, 20, 14
NAMES = ("TE", "RAM", "SC", "CPU", "HD", "CD", "CA", "CO", "AV", "WA", "SW", "GU", "PR", "one")
PRICE = NAMES.index("PR")
SHARES = (0.5, 0.3, 0.1, 0.03, 0.01, 0.003)  # of the strength that leaves nothing
GAMMAS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
TEST_RATINGS, FOLDS = 4, 4
#: RMSE and non-zeros of 2520
PRINTED = {
    "aMTFS, batch": (1.82, 2148), "iMTFS, batch": (1.91, 789),
    "DA-aMTFS, 1 pass": (2.04, 540), "DA-aMTFS, 20 passes": (1.83, 1800),
    "DA-iMTFS, 1 pass": (2.43, 199), "DA-iMTFS, 20 passes": (1.92, 662),
}  # fmt: skip
SCHOOL_COLUMNS = ["method", "all tests", "mean over schools", "features in use"]
ABSENT = [
    Absent("the ratings themselves", "conjoint table", "not public: generated in their shape"),
    Absent("results of others on the school data", "Argyriou et al. 2008, Bakker and Heskes 2003",
           "the tables were not at hand"),
]  # fmt: skip
CONJOINT = """\
### Conjoint analysis (table of Yang, King and Lyu's tutorial)

Generated: attributes 0 or 1, the same 20 computers for all; weights of people around a common
mean, large for price (negative), RAM, CPU and CD-ROM (positive), small for five others, none for
four; ratings with noise of standard deviation 1.5, rounded to 0 to 10. {test} ratings of each
person are for testing, the strength is chosen by {folds}-fold cross-validation over the others,
among {shares} of the one that leaves nothing, and γ with it, among {gammas}; the printed λ belong
to their ratings. "Sparsest": of all settings within a standard error (over the folds) of the best,
the one with the fewest weights. RMSE over tests, means of {runs} draws of the data, and non-zero
weights of 2,520. No intercept: the last attribute is constant."""
REMARK = """\
As in the table, aMTFS is better than iMTFS, which has fewer weights; a pass over so few rows is not
enough, and 20 of them come close to the batch optimum. Chosen by their errors alone, weak penalties
win here, and dual averaging does not have fewer non-zero weights than the optimum. Of the sparsest
settings within a standard error it does with aMTFS after 20 passes, as printed; with iMTFS, or
after one pass, it still does not. The weight of the price is below zero for most people with
aMTFS, and where iMTFS uses it."""
SCHOOLS = """\
### The school data

Exam scores of pupils in 139 schools; {runs} random splits, 75 % of each school for training.
Explained variance in percent: 1 less the squared error over that of the mean score, all tests
together, and the mean over the schools, each beside its own mean. The strength is chosen on the
training rows of the first split, by four folds."""


def run(settings: Settings) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # step sizes that are too long
        return "\n\n".join([_conjoint(settings), _school(settings)])


# ---------------------------------------------------------------- conjoint analysis


def ratings(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Attributes (computers, 14) and ratings (computers, people)."""
    rng = np.random.default_rng(seed)
    X = (rng.uniform(size=(RATINGS, ATTRIBUTES)) < 0.5).astype(float)
    X[:, -1] = 1.0
    mean, spread = np.zeros(ATTRIBUTES), np.zeros(ATTRIBUTES)
    for name, value in (("PR", -2.0), ("RAM", 1.5), ("CPU", 1.5), ("CD", 1.2), ("one", 4.5)):
        mean[NAMES.index(name)] = value
    spread[[NAMES.index(n) for n in ("PR", "RAM", "CPU", "CD", "one")]] = 0.8
    spread[[NAMES.index(n) for n in ("TE", "SC", "HD", "WA", "GU")]] = 0.4
    W = mean[:, None] + spread[:, None] * rng.normal(size=(ATTRIBUTES, PEOPLE))
    Y = X @ W + 1.5 * rng.normal(size=(RATINGS, PEOPLE))
    return X, np.clip(np.round(Y), 0.0, 10.0)


def _conjoint(settings: Settings) -> str:
    runs = settings.runs
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in PRINTED}
    for seed in range(runs):
        X, Y = ratings(settings.seed + seed)
        order = np.random.default_rng(seed).permutation(RATINGS)
        test, train = order[:TEST_RATINGS], order[TEST_RATINGS:]
        for name, scores in found.items():
            line: list[float] = []
            for model in _chosen(name, X[train], Y[train]):
                error = float(np.sqrt(np.mean((model.predict(X[test]) - Y[test]) ** 2)))
                dear = float(np.mean(model.coef_[:, PRICE] < 0.0))
                line += [error, model.selection_.weights, dear]
            scores.append(tuple(line))
    lines = []
    for name, scores in found.items():
        error, weights, dear, thin, few, _ = np.mean(scores, axis=0)
        lines.append([name, f"**{error:.2f}**", f"{thin:.2f}", f"{PRINTED[name][0]:.2f}",
                      f"**{weights:.0f}**", f"{few:.0f}", PRINTED[name][1],
                      f"{100 * dear:.0f} %"])  # fmt: skip
        print("  ".join(map(str, lines[-1])), flush=True)
    head = CONJOINT.format(test=TEST_RATINGS, folds=FOLDS, runs=runs, shares=_listed(SHARES),
                           gammas=_listed(GAMMAS))  # fmt: skip
    columns = ["method", "RMSE", "sparsest", "printed", "non-zeros", "sparsest", "printed",
               "price below zero for"]  # fmt: skip
    return f"{head}\n\n{table(columns, lines)}\n\n{REMARK}"


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _candidates(name: str, X: np.ndarray, Y: np.ndarray) -> list[Any]:
    """Estimators of all strengths, and of all step sizes where there are some."""
    penalty = "group" if "aMTFS" in name else "l1"
    reference = MultiTaskRegressor(penalty=penalty, fit_intercept=False, tol=1e-3)
    most = 100.0 * reference.fit(X, Y).penalty_.strength  # a hundredth of it is the default
    solvers: list[dict[str, Any]] = [{}]
    if name.startswith("DA"):
        passes = 20 if "20" in name else 1
        solvers = [{"solver": RDA(g), "max_iter": passes, "random_state": 0} for g in GAMMAS]
    return [
        MultiTaskRegressor(penalty=penalty, alpha=share * most, fit_intercept=False, **solver)
        for share in SHARES
        for solver in solvers
    ]


def _chosen(name: str, X: np.ndarray, Y: np.ndarray) -> tuple[Any, Any]:
    """That of least error in cross-validation, and the sparsest within a standard error of it."""
    candidates, folds = _candidates(name, X, Y), list(KFold(FOLDS).split(X))
    errors = np.full((len(candidates), FOLDS), np.inf)
    for own, model in zip(errors, candidates, strict=True):
        for k, (train, test) in enumerate(folds):
            model.fit(X[train], Y[train])
            error = float(np.mean((model.predict(X[test]) - Y[test]) ** 2))
            own[k] = error if np.isfinite(error) else np.inf
    means = errors.mean(axis=1)
    best = int(np.argmin(means))
    most = means[best] + errors[best].std(ddof=1) / np.sqrt(FOLDS)
    near = [candidates[k].fit(X, Y) for k in np.flatnonzero(means <= most)]
    return candidates[best].fit(X, Y), min(near, key=lambda model: model.selection_.weights)


# ---------------------------------------------------------------- schools


def _school(settings: Settings) -> str:
    head = SCHOOLS.format(runs=settings.runs)
    if not data.available("school_ilea"):
        return f"{head}\n\n{missing('school_ilea')}"
    raw = data.read("school_ilea")
    X, y, school = raw["X"].astype(float), raw["y"].astype(float), raw["task"].astype(int)
    X = X[:, X.std(axis=0) > 0.0]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    methods: dict[str, Callable[..., Any]] = {
        "one model for all schools": lambda alpha: None,
        "each school by itself": lambda alpha: MultiTaskRegressor(penalty="l2", alpha=alpha),
        "iMTFS, batch": lambda alpha: MultiTaskRegressor(penalty="l1", alpha=alpha, tol=1e-6),
        "aMTFS, batch": lambda alpha: MultiTaskRegressor(alpha=alpha, tol=1e-6),
        "MTFTS, batch": lambda alpha: MultiTaskRegressor(
            penalty="sparse_group", alpha=alpha, tol=1e-6
        ),
        "DA-aMTFS, 20 passes": lambda alpha: MultiTaskRegressor(
            solver=RDA(), max_iter=20, alpha=alpha, random_state=0
        ),
    }
    splits = [_split(school, seed) for seed in range(settings.runs)]
    lines = []
    for name, made in methods.items():
        alpha = _strength(name, made, X, y, school, splits[0][0])
        scores, within, used = [], [], []
        for train, test in splits:
            predicted, features = _predicted(made(alpha), X, y, school, train, test)
            scores.append(100.0 * (1.0 - np.mean((y[test] - predicted) ** 2) / y[test].var()))
            within.append(100.0 * _within(y[test], predicted, school[test]))
            used.append(features)
        lines.append([name, f"**{np.mean(scores):.1f}** ({np.std(scores):.1f})",
                      f"{np.mean(within):.1f} ({np.std(within):.1f})",
                      f"{np.mean(used):.0f}"])  # fmt: skip
        print("  ".join(map(str, lines[-1])), flush=True)
    return f"{head}\n\n{table(SCHOOL_COLUMNS, lines)}"


def _within(y: np.ndarray, predicted: np.ndarray, school: np.ndarray) -> float:
    """The mean over the schools of what is explained of their own variance."""
    each = []
    for one in np.unique(school):
        mine = school == one
        if mine.sum() > 1 and y[mine].var() > 0.0:
            each.append(1.0 - np.mean((y[mine] - predicted[mine]) ** 2) / y[mine].var())
    return float(np.mean(each))


def _predicted(
    model: Any, X: np.ndarray, y: np.ndarray, school: np.ndarray, train: np.ndarray,
    test: np.ndarray,
) -> tuple[np.ndarray, int]:  # fmt: skip
    if model is None:
        ridge = RidgeCV(np.geomspace(1e-2, 1e4, 7)).fit(X[train], y[train])
        return ridge.predict(X[test]), X.shape[1]
    model.fit(X[train], y[train], task=school[train])
    return model.predict(X[test], task=school[test]), model.selection_.features


def _split(school: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng, train = np.random.default_rng(seed), np.zeros(school.size, dtype=bool)
    for one in np.unique(school):
        mine = rng.permutation(np.flatnonzero(school == one))
        train[mine[: max(2, int(0.75 * mine.size))]] = True
    return np.flatnonzero(train), np.flatnonzero(~train)


def _strength(
    name: str, made: Any, X: np.ndarray, y: np.ndarray, school: np.ndarray, rows: np.ndarray
) -> float:
    """Of least error in folds of these rows."""
    if made(1.0) is None:
        return 0.0
    strengths = np.geomspace(0.02, 2.0, 7)
    if made(1.0).penalty == "group":
        strengths = 10.0 * strengths  # norms of 139 weights
    if made(1.0).solver != "auto":
        strengths = np.geomspace(1e-4, 1.0, 9) * strengths[-1]
    errors = []
    for alpha in strengths:
        total = 0.0
        for train, test in KFold(4, shuffle=True, random_state=0).split(rows):
            model = made(alpha).set_params(least_rows=1)
            found, _ = _predicted(model, X, y, school, rows[train], rows[test])
            total += float(np.sum((y[rows[test]] - found) ** 2))
        errors.append(total)
    best = int(np.argmin(errors))
    print(f"{name}: alpha {strengths[best]:.3g} (place {best + 1} of {len(strengths)})", flush=True)
    return float(strengths[best])
