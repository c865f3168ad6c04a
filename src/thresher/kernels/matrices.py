"""Rows of arrays and of CSR matrices alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import vstack

__all__ = ["canonical", "distinct", "stack"]


def stack(A: Any, B: Any) -> Any:
    """The rows of A, then those of B."""
    return vstack([A, B], format="csr") if hasattr(A, "indptr") else np.concatenate([A, B])


def canonical(X: Any) -> Any:
    """A CSR matrix whose rows have sorted columns, each once."""
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def distinct(X: Any) -> Any:
    """Each row once, in an order that does not depend on theirs."""
    if not hasattr(X, "indptr"):
        return np.unique(X, axis=0)
    X = X.copy()
    X.sum_duplicates()
    X.eliminate_zeros()
    found = {}
    for i in range(X.shape[0]):
        part = slice(X.indptr[i], X.indptr[i + 1])
        found[X.indices[part].tobytes() + X.data[part].tobytes()] = i
    return X[[found[key] for key in sorted(found)]]
