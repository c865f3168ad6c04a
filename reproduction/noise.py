"""Flipped labels: hinge against pinball losses (the toy of Table 3.2), with a linear model."""

from __future__ import annotations

import numpy as np

from reproduction import data, report
from reproduction.protocol import Maker, Method, Model, Settings, Split, Trainer, splits, tuned_fit
from thresher.losses import Hinge, Pinball
from thresher.penalties import L2
from thresher.solvers import Pegasos

LOSSES = {"hinge": Hinge(), "τ=0.1": Pinball(0.1), "τ=0.5": Pinball(0.5), "τ=1": Pinball(1.0)}
PUBLISHED = {
    0.05: [8.262, 6.908, 6.926, 7.446],
    0.15: [18.753, 15.843, 16.141, 16.538],
    0.35: [36.094, 31.829, 32.335, 31.571],
}
ABSENT: list[report.Absent] = []
BATCH, TUNING_BATCH = 500, 50  # 10 % of the training half; smaller while tuning
BAYES = 0.0197  # of the two Gaussians: Phi(-sqrt(6^2/3 + 1^2/0.2) / 2)
INTRO = """\
N([0.5, -3], diag(0.2, 3)) against N([-0.5, 3], same), n = 10000, 5/15/35 % of all labels
flipped, 1:1 split, errors against the flipped labels of the test half. Cells: ours (std over runs)
vs published: difference in points, in *our* standard deviations (none were printed).

**Not the same model**: the published one is a fixed-size RBF machine, ours is the linear Pegasos
with the mean-residual bias (k = 10 % of the training half, T = 1000, λ tuned by annealing and
simplex, {budget} evaluations of {folds}-fold cross-validation). The two classes are separated best
by a plane, so the linear model is the easier learner here. {runs} runs instead of 50, each with a
newly drawn set."""
REMARKS = """\
- "best possible" is flips + (1 - 2·flips)·1.97 %, the error of the ideal plane against flipped
  labels. The published pinball errors at 15 % (τ ≤ 0.5) and 35 % lie below it: fewer were flipped.
  Flipped rows drawn *with* replacement would explain it: then 1 - exp(-0.35) = 29.5 % are flipped
  and the ideal plane errs on 30.3 % (published: 31.6 to 36.1 %), 15.3 % at 15 % (15.8 to 18.8 %).
- The published gain of pinball over hinge (0.8 to 4.5 points) is not in the linear model, whose
  hinge is already close to the best possible, nor in the RBF machine of the next section."""


def run(settings: Settings) -> str:
    settings = settings._replace(budget=max(2, settings.budget // 2), folds=min(5, settings.folds))
    rows, cells = [], []
    for flipped, published in PUBLISHED.items():
        errors, clean = _errors(flipped, settings)
        row = [
            report.Cell(errors[:, k], published[k], name=f"{flipped:.0%} ({loss})")
            for k, loss in enumerate(LOSSES)
        ]
        cells += row
        best = 100 * (flipped + (1 - 2 * flipped) * BAYES)
        truth = " / ".join(f"{value:.2f}" for value in clean.mean(axis=0))
        rows.append([f"{flipped:.0%}", f"{best:.1f}", *row, truth])
    intro = INTRO.format(runs=settings.runs, budget=settings.budget, folds=settings.folds)
    header = ["flipped", "best possible", *LOSSES, "ours on true labels (four losses)"]
    shown = f"Reading. {report.reading(cells)}. {report.missed(cells)}"
    return "\n\n".join([intro, report.table(header, rows), shown, REMARKS])


def _errors(flipped: float, settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    """Per run and loss: error on flipped and on true labels, in percent."""
    observed, true = [], []
    for run in range(settings.runs):
        rng = np.random.default_rng((settings.seed, run, 7))
        noisy, truth = data.label_noise(10_000, flipped, rng)
        one = settings._replace(runs=1, seed=settings.seed + run)
        split = next(splits(noisy, 0.5, one, constant=False))
        test_truth = next(splits(data.Binary(noisy.X, truth), 0.5, one, constant=False)).test
        models = [_model(loss, split, settings) for loss in LOSSES.values()]
        observed.append([100 * model.error(split.test) for model in models])
        true.append([100 * model.error(test_truth) for model in models])
    return np.array(observed), np.array(true)


def _model(loss, split: Split, settings: Settings) -> Model:
    def maker(batch: int) -> Maker:
        return lambda p: (Pegasos(batch=batch, bias="residual", average=False), L2(p["strength"]))

    method = Method("Pegasos", {"strength": (1e-4, 10.0)}, maker(TUNING_BATCH))
    return tuned_fit(method, split, Trainer(loss, bias=True), settings, maker(BATCH))
