r"""Machines that learn from labels alone, with a kernel that has seen the other rows.

K is the matrix of a deformed kernel on the labelled rows (``thresher.solvers.deformed``), targets
are -1 and +1, :math:`C_i` is the weight of a label's loss.

=====================  ===========================================================================
SemiKSC                :func:`ridge`: squared losses, one linear system
Bi-SemiKSC             :func:`coupled_ridge`: a function for each class, which repel each other
LapSVM                 :func:`hinge`: the dual of a support vector machine
LapSVM in the primal   :func:`squared_hinge`: Newton's method
=====================  ===========================================================================

*Coupled.*  Bi-SemiKSC has functions :math:`w_c` of two classes and the objective

.. math:: \tfrac{\gamma_1}2 (\|w_1\|^2 + \|w_2\|^2) + w_1\cdot w_2
          + \tfrac{\gamma_2}2 \sum_{i \le l} [(e_{1i} - y_i)^2 + (e_{2i} + y_i)^2]
          - \tfrac{\gamma_3}2 e_1'D^{-1}e_1 - \tfrac{\gamma_4}2 e_2'D^{-1}e_2 .

Of k classes it has k functions: with :math:`B = (\gamma_1 - 1) I + 11'` and :math:`G =
\mathrm{diag}(g_c)` the quadratic part is that of :math:`B \otimes I - G \otimes \Phi'D^{-1}\Phi`.
With :math:`U'BU = I` and :math:`U'GU = \mathrm{diag}(t)` its inverse is :math:`\sum_j u_ju_j'
\otimes (I - t_j\Phi'D^{-1}\Phi)^{-1}`: a sum of deformed kernels, one for each t.  So the two
coupled systems of all rows become one system of the labels, and the problem is convex where every t
lies below the limit of one.  With equal g the functions differ by their signs only, and are those
of SemiKSC with :math:`\gamma = g / (\gamma_1 - 1)` and :math:`\rho = \gamma_2 / (\gamma_1 - 1)`.

References: Alzate and Suykens (2012); Jumutc, Scalable algorithms for convex optimization and
learning (2016); Belkin, Niyogi and Sindhwani, Manifold regularization (2006); Melacci and Belkin,
Laplacian support vector machines trained in the primal (2011).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh, solve

from thresher.kernels.columns import GramColumns
from thresher.solvers.base import Status
from thresher.solvers.machines import KernelDual, classification

__all__ = ["Coupling", "LabelFit", "coupled_ridge", "hinge", "ridge", "squared_hinge"]

_STEPS = 100  # of Newton's method, at most; a few are usual


class LabelFit(NamedTuple):
    """Coefficients of the sections of every gamma, intercepts, and how it ended."""

    coef: np.ndarray  # (gammas, labels, outputs)
    intercept: np.ndarray
    status: Status = Status.CONVERGED
    steps: int = 1


class Coupling(NamedTuple):
    """The functions u (a column each) and the gammas t that coupled functions are made of.

    Examples
    --------
    >>> from thresher.solvers.few_labels import Coupling
    >>> Coupling.of(2.0, [0.5, 0.5]).gammas.round(3).tolist()
    [0.167, 0.5]
    """

    vectors: np.ndarray
    gammas: np.ndarray

    @classmethod
    def of(cls, repulsion: float, shares: list[float]) -> Coupling:
        """For gamma_1 and the g of every class in place of gamma_3 and gamma_4."""
        k = len(shares)
        B = (repulsion - 1.0) * np.eye(k) + 1.0
        gammas, vectors = eigh(np.diag(np.asarray(shares, dtype=np.float64)), B)
        return cls(vectors, gammas)


def ridge(K: np.ndarray, y: np.ndarray, bounds: np.ndarray, corner: float | None = 0.0) -> LabelFit:
    r"""Squared losses, half of each times ``bounds``: one system for all outputs.

    .. math:: \begin{pmatrix} K + \mathrm{diag}(1/C) & 1 \\ 1' & q \end{pmatrix}
              \begin{pmatrix} c \\ b \end{pmatrix} = \begin{pmatrix} y \\ 0 \end{pmatrix}

    ``corner`` is q: 0 for a free bias, gamma times the sum of 1/d for one that the sum over all
    rows counts in, None for no bias.
    """
    borders = None if corner is None else np.ones((y.shape[0], 1))
    coef, intercept = _bordered(K, y, bounds, borders, np.array([[corner or 0.0]]))
    return LabelFit(coef[None], np.zeros(y.shape[1]) if intercept is None else intercept[0])


def coupled_ridge(
    coupling: Coupling, kernels: list[np.ndarray], y: np.ndarray, bounds: np.ndarray,
    corners: np.ndarray | None,
) -> LabelFit:  # fmt: skip
    """Coupled functions of all classes, from kernels that each gamma has deformed.

    ``corners`` has a q, as in :func:`ridge`, for every class; None for no bias.
    """
    l, k = y.shape
    U = coupling.vectors
    H = np.zeros((k * l, k * l))
    for u, K in zip(U.T, kernels, strict=True):
        H += np.kron(np.outer(u, u), K)
    borders = None if corners is None else np.kron(np.eye(k), np.ones((l, 1)))
    flat = np.ascontiguousarray(y.T).reshape(-1, 1)
    corner = np.zeros((k, k)) if corners is None else np.diag(corners)
    coef, intercept = _bordered(H, flat, np.tile(bounds, k), borders, corner)
    own = coef.reshape(k, l)  # of the outputs' own losses
    mixed = np.einsum("cj,dj,di->jic", U, U, own)
    return LabelFit(mixed, np.zeros(k) if intercept is None else intercept[:, 0])


def hinge(solver: KernelDual, K: np.ndarray, y: np.ndarray, bounds: np.ndarray) -> LabelFit:
    """Hinge losses times ``bounds``, one output after the other, by the dual."""
    columns = GramColumns(K)
    found = [classification(solver, columns, np.ascontiguousarray(t), bounds) for t in y.T]
    worst = next(
        (f.solution.status for f in found if f.solution.status is not Status.CONVERGED),
        Status.CONVERGED,
    )
    return LabelFit(
        np.stack([f.coef for f in found], axis=1)[None], np.array([f.intercept for f in found]),
        worst, max(f.solution.steps for f in found),
    )  # fmt: skip


def squared_hinge(
    K: np.ndarray, y: np.ndarray, bounds: np.ndarray, max_steps: int | None = None
) -> LabelFit:
    """Squared hinge losses, half of each times ``bounds``, by Newton's method in the primal.

    A step solves least squares over the rows within the margin (Chapelle, 2007).
    """
    found = [_newton(K, t, bounds, max_steps or _STEPS) for t in y.T]
    return LabelFit(
        np.stack([c for c, _, _ in found], axis=1)[None], np.array([b for _, b, _ in found]),
        Status.CONVERGED if all(n is not None for *_, n in found) else Status.MAX_ITER,
        max(n or max_steps or _STEPS for *_, n in found),
    )  # fmt: skip


def _newton(
    K: np.ndarray, y: np.ndarray, bounds: np.ndarray, most: int
) -> tuple[np.ndarray, float, int | None]:
    """Coefficients, bias, and the number of steps; None where there were too few."""
    coef, bias = np.zeros(y.size), 0.0
    inside = np.ones(y.size, dtype=bool)
    value = _objective(K, y, bounds, coef, bias)
    for step in range(1, most + 1):
        found = ridge(K[np.ix_(inside, inside)], y[inside, None], bounds[inside])
        aim, aim_bias = np.zeros(y.size), float(found.intercept[0])
        aim[inside] = found.coef[0, :, 0]
        length = 1.0
        while True:
            trial = coef + length * (aim - coef), bias + length * (aim_bias - bias)
            reached = _objective(K, y, bounds, *trial)
            if reached <= value + 1e-12 * abs(value) or length < 1e-6:
                break
            length *= 0.5
        (coef, bias), value = trial, reached
        now = y * (K @ coef + bias) < 1.0
        if length == 1.0 and np.array_equal(now, inside):
            return coef, bias, step
        inside = now if now.any() else inside
    return coef, bias, None


def _objective(
    K: np.ndarray, y: np.ndarray, bounds: np.ndarray, coef: np.ndarray, bias: float
) -> float:
    scores = K @ coef
    short = np.maximum(1.0 - y * (scores + bias), 0.0)
    return float(0.5 * coef @ scores + 0.5 * bounds @ short**2)


def _bordered(
    K: np.ndarray, y: np.ndarray, bounds: np.ndarray, borders: np.ndarray | None,
    corner: np.ndarray,
) -> tuple[np.ndarray, np.ndarray | None]:  # fmt: skip
    """Coefficients, and intercepts where there are borders.

    Solved for coefficients over the roots of their bounds, and intercepts in a unit that makes the
    borders one: else bounds that are small, or differ much, make the system singular by rounding.
    """
    n, unit = y.shape[0], np.sqrt(bounds)
    system = unit[:, None] * K * unit + np.eye(n)
    right = unit[:, None] * y
    if borders is None:
        return unit[:, None] * solve(system, right, assume_a="sym"), None
    borders = unit[:, None] * borders
    own = np.linalg.norm(borders, axis=0)
    borders, corner = borders / own, corner / np.outer(own, own)
    system = np.block([[system, borders], [borders.T, corner]])
    right = np.concatenate([right, np.zeros((borders.shape[1], y.shape[1]))])
    found = solve(system, right, assume_a="sym")
    return unit[:, None] * found[:n], found[n:] / own[:, None]
