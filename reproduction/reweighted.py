"""Reweighted dual averaging on real sets: error and share of non-zero weights (Tables 4.2, 4.3)."""

from __future__ import annotations

import numpy as np

from reproduction import data, report
from reproduction.protocol import Method, Settings, Trainer, splits, tuned_fit
from reproduction.tuning import Params
from thresher.penalties import L1, L2
from thresher.solvers import RDA, AdaptiveRDA, DropoutPegasos, Pegasos, ReweightedL1, ReweightedL2

#: published test error and non-zero weights, mean and deviation in percent
ERROR = {
    "pendigits": [(6.3, 2.1), (7.9, 2.5), (6.9, 2.3), (9.2, 1.3), (6.3, 1.9), (6.1, 2.2)],
    "optdigits": [(3.9, 1.7), (4.8, 2.1), (4.0, 1.9), (4.4, 1.9), (3.4, 1.2), (5.3, 6.4)],
    "shuttle": [(5.3, 2.4), (6.9, 2.7), (5.8, 2.1), (5.6, 2.0), (5.3, 1.7), (4.7, 1.4)],
    "spambase": [(11.0, 3.0), (11.5, 2.0), (10.8, 1.7), (12.6, 1.3), (10.0, 1.7), (9.4, 1.6)],
    "magic": [(22.7, 2.4), (22.2, 1.3), (22.4, 1.7), (22.6, 2.0), (22.2, 1.1), (25.3, 2.8)],
    "covtype": [(28.3, 1.8), (27.0, 1.4), (25.3, 1.1), (26.6, 2.6), (27.6, 1.0), (28.2, 2.6)],
}
NONZERO = {
    "pendigits": [(98.6, 4.6), (26.1, 19), (48.3, 18), (40.5, 18), (100, 0), (100, 0)],
    "optdigits": [(94.0, 4.1), (33.4, 18), (36.6, 12), (32.5, 10), (96.8, 0.8), (94.8, 13)],
    "shuttle": [(99.8, 1.5), (50.0, 24), (52.8, 20), (51.3, 15), (100, 0), (100, 0)],
    "spambase": [(98.2, 3.8), (56.9, 15), (57.7, 17), (58.3, 20), (100, 0), (100, 0)],
    "magic": [(93.2, 12), (30.8, 7.2), (32.8, 11), (37.2, 15), (100, 0), (100, 0)],
    "covtype": [(92.8, 14), (8.0, 5.4), (9.4, 5.0), (12.4, 7.1), (100, 0), (98.1, 14)],
}


def _reweighted_l1(p: Params) -> tuple:
    # The threshold of a zero weight is strength / epsilon: that ratio is what is searched.
    solver = ReweightedL1(gamma=p["gamma"], rho=p["rho"], epsilon=p["epsilon"])
    return solver, L1(p["ratio"] * p["epsilon"])


def _reweighted_l2(p: Params) -> tuple:
    return ReweightedL2(epsilon=p["epsilon"], truncate=p["truncate"]), L1(p["strength"])


