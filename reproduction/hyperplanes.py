"""N. Djuric's PhD thesis (Temple University, 2014), chapter 4: multi-hyperplane machines.

Tables 4.3 and 4.4 where the data is at hand, and the checkerboards of Table 4.5.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks import data as sets

from reproduction.protocol import Settings
from reproduction.report import Cell, missing, reading, table
from thresher import BudgetedClassifier, KernelClassifier, MultiHyperplaneClassifier

MOST_RUNS, BOARD_RUNS, PASSES, FOLDS = 10, 10, 15, 5
LAMBDAS = tuple(10.0**-k for k in range(2, 8))
#: published error and its deviation: batch AMM, online AMM, Pegasos; weights of batch and online
PUBLISHED = {
    "a9a": ((15.03, 0.11), (16.44, 0.23), (15.04, 0.07), "11 / 16"),
    "ijcnn1": ((2.40, 0.11), (3.02, 0.14), (7.76, 0.19), "11 / 15"),
}
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
one; {runs} orders of the rows; last iterates, as published. *Our default* averages the last of five
passes and takes its λ from the rows. Attributes are those of the LIBSVM data page, within [-1, 1].
mnist8m, webspam, rcv1 and url are not in the data."""
TABLES_REMARKS = """\
- The gap on ijcnn1 looks like the noise of the last iterate: with λ = 1e-5 and four orders the
  batch machine's last iterate errs on 3.6 % after five passes and on 2.4 % after 20, the mean of
  the fifth pass on 2.5 %. None of these brought five passes to the published 2.4 ± 0.1, with the λ
  that is best on the test part:
  columns scaled to [-1, 1] exactly (4.4 %), no constant feature (3.0 %), c = 1 (3.5 %) or no
  pruning (3.1 %), rows of norm at most one (3.4 %)."""
BOARD_TEXT = """\
### Table 4.5: checkerboards, error %

15,000 rows to learn from, 5,000 to test on, {passes} passes, online; c = 10 for AMM, 50 for GAMM,
last iterates; λ from {{1e-2, ..., 1e-7}} by a held-out fifth of the training rows; {runs}
repetitions (published: 10). *AMM* and *GAMM* are the very models that did best on the held-out
rows; *learned again*: with their λ, on all training rows; *default*: our settings (λ from the rows,
the last pass averaged). The coordinates are not printed, and they matter; here are two systems."""
BOARD_REMARKS = """\
- No system of coordinates explains all published errors. [-1, 1]², to which the thesis scales the
  attributes of its data sets, is within one deviation of the published mean most often (17 of 28
  cells; the others 9 to 11), but misses 1 x 5 for AMM by far. Fields of side one leave one cell
  more than a deviation above it, AMM on 2 x 4; GAMM is then better than published on all boards.
  Also tried, with ten repetitions: fields of side two (AMM on 1 x 5: 2.3 %; above it only GAMM on
  4 x 5, 18.9 against 13.1 %) and coordinates of unit variance (3.0 %; above it only AMM on 2 x 4,
  19.4 against 10.3 %); with four: a corner in the origin and fields of side one (17.8 %; AMM above
  it on 8 of 14 boards).
- AMM's error on these boards is a matter of luck: presumably the weights that are born first decide
  whether every field gets one, and a change of λ or of the order of the rows draws again (1 x 5 in
  [-1, 1]² with λ = 1e-5: 11 % on average over three orders, with a deviation of 12 points). Six λ
  and the choice of the best *model* are six draws; the chosen λ on all rows is a new draw, and
  mostly worse, as is the one draw of our default. How the published λ was chosen, beyond
  cross-validation, is not said.
- The batch variant, in which rows keep their weights during a pass, was worse on all nine boards
  tried (five orders: 17.7 against 14.0 % on 1 x 5, 39.7 against 34.8 % on 4 x 4).
- GAMM splits weights in demand, and depends little on the draw."""


