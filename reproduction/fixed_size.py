"""Fixed-size RBF machines with hinge and pinball losses (Tables 3.2 to 3.4 of Jumutc's thesis)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from reproduction import data, report
from reproduction.noise import LOSSES
from reproduction.noise import PUBLISHED as FLIPPED
from reproduction.protocol import Method, Model, Settings, Split, Trainer, fit, search, splits
from thresher.maps import Nystroem
from thresher.penalties import L2
from thresher.solvers import Pegasos

Source = Callable[[Settings], Iterable[Split]]
MOST_RUNS = 10
TUNING_ROWS, FOLDS, BUDGET = 2000, 3, 16  # at most
LANDMARK_ROWS = 10_000  # among which landmarks are chosen
TUNING_BATCH, LARGEST_BATCH = 100, 1000
RANGES = {"strength": (1e-6, 0.1), "width": (0.3, 10.0)}  # width: sigma over sqrt(features)
#: data set: errors with k = 10 % of the rows, and with k = 1; hinge, tau = 0.1, 0.5, 1
PUBLISHED = {
    "pima_diabetes": ((28.885, 28.417, 27.797, 27.625), (28.896, 29.422, 28.870, 29.198)),
    "spambase": ((13.496, 13.992, 15.047, 15.923), (21.444, 21.229, 20.816, 21.903)),
    "magic": ((17.992, 19.330, 20.912, 21.371), (22.667, 22.385, 22.481, 22.750)),
    "shuttle": ((1.015, 1.943, 2.515, 2.705), (4.505, 4.145, 3.499, 3.736)),
    "skin_nonskin": ((0.944, 0.997, 1.039, 0.859), (2.705, 2.498, 2.172, 2.401)),
}
ABSENT = [
    report.Absent("Transfusion", "Tables 3.3, 3.4", folder="transfusion"),
    report.Absent("White Wine", "Tables 3.3, 3.4", folder="white_wine"),
]
INTRO = """\
RBF kernel exp(-|x - z|² / (2σ²)), landmarks of large quadratic Rényi entropy, √n of them below
10,000 training rows and √n/5 from there on, Nyström features, then Pegasos with the mean-residual
bias on them; 1:1 splits, z-scored, last iterate. k = 10 % of the training rows or one row an
update. Cells: ours (std over runs) vs published: difference in points, in *our* standard deviations
(none were printed). The first rows are the two Gaussians of the label-noise section (n = 10000,
newly drawn for each run, errors against the flipped labels), with the published kind of model.

λ and σ by coupled annealing from five starts and a simplex, as published; {budget} evaluations
(published: not said). Differences of protocol: {runs} runs instead of 50; ranges of λ (1e-6 to 0.1)
and σ (0.3 to 10 times √d) set after trials on one split of Magic and Shuttle; {folds}-fold instead
of tenfold cross-validation on at most {rows} training rows, with one set of landmarks for all
folds, chosen among {landmarks} rows, and batches of at most {batch} while tuning. T was not
printed: 1000, as elsewhere in the chapter. k = 10 % is cut at {largest} rows (Shuttle, Skin).
With k = 1 the mean residual of a batch makes every margin exactly one, so there the bias is set
only at the end."""
REMARKS = """\
- Landmarks of large entropy are found by random swaps with a budget, five tries a landmark, as
  published but for the budget, which is not printed. Without a limit they end among the outliers,
  and Shuttle was learned badly from them (6 to 11 %, an earlier run of this table).
- Spambase with k = 1 is learned better than published by six to eleven points, Magic with k = 10 %
  by two to four; no reason was found, the published λ and σ are not known.
- Skin with k = 10 % is missed by up to a point. A likely reason is the tuning, on 2,000 of 122,528
  training rows and with batches of 100: an error of 1 % is twenty rows of all folds.
- The toy's hinge is as good as its pinball losses, and both are at the best possible error (see the
  label-noise section, also for the published errors below it, which cannot be reached with as many
  labels flipped as the text says): the published gain of pinball over hinge is not found. The
  hinge's 38.8 % with random landmarks and 35 % flipped are one run of ten that errs on some 65 %.
