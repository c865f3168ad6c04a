"""Arrays in memory and NumPy / SciPy ``.npz`` files: rows that are features already."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from thresher._blanks import blanks
from thresher._rows import check_compressed
from thresher.data.batch import Batch, Sparse
from thresher.data.encode import Encoder, Origin
from thresher.data.errors import DataError
from thresher.data.files import BLOCK_BYTES
from thresher.data.infer import with_layout
from thresher.data.infer_target import given_classes, infer_target
from thresher.data.pipes import local
from thresher.data.schema import MOST_FEATURES, Schema, Target
from thresher.data.source import Files, Source, sample_rows
from thresher.data.wishes import Wishes

__all__ = ["MatrixSource", "npz_source"]

_BROKEN = (ValueError, OSError, KeyError, EOFError, TypeError, NotImplementedError, AttributeError,
           zipfile.BadZipFile, zlib.error)  # fmt: skip


@dataclass
class MatrixSource(Files, Source):
    """A dense or sparse matrix with targets and weights in memory."""

    X: Any
    y: Any = None
    weight: Any = None
    block_bytes: int = BLOCK_BYTES
    name: str = "the matrix"
    paths: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.X = _checked(self.X, self.name)
        n = self.X.shape[0]
        self.y = None if self.y is None else _aligned(self.y, n, "y")
        if self.weight is not None:
            weight = _aligned(self.weight, n, "weight")
            if weight.dtype.kind not in "biuf":
                raise DataError(f"weight holds {weight.dtype} values: numbers are expected")
            self.weight = weight.astype(np.float64)

    @property
    def n_rows(self) -> int | None:
        return int(self.X.shape[0])

    def infer(self, wishes: Wishes) -> Schema:
        n, d = self.X.shape
        if n == 0:
            raise DataError(f"{self.name} has no rows")
        head = self.X[: sample_rows(d)]
        target = None
        if self.y is not None:
            target = _target(self.y, head.shape[0], wishes, self.name)
        weight = "weight" if self.weight is not None else None
        schema = Schema(target=target, weight=weight, matrix_features=d)
        stored = head.data if hasattr(head, "indptr") else head
        return with_layout(schema, head.shape[0], int(np.count_nonzero(stored)))

    def blocks(self, encoder: Encoder) -> Iterator[Batch]:
        schema = encoder.schema
        n, d = self.X.shape
        if d != schema.n_features:
            raise DataError(f"{self.name} has {d} columns, {schema.n_features} are expected")
        if schema.target is not None and self.y is None:
            raise DataError(f"{self.name} comes without targets (y)")
        if schema.weight is not None and self.weight is None:
            raise DataError(f"{self.name} comes without weights (weight)")
        target = None if schema.target is None else _coded(self.y, schema.target, self.name)
        size = max(16, self.block_bytes // max(schema.row_bytes, 1))
        for start in range(0, n, size):
            part = slice(start, start + size)
            matrix = _matrix(self.X[part], schema.layout == "sparse")
            y = None if target is None else target[part]
            weight = self.weight[part] if schema.weight is not None else None
            block, where = _finite(Batch(matrix, y, weight), self._origin(start), encoder)
            yield encoder.encode_matrix(block.matrix, block.y, block.weight, where)

    def _origin(self, start: int) -> Origin:
        return Origin(self.name, lambda i: start + i + 1, lambda i, _: self.y[start + i], "row")


def npz_source(path: str, block_bytes: int = BLOCK_BYTES) -> MatrixSource:
    """``np.savez(file, X=..., y=...)`` (and weight), or ``scipy.sparse.save_npz`` without y."""
    try:
        with np.load(local(path), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except _BROKEN as error:
        raise DataError(f"{path} is not a readable .npz file: {error}") from None
    if {"indptr", "indices", "data", "shape"} <= set(arrays):
        X = _stored_csr(arrays, path)
    elif "X" in arrays:
        X = arrays["X"]
    else:
        raise DataError(f"{path} holds {', '.join(arrays) or 'nothing'}: an array X is expected")
    return MatrixSource(X, arrays.get("y"), arrays.get("weight"), block_bytes, path, (path,))


def _stored_csr(arrays: dict[str, np.ndarray], path: str) -> Any:
    """What ``scipy.sparse.save_npz`` wrote; indices are checked, compiled loops trust them."""
    from scipy.sparse import csr_array

    kind = arrays.get("format", np.array(b"csr")).item()
    kind = kind.decode(errors="replace") if isinstance(kind, bytes) else kind
    if kind != "csr":
        raise DataError(f"{path} holds a sparse matrix in {kind} format: save it as csr")
    try:
        parts = (arrays["data"], arrays["indices"], arrays["indptr"])
        X = csr_array(parts, shape=tuple(map(int, arrays["shape"])))
        X.check_format(full_check=True)
    except (ValueError, TypeError, OverflowError) as error:
        raise DataError(f"{path} is not a sound sparse matrix: {error}") from None
    return X


def _checked(X: Any, name: str) -> Any:
    try:
        check_compressed(X, name)
    except ValueError as error:
        raise DataError(str(error)) from None
    try:
        X = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
    except ValueError as error:
        raise DataError(f"{name} is no matrix: {error}") from None
    if X.ndim != 2:
        raise DataError(f"{name} has shape {X.shape}: rows and columns are expected")
    if X.dtype.kind not in "biuf":
        raise DataError(f"{name} holds {X.dtype} values: numbers are expected")
    if X.shape[1] > MOST_FEATURES:
        raise DataError(f"{name} has {X.shape[1]} columns, at most {MOST_FEATURES} are possible")
    if hasattr(X, "indptr") and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _aligned(values: Any, n: int, role: str) -> np.ndarray:
    array = np.asarray(values)
    if array.shape != (n,):
        raise DataError(f"{role} has shape {array.shape}, {n} rows are given")
    return array


def _finite(block: Batch, origin: Origin, encoder: Encoder) -> tuple[Batch, Origin]:
    """The rows without NaN and infinite elements, and where those are; the others are reported."""
    matrix = block.matrix
    stored = matrix.data if isinstance(matrix, Sparse) else matrix
    fine = np.isfinite(stored)
    if fine.all():
        return block, origin
    if isinstance(matrix, Sparse):
        places = np.flatnonzero(~fine)
        rows = np.searchsorted(matrix.indptr, places, side="right") - 1
        columns = matrix.indices[places]
    else:
        rows, columns = np.nonzero(~fine)
    good = np.ones(block.size, dtype=bool)
    for i, j in zip(rows, columns, strict=True):
        if good[i]:
            cell = origin.cell(int(i), str(j), "NaN or infinite, a finite number is expected")
            encoder.bad.add(cell)
            good[i] = False
    return block.taken(good), origin.taken(good)


def _target(y: np.ndarray, sampled: int, wishes: Wishes, name: str) -> Target:
    y = _numbers_of(y)
    if y.dtype.kind in "biuf":
        y = y.astype(np.float64)
        return infer_target("y", y[:sampled], wishes, name, every=y)
    if wishes.task == "regression":
        raise DataError(f"{name}: the targets are {y.dtype} values, not numbers")
    labels = wishes.classes or sorted({str(label) for label in y[~blanks(y)]})
    if not labels:
        raise DataError(f"{name}: no row has a label")
    return given_classes("y", labels, wishes)


def _coded(y: np.ndarray, target: Target, name: str) -> np.ndarray:
    if target.by_words:
        places = {label: float(k) for k, label in enumerate(target.labels)}
        codes = np.array([places.get(str(label), -1.0) for label in y])
        return np.where(blanks(y), np.nan, codes)
    y = _numbers_of(y)
    try:
        return y.astype(np.float64)
    except (ValueError, TypeError) as error:
        raise DataError(f"{name}: the targets are not numbers: {error}") from None


def _numbers_of(y: np.ndarray) -> np.ndarray:
    """Numbers that came as objects, since some are missing."""
    if y.dtype.kind != "O":
        return y
    missing = blanks(y)
    if any(isinstance(label, str) for label in y[~missing]) or missing.all():
        return y
    try:
        return np.where(missing, np.nan, y).astype(np.float64)
    except (TypeError, ValueError):
        return y


def _matrix(X: Any, sparse: bool) -> np.ndarray | Sparse:
    if hasattr(X, "indptr"):
        if not sparse:
            return np.ascontiguousarray(X.toarray(), dtype=np.float64)
        if np.count_nonzero(X.data) < X.data.size:
            X = X.copy()
            X.eliminate_zeros()
    elif not sparse:
        return np.ascontiguousarray(X, dtype=np.float64)
    else:
        from scipy.sparse import csr_array

        X = csr_array(X)
    return Sparse(
        np.ascontiguousarray(X.data, dtype=np.float64),
        X.indices.astype(np.int32, copy=False),
        X.indptr.astype(np.int32),
    )
