"""Where machines for few labels live: the kernel of all rows, or features of landmarks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from thresher.estimators.label_folds import Labels, Trial
from thresher.functions import LinearFunction, SupportFunction
from thresher.kernels import Kernel
from thresher.kernels.gram import blocks, gram
from thresher.solvers.deformed import FeatureSpace, GramSpace
from thresher.solvers.label_machines import Bent

__all__ = ["ExactSpace", "Found", "LandmarkSpace", "warn_of_lonely_rows"]

_CELLS = 1 << 22  # features at a time
_FEW = 0.05  # share of rows without a say that is no news


class ExactSpace(NamedTuple):
    """All rows, compared with each other."""

    kernel: Kernel
    X: Any
    inner: GramSpace

    @classmethod
    def of(cls, kernel: Kernel, X: Any, weight: np.ndarray, labels: Labels) -> ExactSpace:
        return cls(kernel, X, GramSpace(gram(kernel, X.astype(np.float64)), labels.rows, weight))

    def function_of(self, bent: Bent, trial: Trial, units: Any) -> SupportFunction:
        """Of raw rows, which these are in ``units``."""
        coef, intercept = self.inner.function(bent.weights(trial.fit), trial.fit.intercept)
        used = np.flatnonzero(coef.any(axis=0))
        coef = np.ascontiguousarray(coef[:, used])
        return SupportFunction(self.kernel, self.X[used], coef, intercept, units)


class LandmarkSpace(NamedTuple):
    """Features of a map."""

    made: Any
    features: int
    inner: FeatureSpace

    @classmethod
    def of(
        cls, made: Any, X: Any, weight: np.ndarray, labels: Labels, memory: float
    ) -> LandmarkSpace:
        """``memory`` says whether features of all rows are kept."""
        n = X.shape[0]
        kept = made.features(X) if n * made.width * X.dtype.itemsize <= memory else None

        def pieces() -> Iterator[tuple[slice, np.ndarray]]:
            for part in blocks(n, made.width, _CELLS):
                yield part, made.features(X[part]) if kept is None else kept[part]

        inner = FeatureSpace(pieces, made.features(X[labels.rows]), weight)
        return cls(made, X.shape[1], inner)

    @property
    def kernel(self) -> Kernel:
        return self.made.kernel_

    def function_of(self, bent: Bent, trial: Trial, units: Any) -> Any:
        """Of raw rows, which are mapped in ``units``."""
        coef, intercept = self.inner.function(bent.weights(trial.fit), trial.fit.intercept)
        return LinearFunction(coef, intercept).mapped(self.made, self.features, units)


class Found(NamedTuple):
    """A setting: where it was learned, and how."""

    space: ExactSpace | LandmarkSpace
    bent: Bent
    trial: Trial


def warn_of_lonely_rows(space: Any, name: str, rows: int) -> None:
    """Rows that are like no other learn nothing from the labels of others."""
    alone = space.inner.alone
    if alone > _FEW * rows:
        warnings.warn(
            f"{name}: {alone:,} of {rows:,} rows are like no other (but themselves), so that "
            "labels of others say nothing of them: use a wider kernel (a smaller gamma) or more "
            "landmarks",
            ConvergenceWarning,
            stacklevel=5,
        )