- Magic's order of the losses (hinge best with k = 10 %, all alike with k = 1) is as published.
- The last iterate of few steps and the mean-residual bias are rough functions of λ and σ: a step
  in either moves Magic by some points, so the search weighs as much as the loss does."""


class Maps:
    """Feature maps of the training rows by width, each made once for all losses."""

    def __init__(self, train: data.Binary, landmarks: str, seed: int):
        self.train, self.landmarks, self.seed = train, landmarks, seed
        self.made: dict[float, Nystroem] = {}

    def __call__(self, width: float) -> Nystroem:
        if width not in self.made:
            gamma = 1.0 / (2.0 * width**2 * self.train.X.shape[1])
            feature_map = Nystroem(
                "sqrt", gamma=gamma, landmarks=self.landmarks, tol=1e-8, sample=LANDMARK_ROWS,
                random_state=self.seed,
            )  # fmt: skip
            self.made[width] = feature_map.fit(self.train.X)
        return self.made[width]

    def mapped(self, width: float, rows: data.Binary) -> data.Binary:
        return data.Binary(np.ascontiguousarray(self(width).transform(rows.X)), rows.y)


def run(settings: Settings) -> str:
    settings = settings._replace(
        runs=min(settings.runs, MOST_RUNS),
        budget=min(settings.budget, BUDGET),
        folds=min(settings.folds, FOLDS),
        tuning_rows=TUNING_ROWS,
    )
    intro = INTRO.format(
        runs=settings.runs, budget=settings.budget, folds=settings.folds, rows=TUNING_ROWS,
        batch=TUNING_BATCH, largest=LARGEST_BATCH, landmarks=LANDMARK_ROWS,
    )  # fmt: skip
    tables = [_table(landmarks, settings) for landmarks in ("entropy", "uniform")]
    return "\n\n".join([intro, *tables, REMARKS])


def _table(landmarks: str, settings: Settings) -> str:
    rows, cells = [], []
    for name, batch, published, source in _problems():
        if source is None:
            rows.append([name, report.missing(name)])
            continue
        errors = [_errors(part, batch, landmarks, settings) for part in source(settings)]
        row = [
            report.Cell(ours, p, name=f"{name}, k = {batch} ({loss})")
            for ours, p, loss in zip(np.array(errors).T, published, LOSSES, strict=True)
        ]
        cells += row
        rows.append([name, batch, *row])
    title = {"entropy": "Landmarks of largest entropy", "uniform": "Landmarks at random"}[landmarks]
    shown = report.table(["data", "k", *LOSSES], rows)
    read = f"Reading. {report.reading(cells)}. {report.missed(cells)} {_gains(cells)}"
    return f"### {title}\n\n{shown}\n\n{read}"


def _problems() -> Iterator[tuple[str, str, Sequence[float], Source | None]]:
    """Name, batch, published errors, and a function from settings to splits (None: no data)."""
    for flipped, published in FLIPPED.items():
        yield f"toy, {flipped:.0%} flipped", "10%", published, _toy(flipped)
    for name, (tenth, single) in PUBLISHED.items():
        source = _real(name) if data.available(name) else None
        yield name, "10%", tenth, source
        yield name, "1", single, source


def _toy(flipped: float) -> Source:
    def source(settings: Settings) -> list[Split]:
        parts = []
        for run in range(settings.runs):
            rng = np.random.default_rng((settings.seed, run, 7))
            noisy, _ = data.label_noise(10_000, flipped, rng)
            one = settings._replace(runs=1, seed=settings.seed + run)
            parts.append(next(splits(noisy, 0.5, one, constant=False)))
        return parts

    return source


def _real(name: str) -> Source:
    return lambda settings: splits(data.load(name), 0.5, settings, constant=False)


def _errors(split: Split, batch: str, landmarks: str, settings: Settings) -> list[float]:
    """Test error of each loss, in percent."""
    rows = np.random.default_rng((split.seed, 1)).permutation(split.train.y.size)
    rows = rows[: settings.tuning_rows]
    tuning = data.Binary(split.train.X[rows], split.train.y[rows])
    maps = Maps(split.train, landmarks, split.seed)
    size = 1 if batch == "1" else min(max(1, split.train.y.size // 10), LARGEST_BATCH)
    return [
        100.0 * _error(Trainer(loss, bias=size > 1, late_bias=size == 1), size, split, tuning, maps,
                       settings)
        for loss in LOSSES.values()
    ]  # fmt: skip


def _error(
    trainer: Trainer, size: int, split: Split, tuning: data.Binary, maps: Maps, settings: Settings
) -> float:
    def score(strength: float, width: float) -> float:
        mapped = maps.mapped(width, tuning)
        folds = np.array_split(np.arange(mapped.y.size), settings.folds)
        errors = []
        for held in folds:
            rest = np.setdiff1d(np.arange(mapped.y.size), held)
            model = _learned(mapped, trainer, min(size, TUNING_BATCH), strength, split.seed, rest)
            errors.append(model.error(data.Binary(mapped.X[held], mapped.y[held])))
        return float(np.mean(errors))

    method = Method("fixed size", RANGES, lambda p: (p["strength"], p["width"]))
    best = search(method, score, settings.budget, split.seed)
    train, test = (maps.mapped(best["width"], part) for part in (split.train, split.test))
    return _learned(train, trainer, size, best["strength"], split.seed).error(test)


def _learned(
    train: data.Binary,
    trainer: Trainer,
    size: int,
    strength: float,
    seed: int,
    rows: np.ndarray | None = None,
) -> Model:
    solver = Pegasos(batch=size, bias="residual" if size > 1 else "gradient", average=False)
    return fit(solver, L2(strength), train, trainer, seed, rows)


def _gains(cells: list[report.Cell]) -> str:
    """How much the best pinball loss gains on the hinge loss, ours and published."""
    groups = [cells[k : k + len(LOSSES)] for k in range(0, len(cells), len(LOSSES))]
    ours = [min(c.ours.mean() for c in g[1:]) - g[0].ours.mean() for g in groups]
    printed = [min(c.published for c in g[1:]) - g[0].published for g in groups]
    return (
        f"Best pinball against hinge: ours lower in {sum(np.array(ours) < 0)} of {len(ours)} "
        f"rows, median {np.median(ours):+.2f} points; published lower in "
        f"{sum(np.array(printed) < 0)}, median {np.median(printed):+.2f}."
    )
