"""How good predictions are: accumulated chunk by chunk, in bounded memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["ClassificationMetrics", "RegressionMetrics", "metrics_for"]

_MOST_SCORES = 20_000_000
_LARGEST = float(np.finfo(np.float32).max)


def metrics_for(classes: np.ndarray | None) -> Any:
    return RegressionMetrics() if classes is None else ClassificationMetrics(classes)


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
        self._scores: list[np.ndarray] = []
        self._codes: list[np.ndarray] = []
        self._weights: list[np.ndarray] = []
        self._kept = self._seen = 0
        self._every = 1

    def add(
        self, codes: np.ndarray, scores: np.ndarray, probabilities: np.ndarray | None,
        weight: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        """Class numbers of the truth; scores (n,) for two classes, else (n, k)."""
        codes = codes.astype(np.int64)
        weight = np.ones(codes.size) if weight is None else weight
        binary = scores.ndim == 1
        guess = (scores > 0).astype(np.int64) if binary else scores.argmax(axis=1)
        np.add.at(self.confusion, (codes, guess), weight)
        if probabilities is None:
            self.has_probabilities = False
        else:
            chosen = probabilities[np.arange(codes.size), codes]
            self.log_loss_sum -= float(weight @ np.log(np.maximum(chosen, 1e-15)))
        self._keep(codes, scores, weight)

    def _keep(self, codes: np.ndarray, scores: np.ndarray, weight: np.ndarray) -> None:
        first = -self._seen % self._every
        self._seen += codes.size
        part = slice(first, None, self._every)
        self._scores.append(np.clip(scores[part], -_LARGEST, _LARGEST).astype(np.float32))
        self._codes.append(codes[part].astype(np.int32))
        self._weights.append(weight[part].astype(np.float32))
        self._kept += self._scores[-1].size
        if self._kept > _MOST_SCORES:
            self._scores = [np.concatenate(self._scores)[::2]]
            self._codes = [np.concatenate(self._codes)[::2]]
            self._weights = [np.concatenate(self._weights)[::2]]
            self._kept = self._scores[0].size
            self._every *= 2

    def summary(self) -> dict[str, Any]:
        total = self.confusion.sum()
        if total == 0:
            return {"rows": 0}
        right = np.diag(self.confusion)
        truth, guessed = self.confusion.sum(axis=1), self.confusion.sum(axis=0)
        f1 = 2.0 * right / np.maximum(truth + guessed, 1e-300)
        present = truth > 0
        out: dict[str, Any] = {
            "rows": self._seen,
            "error": float(1.0 - right.sum() / total),
            "f1": float(f1[1] if self.classes.size == 2 else f1[present].mean()),
            "auc": self._auc(),
            "log_loss": float(self.log_loss_sum / total) if self.has_probabilities else None,
            "confusion": [[_whole(v) for v in row] for row in self.confusion.tolist()],
            "classes": self.classes.tolist(),
        }
        return out

    def _auc(self) -> float | None:
        codes, weights = np.concatenate(self._codes), np.concatenate(self._weights)
        scores = np.concatenate(self._scores)
        if scores.ndim == 1:
            return auc(codes == 1, scores, weights)
        each = [auc(codes == c, scores[:, c], weights) for c in range(scores.shape[1])]
        known = [a for a in each if a is not None]
        return float(np.mean(known)) if known else None


def _whole(value: float) -> float | int:
    """Counts as whole numbers; sums of row weights as they are."""
    return int(value) if value.is_integer() else value


def auc(positive: np.ndarray, scores: np.ndarray, weight: np.ndarray) -> float | None:
    """P(score of a positive > score of a negative), ties counting half; weighted."""
    order = np.argsort(scores, kind="stable")
    up = np.where(positive, weight, 0.0)[order].astype(np.float64)
    down = np.where(positive, 0.0, weight)[order].astype(np.float64)
    if not (up.sum() > 0.0 and down.sum() > 0.0):
        return None
    starts = np.flatnonzero(np.concatenate([[True], np.diff(scores[order]) != 0]))
    up, down = np.add.reduceat(up, starts), np.add.reduceat(down, starts)
    below = np.cumsum(down) - down
    return float(up @ (below + 0.5 * down) / (up.sum() * down.sum()))


class RegressionMetrics:
    """RMSE, mean absolute error and R2; the targets' variance by Welford's recurrence."""

    def __init__(self) -> None:
        self.mass = self.mean = self.spread = self.squares = self.absolutes = 0.0
        self.rows = 0

    def add(
        self, y: np.ndarray, predicted: np.ndarray, _: Any = None, weight: np.ndarray | None = None
    ) -> None:
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
