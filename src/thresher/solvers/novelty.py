r"""Classes and "none of them" in one convex model, exactly: supervised novelty detection.

One function a class, :math:`f_j(x) = \langle w_j, \phi(x)\rangle - \rho_j`, all of them learned
together:

.. math:: \min\ \frac\gamma2 \sum_j \|w_j\|^2 + \sum_{i<j} \langle w_i, w_j\rangle
          + C \sum_{ij} \xi_{ij} - \sum_j \rho_j

A row has y_ij = +1 for its own class and -1 for the others; one of no class has -1 for all.  The
rows of a class are to have f_j >= 0.  What is asked of the others is read in two ways:

- *margin* (A): :math:`y_{ij} \langle w_j, \phi(x_i)\rangle \ge \rho_j - \xi_{ij}`, so that the
  others lie beyond :math:`-2\rho_j`;
- *boundary* (B): :math:`y_{ij} f_j(x_i) \ge -\xi_{ij}`, so that they lie outside.

The squares of the normals and their inner products are the quadratic form of
:math:`M = (\gamma - 1) I + 11'`, whose eigenvalues are :math:`\gamma - 1` and
:math:`\gamma - 1 + c`: convex if and only if gamma > 1 (gamma > c - 1, as published, is enough, and
more than is needed).  Its inverse has :math:`\eta / \mu` on the diagonal and :math:`-1 / \mu` off
it, :math:`\eta = \gamma + c - 2`, :math:`\mu = (\gamma + c - 1)(\gamma - 1)`.  The dual has a
variable for every row and class, blocks coupled by the inverse, and an equality for each class.
With one class it is the one-class support vector machine.

Least squares in place of the slacks, :math:`y_{ij} \langle w_j, \phi(x_i)\rangle = \rho_j -
\xi_{ij}` with :math:`\tfrac C2 \xi^2`, give one linear system in c + n c unknowns.  In the
eigenvectors of M it falls apart into two of n unknowns, so that two Cholesky factors solve it,
O(n^3) instead of O(n^3 c^3), and scores of rows that were left out come in closed form.

Reference: Jumutc and Suykens, Multi-class supervised novelty detection, IEEE TPAMI (2014).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular

from thresher.kernels.columns import Columns
from thresher.solvers.dual import DualProblem, DualSolution
from thresher.solvers.machines import KernelDual

__all__ = ["READINGS", "Coupled", "coupling_inverse", "exact_novelty", "least_squares_novelty"]

READINGS = ("margin", "boundary")


class Coupled(NamedTuple):
    """sum_i coef[j, i] k(x_i, x) - rho[j], the scores of the rows themselves, and the products
    <w_j, w_p> of the normals."""

    coef: np.ndarray  # (classes, rows)
    rho: np.ndarray
    scores: np.ndarray  # (rows, classes)
    products: np.ndarray
    solution: DualSolution | None = None
    left_out: np.ndarray | None = None  # scores of every row by the model without it


def coupling_inverse(gamma: float, classes: int) -> np.ndarray:
    """The inverse of M."""
    mu = (gamma + classes - 1.0) * (gamma - 1.0)
    return (np.eye(classes) * (gamma + classes - 1.0) - 1.0) / mu


def signs_of(codes: np.ndarray, classes: int) -> np.ndarray:
    """(rows, classes): +1 for a row's own class, -1 for the others."""
    return np.where(codes[:, None] == np.arange(classes), 1.0, -1.0)


