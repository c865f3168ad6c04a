"""Supervised novelty detection (Jumutc 2016, 2.1): tables 2.2 to 2.9 and the pixels of an image.

Every method is tuned by coupled annealing and a simplex on folds of the training rows; errors are
of folds that were left out, and methods are compared by paired t-tests over them.  The mixtures of
tables 2.2 and 2.9 are described in words only: ours are drawn as the figures show them.  So is the
image, which is generated: a dark sea, bright land, and the track of a boat.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import ttest_rel
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import IsolationForest
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, OneClassSVM

from reproduction import data
from reproduction.protocol import Settings
from reproduction.report import Absent, missing, table
from thresher import KernelClassifier, NoveltyClassifier, SupportVectorClassifier, TunedClassifier
from thresher.search import CRITERIA, Criterion, Float, Space

SMALL = ("toy 1", "ionosphere", "sonar", "iris", "pima_diabetes")
LARGE = ("pima_diabetes", "madelon", "magic")
REPETITIONS = 5  # as many left-out folds as runs, each time; and as many halves of large sets
DRAWS = 10  # of mixtures, for each run
SMALL_BUDGET = 25  # settings, where rows are few
MOST_ROWS = 10_000  # of a large set that are tuned on
TEXT = """\
Tables 2.2 to 2.5: mean error and deviation over the left-out folds of {repetitions} times ten
folds (toy 1: {draws} draws, a fifth left out), {folds} inner folds and {small} settings for each.
*Margin* is the program as printed (reading A), *boundary* the one whose constraint agrees with the
printed binary dual (reading B). p: paired t-tests of the better of these two with C-SVM and
LS-SVM; it is the better one by these very errors, which flatters it, and folds of repetitions are
not independent, which makes p too small. In brackets what was published for SND (LS-SND)."""
LARGE_TEXT = """\
Tables 2.6 to 2.8: mean error over {halves} halves of the rows, Nyström features by {budget}
settings on {folds} folds. In brackets what was published."""
TOY_TEXT = """\
Table 2.9 in kind: error on rows of known classes (detection of outliers), means over {draws} draws
of 300 rows, four fifths to learn from, outliers from the square around. *Tuned* is Algorithm 3,
with known outliers; *untuned* has the defaults and has seen none. Peers: a one-class machine for
each class, nu and width tuned like SND; an SVM of one class against the rest and an isolation
forest for each class, both untuned, with thresholds that reject five percent of left-out rows.
Published: SND .0083 (.975), .0113 (1), .0366 (.818); one-class SVM .0233 (1), .0233 (1),
.0791 (.781)."""
IMAGE_TEXT = """\
The pixels of an image in kind (the published ones are of AVIRIS): intensity of a pixel, and mean of
its 10 x 10 window less the inner 5 x 5. Two classes by the mean of the window, outliers are pixels
over 190 in the dark. Algorithm 3 with stochastic steps on Nyström features; *two against the rest*
are two machines by Pegasos, a pixel that both refuse is an outlier. Flagged pixels of a second
image, how many of its {odd} odd pixels are among them, and how many of the other {pixels:,}."""
REMARKS = """\
Published: SND level with C-SVM and LS-SVM everywhere. So is the better reading here, but for iris,
where LS-SVM errs on three rows less, and sonar, where it errs on three more. Neither reading is the
better one on all sets: boundary loses on sonar, margin on ionosphere. There margin and LS-SND are
spoiled by 6 and 12 of the 50 left-out folds, with errors of a fourth and more: in the three that
were looked at kernels so narrow are chosen that new rows are like none, and digits of the offsets
decide, which inner folds do not see. With 8 settings margin and boundary had .123 and .123 on toy
1, .116 and .067 on ionosphere, .115 and .185 on sonar, .065 and .057 on iris. On toy 1 no rule errs
in less than an eighth of all rows. Pegasos-SND is ahead of Pegasos on all three sets, published on
Magic only; our steps begin in the units of the rows and are averaged. On Pima it is behind least
squares on the same features, as published, by a seventh of that. On the mixtures SND tuned is ahead
of one-class machines on two of three (published: all), and the SVM with a threshold, which the
thesis does not have, is as good. On the image the published order, half as many flagged pixels as
by two machines, is not found: ours flags more of the coast."""
ABSENT: Sequence[Absent] = (
    Absent("Arcene", "table 2.3", "10,000 features of 200 rows: left out for its time"),
    Absent("Parkinsons, Zoo, Ecoli, TAE, Seeds", "tables 2.3 and 2.5"),
    Absent("Arrhythmia", "table 2.5"),
    Absent("Red and White Wine", "table 2.7"),
    Absent("AVIRIS: 222 and 507 pixels", "figure 2.8", "a generated image stands in for it"),
)  # fmt: skip
PUBLISHED: dict[str, tuple[float | None, float]] = {  # SND, LS-SND
    "toy 1": (0.1395, 0.1425), "ionosphere": (0.0684, 0.0803), "sonar": (0.0962, 0.1198),
    "iris": (0.0467, 0.0667), "pima_diabetes": (None, 0.2325),
}  # fmt: skip
PUBLISHED_LARGE = {  # Pegasos-SND, Pegasos, NyFS-LSSVM
    "pima_diabetes": (0.2885, 0.2866, 0.2333), "madelon": (0.4307, 0.4272, 0.4531),
    "magic": (0.1474, 0.1576, 0.1375),
}  # fmt: skip


class Labelled(NamedTuple):
    X: np.ndarray
    y: np.ndarray


# ---------------------------------------------------------------- classification, Algorithm 2


def _tuned(estimator: Any, settings: Settings, seed: int, criterion: Any, **more: Any) -> Any:
    return TunedClassifier(
        estimator, n_trials=settings.budget, cv=settings.folds, criterion=criterion,
        random_state=seed, baseline=False, **more,
    )  # fmt: skip


def _svc() -> tuple[Any, dict[str, Any]]:
    widths = {"C": Float(1e-2, 1e4, log=True), "gamma": Float(1e-4, 10.0, log=True)}
    return SVC(), {"space": Space(widths)}


METHODS: dict[str, Callable[[], tuple[Any, str, dict[str, Any]]]] = {
    "margin": lambda: (
        NoveltyClassifier("exact", reading="margin", false_alarms=None), "class_error", {},
    ),
    "boundary": lambda: (NoveltyClassifier("exact", false_alarms=None), "class_error", {}),
    "LS-SND": lambda: (NoveltyClassifier("least_squares", false_alarms=None), "class_error", {}),
    "C-SVM": lambda: (_svc()[0], "error", _svc()[1]),
    "LS-SVM": lambda: (
        SupportVectorClassifier(loss="least_squares", multiclass="ovr"), "error", {},
    ),
}  # fmt: skip


def _error(name: str, train: Labelled, test: Labelled, settings: Settings, seed: int) -> float:
    estimator, criterion, more = METHODS[name]()
    model = _tuned(estimator, settings, seed, criterion, **more).fit(*train)
    found = model.classify(test.X) if criterion == "class_error" else model.predict(test.X)
    return float(np.mean(found != test.y))


def _rows_of(name: str) -> Labelled:
    raw = data.read(name)
    return Labelled(data.columns(name, raw), data.labels(name, raw))


def toy_one(rng: np.random.Generator, rows: int = 200) -> Labelled:
    """Two squares, [0, 1] and [-0.5, 0.5], which share a quarter: an eighth is always wrong."""
    y = np.arange(rows) % 2
    return Labelled(rng.random((rows, 2)) - 0.5 * y[:, None], y)


def _apart(found: Labelled, rng: np.random.Generator, cut: int) -> tuple[Labelled, Labelled]:
    """``cut`` rows to learn from, and the others, at random."""
    order = rng.permutation(found.y.size)
    first, rest = order[:cut], order[cut:]
    return Labelled(found.X[first], found.y[first]), Labelled(found.X[rest], found.y[rest])


def _fold(name: str, run: int, seed: int) -> tuple[Labelled, Labelled]:
    """Rows to learn from and to judge by: a fold of a set, or a draw of the mixture."""
    if name == "toy 1":
        rng = np.random.default_rng((seed, run))
        return _apart(toy_one(rng), rng, 160)
    repetition, fold = divmod(run, 10)
    X, y = _rows_of(name)
    folds = StratifiedKFold(10, shuffle=True, random_state=seed + repetition).split(X, y)
    train, test = list(folds)[fold]
    return Labelled(X[train], y[train]), Labelled(X[test], y[test])


def _scaled(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    units = StandardScaler().fit(train)
    return units.transform(train), units.transform(test)


def _fold_errors(job: tuple[str, int, Settings]) -> list[float]:
    """Of one left-out fold."""
    name, run, settings = job
    train, test = _fold(name, run, settings.seed)
    rows, new = _scaled(train.X, test.X)
    parts = Labelled(rows, train.y), Labelled(new, test.y)
    return [_error(method, *parts, settings, settings.seed + run // 10) for method in METHODS]


def small_errors(name: str, settings: Settings) -> dict[str, np.ndarray]:
    """Errors of every left-out fold or draw, by method."""
    runs = (DRAWS if name == "toy 1" else REPETITIONS) * settings.runs
    settings = settings._replace(budget=_settings_tried(settings))
    errors = np.array(_spread(_fold_errors, [(name, run, settings) for run in range(runs)]))
    return dict(zip(METHODS, errors.T, strict=True))


def _settings_tried(settings: Settings) -> int:
    """More than where rows are many."""
    return max(settings.budget, SMALL_BUDGET)


def _spread(call: Callable[[Any], Any], jobs: Sequence[Any]) -> list[Any]:
    """By as many processes as THRESHER_WORKERS says, one otherwise."""
    workers = int(os.environ.get("THRESHER_WORKERS", "1"))
    if workers < 2:
        return [_quietly(call, job) for job in jobs]
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        return list(pool.map(partial(_quietly, call), jobs))


def _quietly(call: Callable[[Any], Any], job: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of settings on the way that do not converge
        return call(job)


def _p(a: np.ndarray, b: np.ndarray) -> str:
    if a.size < 2 or np.all(a == b):
        return "1"
    return f"{ttest_rel(a, b).pvalue:.2g}"


def _told(errors: np.ndarray, published: float | None = None) -> str:
    text = f"{errors.mean():.4f} ± {errors.std():.3f}"
    return text if published is None else f"{text} ({published:.4f})"


def small_table(settings: Settings) -> str:
    lines, absent = [], []
    for name in SMALL:
        if name not in ("toy 1", "iris") and not data.available(name):
            absent.append(missing(name))
            continue
        errors = small_errors(name, settings)
        exact, squares = PUBLISHED[name]
        ours = min(("margin", "boundary"), key=lambda m: errors[m].mean())
        cells = [
            _told(errors[m], squares if m == "LS-SND" else exact if m == ours else None)
            for m in METHODS
        ]  # fmt: skip
        tests = [_p(errors[ours], errors[peer]) for peer in ("C-SVM", "LS-SVM")]
        lines.append([name, *cells, *tests])
    header = ["set", *METHODS, "p C", "p LS"]
    return "\n\n".join([table(header, lines), *absent])


# ---------------------------------------------------------------- many rows, Algorithm 1


def large_table(settings: Settings) -> str:
    lines, absent = [], []
    for name in LARGE:
        if not data.available(name):
            absent.append(missing(name))
            continue
        errors = large_errors(name, settings)
        cells = [_told(e, p) for e, p in zip(errors.values(), PUBLISHED_LARGE[name], strict=True)]
        first, *peers = errors.values()
        lines.append([name, *cells, *(_p(first, peer) for peer in peers)])
    header = ["set", "Pegasos-SND", "Pegasos", "NyFS-LSSVM", "p Pegasos", "p LSSVM"]
    return "\n\n".join([table(header, lines), *absent])


def large_errors(name: str, settings: Settings) -> dict[str, np.ndarray]:
    jobs = [(name, run, settings) for run in range(REPETITIONS * settings.runs)]
    errors = np.array(_spread(_half_errors, jobs)).T
    return dict(zip(("Pegasos-SND", "Pegasos", "NyFS-LSSVM"), errors, strict=True))


def _half_errors(job: tuple[str, int, Settings]) -> list[float]:
    name, run, settings = job
    found = _rows_of(name)
    train, test = _apart(found, np.random.default_rng((settings.seed, run)), found.y.size // 2)
    rows, new = _scaled(train.X, test.X)
    some = slice(0, MOST_ROWS)
    common = {"n_components": "sqrt", "landmarks": "entropy", "random_state": run}
    models = [
        (NoveltyClassifier("pegasos", false_alarms=None, **common), "class_error"),
        (KernelClassifier("hinge", solver="pegasos", **common), "error"),
        (KernelClassifier("least_squares", **common), "error"),
    ]
    errors = []
    for estimator, criterion in models:
        tuned = _tuned(estimator, settings, run, criterion, refit=False)
        tuned.fit(rows[some], train.y[some])
        model = estimator.set_params(**tuned.best_params_).fit(rows, train.y)
        told = model.classify(new) if criterion == "class_error" else model.predict(new)
        errors.append(float(np.mean(told != test.y)))
    return errors


# ---------------------------------------------------------------- mixtures with outliers, table 2.9


def toy_mixture(number: int, rng: np.random.Generator, rows: int = 300) -> Labelled:
    """Three classes in the plane: apart; in two pieces each; overlapping."""
    y = np.arange(rows) % 3
    turn = 2.0 * np.pi * y / 3.0
    away, spread = {2: (2.5, 0.4), 3: (2.5, 0.35), 4: (1.2, 0.45)}[number]
    centres = away * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    if number == 3:
        centres *= np.where(rng.random(rows) < 0.5, 0.45, 1.0)[:, None]
    return Labelled(centres + spread * rng.normal(size=(rows, 2)), y)


def around(known: np.ndarray, rng: np.random.Generator, rows: int = 100) -> np.ndarray:
    """Rows from the square around, farther from all known ones than these from each other."""
    low, high = known.min(axis=0) - 1.5, known.max(axis=0) + 1.5
    drawn = rng.uniform(low, high, size=(20 * rows, 2))
    near = np.sqrt(((drawn[:, None] - known) ** 2).sum(axis=2)).min(axis=1)
    return drawn[near > 0.8][:rows]


class OneClassEach(ClassifierMixin, BaseEstimator):
    """A one-class machine for each class; the class of a row is that of the highest score.

    Rows of label -1 are of no class: they are not learned from, but it is tuned with them.
    """

    outlier = -1

    def __init__(self, nu: float = 0.1, gamma: float = 1.0):
        self.nu = nu
        self.gamma = gamma

    def fit(self, X: np.ndarray, y: np.ndarray) -> OneClassEach:
        self.classes_ = np.unique(y[y >= 0])
        self.parts_ = [
            OneClassSVM(nu=self.nu, gamma=self.gamma).fit(X[y == c]) for c in self.classes_
        ]
        return self

    def scores(self, X: np.ndarray) -> np.ndarray:
        return np.stack([part.decision_function(X) for part in self.parts_], axis=1)

    def predict(self, X: np.ndarray) -> np.ndarray:
        scores = self.scores(X)
        return np.where(scores.max(axis=1) > 0.0, self.classes_[scores.argmax(axis=1)], -1)


class ForestEach:
    """The same with isolation forests."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> ForestEach:
        self.parts = [IsolationForest(random_state=0).fit(X[y == c]) for c in np.unique(y)]
        return self

    def scores(self, X: np.ndarray) -> np.ndarray:
        return np.stack([part.score_samples(X) for part in self.parts], axis=1)


