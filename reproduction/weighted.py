"""One penalty per feature: weighted coordinate-wise Pegasos (Tables 3.6 to 3.8)."""

from __future__ import annotations

from typing import Any

import numpy as np

from reproduction import data, report
from reproduction.protocol import (
    CrossValidation,
    Method,
    Settings,
    Split,
    Trainer,
    fit,
    search,
    splits,
)  # fmt: skip
from reproduction.tuning import tuned
from thresher._rows import Dense
from thresher.penalties import L2, WeightedL2
from thresher.solvers import Pegasos, driver, relevance
from thresher.solvers.base import Problem

#: set, class, share to learn from, and the published errors in percent by batch and method
ROWS = [
    ("Ionosphere", "ionosphere", None, 0.9, {"10%": (16.889, 12.714, 28.922)}),
    ("Sonar", "sonar", None, 0.9, {"10%": (23.848, 28.667, 32.176)}),
    ("Iris, setosa", "iris", 0, 0.9, {"10%": (34.933, 30.133, 61.467)}),
    ("Iris, versicolor", "iris", 1, 0.9, {"10%": (34.933, 30.133, 61.467)}),
    ("Magic", "magic", None, 0.5, {"10%": (30.550, 23.607), "1": (32.288, 27.743)}),
    ("Shuttle", "shuttle", None, 0.5, {"10%": (21.450, 8.549), "1": (21.751, 8.598)}),
    ("Covertype", "covtype", None, 0.5, {"10%": (36.466, 32.807), "1": (36.474, 34.962)}),
    ("Pen 1", "pendigits", 1, 0.5, {"10%": (10.432, 8.984), "1": (10.409, 9.255)}),
    ("Pen 2", "pendigits", 2, 0.5, {"10%": (8.448, 5.133), "1": (8.437, 5.317)}),
    ("Pen 5", "pendigits", 5, 0.5, {"10%": (9.609, 6.830), "1": (9.635, 7.059)}),
    ("Pen 6", "pendigits", 6, 0.5, {"10%": (5.835, 2.896), "1": (5.863, 2.847)}),
]
ABSENT = [
    report.Absent("Parkinsons", "Table 3.6", folder="parkinsons"),
    report.Absent("Ecoli", "Table 3.6", folder="ecoli"),
    report.Absent("Red Wine", "Tables 3.7, 3.8", folder="red_wine"),
    report.Absent("White Wine", "Tables 3.7, 3.8", folder="white_wine"),
]
COLUMNS = ["Pegasos", "WCW", "WCW-ARD", "built-in cv", "ARD not inverted"]
SMALL_RUNS = 4  # times as many on small sets, whose test parts have 15 to 35 rows
LARGEST, LARGEST_TUNING = 1000, 50  # rows of a batch in the last fit, and while tuning
RANGE = (1e-5, 100.0)
SPREAD = 100.0  # a feature's λ is at most so many times the common one, and at least the inverse


def pegasos(k: int) -> Pegasos:
    """With k = 1 the batch residual would meet every margin exactly: no bias until the end."""
    return Pegasos(batch=k, bias="residual" if k > 1 else "gradient")


class Weighted:
    """One split and batch size: all columns of the table."""

    def __init__(self, split: Split, share: float | None, settings: Settings):
        n = split.train.y.size
        full = 1 if share is None else max(2, round(share * n))
        self.split, self.settings = split, settings
        self.k, self.k_tuning = min(full, LARGEST), min(full, LARGEST_TUNING)
        self.trainer = Trainer(bias=self.k > 1, late_bias=self.k == 1)
        self.score = CrossValidation(split.train, self.trainer, settings, split.seed)

    def errors(self) -> list[float]:
        strength = self._strength(np.ones(self.split.train.X.shape[1]))
        uniform = np.full(self.split.train.X.shape[1], strength)
        weights = [uniform, self._searched(uniform), self._ard(), self._built_in(strength)]
        weights.append(self._ard(inverted=False))
        return [self._error(w) for w in weights]

    def _strength(self, weights: np.ndarray) -> float:
        """The tuned common factor of given weights; the range holds for the smallest of them."""
        low, high = np.array(RANGE) / weights.min()

        def make(p: dict[str, float]) -> tuple[Any, Any]:
            return pegasos(self.k_tuning), _penalty(p["strength"] * weights)

        method = Method("Pegasos", {"strength": (low, high)}, make)
        return search(method, self.score, self.settings.budget, self.split.seed)["strength"]

    def _searched(self, uniform: np.ndarray) -> np.ndarray:
        """One λ per feature by annealing and simplex; one of the chains begins at the common λ."""
        names = [str(j) for j in range(uniform.size)]
        common = dict(zip(names, uniform.tolist(), strict=True))
        ranges = {name: (c / SPREAD, c * SPREAD) for name, c in common.items()}

        def error(params: dict[str, float]) -> float:
            weights = np.array([params[name] for name in names])
            return self.score(pegasos(self.k_tuning), _penalty(weights))

        best = tuned(error, ranges, 4 * self.settings.budget, self.split.seed, first=common)
        return np.array([best.params[name] for name in names])

    def _ard(self, inverted: bool = True) -> np.ndarray:
        """Precisions of the relevance determination, and (as printed) the variances themselves."""
        weights = self._relevance("ard", 1.0)
        weights = weights if inverted else 1.0 / weights
        return weights * self._strength(weights)

    def _built_in(self, strength: float) -> np.ndarray:
        return strength * self._relevance("cv", strength)

    def _relevance(self, how: str, strength: float) -> np.ndarray:
        """What ``WeightedPegasos(precisions=how)`` would use, "cv" on the tuning rows only."""
        train = self.split.train
        chunk = driver.whole(Dense(train.X), train.y)
        if how == "cv":
            rows = np.concatenate([self.score.folds[k][0] for k in (0, 1)])
            chunk = chunk._replace(order=np.unique(rows).astype(np.uint32))
        problem = Problem(
            self.trainer.loss, L2(strength), train.X.shape[1], self.trainer.bias,
            train.X.dtype.type, seed=self.split.seed,
        )  # fmt: skip
        return relevance.precisions(how, pegasos(self.k_tuning), problem, chunk)

    def _error(self, weights: np.ndarray) -> float:
        train, test = self.split.train, self.split.test
        model = fit(pegasos(self.k), _penalty(weights), train, self.trainer, self.split.seed)
        return 100 * model.error(test)


