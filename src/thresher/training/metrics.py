"""How good predictions are: accumulated chunk by chunk, in bounded memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from thresher._scores import best_class
from thresher.search.criteria import auc
from thresher.training.sampled import Sampled

__all__ = ["ClassificationMetrics", "RegressionMetrics"]

_MOST_SCORES = 20_000_000
_LARGEST = float(np.finfo(np.float32).max)


class ClassificationMetrics:
    """Error, confusion, F1, AUC, log loss.

    Scores are kept for the AUC, 20 million numbers at most: beyond that, those of every second
    (fourth, ...) row, which leaves its error below a thousandth.
    """

    def __init__(self, classes: np.ndarray):
        self.classes = classes
        self.confusion = np.zeros((classes.size, classes.size))
        self.log_loss_sum = 0.0
        self.has_probabilities = True
        width = 1 if classes.size == 2 else classes.size
        self._kept = Sampled(_MOST_SCORES // width)

    def add(
        self, codes: np.ndarray, scores: np.ndarray, probabilities: np.ndarray | None,
        weight: np.ndarray | None = None, rows: Any = None,
    ) -> None:  # fmt: skip
        """Class numbers of the truth; scores (n,) for two classes, else (n, k)."""
        codes = codes.astype(np.int64)
        weight = np.ones(codes.size) if weight is None else weight
        np.add.at(self.confusion, (codes, best_class(scores)), weight)
        if probabilities is None:
            self.has_probabilities = False
        else:
            chosen = probabilities[np.arange(codes.size), codes]
            self.log_loss_sum -= float(weight @ np.log(np.maximum(chosen, 1e-15)))
        self._kept.add(
            scores=np.clip(scores, -_LARGEST, _LARGEST).astype(np.float32),
            codes=codes.astype(np.int32),
            weight=weight.astype(np.float32),
        )

    def summary(self) -> dict[str, Any]:
        total = self.confusion.sum()
        if total == 0:
            return {"rows": 0}
        right = np.diag(self.confusion)
        truth, guessed = self.confusion.sum(axis=1), self.confusion.sum(axis=0)
        f1 = 2.0 * right / np.maximum(truth + guessed, 1e-300)
        present = truth > 0
        out: dict[str, Any] = {
            "rows": self._kept.seen,
            "error": float(1.0 - right.sum() / total),
            "f1": float(f1[1] if self.classes.size == 2 else f1[present].mean()),
            "auc": self._auc(),
            "log_loss": float(self.log_loss_sum / total) if self.has_probabilities else None,
            "confusion": self.counts(),
            "classes": self.classes.tolist(),
        }
        return out

    def counts(self) -> list[list[float | int]]:
        """The confusion matrix in plain numbers."""
        return [[_whole(v) for v in row] for row in self.confusion.tolist()]

    def _auc(self) -> float | None:
        codes, weights, scores = (self._kept[name] for name in ("codes", "weight", "scores"))
        if scores.ndim == 1:
            return auc(codes == 1, scores, weights)
        each = [auc(codes == c, scores[:, c], weights) for c in range(scores.shape[1])]
        known = [a for a in each if a is not None]
        return float(np.mean(known)) if known else None


def _whole(value: float) -> float | int:
    """Counts as whole numbers; sums of row weights as they are."""
    return int(value) if value.is_integer() else value


class RegressionMetrics:
    """RMSE, mean absolute error and R2; the targets' variance by Welford's recurrence."""

    def __init__(self, classes: None = None) -> None:
        self.mass = self.mean = self.spread = self.squares = self.absolutes = 0.0
        self.rows = 0

    def add(
        self, y: np.ndarray, predicted: np.ndarray, _: Any = None,
        weight: np.ndarray | None = None, rows: Any = None,
    ) -> None:  # fmt: skip
        weight = np.ones(y.size) if weight is None else weight
        mass = float(weight.sum())
        self.rows += y.size
        if mass == 0.0:
            return
        miss = predicted - y
        self.squares += float(weight @ miss**2)
        self.absolutes += float(weight @ np.abs(miss))
        mean = float(weight @ y) / mass
        delta, total = mean - self.mean, self.mass + mass
        self.spread += float(weight @ (y - mean) ** 2) + delta**2 * self.mass * mass / total
        self.mean += delta * mass / total
        self.mass = total

    def summary(self) -> dict[str, Any]:
        if self.mass == 0.0:
            return {"rows": self.rows}
        r2 = 1.0 - self.squares / self.spread if self.spread > 0.0 else None
        return {
            "rows": self.rows,
            "rmse": math.sqrt(self.squares / self.mass),
            "mae": self.absolutes / self.mass,
            "r2": r2,
        }
