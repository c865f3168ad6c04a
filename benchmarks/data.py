"""The data sets of the benchmarks: real ones where they are at hand, generated ones otherwise.

Real sets are read from a folder of ``NAME/*.npz`` files: ``THRESHER_DATA``, or ``../shared/data``
beside the checkout.  A benchmark whose set is missing says so and goes on.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

ROOT = Path(os.environ.get("THRESHER_DATA", Path(__file__).parents[2] / "shared" / "data"))


class Split(NamedTuple):
    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray


def available(name: str) -> bool:
    return (ROOT / _FOLDERS.get(name, name)).is_dir()


def load(name: str) -> Split:
    """Train and test parts; features float32, labels as integers."""
    raw = read(_FOLDERS.get(name, name))
    if name == "covtype":
        return _halves(_standardised(covtype_columns(raw)), (raw["y"] == 2).astype(int))
    if name == "cod_rna":
        return _halves(raw["X"], (raw["y"] > 0).astype(int))
    X, y, X_test, y_test = (raw[key] for key in ("X_train", "y_train", "X_test", "y_test"))
    if name.startswith("20news"):
        X, X_test = _tf_idf(X, X_test)
        if name == "20news_binary":
            y, y_test = (y < 10).astype(int), (y_test < 10).astype(int)
    if name == "mnist":
        X, X_test = X / np.float32(255), X_test / np.float32(255)
    X, X_test = (part.astype(np.float32) for part in (X, X_test))
    return Split(X, y, X_test, y_test)


_FOLDERS = {"20news_binary": "20newsgroups", "20news": "20newsgroups"}


def read(folder: str) -> dict[str, Any]:
    """All arrays of a set, as they are."""
    content: dict[str, Any] = {}
    for file in sorted((ROOT / folder).glob("*.npz")):
        with np.load(file, allow_pickle=False) as archive:
            if "indptr" in archive.files:
                content[file.stem] = sp.load_npz(file).tocsr()
            else:
                content.update({key: archive[key] for key in archive.files})
    return content


def covtype_columns(raw: dict[str, Any]) -> np.ndarray:
    def one_hot(codes: np.ndarray, k: int) -> np.ndarray:
        return np.eye(k, dtype=np.float32)[codes - codes.min()]

    parts = [raw["X_num"], one_hot(raw["wilderness"], 4), one_hot(raw["soil"], 40)]
    return np.hstack(parts).astype(np.float32)


def _standardised(X: np.ndarray) -> np.ndarray:
    deviation = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1).astype(np.float32)


def _halves(X: np.ndarray, y: np.ndarray) -> Split:
    """Where no test part is published: a seeded 80/20 split."""
    order = np.random.default_rng(0).permutation(y.size)
    cut = int(0.8 * y.size)
    train, test = order[:cut], order[cut:]
    return Split(X[train].astype(np.float32), y[train], X[test].astype(np.float32), y[test])


def _tf_idf(X: Any, X_test: Any) -> tuple[Any, Any]:
    from sklearn.feature_extraction.text import TfidfTransformer

    transform = TfidfTransformer().fit(X.astype(np.float64))
    return transform.transform(X.astype(np.float64)), transform.transform(X_test.astype(np.float64))


def zipf_rows(n: int = 200_000, nonzeros: int = 75, d: int = 47_236, seed: int = 0) -> Split:
    """Text-like rows: ``nonzeros`` columns each, drawn from a Zipf law, values in (0, 1].

    No column twice in a row: it is drawn again.
    """
    rng = np.random.default_rng(seed)
    law = 1.0 / np.arange(1, d + 1)
    columns = np.sort(rng.choice(d, size=(n, nonzeros), p=law / law.sum()), axis=1)
    while (again := np.diff(columns, axis=1, prepend=-1) == 0).any():
        columns[again] = rng.choice(d, size=np.count_nonzero(again), p=law / law.sum())
        columns.sort(axis=1)
    columns = np.sort(rng.permutation(d)[columns], axis=1).astype(np.int32)
    data = (1.0 - rng.random(n * nonzeros)).astype(np.float32) / np.float32(np.sqrt(nonzeros))
    indptr = np.arange(0, n * nonzeros + 1, nonzeros, dtype=np.int32)
    X = sp.csr_matrix((data, columns.ravel(), indptr), shape=(n, d))
    y = (X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n) > 0).astype(int)
    return Split(X, y, X[:1000], y[:1000])