class Margin:
    """The largest one-against-the-rest value of an SVM."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Margin:
        self.model = SVC(C=10.0, decision_function_shape="ovr").fit(X, y)
        return self

    def scores(self, X: np.ndarray) -> np.ndarray:
        return self.model.decision_function(X)


def threshold_of(make: Callable[[], Any], train: Any, share: float = 0.05) -> tuple[Any, float]:
    """The peer of all rows, and the threshold that rejects a share of rows left out."""
    left = np.empty(train.y.size)
    for a, b in StratifiedKFold(5, shuffle=True, random_state=0).split(train.X, train.y):
        left[b] = make().fit(train.X[a], train.y[a]).scores(train.X[b]).max(axis=1)
    return make().fit(train.X, train.y), float(np.quantile(left, share))


def _judged(scores: Callable[[np.ndarray], np.ndarray], threshold: float, test: Labelled,
            odd: np.ndarray) -> tuple[float, float]:  # fmt: skip
    found = scores(test.X)
    wrong = (found.argmax(axis=1) != test.y) | (found.max(axis=1) <= threshold)
    return float(wrong.mean()), float(np.mean(scores(odd).max(axis=1) <= threshold))


def toy_results(job: tuple[int, int, Settings]) -> dict[str, tuple[float, float]]:
    number, run, settings = job
    rng = np.random.default_rng((settings.seed, number, run))
    both = toy_mixture(number, rng)
    train, test = _apart(both, rng, 4 * both.y.size // 5)
    known, odd = around(both.X, rng, 60), around(both.X, rng)
    with_odd = Labelled(np.concatenate([train.X, known]), np.append(train.y, np.full(60, -1)))
    out = {}
    base = NoveltyClassifier("exact", false_alarms=None, outlier_label=-1)
    tuned = _tuned(base, settings, run, "novelty").fit(*with_odd)
    usual = NoveltyClassifier("exact", random_state=0).fit(*train)
    out["SND tuned"] = _judged(tuned.best_estimator_.decision_function, 0.0, test, odd)
    out["SND untuned"] = _judged(usual.decision_function, 0.0, test, odd)
    space = Space({"nu": Float(0.005, 0.5, log=True), "gamma": Float(1e-2, 10.0, log=True)})
    judged = Criterion("novelty", CRITERIA["novelty"].judge)
    each = _tuned(OneClassEach(), settings, run, judged, space=space).fit(*with_odd)
    out["one-class each"] = _judged(each.best_estimator_.scores, 0.0, test, odd)
    peers: dict[str, Callable[[], Any]] = {"SVM, threshold": Margin, "forest each": ForestEach}
    for name, make in peers.items():
        model, threshold = threshold_of(make, train)
        out[name] = _judged(model.scores, threshold, test, odd)
    return out


def toy_table(settings: Settings) -> str:
    lines, draws = [], DRAWS * settings.runs
    for number in (2, 3, 4):
        runs = _spread(toy_results, [(number, run, settings) for run in range(draws)])
        cells = []
        for name in runs[0]:
            pairs = np.array([found[name] for found in runs])
            error, detection = pairs.mean(axis=0)
            cells.append(f"{error:.4f} ± {pairs[:, 0].std():.3f} ({detection:.3f})")
        lines.append([f"toy {number}", *cells])
    return table(["mixture", *runs[0]], lines)


# ---------------------------------------------------------------- the pixels of an image


def scene(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Sea, land and the track of a boat; which pixels are the boat's."""
    rows, columns = shape
    i, j = np.mgrid[:rows, :columns]
    coast = 0.55 * columns + 0.06 * columns * np.sin(i / rows * 9.0) + rng.normal(0, 2.0, shape)
    image = np.where(j > coast, 165.0, 45.0) + 12.0 * rng.normal(size=shape)
    middle = 0.2 * columns + 0.1 * columns * i / rows
    track = (np.abs(j - middle) < 1.2) & (i > 0.3 * rows) & (i < 0.75 * rows)
    image[track] = 215.0 + 12.0 * rng.normal(size=int(track.sum()))
    return np.clip(image, 0, 255), track


