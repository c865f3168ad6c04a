"""How many rows are unlike the others."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["OneClassMetrics"]


class OneClassMetrics:
    """The share of rows with a negative score."""

    def __init__(self, classes: np.ndarray | None = None):
        self.classes = classes
        self.rows, self.mass, self.outside = 0, 0.0, 0.0

    def add(
        self, codes: np.ndarray | None, scores: np.ndarray, _: Any = None,
        weight: np.ndarray | None = None, rows: Any = None,
    ) -> None:  # fmt: skip
        """Scores (rows, 1); labels are not looked at."""
        weight = np.ones(scores.shape[0]) if weight is None else weight
        self.rows += scores.shape[0]
        self.mass += float(weight.sum())
        self.outside += float(weight @ (scores.reshape(-1) < 0.0))

    def summary(self) -> dict[str, Any]:
        if self.mass == 0.0:
            return {"rows": self.rows}
        return {"rows": self.rows, "outliers": self.outside / self.mass}
