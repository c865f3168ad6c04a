r"""How much to believe each of several models: weights of their scores, learned on unseen rows.

With scores :math:`s_m(x)` of m models for k classes,

.. math:: P(c \mid x) \propto \exp\Bigl(\sum_m w_m s_{mc}(x) + b_c\Bigr), \qquad w \ge 0,

so that a model counts with one weight for all classes, and none counts against what it says.  w and
b minimise the log loss plus :math:`\tfrac12 (|w - \bar w|^2 + |b|^2)` over rows that none of the
models has seen, with scores in units of their own spread and :math:`\bar w = 1/m`.  That is m + k
numbers, which few rows can tell; a matrix of m k^2 weights overfits them.  Numbers are pooled by
non-negative least squares.

References: Wolpert, Stacked generalization, Neural Networks (1992); Breiman, Stacked regressions,
Machine Learning (1996), for weights that are not negative; Genest and Zidek, Statistical Science
(1986), for the logarithmic pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, log_softmax

__all__ = ["Pool", "pool_classes", "pool_numbers"]


class Pool(NamedTuple):
    """sum over models of weight * score, plus an offset for each output."""

    weights: np.ndarray  # (models,)
    offsets: np.ndarray  # (outputs,)

    def scores(self, members: Sequence[np.ndarray]) -> np.ndarray:
        """Of the models' scores, each (rows, outputs)."""
        return sum((w * s for w, s in zip(self.weights, members, strict=True)), start=self.offsets)  # type: ignore[return-value]


def pool_classes(
    members: Sequence[np.ndarray], codes: np.ndarray, weight: np.ndarray | None = None
) -> Pool:
    """For class numbers; scores (rows, 1) are those of the second of two classes."""
    from scipy.optimize import minimize  # slow to import

    spreads = [_spread(scores) for scores in members]
    scaled = np.stack([s / spread for s, spread in zip(members, spreads, strict=True)])
    size, _, outputs = scaled.shape
    mass = np.ones(codes.size) if weight is None else weight * (codes.size / weight.sum())
    deviance = _two_classes if outputs == 1 else _several_classes
    start = np.append(np.full(size, 1.0 / size), np.zeros(outputs))

    def objective(at: np.ndarray) -> tuple[float, np.ndarray]:
        totals = np.tensordot(at[:size], scaled, 1) + at[size:]
        value, slopes = deviance(totals, codes, mass)
        slope = np.append(np.tensordot(scaled, slopes, ([1, 2], [0, 1])), slopes.sum(axis=0))
        return value + 0.5 * float(np.sum((at - start) ** 2)), slope + at - start

    bounds = [(0.0, None)] * size + [(None, None)] * outputs
    found: Any = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return Pool(found.x[:size] / spreads, found.x[size:])


def pool_numbers(
    members: Sequence[np.ndarray], y: np.ndarray, weight: np.ndarray | None = None
) -> Pool:
    """For targets that are numbers; predictions are (rows, 1)."""
    from scipy.optimize import nnls  # slow to import

    mass = np.ones(y.size) if weight is None else weight / weight.mean()
    predictions = np.hstack(list(members))
    centre, middle = np.average(predictions, axis=0, weights=mass), np.average(y, weights=mass)
    root = np.sqrt(mass)
    spread = max(float(np.std(y)), 1e-300)  # units in which the solver's tolerance means something
    weights = nnls(root[:, None] * (predictions - centre) / spread, root * (y - middle) / spread)[0]
    return Pool(weights, np.array([middle - weights @ centre]))


def _spread(scores: np.ndarray) -> float:
    """Root mean square around the mean of the row, which changes nothing.

    The score s of two classes stands for -s/2 and s/2.
    """
    apart = scores - scores.mean(axis=1, keepdims=True) if scores.shape[1] > 1 else 0.5 * scores
    spread = float(np.sqrt(np.mean(apart**2)))
    return spread if spread > 0.0 else 1.0


def _two_classes(
    totals: np.ndarray, codes: np.ndarray, mass: np.ndarray
) -> tuple[float, np.ndarray]:
    signs = np.where(codes == 1, 1.0, -1.0)
    margins = signs * totals[:, 0]
    return float(mass @ np.logaddexp(0.0, -margins)), -(mass * signs * expit(-margins))[:, None]


def _several_classes(
    totals: np.ndarray, codes: np.ndarray, mass: np.ndarray
) -> tuple[float, np.ndarray]:
    logs, rows = log_softmax(totals, axis=1), np.arange(codes.size)
    slopes = np.exp(logs)
    slopes[rows, codes] -= 1.0
    return -float(mass @ logs[rows, codes]), mass[:, None] * slopes
