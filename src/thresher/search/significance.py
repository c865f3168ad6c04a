r"""Does the winner really win?  Paired tests on the scores of the same folds.

Scores of overlapping training sets are correlated, so the plain paired t-test finds differences
that are not there.  Nadeau and Bengio's correction replaces the variance of the mean difference,
:math:`\sigma^2 / k`, by :math:`(1/k + n_{test}/n_{train})\, \sigma^2`.

References: Nadeau and Bengio, Inference for the generalization error, Machine Learning 52 (2003);
Dixon and Mood, The statistical sign test, JASA 41 (1946).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

__all__ = ["Comparison", "compare", "paired_t_test", "sign_test"]


class Comparison(NamedTuple):
    """Two sets of paired scores; differences are first minus second."""

    difference: float
    p_plain: float  # paired t-test as if folds were independent
    p_corrected: float  # with Nadeau and Bengio's correction
    p_sign: float  # sign test
    wins: int  # folds on which the first is lower
    losses: int
    folds: int

    def __str__(self) -> str:
        return (
            f"difference {self.difference:.4g} over {self.folds} folds ({self.wins} lower, "
            f"{self.losses} higher): p = {self.p_corrected:.3g} (corrected t), "
            f"{self.p_plain:.3g} (plain t), {self.p_sign:.3g} (sign)"
        )


def paired_t_test(a: Any, b: Any, test_to_train: float = 0.0) -> tuple[float, float]:
    """t and its two-sided p-value; ``test_to_train`` = n_test / n_train corrects for overlap."""
    difference = _paired(a, b)
    k = difference.size
    if k < 2:
        return math.nan, math.nan
    mean, variance = float(difference.mean()), float(difference.var(ddof=1))
    scale = math.sqrt((1.0 / k + test_to_train) * variance)
    if scale == 0.0:
        return (0.0, 1.0) if mean == 0.0 else (math.copysign(math.inf, mean), 0.0)
    t = mean / scale
    return t, float(2.0 * stats.t.sf(abs(t), k - 1))


def sign_test(a: Any, b: Any) -> tuple[int, int, float]:
    """Folds on which a is lower, higher, and the two-sided p-value; ties are left out."""
    difference = _paired(a, b)
    lower, higher = int(np.sum(difference < 0)), int(np.sum(difference > 0))
    if lower + higher == 0:
        return 0, 0, 1.0
    return lower, higher, float(stats.binomtest(lower, lower + higher).pvalue)


def compare(a: Any, b: Any, test_to_train: float = 0.0) -> Comparison:
    """All tests at once for the scores of two models on the same folds."""
    lower, higher, p_sign = sign_test(a, b)
    difference = _paired(a, b)
    return Comparison(
        float(difference.mean()),
        paired_t_test(a, b)[1],
        paired_t_test(a, b, test_to_train)[1],
        p_sign,
        lower,
        higher,
        difference.size,
    )


def _paired(a: Any, b: Any) -> np.ndarray:
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if a.shape != b.shape or a.ndim != 1 or a.size == 0:
        raise ValueError(f"paired tests need two lists of equal length, got {a.shape}, {b.shape}")
    return a - b