def _penalty(weights: np.ndarray) -> Any:
    if np.ptp(weights) == 0.0:
        return L2(float(weights[0]))
    return WeightedL2(weights / np.exp(np.mean(np.log(weights))), np.exp(np.mean(np.log(weights))))


INTRO = """\
Linear, hinge, T = 1000; small sets 90/10, large 50/50 splits; the bias is the mean residual.
Cells: ours (std over runs) vs published: difference in points, in *our* standard deviations (none
were printed). "WCW" finds one λ per feature by cross-validation, "WCW-ARD" by relevance
determination (published for the small sets only). Two columns without a printed counterpart:
"built-in cv" is the package's coordinate-wise search (WeightedPegasos(precisions="cv")), "ARD not
inverted" uses the learned variances as penalties, a slip in the printed method.

λ, and the d λ's of WCW, by coupled annealing from five starts and a simplex, as published; {budget}
and {changes} evaluations (published: not said), each λ of WCW within a factor of {spread} of the
common one, where one of the chains begins. Differences of protocol: {runs} runs ({small} of the
first three sets) instead of 50; {folds} folds instead of ten, on at most {rows} rows, batches of at
most {tuning} while tuning; ARD gives relative weights whose common factor is tuned like λ; k = 10 %
n is cut at {largest} rows (Shuttle and Covertype). With k = 1 the mean residual of the batch makes
every margin exactly one and nothing is ever learned, so there the bias is set only at the end. Pen
Digits: the named digit against the rest (9.6 %, the share of the digit 5 but not of the digit 4, is
the published error of Pen 5). Iris: "first class against the rest" would be setosa, which a plane
separates; the printed errors are nearer to those of versicolor, which none separates. Both are
shown beside the same printed row, and only versicolor is counted in the summary."""
REMARKS = """\
{gains}
- The published plain Pegasos lies within 0.4 points of the error of an empty model ("majority")
  on Shuttle, Covertype, Pen 1 and Pen 5, for both batch sizes; ours does not, on the same sets. The
  published gain of WCW is measured against these empty models.
- Iris: the published error of WCW-ARD, 61 %, is far above that of an empty model (33 %); variances
  that were not inverted are a possible reason, but give 35 % here."""


def run(settings: Settings) -> str:
    settings = settings._replace(
        runs=max(2, settings.runs // 2),
        budget=max(2, settings.budget // 2),
        folds=min(5, settings.folds),
        tuning_rows=5000,
    )
    rows, notes, cells, means = [], [], [], []
    for title, name, positive, share, published in ROWS:
        few = settings._replace(runs=SMALL_RUNS * settings.runs) if share > 0.5 else settings
        if not data.available(name):
            notes.append(report.missing(name))
            continue
        problem = data.load(name, positive)
        for batch, printed in published.items():
            errors = np.array(_errors(problem, share, batch, few))
            row = [
                report.Cell(errors[:, m], p, name=f"{title}, k = {batch} ({COLUMNS[m]})")
                for m, p in enumerate(printed)
            ]
            if title != "Iris, setosa":
                cells += row
                means.append((*errors.mean(axis=0), *printed[:2]))
            unprinted = [report.spread(e) for e in errors.T[len(printed) :]]
            majority = f"{100 * problem.majority_error:.1f}"
            rows.append([title, batch, majority, *row, *unprinted])
    intro = INTRO.format(
        runs=settings.runs, small=SMALL_RUNS * settings.runs, budget=settings.budget,
        folds=settings.folds, rows=5000, tuning=LARGEST_TUNING, changes=4 * settings.budget,
        largest=LARGEST, spread=f"{SPREAD:.0f}",
    )  # fmt: skip
    parts = [intro, report.table(["data", "k", "majority", *COLUMNS], rows)]
    if cells:
        parts.append(f"Reading. {report.reading(cells)}. {report.missed(cells)}")
        parts.append(REMARKS.format(gains=_gains(np.array(means))))
    return "\n\n".join([*parts, *notes])


def _gains(means: np.ndarray) -> str:
    """What the weights bring, counted: columns are ours, then the published Pegasos and WCW."""

    def against(better: int, worse: int) -> str:
        change = means[:, better] - means[:, worse]
        lower, median = int(np.sum(change < 0)), float(np.median(change))
        return f"lower in {lower} of {change.size} rows, median {median:+.1f} points"

    return (
        f"- WCW against plain Pegasos: ours {against(1, 0)}; published {against(6, 5)}. "
        f"Built-in cv against plain Pegasos: {against(3, 0)}.\n"
        f"- ARD against plain Pegasos: {against(2, 0)}; "
        f"ARD against ARD not inverted: {against(2, 4)}."
    )


def _errors(
    problem: data.Binary, share: float, batch: str, settings: Settings
) -> list[list[float]]:
    k = None if batch == "1" else 0.1
    return [
        Weighted(split, k, settings).errors()
        for split in splits(problem, share, settings, constant=False)
    ]
