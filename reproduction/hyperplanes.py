"""N. Djuric's PhD thesis (Temple University, 2014), chapter 4: multi-hyperplane machines.

Tables 4.3 and 4.4 where the data is at hand (MNIST in place of its eight million deformations), and
the checkerboards of Table 4.5.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from benchmarks import data as sets
from sklearn.exceptions import ConvergenceWarning

from reproduction.protocol import Settings
from reproduction.report import Absent, Cell, missed, missing, reading, table
from thresher import BudgetedClassifier, KernelClassifier, MultiHyperplaneClassifier

MOST_RUNS, BOARD_RUNS, PASSES, FOLDS = 5, 10, 15, 5
LAMBDAS = tuple(10.0**-k for k in range(2, 8))


class Task(NamedTuple):
    """A published row: the data, the classes told from the rest, and what was printed."""

    folder: str
    positive: tuple[tuple[int, ...], ...]  # several: the mean over all of them; none: as they are
    errors: tuple[tuple[float, float], ...]  # and deviations: batch AMM, online AMM, Pegasos
    weights: str  # of batch and online AMM


COLUMNS = ("AMM batch", "AMM online", "Pegasos")
ROUND = (0, 3, 6, 8, 9)
DIGITS = tuple((digit,) for digit in range(10))
MNIST_BINARY = ((0.53, 0.05), (0.54, 0.03), (2.03, 0.04))
TASKS = {
    "a9a": Task("a9a", (), ((15.03, 0.11), (16.44, 0.23), (15.04, 0.07)), "11 / 16"),
    "ijcnn1": Task("ijcnn1", (), ((2.40, 0.11), (3.02, 0.14), (7.76, 0.19)), "11 / 15"),
    "MNIST, ten classes": Task("mnist", (), ((3.20, 0.16), (3.36, 0.20), (8.41, 0.11)), "65 / 61"),
    "MNIST, a digit against the rest": Task("mnist", DIGITS, MNIST_BINARY, "20 / 13"),
    "MNIST, round digits": Task("mnist", (ROUND,), MNIST_BINARY, "20 / 13"),
}
ABSENT = [
    *(
        Absent(row, "Tables 4.3, 4.4, 5.2" if row != "url" else "Tables 4.3, 4.4", folder=folder)
        for row, folder in (("webspam", "webspam"), ("rcv1_bin", "rcv1"), ("url", "url"))
    ),
    Absent("mnist8m_bin, mnist8m_mc", "Tables 4.3, 4.4, 5.2",
           "not among the data; MNIST, whose deformations it holds, stands in its place"),
    Absent("Poly2, RBF", "Tables 4.3, 4.4, columns", "quoted in the thesis from other papers"),
    Absent("training seconds", "Table 4.4", "of another machine and other sizes of MNIST"),
    Absent("B = 3000; RBF-SVM", "Table 5.2, columns", "left out for time; another program"),
]  # fmt: skip
#: rows x columns: (AMM, GAMM), each with its deviation over ten repetitions
BOARDS = {
    (1, 2): ((0.48, 0.33), (0.42, 0.29)), (1, 3): ((1.39, 0.72), (1.33, 0.62)),
    (1, 4): ((3.23, 0.70), (2.45, 0.51)), (1, 5): ((4.90, 0.97), (3.73, 0.71)),
    (2, 2): ((1.49, 0.57), (1.08, 0.40)), (2, 3): ((2.98, 0.85), (2.20, 0.52)),
    (2, 4): ((10.33, 6.77), (3.77, 0.89)), (2, 5): ((20.79, 7.42), (5.90, 1.61)),
    (3, 3): ((16.92, 9.72), (4.17, 0.77)), (3, 4): ((24.47, 7.42), (5.69, 0.93)),
    (3, 5): ((34.87, 4.84), (7.97, 1.43)), (4, 4): ((35.87, 3.39), (7.38, 1.53)),
    (4, 5): ((35.13, 5.26), (13.11, 1.84)), (5, 5): ((43.27, 3.71), (22.15, 2.08)),
}  # fmt: skip
#: side of a field along an axis with so many fields; boards lie around the origin
FIELDS: dict[str, Callable[[int], float]] = {
    "Points in [-1, 1]²": lambda fields: 2.0 / fields,
    "Fields of side one around the origin": lambda fields: 1.0,
}
TABLES_TEXT = """\
### Tables 4.3 and 4.4: error %

