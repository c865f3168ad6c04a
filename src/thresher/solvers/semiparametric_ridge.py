r"""Kernel least squares with free functions, by one direct solve.

.. math:: \min_{w,\beta}\; \tfrac{\alpha}{2}\|w\|^2 + \operatorname{mean}_i \tfrac12
          (y_i - \langle w, \phi(x_i)\rangle - \beta\cdot\psi(x_i))^2, \qquad
          \begin{pmatrix} K + \alpha n D^{-1} & \Psi \\ \Psi' & 0 \end{pmatrix}
          \begin{pmatrix} z \\ \beta \end{pmatrix} = \begin{pmatrix} y \\ 0 \end{pmatrix}

with D the weights of the rows: the LS-SVM for psi = 1, a smoothing spline's system for a kernel
with polynomials (Wahba, 1990).  One Cholesky factor of n x n numbers and a K x K Schur complement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve

from thresher.functions.expansion import Expansion
from thresher.functions.semiparametric import SemiparametricFunction, trailing
from thresher.kernels.functions import Kernel
from thresher.kernels.gram import gram
from thresher.solvers.base import Chunk, Problem, Solver
from thresher.solvers.semiparametric import orthonormal, split

__all__ = ["SemiparametricLeastSquares"]


class RidgeState(NamedTuple):
    vectors: np.ndarray
    coef: np.ndarray
    beta: np.ndarray
    step: int


@dataclass(frozen=True)
class SemiparametricLeastSquares(Solver):
    """Kernel ridge regression with functions that are not penalised, exactly.

    Parameters
    ----------
    kernel : Kernel
        Of all but the last ``free`` columns of the rows.
    free : int, default=1
    memory : float, default=2e9
        Bytes for the kernel matrix and its factor.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import RBF
    >>> from thresher._rows import as_rows
    >>> from thresher.losses import LeastSquares
    >>> from thresher.penalties import L2
    >>> from thresher.solvers import Problem, driver
    >>> from thresher.solvers.semiparametric_ridge import SemiparametricLeastSquares
    >>> x = np.linspace(0.0, 6.0, 60)
    >>> rows = as_rows(np.column_stack([x, x, np.ones(60)]))
    >>> problem = Problem(LeastSquares(), L2(0.1), 3, False)
    >>> solver, chunk = SemiparametricLeastSquares(RBF(1.0), 2), driver.whole(rows, 3.0 * x - 1.0)
    >>> driver.learn(solver, problem, chunk, driver.Plan(1)).function.beta.round(6).tolist()
    [3.0, -1.0]
    """

    kernel: Kernel
    free: int = 1
    memory: float = 2e9

    loss_needs = frozenset({"square"})
    penalty_needs = frozenset({"uniform", "quadratic"})
    streaming = False
    linear = False
    default_passes = 1

    def check(self, problem: Problem) -> None:
        if not problem.ridge > 0.0:
            raise ValueError(f"{type(self).__name__}: needs a positive strength (alpha)")

    def init(self, problem: Problem, chunk: Chunk | None = None) -> RidgeState:
        d = problem.n_features - self.free
        return RidgeState(np.zeros((0, d)), np.zeros(0), np.zeros(self.free), 0)

    def update(self, problem: Problem, state: RidgeState, chunk: Chunk) -> RidgeState:
        n = chunk.order.size
        if 16.0 * n * n > self.memory:
            raise ValueError(
                f"least squares with the exact kernel of {n} rows takes {16.0 * n * n:.3g} bytes: "
                f"raise memory={self.memory:.3g} to that, or use landmarks (map='nystroem')"
            )
        X, psi = split(problem, chunk, self.free)
        weight, y = chunk.weight[chunk.order], chunk.y[chunk.order].astype(np.float64)
        basis, triangle = orthonormal(psi)
        K = gram(self.kernel, X)
        K[np.diag_indices(n)] += problem.ridge * float(np.sum(weight)) / weight
        factor = cho_factor(K, lower=True, overwrite_a=True, check_finite=False)
        images = cho_solve(factor, basis, check_finite=False)
        alone = cho_solve(factor, y, check_finite=False)
        eta = solve(basis.T @ images, basis.T @ alone, assume_a="pos") if self.free else psi[0, :0]
        beta = np.linalg.solve(triangle, eta) if self.free else eta
        vectors = X.toarray() if hasattr(X, "toarray") else X
        return RidgeState(vectors, alone - images @ eta, beta, 1)

    def finish(self, problem: Problem, state: RidgeState) -> SemiparametricFunction:
        part = Expansion(self.kernel, state.vectors.copy(), state.coef[None].copy(), np.zeros(1))
        return SemiparametricFunction(part, trailing(part.features, self.free), state.beta.copy())

    def residual(self, problem: Problem, state: RidgeState, before: Any, after: Any) -> float:
        return 0.0
