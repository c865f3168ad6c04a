"""Settings judged by hidden labels: every row stays, and only labels are held out.

Who hides labels has the same bent kernel, of fewer rows, so that all folds and all C share it.  Of
settings that get as many hidden labels wrong, the one with the smaller squared margin losses is the
better one: few labels make many ties.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from thresher._scores import best_class
from thresher.solvers.few_labels import LabelFit
from thresher.solvers.label_machines import Bent, LabelMachine

__all__ = ["Labels", "Trial", "best_trial", "hidden_scores"]


class Labels(NamedTuple):
    """The labelled rows: where they are, their class numbers, targets of each output, weights."""

    rows: np.ndarray
    codes: np.ndarray
    targets: np.ndarray  # as the solver's problem has them
    outputs: int
    weight: np.ndarray

    @property
    def signs(self) -> np.ndarray:
        """(labels, outputs): -1 and +1."""
        if self.outputs == 1:
            return self.targets[:, None]
        return np.where(self.codes[:, None] == np.arange(self.outputs), 1.0, -1.0)

    def folds(self, count: int, seed: int, classes: np.ndarray) -> list[tuple[Any, Any]]:
        """(shown, hidden) positions among the labels."""
        from sklearn.model_selection import StratifiedKFold  # slow to import

        counts = np.bincount(self.codes, minlength=classes.size)
        rarest = int(np.argmin(np.where(counts > 0, counts, counts.max() + 1)))
        if counts[rarest] < 2:
            raise ValueError(
                f"hiding labels in turn needs two of every class, but class "
                f"{classes[rarest].item()!r} has one: give C, unlabelled and gamma as numbers, and "
                "do not calibrate"
            )
        made = StratifiedKFold(min(count, int(counts[rarest])), shuffle=True, random_state=seed)
        return list(made.split(np.zeros((self.codes.size, 1)), self.codes))


class Trial(NamedTuple):
    """A machine, its fit to all labels, and how it did on hidden ones."""

    machine: LabelMachine
    fit: LabelFit
    error: float | None
    loss: float
    told: list[dict[str, Any]]

    @property
    def rank(self) -> tuple[float, float]:
        """The lower the better."""
        return (0.0 if self.error is None else self.error, self.loss)


def best_trial(
    machine: LabelMachine, Cs: tuple[float, ...], bent: Bent, labels: Labels,
    folds: list[tuple[Any, Any]],
) -> Trial:  # fmt: skip
    """The best C; without folds there is one, and nothing to judge."""
    signs, everything = labels.signs, np.arange(labels.rows.size)
    best: tuple[float, float] | None = None
    chosen, told = machine, []
    for C in Cs if folds else ():
        own = dataclasses.replace(machine, C=C)
        error, loss = _judged(own, bent, labels, signs, folds)
        told.append({"unlabelled": own.unlabelled, "C": C, "error": error, "loss": loss})
        if best is None or (error, loss) < best:
            best, chosen = (error, loss), own
    fit = chosen.learn(bent, everything, signs, labels.weight)
    if best is None:
        return Trial(chosen, fit, None, 0.0, told)
    return Trial(chosen, fit, *best, told)


def _judged(
    machine: LabelMachine, bent: Bent, labels: Labels, signs: np.ndarray, folds: Any
) -> tuple[float, float]:
    """Share of hidden labels that are wrong, and their mean squared margin loss."""
    scores = hidden_scores(machine, bent, labels, folds)
    wrong = best_class(scores) != labels.codes
    losses = np.mean(np.maximum(1.0 - signs * scores, 0.0) ** 2, axis=1)
    weight = labels.weight
    return float(np.average(wrong, weights=weight)), float(np.average(losses, weights=weight))


def hidden_scores(machine: LabelMachine, bent: Bent, labels: Labels, folds: Any) -> np.ndarray:
    """(labels, outputs): of each label, by the machine of the folds that do not show it."""
    signs = labels.signs
    out = np.empty(signs.shape)
    for shown, hidden in folds:
        fit = machine.learn(bent, shown, signs[shown], labels.weight[shown])
        out[hidden] = bent.scores(shown, fit, hidden)
    return out
