"""Generalised multiple kernel learning (Yang, Xu, Ye, King and Lyu, 2011): toys, UCI, times."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, cross_val_score

from reproduction import data, report
from reproduction.protocol import Settings
from reproduction.simple_mkl import simple_mkl
from thresher import MultipleKernelClassifier
from thresher.kernels.bank import KernelBank
from thresher.kernels.members import members_of
from thresher.search import sign_test
from thresher.solvers.machines import KernelDual
from thresher.solvers.multiple_kernels import KernelWeights, Saddle, Side

STRENGTHS = (0.3, 3.0, 30.0)
METHODS: dict[str, Any] = {"GMKL": 0.5, "L1": 1.0, "L2": 0.0, "UW": "uniform"}
#: accuracy, its deviation, kernels, seconds; None where nothing is printed
PUBLISHED: dict[str, dict[str, tuple[float, float, float | None, float | None]]] = {
    "toy 1": {"GMKL": (70.4, 3.3, 36.8, 2.9), "L1": (69.2, 4.5, 22.1, 4.4),
              "L2": (68.2, 3.0, 273, 2.9), "UW": (66.3, 5.3, 273, None)},
    "toy 2": {"GMKL": (72.9, 3.2, 43.4, 2.8), "L1": (72.3, 3.1, 30.2, 4.9),
              "L2": (71.9, 3.6, 273, 2.9), "UW": (71.6, 4.0, 273, None)},
    "breast_cancer_wisconsin": {"GMKL": (97.2, 0.5, 61.1, 2.8), "L1": (97.0, 0.7, 18.6, 23.0),
                                "L2": (96.9, 0.4, 143, 5.1), "UW": (97.2, 0.5, None, None)},
    "heart": {"GMKL": (83.9, 1.9, 38.5, 1.4), "L1": (83.4, 2.6, 29.7, 3.5),
              "L2": (82.8, 2.5, 182, 1.7), "UW": (83.9, 1.9, None, None)},
    "ionosphere": {"GMKL": (91.8, 1.7, 66.5, 5.1), "L1": (91.5, 2.1, 38.4, 19.2),
                   "L2": (92.0, 1.8, 442, 4.0), "UW": (89.9, 1.8, None, None)},
    "pima_diabetes": {"GMKL": (76.9, 1.6, 27.1, 3.8), "L1": (76.5, 1.9, 18.7, 24.8),
                      "L2": (76.0, 1.8, 117, 6.2), "UW": (76.2, 1.7, None, None)},
    "sonar": {"GMKL": (80.4, 4.1, 81.1, 12.4), "L1": (80.4, 4.2, 60.3, 16.7),
              "L2": (83.8, 3.7, 793, 3.9), "UW": (81.5, 4.3, None, None)},
    "wdbc": {"GMKL": (96.0, 1.1, 79.7, 6.6), "L1": (95.3, 1.4, 34.9, 37.8),
             "L2": (95.9, 0.7, 403, 7.8), "UW": (93.9, 1.0, None, None)},
}  # fmt: skip
VALUES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
ABSENT = [
    report.Absent("Liver", "slide 'UCI: accuracy, kernels, time'", folder="liver"),
    report.Absent("Wpbc", "slide 'UCI: accuracy, kernels, time'", folder="wpbc"),
    report.Absent("Plant, Psort+, Psort-", "protein localisation: figures and p-values only"),
]
INTRO = """\
H. Yang, I. King and M. R. Lyu, *Machine Learning: Kernel, Sparsity, Online, and Future
Perspectives* (tutorial, 2012). GMKL is v = 0.5, L1 is v = 1, L2 is v = 0, UW has equal weights. The
bank has 13 (d + 1) kernels on standardised columns, each divided by the mean of its diagonal; gap
1e-3 (published: steps of the weights below 1e-3, or SimpleMKL's gap of 0.01). Random halves, {runs}
of them; C, which is not printed, by threefold cross-validation within the training half of the
first split, among {grid}. The noise of the toys, not printed either, is standard normal here: then
no rule can be right in more than 76 (toy 1) or 79 (toy 2) percent of rows. Kernels are those above
1e-4 of the largest weight. Seconds are CPU seconds of one thread here, and those of a 2.13 GHz Core
2 printed there."""
TIMES = """\
**Against SimpleMKL's reduced gradient.** The same machines, kernels and bank; only the search over
weights differs. One training half, C = 1 (SimpleMKL's 100 for kernels of unit trace is about that),
both to a gap of 0.01. "machines" are the kernel machines solved, started from each other."""
SIGNS = """\
**Sign tests** of GMKL against the others over the {runs} halves: how often it is right in more
rows, how often in fewer (ties left out), and the two-sided p in percent. The slides have such a
test for the protein sets, which are not at hand."""
EFFECT = """\
**Effect of v** (toy 1, C of GMKL, {runs} splits):"""
REMARKS = """\
- The order of sizes agrees: L1 chooses the fewest kernels, GMKL 1.3 to 2.4 times as many (published
  1.3 to 3.3), L2 all. On the toys the numbers agree; GMKL's on Breast, Ionosphere, Sonar and Wdbc
  are 0.4 to 0.7 of those printed, whose C and threshold are not known.
- Between methods accuracies differ by less than their spread, here as there; on Sonar sparse
  choices lose to L2, as printed, and here to equal weights too.
- Breast has nine columns here (130 kernels), and ten in the slides.
- Times are not comparable across the machines; the pattern is: with the level method L1 takes one
  to three times as long as GMKL to a gap of 0.01, and two to six times to 1e-3. So a part of the
  published advantage of GMKL over L1 (1.3 to 8.2 times) is that of the level method over the
  reduced gradient. Its ratio is larger here: 500 to 1,500 machines, where the level method asks 13
  to 27, and only for the accuracy that its bounds can use."""


class Set(NamedTuple):
    X: np.ndarray
    y: np.ndarray


def toy(number: int, rows: int, seed: int) -> Set:
    """Uniform columns, of which 3 or 12 of 20 say something; all four functions have mean zero."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 20))
    parts: list[Callable[[np.ndarray], np.ndarray]] = [
        lambda a: -2.0 * np.sin(2.0 * a) + 1.0 - np.cos(2.0),
        lambda a: a**2 - 1.0 / 3.0,
        lambda a: a - 0.5,
        lambda a: np.exp(-a) + np.exp(-1.0) - 1.0,
    ]
    used = parts[:1] if number == 1 else parts
    signal = sum(part(X[:, 3 * k : 3 * k + 3]).sum(axis=1) for k, part in enumerate(used))
    assert isinstance(signal, np.ndarray)
    return Set(X, np.where(signal + rng.normal(size=rows) > 0.0, 1.0, -1.0))


def _split(name: str, seed: int) -> tuple[Set, Set]:
    """Training and test half."""
    if name.startswith("toy"):
        whole = toy(int(name[-1]), 300, seed)
    else:
        found = data.load(name)
        X = found.X[:, found.X.std(axis=0) > 0.0].astype(np.float64)
        order = np.random.default_rng(seed).permutation(found.y.size)
        whole = Set(X[order], found.y[order])
    half = whole.y.size // 2
    return Set(whole.X[:half], whole.y[:half]), Set(whole.X[half:], whole.y[half:])


def run(settings: Settings, names: tuple[str, ...] = tuple(PUBLISHED)) -> str:
    grid = ", ".join(f"{C:g}" for C in STRENGTHS)
    rows, times, cells, signs = [], [], [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        MultipleKernelClassifier().fit(*toy(1, 40, 0))  # compiled before the clock starts
        for name in names:
            if not name.startswith("toy") and not data.available(name):
                rows.append([name, report.missing(name), "", "", "", "", "", ""])
                continue
            for method in METHODS:
                line, cell = _line(name, method, settings)
                rows.append(line)
                cells.append(cell)
                print(" ", *line, flush=True)
            signs.append(_signs(name, cells[-len(METHODS) :]))
            times.append(_raced(name, settings.seed))
            print(" ", *times[-1], flush=True)
        effect = _effect(settings)
    head = ["set", "method", "C", "accuracy", "kernels", "published", "CPU s", "published"]
    faster = ["set", "kernels", "GMKL, level", "L1, level", "machines", "L1, gradient", "machines",
              "gradient over GMKL", "published L1 over GMKL",
              "gradient over level, both L1"]  # fmt: skip
    return "\n\n".join([
        INTRO.format(runs=settings.runs, grid=grid), report.table(head, rows),
        f"{report.reading(cells, 'accuracy')}.", SIGNS.format(runs=settings.runs),
        report.table(["set", *list(METHODS)[1:]], signs), TIMES, report.table(faster, times),
        EFFECT.format(runs=settings.runs), effect, REMARKS,
    ])  # fmt: skip


def _model(C: float, v: Any) -> MultipleKernelClassifier:
    return MultipleKernelClassifier(C, v, n_jobs=1, random_state=0)


def _strength(name: str, v: Any, seed: int) -> float:
    train, _ = _split(name, 1000 * seed)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    scores = [cross_val_score(_model(C, v), *train, cv=folds).mean() for C in STRENGTHS]
    return STRENGTHS[int(np.argmax(scores))]


def _line(name: str, method: str, settings: Settings) -> tuple[list[Any], report.Cell]:
    v, C = METHODS[method], _strength(name, METHODS[method], settings.seed)
    accuracies, counts, seconds = [], [], []
    for number in range(settings.runs):
        train, test = _split(name, 1000 * settings.seed + number)
        start = time.process_time()
        model = _model(C, v).fit(*train)
        seconds.append(time.process_time() - start)
        accuracies.append(100.0 * model.score(*test))
        counts.append(model.selected_.size)
    mean, deviation, kernels, spent = PUBLISHED[name][method]
    cell = report.Cell(np.array(accuracies), mean, deviation, name=f"{name} {method}")
    printed = "–" if kernels is None else f"{kernels:g}"
    return [
        name, method, f"{C:g}", str(cell), f"{np.mean(counts):.0f} ({np.std(counts):.0f})", printed,
        f"{np.mean(seconds):.2f}", "–" if spent is None else f"{spent:g}",
    ], cell  # fmt: skip


def _signs(name: str, cells: list[report.Cell]) -> list[str]:
    """GMKL, the first, against each of the others."""
    first, *others = (-cell.ours for cell in cells)
    found = [sign_test(first, other) for other in others]
    return [name, *(f"{wins} : {losses}, {100.0 * p:.3g}" for wins, losses, p in found)]


def _raced(name: str, seed: int) -> list[Any]:
    """Seconds of three searches for weights, to the same gap."""
    train, _ = _split(name, 1000 * seed)
    X = (train.X - train.X.mean(axis=0)) / np.maximum(train.X.std(axis=0), 1e-12)
    bank = KernelBank(members_of("bank", "auto", X), X)
    sides = [Side(train.y, np.ones(train.y.size))]

    def timed(search: Callable[[Saddle], Any]) -> tuple[float, Any]:
        start = time.process_time()
        found = search(Saddle(bank, sides, KernelDual()))
        return time.process_time() - start, found

    general, _ = timed(KernelWeights(0.5, gap=0.01).descend)
    level, steps = timed(KernelWeights(1.0, gap=0.01).descend)
    gradient, (end, machines) = timed(simple_mkl)
    reached = "" if end.gap <= 0.01 else f" (gap {end.gap:.1g})"
    published = PUBLISHED[name]
    ratio = (published["L1"][3] or np.nan) / (published["GMKL"][3] or np.nan)
    return [
        name, bank.count, f"{general:.2f}", f"{level:.2f}", steps.steps, f"{gradient:.2f}{reached}",
        machines, f"{gradient / general:.1f}", f"{ratio:.1f}", f"{gradient / level:.1f}",
    ]  # fmt: skip


def _effect(settings: Settings) -> str:
    C = _strength("toy 1", 0.5, settings.seed)
    rows = []
    for v in VALUES:
        fits = []
        for number in range(settings.runs):
            train, test = _split("toy 1", 1000 * settings.seed + number)
            model = _model(C, v).fit(*train)
            fits.append((100.0 * model.score(*test), model.selected_.size))
        accuracy, kernels = np.mean(fits, axis=0)
        rows.append([v, f"{accuracy:.1f}", f"{kernels:.0f}"])
    return report.table(["v", "accuracy", "kernels"], rows)
