"""ROC, precision-recall, calibration and score distributions, from scores kept in bounds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["Curve", "calibration", "histogram", "precision_recall", "roc"]


class Curve(NamedTuple):
    """Points of a curve and one number that sums it up."""

    x: np.ndarray
    y: np.ndarray
    summary: float


def _cumulated(
    positive: np.ndarray, scores: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Weight of the positives and negatives at or above each distinct score, from the top."""
    order = np.argsort(-scores, kind="stable")
    up = np.cumsum(np.where(positive, weight, 0.0)[order])
    down = np.cumsum(np.where(positive, 0.0, weight)[order])
    last = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))
    return up[last], down[last]


def roc(positive: np.ndarray, scores: np.ndarray, weight: np.ndarray) -> Curve | None:
    """True against false positive rate, and the area; None with one class only."""
    up, down = _cumulated(positive, scores, weight)
    if not up.size or up[-1] <= 0.0 or down[-1] <= 0.0:
        return None
    x, y = np.append(0.0, down / down[-1]), np.append(0.0, up / up[-1])
    return Curve(x, y, float(np.trapezoid(y, x)))


def precision_recall(positive: np.ndarray, scores: np.ndarray, weight: np.ndarray) -> Curve | None:
    """Precision against recall, and the average precision; None without positives."""
    up, down = _cumulated(positive, scores, weight)
    if not up.size or up[-1] <= 0.0:
        return None
    some = up + down > 0.0
    recall, precision = up[some] / up[-1], up[some] / (up + down)[some]
    average = float(np.diff(np.append(0.0, recall)) @ precision)
    return Curve(np.append(0.0, recall), np.append(precision[0], precision), average)


def calibration(
    positive: np.ndarray, probability: np.ndarray, weight: np.ndarray, bins: int = 15
) -> Curve | None:
    """Mean predicted against observed share in bins of equal numbers of rows.

    The summary is the expected calibration error: their mean distance.
    """
    if not probability.size:
        return None
    order = np.argsort(probability, kind="stable")
    x, y, mass = [], [], []
    for part in np.array_split(order, min(bins, max(1, order.size // 20))):
        total = weight[part].sum()
        if total > 0.0:
            x.append(weight[part] @ probability[part] / total)
            y.append(weight[part] @ positive[part] / total)
            mass.append(total)
    if not x:
        return None
    px, py, share = np.array(x), np.array(y), np.array(mass) / np.sum(mass)
    return Curve(px, py, float(share @ np.abs(px - py)))


def histogram(values: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Share of the values in each bin, as the corners of a stepped line; ends hold the rest."""
    inside = np.clip(values, edges[0], edges[-1])
    counts = np.histogram(inside, edges)[0] / max(values.size, 1)
    return np.repeat(edges, 2), np.concatenate([[0.0], np.repeat(counts, 2), [0.0]])
