r"""How wide a kernel should be where nobody says.

Kernels of the distance get the median heuristic, :math:`\gamma = 1/\mathrm{median}\|x-x'\|^2`
(for ``Exponential``, whose exponent is the distance itself, one over the median distance), over
the pairs of a sample of the rows; kernels of the inner product get
:math:`\gamma = 1/\mathrm{mean}\|x\|^2`, so that :math:`\gamma\, x \cdot x'` is of order one.
"""

from __future__ import annotations

import dataclasses
import math
from numbers import Real
from typing import Any

import numpy as np

from thresher._allowed import POSITIVE
from thresher._random import generator
from thresher.kernels.functions import Exponential, Kernel, Linear
from thresher.kernels.gram import gram, squares
from thresher.kernels.matrices import distinct
from thresher.registry import KERNELS, resolve

__all__ = ["median_gamma", "resolve_kernel"]

_SAMPLE = 1000


#: what the width of a kernel may be
GAMMA = POSITIVE | "median" | None


def resolve_kernel(kernel: Any, gamma: Any, X: Any, seed: int = 0) -> Kernel:
    """A kernel object from a name or an object and ``gamma`` (a number, "median" or None).

    None keeps the gamma of an object and is "median" for a name.  A gamma for a kernel that has
    none is refused rather than ignored.
    """
    found: Kernel = resolve(kernel, Kernel, "kernel")
    has_gamma = _has_gamma(type(found))
    if gamma is None:
        if isinstance(kernel, Kernel) or not has_gamma:
            return found
        gamma = "median"
    if not has_gamma:
        having = [name for name, cls in KERNELS.items() if _has_gamma(cls)]
        raise ValueError(
            f"kernel {type(found).__name__} has no gamma; these have: {', '.join(having)}"
        )
    if isinstance(gamma, str):
        if gamma != "median":
            raise ValueError(f"gamma must be a positive number, 'median' or None, got {gamma!r}")
        gamma = median_gamma(found, X, seed)
    if not (isinstance(gamma, Real) and 0.0 < float(gamma) < math.inf):
        raise ValueError(f"gamma must be a positive number, 'median' or None, got {gamma!r}")
    return dataclasses.replace(found, gamma=float(gamma))  # type: ignore[type-var]


def _has_gamma(cls: Any) -> bool:
    return any(f.name == "gamma" for f in dataclasses.fields(cls))


def median_gamma(kernel: Kernel, X: Any, seed: int = 0) -> float:
    """The width by the median heuristic; 1 where all rows are the same point.

    One over the median squared distance between pairs of rows for a radial kernel (over the median
    distance for ``Exponential``), and one over the mean squared norm for the others.

    Parameters
    ----------
    kernel : Kernel
        Its own gamma does not matter.
    X : float array or SciPy CSR container
        At most 1000 of its rows are looked at.
    seed : int, default=0
        Of the choice of these rows.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import RBF
    >>> from thresher.maps import median_gamma
    >>> median_gamma(RBF(), np.array([[0.0], [2.0]]))
    0.25
    """
    n = X.shape[0]
    if n > _SAMPLE:
        X = X[np.sort(generator(seed, 11).choice(n, _SAMPLE, replace=False))]
    else:  # all rows there are: a repeated row is the same point
        X = distinct(X)
    X = X.astype(np.float64)
    if "radial" not in kernel.traits:
        return _inverse(float(squares(X).mean()) if n else 0.0)
    if not hasattr(X, "indptr"):
        X = X - X.mean(axis=0)
    square = squares(X)
    distances = square[:, None] + square - 2.0 * gram(Linear(), X)
    pairs = distances[np.triu_indices(X.shape[0], 1)]
    apart = pairs[pairs > 1e-12 * max(float(square.mean()), 1e-300)]  # equal rows say nothing
    middle = float(np.median(apart)) if apart.size else 0.0
    return _inverse(math.sqrt(middle) if isinstance(kernel, Exponential) else middle)


def _inverse(size: float) -> float:
    return 1.0 / size if math.isfinite(size) and size > 1e-300 else 1.0