def exact_novelty(
    solver: KernelDual, columns: Columns, codes: np.ndarray, weight: np.ndarray, C: np.ndarray,
    gamma: float, reading: str = "margin", monitor: Callable[[Any], Any] | None = None,
    start: np.ndarray | None = None,
) -> Coupled:  # fmt: skip
    """The dual over all rows and classes, from ``start``, a variable for each row of each class.

    ``codes`` are class numbers, any other number is no class; the C of a class times the weight of
    a row bounds its variables.  They are solved for in units of C, and M in units of its diagonal,
    so that the tolerance means what it does for a one-class machine.
    """
    n, classes = codes.size, C.size
    inverse = coupling_inverse(gamma, classes)
    y = signs_of(codes, classes).T.ravel()
    bounds, block = np.tile(weight, classes), np.repeat(np.arange(classes), n)
    by_margin = reading == "margin"
    mixed = inverse * C  # from variables to coefficients
    coupling = C[:, None] * mixed
    unit = float(np.max(np.diag(coupling)))
    problem = DualProblem(
        columns, np.zeros(y.size),
        np.zeros(y.size) if by_margin else np.minimum(0.0, bounds * y),
        bounds if by_margin else np.maximum(0.0, bounds * y),
        totals=1.0 / C, group=block, rows=np.tile(np.arange(n), classes),
        signs=y if by_margin else None, block=block, coupling=coupling / unit,
    )  # fmt: skip
    found = solver.solve(problem, start, monitor)
    sign = y if by_margin else 1.0
    coef = mixed @ (sign * found.z).reshape(classes, n)
    values = (unit / C)[:, None] * (sign * found.gradient).reshape(classes, n)
    rho = unit / C * found.multipliers
    return Coupled(coef, rho, values.T - rho, coef @ values.T, found)


def least_squares_novelty(
    K: np.ndarray, codes: np.ndarray, weight: np.ndarray, C: float, classes: int, gamma: float
) -> Coupled:
    """The linear system of the least-squares machine; K is the kernel matrix.

    With beta = y alpha it is (M^-1 x K + D) beta = E rho, E' beta = 1, where D = 1 / (C weight) and
    E holds the signs.
    """
    n, Y = codes.size, signs_of(codes, classes)
    ridge = 1.0 / (C * weight)
    mean = np.full((classes, classes), 1.0 / classes)
    parts = [(mean, 1.0 / (gamma - 1.0 + classes)), (np.eye(classes) - mean, 1.0 / (gamma - 1.0))]
    U, own = np.zeros((n, classes, classes)), np.zeros((n, classes, classes))
    for projector, size in parts[: 1 if classes == 1 else 2]:
        solved, diagonal = _solved(size * K, ridge, Y)
        U += projector * solved[:, None, :]  # A^-1 E
        own += projector * diagonal[:, None, None]  # blocks of A^-1
    S = np.einsum("ij,ijp->jp", Y, U)
    rho = np.linalg.solve(S, np.ones(classes))
    beta = U @ rho
    values = Y * rho - beta * ridge[:, None]  # <w_j, phi(x_i)>
    coef = coupling_inverse(gamma, classes) @ beta.T
    left = _left_out(Y, U, own, S, rho, beta)
    return Coupled(coef, rho, values - rho, coef @ values, None, left)


def _solved(K: np.ndarray, ridge: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(K + ridge)^-1 Y and the diagonal of the inverse."""
    K[np.diag_indices(ridge.size)] += ridge
    try:
        factor = cho_factor(K, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        raise ValueError(
            "the kernel matrix is not positive definite, also with the ridge 1/C: lower C, or use "
            "a positive definite kernel"
        ) from None
    solved = cho_solve(factor, Y, check_finite=False)
    root = solve_triangular(factor[0], np.eye(ridge.size), lower=True, check_finite=False)
    return solved, np.einsum("ij,ij->j", root, root)


def _left_out(
    Y: np.ndarray, U: np.ndarray, own: np.ndarray, S: np.ndarray, rho: np.ndarray, beta: np.ndarray
) -> np.ndarray:
    """Scores of every row by the model without it.

    Of a linear system whose right side is zero at the unknowns I, the one without them leaves
    -(Inv_II)^-1 z_I at their equations, and its other unknowns are z - Inv_.I (Inv_II)^-1 z_I.
    """
    share = np.linalg.solve(S, U.transpose(0, 2, 1))  # minus the block of rho with a row's unknowns
    inverse = own - U @ share
    try:
        missed = np.linalg.solve(inverse, beta[:, :, None])
    except np.linalg.LinAlgError:  # a row without which nothing is left
        return np.full(Y.shape, np.nan)
    moved = rho + (share @ missed)[:, :, 0]
    return Y * moved - missed[:, :, 0] - moved