STRENGTH, GAMMA, RHO, RIDGE = (1e-4, 1.0), (0.1, 100.0), (1e-4, 1.0), (1e-5, 100.0)
METHODS = [
    Method(
        "l1-re",
        {"ratio": STRENGTH, "gamma": GAMMA, "rho": RHO, "epsilon": (1e-2, 10.0)},
        _reweighted_l1,
    ),
    Method(
        "l2-re",
        {"strength": STRENGTH, "epsilon": (0.1, 1e3), "truncate": (1e-4, 1.0)},
        _reweighted_l2,
    ),
    Method(
        "l1-ada",
        {"strength": STRENGTH, "gamma": GAMMA, "rho": (1e-2, 100.0)},
        lambda p: (AdaptiveRDA(gamma=p["gamma"], rho=p["rho"]), L1(p["strength"])),
    ),
    Method(
        "l1-RDA",
        {"strength": STRENGTH, "gamma": GAMMA, "rho": RHO},
        lambda p: (RDA(gamma=p["gamma"], rho=p["rho"]), L1(p["strength"])),
    ),
    Method("Pegasos", {"strength": RIDGE}, lambda p: (Pegasos(), L2(p["strength"]))),
    Method("dropout", {"strength": RIDGE}, lambda p: (DropoutPegasos(), L2(p["strength"]))),
]
DENSE = ("Pegasos", "dropout")  # every weight of a column that varies is non-zero, always
TRAINER = Trainer(kappa=0.05)
ABSENT = [
    *(
        report.Absent(row, "Tables 4.2, 4.3", folder=folder)
        for row, folder in (
            ("CNAE-9", "cnae9"),
            ("Semeion", "semeion"),
            ("CT slices", "ct_slices"),
            ("URI (URL reputation, first day)", "url"),
        )
    ),
    report.Absent("RCV1: CCAT, ECAT, GCAT, MCAT", "Table 4.4", folder="rcv1"),
]
#: rows of the tables: which set, which class against the rest, and the printed row it stands beside
ROWS = [
    ("Pen Digits, digit 0", "pendigits", 0),
    ("Pen Digits, digit 1", "pendigits", 1),
    ("Opt Digits, digit 0", "optdigits", 0),
    ("Opt Digits, digit 1", "optdigits", 1),
    ("Shuttle", "shuttle", None),
    ("Spambase", "spambase", None),
    ("Magic", "magic", None),
    ("Covertype", "covtype", None),
]
INTRO = """\
Hinge loss, T = 1000 updates of one row each (k = 1), 90/10 splits, hyper-parameters tuned
on the training part by the published criterion (1 - κ) · error + κ · nnz/d with κ = 0.05, a
constant-1 feature in place of an intercept. Cells: ours (std over runs) vs published (std):
difference in points, in published standard deviations.

Tuned by coupled simulated annealing from five starts, without a simplex, as published; {budget}
evaluations (published: not said). Differences of protocol: {runs} runs instead of 50;
{folds}-fold cross-validation on at most {rows} training rows instead of tenfold on all; no 1e-5
stopping test. Both digit sets are binarised "first class against the rest", which
does not say whether that is the digit 0 or the label 1: both are shown against the same printed
row. The share of non-zeros counts the constant feature. Pegasos and dropout cannot make a weight
zero, so their shares of non-zeros are shown, but not counted in the summary."""
REMARKS = """\
- The label 1, not the digit 0, appears to be the published "first class": digit 0 is far easier
  for a linear model than the printed errors, digit 1 lands on them.
- What is missed is missed by less than 1.5 published deviations. The digit 1 of Pen Digits: a
  criterion that takes 10 % fewer weights for half a point of error, and an empty model that errs on
  10.4 % only, make the search end at models of 20 to 40 % non-zeros, where the published l1-re has
  99 %. l1-ada on Covertype: no reason was found but the noise of ten last iterates.
- The published l1-re is nearly dense on these sets (93–100 % non-zero) although its criterion
  rewards zeros; ours is as sparse as l1-RDA. The search here runs over λ/ε, the threshold that
  holds a zero weight at zero; a search over λ alone meets empty models at small ε, and a
  published version of the authors' package compares |w| instead of the mean gradient with the
  threshold. Either may be why theirs stayed dense; which, the text does not tell.
- k = 1 and T = 1000 see a thousand rows whatever the size of the set: the spread between runs is
  mostly the noise of the last iterate."""


def run(settings: Settings) -> str:
    errors, nonzeros, notes = [], [], []
    cells: dict[str, list[report.Cell]] = {
        key: [] for key in ("error", "error without the digit 0", "non-zeros")
    }
    for title, name, positive in ROWS:
        if not data.available(name):
            notes.append(report.missing(name))
            continue
        problem = data.load(name, positive)
        results = _results(problem, settings)  # (runs, methods, 2)
        row = [
            [
                report.Cell(
                    results[:, m, k],
                    *printed[name][m],
                    fixed=k == 1 and one.name in DENSE,
                    name=f"{title} ({one.name})",
                )
                for m, one in enumerate(METHODS)
            ]
            for k, printed in enumerate((ERROR, NONZERO))
        ]
        errors.append([title, f"{100 * problem.majority_error:.1f}", *row[0]])
        nonzeros.append([title, *row[1]])
        cells["error"] += row[0]
        cells["non-zeros"] += row[1]
        if positive != 0:
            cells["error without the digit 0"] += row[0]
    names = [method.name for method in METHODS]
    intro = INTRO.format(
        runs=settings.runs,
        budget=settings.budget,
        folds=settings.folds,
        rows=settings.tuning_rows,
    )
    parts = [intro, "Test error, %:", report.table(["data", "majority", *names], errors)]
    parts += ["Non-zero weights, %:", report.table(["data", *names], nonzeros)]
    if errors:
        parts.append("Reading. " + ". ".join(report.reading(c, k) for k, c in cells.items()) + ".")
        parts.append(report.missed(cells["error"]))
    return "\n\n".join([*parts, REMARKS, *notes])


def _results(problem: data.Binary, settings: Settings) -> np.ndarray:
    """Error and share of non-zeros in percent, for every run and method."""
    results = []
    for split in splits(problem, 0.9, settings, constant=True):
        models = [tuned_fit(method, split, TRAINER, settings, simplex=False) for method in METHODS]
        results.append([(100 * m.error(split.test), 100 * m.nonzero) for m in models])
    return np.array(results)
