"""How good clusters are: by their own rows, and beside labels where there are some."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from scipy.sparse import vstack

from thresher.partitions import agreement, silhouette

__all__ = ["ClusteringMetrics"]

_MOST_ROWS = 4000  # kept for the silhouette


class ClusteringMetrics:
    """Silhouette and mean distance; beside labels also VI, Rand index and adjusted Rand index.

    Scores are minus squared distances.  The silhouette is that of a sample of the rows.
    """

    def __init__(self, classes: np.ndarray | None = None):
        self.classes = classes
        self.rows, self.mass, self.away = 0, 0.0, 0.0
        self._table: defaultdict[tuple[float, float], float] = defaultdict(float)
        self._labelled = False
        self._every = 1  # of the rows are kept
        self._kept: list[tuple[np.ndarray, Any, np.ndarray]] = []  # numbers, rows, clusters

    def add(
        self, codes: np.ndarray | None, scores: np.ndarray, _: Any = None,
        weight: np.ndarray | None = None, rows: Any = None,
    ) -> None:  # fmt: skip
        """Class numbers of the truth or None, scores (rows, clusters), and the rows themselves."""
        clusters = scores.argmax(axis=1)
        if rows is not None:
            self._keep(self.rows + np.arange(clusters.size), rows, clusters)
        weight = np.ones(clusters.size) if weight is None else weight
        self.rows += clusters.size
        self.mass += float(weight.sum())
        self.away += float(weight @ -scores.max(axis=1))
        if codes is not None:
            self._count(codes, clusters, weight)

    def _count(self, codes: np.ndarray, clusters: np.ndarray, weight: np.ndarray) -> None:
        self._labelled = True
        pairs, place = np.unique(np.stack([codes, clusters]), axis=1, return_inverse=True)
        masses = np.bincount(place.ravel(), weight, pairs.shape[1])
        for (code, cluster), mass in zip(pairs.T.tolist(), masses.tolist(), strict=True):
            self._table[code, cluster] += mass

    def _keep(self, numbers: np.ndarray, rows: Any, clusters: np.ndarray) -> None:
        """Every row at first, every second (fourth, ...) beyond, however they come in chunks."""
        self._kept.append(_every((numbers, rows, clusters), self._every))
        while sum(part[0].size for part in self._kept) > _MOST_ROWS:
            self._every *= 2
            self._kept = [_every(part, self._every) for part in self._kept]

    def summary(self) -> dict[str, Any]:
        if self.mass == 0.0:
            return {"rows": self.rows}
        out: dict[str, Any] = {"rows": self.rows, "distance": self.away / self.mass}
        if self._kept:
            _, rows, clusters = zip(*self._kept, strict=True)
            out["silhouette"] = silhouette(_stacked(rows), np.concatenate(clusters), _MOST_ROWS)
        return out | (agreement(self._contingency()) if self._labelled else {})

    def _contingency(self) -> np.ndarray:
        codes, clusters = (sorted({pair[side] for pair in self._table}) for side in (0, 1))
        masses = [[self._table.get((a, b), 0.0) for b in clusters] for a in codes]
        return np.array(masses)


def _every(part: tuple[np.ndarray, Any, np.ndarray], step: int) -> Any:
    chosen = np.flatnonzero(part[0] % step == 0)
    return part[0][chosen], part[1][chosen], part[2][chosen]


def _stacked(parts: Any) -> Any:
    sparse = hasattr(parts[0], "indptr")
    return vstack(parts, format="csr") if sparse else np.concatenate(parts)