def _means(image: np.ndarray, size: int) -> np.ndarray:
    """Of the window around every pixel, by sums over corners."""
    half = size // 2
    padded = np.pad(image, half, mode="edge")
    sums = np.pad(padded.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    i, j = np.mgrid[: image.shape[0], : image.shape[1]]
    total = sums[i + size, j + size] - sums[i, j + size] - sums[i + size, j] + sums[i, j]
    return total / size**2


def pixels(image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(pixels, 2) features; labels 0 (dark), 1 (bright) and -1 (over 190 in the dark)."""
    wide, inner = _means(image, 10), _means(image, 5)
    ring = (100.0 * wide - 25.0 * inner) / 75.0
    y = (wide > 100.0).astype(np.int64)
    y[(y == 0) & (image > 190.0)] = -1
    return np.stack([image.ravel(), ring.ravel()], axis=1), y.ravel()


def image_table(settings: Settings, shapes: Sequence[tuple[int, int]]) -> tuple[str, int, int]:
    rng = np.random.default_rng(settings.seed)
    (first, _), (second, track) = (scene(rng, shape) for shape in shapes)
    (X, y), (new, _) = pixels(first), pixels(second)
    rows, new = _scaled(X, new)
    common: dict[str, Any] = {"random_state": 0, "n_components": 100}
    base = NoveltyClassifier("pegasos", false_alarms=None, outlier_label=-1, **common)
    some = np.concatenate([rng.permutation(rows.shape[0])[:4000], np.flatnonzero(y == -1)])
    search = _tuned(base, settings, 0, "novelty", refit=False).fit(rows[some], y[some])
    ours = base.set_params(**search.best_params_).fit(rows, y)
    flagged = {"SND": ours.predict(new) == -1}
    refused = np.ones(new.shape[0], bool)
    for c in (0, 1):
        machine = KernelClassifier("hinge", solver="pegasos", **common).fit(rows, y == c)
        refused &= ~machine.predict(new)
    flagged["two against the rest"] = refused
    odd = track.ravel()
    lines = [
        [name, int(f.sum()), int((f & odd).sum()), int((f & ~odd).sum())]
        for name, f in flagged.items()
    ]
    header = ["method", "flagged", "of the boat's track", "others"]
    return table(header, lines), int(odd.sum()), int((~odd).sum())


SHAPES = ((205, 236), (283, 281))


def run(settings: Settings, shapes: Sequence[tuple[int, int]] = SHAPES) -> str:
    told = settings._asdict() | {
        "repetitions": REPETITIONS, "small": _settings_tried(settings),
        "halves": REPETITIONS * settings.runs, "draws": DRAWS * settings.runs,
    }  # fmt: skip
    image, odd, count = _quietly(lambda s: image_table(s, shapes), settings)
    parts = [
        TEXT.format(**told),
        small_table(settings),
        LARGE_TEXT.format(**told), large_table(settings),
        TOY_TEXT.format(**told), toy_table(settings),
        IMAGE_TEXT.format(odd=odd, pixels=count), image, REMARKS,
    ]  # fmt: skip
    return "\n\n".join(parts)
