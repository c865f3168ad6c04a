"""From what users hold (arrays, frames, sparse matrices) to rows, without needless copies."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy.sparse import csr_matrix, issparse, vstack
from sklearn.utils.validation import _check_sample_weight, validate_data

from thresher._rows import Rows, as_rows, check_compressed
from thresher.data.moments import Moments
from thresher.functions import Units
from thresher.solvers import Chunk

__all__ = [
    "check_weight",
    "checked_X",
    "checked_Xy",
    "learn_units",
    "matrix_of",
    "refuse_far_rows",
    "refuse_far_targets",
    "refuse_huge",
    "refuse_overflow",
    "stacked",
    "to_rows",
    "units_from",
]  # fmt: skip

_CHECKS: dict[str, Any] = {
    "accept_sparse": "csr",
    "accept_large_sparse": True,
    "dtype": [np.float64, np.float32],
    "order": "C",
}


def checked_Xy(
    estimator: Any, X: Any, y: Any, reset: bool, numeric: bool
) -> tuple[Any, np.ndarray]:
    X = _from_frame(X)
    _refuse_missing(y)
    X, y = validate_data(estimator, X, y, reset=reset, y_numeric=numeric, **_CHECKS)
    return X, y


def _refuse_missing(y: Any) -> None:
    """pandas' NA has no truth value, for which scikit-learn asks it; the others it refuses."""
    if getattr(y, "dtype", None) is None:
        return
    values = np.asarray(y)
    if values.dtype.kind == "O":
        missing = (i for i, v in enumerate(values.ravel()) if type(v).__name__ == "NAType")
        if (first := next(missing, None)) is not None:
            raise ValueError(f"Input y contains NaN: the target of row {first} is missing")


def checked_X(estimator: Any, X: Any, reset: bool = False) -> Any:
    return validate_data(estimator, _from_frame(X), reset=reset, **_CHECKS)


def _from_frame(X: Any) -> Any:
    """Frames that scikit-learn does not read itself (Arrow tables), and a clear word on strings."""
    if isinstance(X, np.ndarray) or issparse(X):
        check_compressed(X)
        return X
    frame = nw.from_native(X, pass_through=True, eager_only=True)
    if not isinstance(frame, nw.DataFrame):
        return X
    bad = [
        name
        for name, dtype in frame.schema.items()
        if not (dtype.is_numeric() or dtype == nw.Boolean)
    ]
    if bad:
        raise ValueError(
            f"could not convert string to float: column {bad[0]!r} holds {frame.schema[bad[0]]} "
            "values; encode text and categories as numbers first"
        )
    if frame.implementation.is_pyarrow():
        return (
            nw.from_native(X, eager_only=True).to_polars() if _has_polars() else frame.to_pandas()
        )
    return X


def _has_polars() -> bool:
    import importlib.util

    return importlib.util.find_spec("polars") is not None


def check_weight(sample_weight: Any, X: Any) -> np.ndarray | None:
    if sample_weight is None:
        return None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not np.any(weight > 0.0):
        raise ValueError("sample_weight is zero for every row: there is nothing to learn from")
    return weight


def refuse_huge(chunk: Chunk) -> None:
    """Say so if a fit failed because squares of the data overflow; asked only after a failure."""
    _refuse_chunk(chunk, 1e18 if chunk.rows.dtype == np.float32 else 1e75)


def refuse_overflow(chunk: Chunk) -> None:
    """Refuse rows and targets whose squares overflow for certain."""
    _refuse_chunk(chunk, _certain(chunk.rows.dtype))


def refuse_far_rows(X: Any) -> None:
    """Refuse rows, an array or a CSR matrix, whose squared distances overflow for certain."""
    _refuse_beyond(_certain(X.dtype), "X", X.data if hasattr(X, "indptr") else X)


def refuse_far_targets(y: np.ndarray) -> None:
    """Refuse numbers whose squared misses overflow for certain."""
    _refuse_beyond(_certain(y.dtype), "y", y)


def _certain(dtype: Any) -> float:
    return 0.25 * float(np.finfo(dtype).max) ** 0.5


def _refuse_chunk(chunk: Chunk, limit: float) -> None:
    rows: Any = chunk.rows
    stored = rows.data if rows.is_sparse else rows.X
    for name, values in (("X", stored), ("y", chunk.y)):
        _refuse_beyond(limit, name, values)


def _refuse_beyond(limit: float, name: str, values: np.ndarray) -> None:
    largest = max(float(np.max(values, initial=0.0)), -float(np.min(values, initial=0.0)))
    if largest > limit:
        raise ValueError(
            f"{name} holds values up to {largest:.3g}, too large to square without overflow: "
            "scale them (features: scale=True or a scaler before the model)"
        )


def learn_units(rows: Rows, weight: np.ndarray, centre: bool) -> Units:
    """Standardise: unit variance for every column that varies, and mean zero if ``centre``."""
    return units_from(Moments.empty(rows.shape[1]).updated(rows, weight), centre)


def units_from(moments: Moments, centre: bool) -> Units:
    mean, deviation = moments.mean_and_deviation()
    varies = deviation > 1e-12 * np.maximum(np.abs(mean), 1e-300)
    scale = np.where(varies, 1.0 / np.where(varies, deviation, 1.0), 1.0)
    return Units(mean if centre else None, scale)


def matrix_of(rows: Any) -> Any:
    """The array or CSR matrix that ``rows``, in its units, is a view of."""
    if not rows.is_sparse:
        return rows.X
    signed = {4: np.int32, 8: np.int64}
    indices, indptr = (p.view(signed[p.itemsize]) for p in (rows.indices, rows.indptr))
    return csr_matrix((rows.data, indices, indptr), shape=rows.shape)


def stacked(X: Any, Z: Any) -> Any:
    """The rows of both, sparse if one of them is."""
    if issparse(X) or issparse(Z):
        return vstack([csr_matrix(X), csr_matrix(Z)], format="csr", dtype=X.dtype)
    return np.concatenate([X, Z]).astype(X.dtype, copy=False)


def to_rows(X: Any) -> Rows:
    """Rows of a checked matrix; repeated entries of a sparse row are added up first."""
    if hasattr(X, "indptr") and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return as_rows(X)