λ from {{1e-2, ..., 1e-7}} by fivefold cross-validation; k = 10,000, c = 10; five passes, online
one; {runs} orders of the rows (published: 5); last iterates, as published. *Our default* averages
the last of five passes and takes its λ from the rows. Attributes are those of the LIBSVM data page,
within [-1, 1] (pixels in [0, 1]).

**MNIST in place of mnist8m**: 60,000 rows instead of the 8,000,000 that were made of them by small
deformations; the test part is the same. Which digits mnist8m_bin tells from which is not printed,
and Tables 4.3 and 5.2 cannot mean the same (the linear error is 2.0 % in one and 22.7 % in the
other): here stand a digit against the rest (mean over all ten) and the round digits 0, 3, 6, 8, 9
against the others, beside the same printed row. The summary counts a9a and ijcnn1 only, whose rows
are the published ones."""
TABLES_REMARKS = """\
- The gap on ijcnn1 looks like the noise of the last iterate: with λ = 1e-5 and four orders the
  batch machine's last iterate errs on 3.6 % after five passes and on 2.4 % after 20, the mean of
  the fifth pass on 2.5 %; our default, which averages, on 2.3 %. None of these brought five passes
  to the published 2.4 ± 0.1, with the λ that is best on the test part: columns scaled to [-1, 1]
  exactly (4.4 %), no constant feature (3.0 %), c = 1 (3.5 %) or no pruning (3.1 %), rows of norm at
  most one (3.4 %). The linear machines are 0.1 to 0.2 points above the printed errors, less than
  two of their deviations.
