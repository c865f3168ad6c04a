"""Kernel matrices of two sets, made comparable: scaled, centred, evened, without diagonal."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import cho_factor, cho_solve

__all__ = [
    "around_zero", "centred", "evened", "flattened", "of_unit_size", "without_diagonal",
]  # fmt: skip

_ROUNDINGS = 10.0  # of the size of a kernel: negative eigenvalues that are none


def of_unit_size(K: np.ndarray) -> np.ndarray:
    """K over its mean diagonal; over the root mean square of its rows where that is not positive.

    Then neither the units of the rows nor those of a precomputed kernel matter.
    """
    size = float(np.trace(K)) / len(K)
    if size <= 0.0:
        size = float(np.linalg.norm(K)) / np.sqrt(len(K))
    return K / size if size > 0.0 else K


def centred(K: np.ndarray) -> np.ndarray:
    """H K H with H = I - 11'/m: the kernel of features around their mean."""
    rows = K.mean(axis=0)
    return K - rows - rows[:, None] + rows.mean()


def around_zero(K: np.ndarray, L: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both centred; less their means only where sizes, and therefore centres, differ."""
    if K.shape == L.shape:
        return centred(K), centred(L)
    return K - K.mean(), L - L.mean()


def evened(K: np.ndarray) -> np.ndarray:
    """K (K + c)^-1 of the centred kernel, c its mean eigenvalue; negative ones count as zero.

    Where there are none but for rounding it is 1 - c (K + c)^-1, in a third of the time.
    """
    K = centred(K)
    size = float(np.trace(K, dtype=np.float64)) / len(K)
    one = np.eye(len(K), dtype=K.dtype)
    if size > 0.0:
        rounding = K.dtype.type(_ROUNDINGS * np.finfo(K.dtype).eps * float(np.linalg.norm(K)))
        with suppress(LinAlgError):
            cho_factor(K + rounding * one, check_finite=False)
            shifted = cho_factor(K + K.dtype.type(size) * one, check_finite=False)
            return one - K.dtype.type(size) * cho_solve(shifted, one, check_finite=False)
    values, vectors = np.linalg.eigh(K)
    values = np.maximum(values, 0.0)
    size = float(values.mean())
    return (vectors * (values / (values + size))) @ vectors.T if size > 0.0 else np.zeros_like(K)


def without_diagonal(K: np.ndarray) -> np.ndarray:
    """What objects have to do with the others only."""
    K = K.copy()
    np.fill_diagonal(K, 0.0)
    return K


def flattened(K: np.ndarray, power: float) -> np.ndarray:
    """KS-p: entries to a power in (0, 1], rows of length one, and their inner products.

    Powers below one keep a dominant diagonal from deciding alone.  Negative entries keep their
    sign.  Jagarlamudi, Juarez and Daume (2010).
    """
    raised = np.sign(K) * np.abs(K) ** power
    length = np.linalg.norm(raised, axis=1, keepdims=True)
    raised = raised / np.where(length > 0.0, length, 1.0)
    return raised @ raised.T
