"""How good a novelty detector is: on rows of known classes, and on rows of none."""

from __future__ import annotations

from typing import Any

import numpy as np

from thresher.search.criteria import auc
from thresher.training.metrics import ClassificationMetrics

__all__ = ["NoveltyMetrics"]


class NoveltyMetrics(ClassificationMetrics):
    """Error, class error, false alarms, detection and the area under the ROC curve of detection.

    ``error`` is the share of known rows that are not given their class, rejected ones among them;
    ``class_error`` that of wrong classes if nothing is rejected; ``false_alarms`` that of known
    rows that are rejected; ``detection`` that of outliers that are; ``auc`` how well the scores
    tell the two kinds of rows apart, whatever the threshold.

    One of the scores is that of rows of no class, minus the largest of the others.
    """

    def __init__(self, classes: np.ndarray, outlier: Any = None):
        super().__init__(classes)
        self.place = int(np.flatnonzero(classes == outlier)[0])
        self.wrong = 0.0

    def add(
        self, codes: np.ndarray, scores: np.ndarray, probabilities: Any,
        weight: np.ndarray | None = None, rows: Any = None,
    ) -> None:  # fmt: skip
        """Numbers of labels of the truth; scores (n, labels)."""
        codes = codes.astype(np.int64)
        super().add(codes, scores, None, weight)
        known = scores.copy()
        known[:, self.place] = -np.inf
        wrong = (known.argmax(axis=1) != codes) & (codes != self.place)
        self.wrong += float(wrong.sum() if weight is None else weight @ wrong)

    def summary(self) -> dict[str, Any]:
        total = self.confusion.sum()
        if total == 0:
            return {"rows": 0}
        place, right = self.place, np.diag(self.confusion)
        truth = self.confusion.sum(axis=1)
        known = total - truth[place]
        return {
            "rows": self._kept.seen,
            "error": _share(known - (right.sum() - right[place]), known),
            "class_error": _share(self.wrong, known),
            "false_alarms": _share(self.confusion[:, place].sum() - right[place], known),
            "detection": _share(right[place], truth[place]),
            "auc": self._auc(),
            "confusion": self.counts(),
            "classes": self.classes.tolist(),
        }

    def _auc(self) -> float | None:
        codes, weights, scores = (self._kept[name] for name in ("codes", "weight", "scores"))
        return auc(codes == self.place, scores[:, self.place], weights)


def _share(part: float, whole: float) -> float | None:
    return float(part / whole) if whole > 0.0 else None