def run(settings: Settings) -> str:
    return "\n\n".join([_tables(settings), _checkerboards(settings), _others(settings)])


# ---------------------------------------------------------------- tables 4.3 and 4.4


def _tables(settings: Settings) -> str:
    runs = min(settings.runs, MOST_RUNS)
    rows, cells = [], []
    for name, published in PUBLISHED.items():
        if not sets.available(name):
            rows.append([name, missing(name)])
            continue
        split = sets.load(name)
        weights = []
        line = [name]
        models = (
            MultiHyperplaneClassifier(variant="batch", average=False, prune_norm=10.0),
            MultiHyperplaneClassifier(max_iter=1, average=False, prune_norm=10.0),
            MultiHyperplaneClassifier("pegasos", average=False),
        )
        for model, (error, spread) in zip(models, published[:3], strict=True):
            model.set_params(alpha=_tuned(model, split.X, split.y))
            errors, counts = _errors(model, split, runs)
            cells.append(Cell(errors, error, spread))
            line.append(str(cells[-1]))
            weights.append(f"{np.mean(counts):.0f}")
        averaged, _ = _errors(MultiHyperplaneClassifier(), split, runs)
        line += [f"**{np.mean(averaged):.2f}**", f"{weights[0]} / {weights[1]}", published[3]]
        rows.append(line)
    header = ["set", "AMM batch", "AMM online", "Pegasos", "our default", "weights", "published"]
    return (
        f"{TABLES_TEXT.format(runs=runs)}\n\n{table(header, rows)}\n\n{reading(cells)}\n\n"
        f"{TABLES_REMARKS}"
    )


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
            row.append(Cell(errors[:, 0], error, spread))
            line += [str(row[-1]), *(f"{mean:.1f}" for mean in errors[:, 1:].mean(axis=0))]
        rows.append(line)
    header = ["board", "AMM", "learned again", "default", "GAMM", "learned again", "default"]
    return [table(header, rows), *(reading(row, name.upper()) for name, row in cells.items())]


def _board_errors(
    algorithm: str, size: tuple[int, int], side: Callable[[int], float], seed: int
) -> list[float]:
    """Of the model with the best lambda; of that lambda on all rows; of our default."""
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
    return [100.0 * (1.0 - fitted.score(X_test, y_test)) for fitted in (best, again, default)]


# ---------------------------------------------------------------- table 5.2, in spirit


def _others(settings: Settings) -> str:
    """LLSVM and BSGD beside AMM on the sets that are at hand."""
    rows = []
    for name, gamma in (("a9a", 0.05), ("ijcnn1", 2.0)):
        if not sets.available(name):
            continue
        split = sets.load(name)
        models = {
            "Pegasos": MultiHyperplaneClassifier("pegasos", random_state=0),
            "AMM": MultiHyperplaneClassifier(random_state=0),
            **{
                f"LLSVM, B={b}": KernelClassifier(
                    "hinge", gamma=gamma, n_components=b, solver="dcd", landmarks="kmeans",
                    random_state=0,
                )
                for b in (100, 500)
            },
            **{
                f"BSGD, B={b}": BudgetedClassifier(gamma=gamma, budget=b, random_state=0)
                for b in (100, 500)
            },
        }  # fmt: skip
        for label, model in models.items():
            model.fit(split.X[:500], split.y[:500])  # compile
            started = time.process_time()
            model.fit(split.X, split.y)
            seconds = time.process_time() - started
            error = 100.0 * np.mean(model.predict(split.X_test) != split.y_test)
            rows.append([name, label, f"**{error:.2f}**", f"{seconds:.2f}"])
    return (
        "### Table 5.2 in spirit\n\nThe published rows (webspam, rcv1, mnist8m) are not in the "
        "data; the order of the methods can be seen on smaller sets. One run each, CPU seconds; "
        "widths chosen on these sets' test parts, λ our defaults.\n\n"
        + table(["set", "method", "error %", "s"], rows)
    )
