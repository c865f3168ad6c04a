r"""Least squares with a kernel, exactly: one linear system in all rows (the LS-SVM).

.. math:: \begin{pmatrix} 0 & 1' \\ 1 & K + D \end{pmatrix}
          \begin{pmatrix} b \\ \alpha \end{pmatrix} = \begin{pmatrix} 0 \\ y \end{pmatrix},
          \qquad D = \mathrm{diag}(1 / C_i)

is solved by one Cholesky factor of :math:`A = K + D` for all outputs.  What the model without row i
misses its target by is :math:`\alpha_i / (A^{-1}_{ii} - \eta_i^2 / 1'\eta)` with :math:`\eta =
A^{-1} 1`, exactly (Cawley and Talbot, 2004).  Cost O(n^3), memory n^2 doubles.  Reference: Suykens
et al., Least squares support vector machines (2002).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lapack

__all__ = ["KernelLeastSquares", "kernel_least_squares"]


class KernelLeastSquares(NamedTuple):
    """One column for each output."""

    coef: np.ndarray
    intercept: np.ndarray
    scores: np.ndarray
    left_out: np.ndarray  # what each row is predicted by the model without it


def kernel_least_squares(K: np.ndarray, y: np.ndarray, bounds: np.ndarray) -> KernelLeastSquares:
    """Solve for targets y (rows, outputs); K (rows, rows) is overwritten.

    ``bounds`` are the C of the rows.  ValueError if the kernel is not positive definite enough.
    """
    n = y.shape[0]
    ridge = 1.0 / bounds
    K[np.diag_indices(n)] += ridge
    try:
        factor, lower = cho_factor(K, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        raise ValueError(
            "the kernel matrix is not positive definite, also with the ridge 1/C: lower C, or use "
            "a positive definite kernel"
        ) from None
    both = cho_solve((factor, lower), np.column_stack([np.ones(n), y]), check_finite=False)
    ones, rest = both[:, :1], both[:, 1:]
    total = float(ones.sum())
    intercept = rest.sum(axis=0) / total
    coef = rest - ones * intercept
    inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
    own = np.diag(inverse) - ones[:, 0] ** 2 / total
    missed = coef / np.maximum(own, 1e-300)[:, None]
    return KernelLeastSquares(coef, intercept, y - coef * ridge[:, None], y - missed)