- MNIST: the linear errors (ten classes, and a digit against the rest) are within half a point of
  those printed for mnist8m, so Table 4.3 seems to tell a digit from the rest (the round digits,
  whose linear error is far above, are Table 5.2's task). AMM does not reach its printed errors: by
  0.3 to 1.2 points in five passes, by 0.7 to 2.9 in one. A likely reason is that 8,000,000 rows are
  133 times as many steps, and the deformed digits more to learn from; a linear machine has no use
  for either."""
BOARD_TEXT = """\
### Table 4.5: checkerboards, error %

15,000 rows to learn from, 5,000 to test on, {passes} passes, online; c = 10 for AMM, 50 for GAMM,
last iterates; λ from {{1e-2, ..., 1e-7}} by a held-out fifth of the training rows, then learned
again with that λ on all training rows: the ordinary protocol, **bold** and counted. {runs}
repetitions (published: 10). *Best model*: the very model that did best on the held-out rows, not
learned again; *default*: our settings (λ from the rows, the last pass averaged). The coordinates
are not printed, and they matter; here are two systems."""
BOARD_REMARKS = """\
- By the ordinary protocol AMM misses the published errors of 7 of 14 boards in [-1, 1]², by 4 to 15
  points, and of 5 with fields of side one; GAMM those of two, and of none. The likely reason is
  luck: presumably the weights that are born first decide whether every field gets one, and a change
  of λ or of the order of the rows draws again (1 x 5 in [-1, 1]² with λ = 1e-5: 11 % on average
  over three orders, with a deviation of 12 points). The best *model* is the best of six such draws;
  the chosen λ on all rows is a new draw, and mostly worse, as is the one draw of our default.
  Judged by the best model, 10 of AMM's 14 boards in [-1, 1]² are within a deviation of the
  published mean and only 1 x 5 is above it by more: the published errors look as if the model that
  did best in the choice of λ had been kept. How it was, beyond cross-validation, is not said.
- No system of coordinates explains all published errors. [-1, 1]², to which the thesis scales the
  attributes of its data sets, is within one deviation of the published mean in 15 of 28 cells,
  fields of side one in 13. Tried earlier, judged by the best model, with ten repetitions: fields of
  side two (AMM on 1 x 5: 2.3 %; more than a deviation above the published error only GAMM on 4 x 5,
  18.9 against 13.1 %) and coordinates of unit variance (3.0 %; above it only AMM on 2 x 4, 19.4
  against 10.3 %); with four: a corner in the origin and fields of side one (17.8 %; AMM above it on
  8 of 14 boards).
- The batch variant, in which rows keep their weights during a pass, was worse on all nine boards
  tried (five orders: 17.7 against 14.0 % on 1 x 5, 39.7 against 34.8 % on 4 x 4).
- GAMM splits weights in demand, and depends less on the draw; the largest boards, where it misses
  (4 x 5 and 5 x 5 in [-1, 1]²), need the most weights, which is a likely reason."""


#: set, classes, budgets and what was printed
BUDGET_TASKS: dict[str, tuple[str, tuple[tuple[int, ...], ...], tuple[int, ...], dict]] = {
    "a9a": ("a9a", (), (100, 500), {}),
    "ijcnn1": ("ijcnn1", (), (100, 500), {}),
    "MNIST, round digits": ("mnist", (ROUND,), (500, 1000), {
        "Pegasos": 22.71, "AMM": 3.16, "LLSVM, B=500": 6.84, "LLSVM, B=1000": 4.59,
        "BSGD, B=500": 2.23, "BSGD, B=1000": 1.92,
    }),
}  # fmt: skip
WIDTHS = tuple(2.0**k for k in range(-8, 3))
WIDTH_ROWS, WIDTH_BUDGET = 10_000, 100
BUDGET_TEXT = """\
### Table 5.2: budgets

Of the published rows only mnist8m_bin has a stand-in: MNIST (60,000 rows instead of 8,000,000), the
round digits 0, 3, 6, 8, 9 against the others; a9a and ijcnn1 show the order of the methods without
a printed counterpart. One run each, CPU seconds; the width γ is that with which LLSVM with B = 100
errs least on a fifth of 10,000 training rows, λ our defaults, models averaged where our default is
to average."""
BUDGET_REMARKS = """\
- With the round digits AMM and BSGD are within 0.1 points of what is printed for mnist8m_bin, so
  Table 5.2 seems to be of that task, and not of Table 4.3's. The printed linear error is higher by
  seven points: ours averages and has a λ of its own; the last iterate with λ = 1e-5 errs on 20.8 %.
  LLSVM is better than printed by two to four points; its printed width and landmarks are not known.
- A width chosen with few landmarks is a wide one: on ijcnn1 BSGD with B = 500 errs on 1.6 % with γ
  = 2, which would be chosen on the test part."""


def run(settings: Settings) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # some of the λ tried learn nothing
        return "\n\n".join([_tables(settings), _checkerboards(settings), _budgets(settings)])


# ---------------------------------------------------------------- tables 4.3 and 4.4


def _tables(settings: Settings) -> str:
    runs = min(settings.runs, MOST_RUNS)
    rows, cells = [], []
    for title, task in TASKS.items():
        if not sets.available(task.folder):
            rows.append([title, missing(task.folder)])
            continue
        line, counted = _line(title, task, runs)
        rows.append([title, *line])
        cells += counted if task.folder != "mnist" else []
    header = ["set", *COLUMNS, "our default", "weights", "published"]
    return (
        f"{TABLES_TEXT.format(runs=runs)}\n\n{table(header, rows)}\n\n{reading(cells)}. "
        f"{missed(cells)}\n\n{TABLES_REMARKS}"
    )


def _line(title: str, task: Task, runs: int) -> tuple[list[str], list[Cell]]:
    """A row of the table, and its cells; means over the labellings of the task."""
    splits = _labelled(task)
    cells, weights = [], []
    models = (
        MultiHyperplaneClassifier(variant="batch", average=False, prune_norm=10.0),
        MultiHyperplaneClassifier(max_iter=1, average=False, prune_norm=10.0),
        MultiHyperplaneClassifier("pegasos", average=False),
    )
    for column, model, printed in zip(COLUMNS, models, task.errors, strict=True):
        found = []
        for split in splits:
            model.set_params(alpha=_tuned(model, split.X, split.y))
            found.append(_errors(model, split, runs))
        errors = np.mean([one for one, _ in found], axis=0)
        cells.append(Cell(errors, *printed, name=f"{title} ({column})"))
        weights.append(f"{np.mean([counts for _, counts in found]):.0f}")
    averaged = [_errors(MultiHyperplaneClassifier(), split, runs)[0] for split in splits]
    shown = [*map(str, cells), f"**{np.mean(averaged):.2f}**", " / ".join(weights[:2])]
    return [*shown, task.weights], cells


def _labelled(task: Task) -> list[sets.Split]:
    split = sets.load(task.folder)
    if task.folder == "mnist":  # four fifths of the pixels are zero
        split = split._replace(X=sp.csr_matrix(split.X), X_test=sp.csr_matrix(split.X_test))
    if not task.positive:
        return [split]
    return [
        split._replace(
            y=np.isin(split.y, digits).astype(int), y_test=np.isin(split.y_test, digits).astype(int)
        )
        for digits in task.positive
    ]


def _errors(model: Any, split: Any, runs: int) -> tuple[np.ndarray, list[int]]:
    errors, counts = [], []
    for seed in range(runs):
        fitted = model.set_params(random_state=seed).fit(split.X, split.y)
        errors.append(100.0 * np.mean(fitted.predict(split.X_test) != split.y_test))
        counts.append(fitted.coef_.shape[0])
    return np.array(errors), counts


def _tuned(model: Any, X: Any, y: np.ndarray) -> float:
    """The strength of the least error in fivefold cross-validation."""
    parts = np.array_split(np.random.default_rng(0).permutation(y.size), FOLDS)

    def error(alpha: float) -> float:
        total = 0.0
        for k, held in enumerate(parts):
            rest = np.concatenate(parts[:k] + parts[k + 1 :])
            fitted = model.set_params(alpha=alpha, random_state=k).fit(X[rest], y[rest])
            total += float(np.mean(fitted.predict(X[held]) != y[held]))
        return total

    return min(LAMBDAS, key=error)


# ---------------------------------------------------------------- table 4.5


def _board(size: tuple[int, int], side: Callable[[int], float], n: int, rng: Any) -> Any:
    """Points spread over a board of fields of two colours, as many of each."""
    place = rng.uniform(0.0, size, size=(4 * n, 2))  # in fields
    colour = np.floor(place).astype(int).sum(axis=1) % 2
    kept = np.concatenate([np.flatnonzero(colour == c)[: n // 2] for c in (0, 1)])
    kept = rng.permutation(kept)
    X = (place - np.array(size) / 2.0) * [side(fields) for fields in size]
    return X[kept], colour[kept]


def _checkerboards(settings: Settings) -> str:
    runs = min(settings.runs, BOARD_RUNS)
    parts = [BOARD_TEXT.format(passes=PASSES, runs=runs)]
    for name, side in FIELDS.items():
        parts += [f"**{name}**", *_boards(side, runs)]
    return "\n\n".join([*parts, BOARD_REMARKS])


def _boards(side: Callable[[int], float], runs: int) -> list[str]:
    """The table in one system of coordinates, and how it compares with the published one."""
    rows, cells = [], {"amm": [], "gamm": []}
    for size, published in BOARDS.items():
        line = [f"{size[0]} x {size[1]}"]
        for (algorithm, row), (error, spread) in zip(cells.items(), published, strict=True):
            errors = np.array([_board_errors(algorithm, size, side, k) for k in range(runs)])
            row.append(Cell(errors[:, 0], error, spread, name=line[0]))
            line += [str(row[-1]), *(f"{mean:.1f}" for mean in errors[:, 1:].mean(axis=0))]
        rows.append(line)
    header = ["board", "AMM", "best model", "default", "GAMM", "best model", "default"]
    return [
        table(header, rows),
        *(f"{reading(row, name.upper())}. {missed(row)}" for name, row in cells.items()),
    ]


def _board_errors(
    algorithm: str, size: tuple[int, int], side: Callable[[int], float], seed: int
) -> list[float]:
    """Of the best lambda on all rows; of the model that showed it to be best; of our default."""
    rng = np.random.default_rng([seed, *size])
    X, y = _board(size, side, 15_000, rng)
    X_test, y_test = _board(size, side, 5_000, rng)
    held, rest = slice(0, 3_000), slice(3_000, None)

    def model(alpha: float) -> MultiHyperplaneClassifier:
        return MultiHyperplaneClassifier(
            algorithm, alpha=alpha, max_iter=PASSES, average=False,
            prune_norm=10.0 if algorithm == "amm" else 50.0, random_state=seed,
        )  # fmt: skip

    fits = [model(alpha).fit(X[rest], y[rest]) for alpha in LAMBDAS]
    best = max(fits, key=lambda fitted: fitted.score(X[held], y[held]))
    again = model(best.alpha).fit(X, y)
    default = MultiHyperplaneClassifier(algorithm, max_iter=PASSES, random_state=seed).fit(X, y)
    return [100.0 * (1.0 - fitted.score(X_test, y_test)) for fitted in (again, best, default)]


# ---------------------------------------------------------------- table 5.2


def _budgets(settings: Settings) -> str:
    """LLSVM and BSGD beside AMM on the sets that are at hand."""
    rows = []
    for title, (folder, positive, budgets, printed) in BUDGET_TASKS.items():
        if not sets.available(folder):
            rows.append([title, missing(folder)])
            continue
        (split,) = _labelled(Task(folder, positive, (), ""))
        gamma = _width(split, settings.seed)
        for label, model in _models(gamma, budgets).items():
            model.fit(split.X[:2000], split.y[:2000])  # compile
            started = time.process_time()
            model.fit(split.X, split.y)
            seconds = time.process_time() - started
            error = 100.0 * np.mean(model.predict(split.X_test) != split.y_test)
            shown, gap = "–", "–"
            if label in printed:
                shown, gap = f"{printed[label]:.2f}", f"{error - printed[label]:+.2f}"
            width = "–" if label in ("Pegasos", "AMM") else f"{gamma:g}"
            rows.append([title, label, width, f"**{error:.2f}**", shown, gap, f"{seconds:.2f}"])
    header = ["set", "method", "γ", "error %", "published (mnist8m)", "points", "s"]
    return f"{BUDGET_TEXT}\n\n{table(header, rows)}\n\n{BUDGET_REMARKS}"


def _models(gamma: float, budgets: tuple[int, ...]) -> dict[str, Any]:
    models: dict[str, Any] = {
        "Pegasos": MultiHyperplaneClassifier("pegasos", random_state=0),
        "AMM": MultiHyperplaneClassifier(random_state=0),
    }
    for b in budgets:
        models[f"LLSVM, B={b}"] = _llsvm(gamma, b)
    for b in budgets:
        models[f"BSGD, B={b}"] = BudgetedClassifier(gamma=gamma, budget=b, random_state=0)
    return models


def _llsvm(gamma: float, budget: int) -> KernelClassifier:
    return KernelClassifier(
        "hinge", gamma=gamma, n_components=budget, solver="dcd", landmarks="kmeans", random_state=0
    )


def _width(split: sets.Split, seed: int) -> float:
    """The width with which a small LLSVM errs least on held-out training rows."""
    order = np.random.default_rng(seed).permutation(split.y.size)[:WIDTH_ROWS]
    held, rest = order[: WIDTH_ROWS // 5], order[WIDTH_ROWS // 5 :]
    scores = {
        gamma: _llsvm(gamma, WIDTH_BUDGET)
        .fit(split.X[rest], split.y[rest])
        .score(split.X[held], split.y[held])
        for gamma in WIDTHS
    }
    return max(scores, key=lambda gamma: scores[gamma])
