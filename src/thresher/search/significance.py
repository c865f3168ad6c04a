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
from scipy.special import stdtr

__all__ = ["Comparison", "compare", "paired_t_test", "sign_test"]


class Comparison(NamedTuple):
    """Scores of two models on the same folds, compared by :func:`compare`.

    Parameters
    ----------
    difference : float
        Mean of first minus second.
    p_plain : float
        Of the paired t-test as if folds were independent.
    p_corrected : float
        The same with Nadeau and Bengio's correction.
    p_sign : float
        Of the sign test.
    wins, losses : int
        Folds on which the first is lower, and higher.
    folds : int

    Examples
    --------
    >>> from thresher.search import compare
    >>> result = compare([0.10, 0.12, 0.11], [0.15, 0.16, 0.17], test_to_train=0.5)
    >>> result.wins, result.losses, result.p_plain < result.p_corrected
    (3, 0, True)
    """

    difference: float
    p_plain: float
    p_corrected: float
    p_sign: float
    wins: int
    losses: int
    folds: int

    def __str__(self) -> str:
        return (
            f"difference {self.difference:.4g} over {self.folds} folds ({self.wins} lower, "
            f"{self.losses} higher): p = {self.p_corrected:.3g} (corrected t), "
            f"{self.p_plain:.3g} (plain t), {self.p_sign:.3g} (sign)"
        )


def paired_t_test(a: Any, b: Any, test_to_train: float = 0.0) -> tuple[float, float]:
    """t and its two-sided p-value, for the mean of a - b.

    Parameters
    ----------
    a, b : scores of two models on the same folds
    test_to_train : float, default=0.0
        n_test / n_train: Nadeau and Bengio's correction for training sets that overlap; 0: none.

    Examples
    --------
    >>> from thresher.search import paired_t_test
    >>> t, p = paired_t_test([0.10, 0.12, 0.11, 0.13], [0.15, 0.16, 0.17, 0.16])
    >>> t < 0.0, p < 0.01
    (True, True)
    >>> paired_t_test([0.1, 0.2], [0.1, 0.2])
    (0.0, 1.0)
    """
    difference = _paired(a, b)
    k = difference.size
    if k < 2:
        return math.nan, math.nan
    mean, variance = float(difference.mean()), float(difference.var(ddof=1))
    scale = math.sqrt((1.0 / k + test_to_train) * variance)
    if scale == 0.0:
        return (0.0, 1.0) if mean == 0.0 else (math.copysign(math.inf, mean), 0.0)
    t = mean / scale
    return t, float(2.0 * stdtr(k - 1, -abs(t)))


def sign_test(a: Any, b: Any) -> tuple[int, int, float]:
    """Folds on which a is lower, on which it is higher, and the two-sided p-value.

    Parameters
    ----------
    a, b : scores of two models on the same folds
        Ties are left out.

    Examples
    --------
    >>> from thresher.search import sign_test
    >>> lower, higher, p = sign_test([1, 2, 3, 4, 5, 6], [2, 3, 4, 5, 6, 6])
    >>> lower, higher, round(p, 4)
    (5, 0, 0.0625)
    """
    from scipy.stats import binomtest  # slow to import

    difference = _paired(a, b)
    lower, higher = int(np.sum(difference < 0)), int(np.sum(difference > 0))
    if lower + higher == 0:
        return 0, 0, 1.0
    return lower, higher, float(binomtest(lower, lower + higher).pvalue)


def compare(a: Any, b: Any, test_to_train: float = 0.0) -> Comparison:
    """All tests at once for the scores of two models on the same folds.

    Parameters
    ----------
    a, b : scores of two models on the same folds
    test_to_train : float, default=0.0
        n_test / n_train, for the correction of the t-test.

    Examples
    --------
    >>> from thresher.search import compare
    >>> print(compare([0.5, 0.25], [0.5, 0.25]))
    difference 0 over 2 folds (0 lower, 0 higher): p = 1 (corrected t), 1 (plain t), 1 (sign)
    """
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
