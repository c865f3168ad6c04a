"""What the golden files must give, as their writer and their test ask for it."""

from __future__ import annotations

import math
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from scipy.sparse import csr_matrix, issparse
from scipy.special import expit

__all__ = ["HERE", "TABLE", "facts_of", "outputs", "packed", "probe", "unpacked"]

HERE = Path(__file__).resolve().parent
TABLE = HERE / "table.csv"


def probe() -> dict[str, str]:
    """What this processor makes of the operations by which models score rows: digests of the bits.

    BLAS, NumPy's and the C library's functions and Numba's code choose instructions by processor,
    and with them how sums are split and products fused: the last bits.  Where these come out as
    they were, predictions must as well.
    """
    rng = np.random.default_rng(1)
    found = {}
    for dtype in (np.float64, np.float32):
        a, b, c = (rng.normal(size=s).astype(dtype) for s in ((24, 6), (6, 25), (25, 3)))
        product = a @ b
        shares = np.exp(-np.abs(product))
        found[np.dtype(dtype).name] = _digest(
            product, np.ascontiguousarray(b.T) @ a.T, product @ c, product @ c[:, 0], shares,
            np.cos(product), np.tanh(product), shares**0.7, np.einsum("ij,ij->i", a, a),
            product.sum(axis=1), product.mean(axis=0), _compiled(product, shares),
        )  # fmt: skip
    numbers = rng.normal(size=50)
    plain = [f(v) for v in numbers.tolist() for f in (math.exp, math.tanh, math.cos)]
    found["functions"] = _digest(np.array(plain), expit(numbers))
    return found


def _digest(*arrays: np.ndarray) -> str:
    return sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


@njit(fastmath={"reassoc", "contract"})
def _compiled(table, factors):
    out = np.zeros(2 * table.shape[0], dtype=table.dtype)
    for i in range(table.shape[0]):
        for j in range(table.shape[1]):
            out[2 * i] += table[i, j] * factors[i, j]
            out[2 * i + 1] += math.exp(-0.3 * table[i, j] * factors[i, j])
    return out


def packed(rows: Any, name: str) -> dict[str, np.ndarray]:
    """Rows as arrays of expected.npz."""
    if not issparse(rows):
        return {f"rows/{name}": rows}
    parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    return {f"rows/{name}/{part}": array for part, array in parts.items()} | {
        f"rows/{name}/shape": np.array(rows.shape)
    }


def unpacked(arrays: dict[str, np.ndarray], name: str) -> Any:
    """The rows of that name."""
    if f"rows/{name}" in arrays:
        return arrays[f"rows/{name}"]
    data, indices, indptr, shape = (
        arrays[f"rows/{name}/{part}"] for part in ("data", "indices", "indptr", "shape")
    )
    return csr_matrix((data, indices, indptr), shape=tuple(shape))


def outputs(model: Any, rows: Any) -> dict[str, np.ndarray]:
    """All that a :class:`thresher.Model` says about rows: a matrix, or the path of a table."""
    if isinstance(rows, Path):
        scores = [part.scores for part in model.predictions(model.open(rows))]
        found = {"scores": np.concatenate(scores), "predict": model.predict(rows)}
        if hasattr(model.estimator, "predict_proba"):
            found["proba"] = model.predict_proba(rows)
        return found
    estimator = model.estimator
    if hasattr(estimator, "feature_names_in_"):
        import pandas as pd

        rows = pd.DataFrame(rows, columns=estimator.feature_names_in_)
    methods = {"scores": "decision_function", "predict": "predict", "proba": "predict_proba"}
    return {
        key: getattr(estimator, method)(rows)
        for key, method in methods.items()
        if hasattr(estimator, method)
    }


def facts_of(model: Any) -> dict[str, Any]:
    """What else a file must give back, as plain JSON; only what the model has."""
    from thresher.registry import SOLVERS

    estimator = model.estimator
    solvers = {cls: name for name, cls in SOLVERS.items()}
    classes = getattr(estimator, "classes_", None)
    names = getattr(estimator, "feature_names_in_", None)
    facts = {
        "estimator": type(estimator).__name__,
        "features": int(estimator.n_features_in_),
        "status": estimator.status_.name,
        "passes": int(estimator.n_iter_),
        "classes": None if classes is None else classes.tolist(),
        "type of classes": None if classes is None else classes.dtype.name,
        "feature names": None if names is None else names.tolist(),
        "solver": solvers.get(type(getattr(estimator, "solver_", None))),
        "sparse weights": issparse(getattr(estimator, "coef_", None)) or None,
        "leave-one-out error": getattr(estimator, "loo_error_", None),
        "trace": [len(records) for records in getattr(estimator, "trace_", [])] or None,
    }
    return {name: value for name, value in facts.items() if value is not None}
