"""Which features matter: F1 of the non-zero weights against the true ones (section 4.1)."""

from __future__ import annotations

import numpy as np

from reproduction import data, report
from reproduction.protocol import CrossValidation, Method, Settings, Trainer, fit, search
from reproduction.report import Absent
from reproduction.reweighted import METHODS

COMPARED = [method for method in METHODS if method.name in ("l1-re", "l2-re", "l1-RDA")]
DIMENSIONS = (20, 60, 100, 160, 200, 300, 400, 500)
ROWS = 10_000
INTRO = """\
n = 10000, a ~ N(0, I), y = sign(⟨w*, a⟩ + N(0, 1)), w* = 1 on the first d/2 features; hinge,
T = 1000 updates of one row; F1 of the found support, mean (std). Published as a curve only: l2-re
above l1-RDA for d ≤ 300, ≈ 0.95 at d = 100, all above 0.7 up to d = 500.

Differences of protocol: {sets} data sets per d, each tuned on itself by the criterion with κ = 0.05
(coupled annealing, {budget} evaluations, {folds} folds), and {repeats} fits each on new rows of the
same law, instead of 100 runs; no intercept (the law has none). How the published curve was tuned is
not said. The last rows repeat two d with T = 10000, one pass over the data."""
ABSENT = [
    Absent("17 of the 25 d (20 to 500 in steps of 20)", "section 4.1, a curve",
           "left out for time; no numbers are printed"),
    Absent("non-zero frequencies per feature", "section 4.1, figures", "no numbers are printed"),
]  # fmt: skip


def run(settings: Settings) -> str:
    sets, repeats = max(2, settings.runs // 6), 5
    rows, curves = [], {}
    for d, steps in [(d, 1000) for d in DIMENSIONS] + [(100, 10_000), (200, 10_000)]:
        scores = [_scores(method, d, steps, sets, repeats, settings) for method in COMPARED]
        curves[d, steps] = [float(np.mean(s)) for s in scores]
        rows.append([d, steps, *(f"**{np.mean(s):.3f}** ({np.std(s):.3f})" for s in scores)])
    intro = INTRO.format(
        sets=sets, repeats=repeats, budget=settings.budget, folds=min(5, settings.folds)
    )
    header = ["d", "T", *(method.name for method in COMPARED)]
    return "\n\n".join([intro, report.table(header, rows), _reading(curves)])


def _reading(curves: dict[tuple[int, int], list[float]]) -> str:
    names = [method.name for method in COMPARED]
    one, two, plain = (names.index(name) for name in ("l1-re", "l2-re", "l1-RDA"))
    short = {d: f for (d, steps), f in curves.items() if steps == 1000}
    wins = [d for d, f in short.items() if f[two] > f[plain]]
    also = [d for d, f in short.items() if f[one] > f[plain]]
    lowest = min(min(f) for f in short.values())
    return (
        f"Reading. At T = 1000 l2-re is above l1-RDA for d in {wins} (published: up to 300), l1-re "
        f"for d in {also}; at d = 100 l2-re reaches {short[100][two]:.2f} (published ≈ 0.95: "
        f"{short[100][two] - 0.95:+.2f}); the lowest value is {lowest:.2f} (published: all above "
        f"0.7: {lowest - 0.7:+.2f}). A likely reason for what is missing is the tuning, here by a "
        "criterion of error and zeros that knows nothing of the true support. The support of half "
        "of all features by chance has F1 = 0.5, all features 0.67: beyond d = 300 a thousand rows "
        "tell little more than that, and more updates help more than the choice of the method."
    )


def _scores(
    method: Method, d: int, steps: int, sets: int, repeats: int, settings: Settings
) -> np.ndarray:
    trainer, scores = Trainer(kappa=0.05, steps=steps), []
    fewer = settings._replace(folds=min(5, settings.folds))
    for run in range(sets):
        rng = np.random.default_rng((settings.seed, run, d))
        problem = data.half_relevant(ROWS, d, rng)
        score = CrossValidation(problem, trainer, fewer, run)
        params = search(method, score, settings.budget, run, simplex=False)
        for repeat in range(repeats):
            fresh = data.half_relevant(ROWS, d, rng)
            scores.append(f1(fit(*method.make(params), fresh, trainer, repeat).coef))
    return np.array(scores)


def f1(coef: np.ndarray) -> float:
    """Harmonic mean of precision and recall of the non-zeros; the first half are the true ones."""
    found, half = coef != 0, coef.size // 2
    return 2.0 * float(np.sum(found[:half])) / max(1.0, float(np.sum(found)) + half)
