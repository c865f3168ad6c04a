"""The data sets of the published tables, as two-class problems.

They are read from a folder of ``NAME/*.npz`` files: ``THRESHER_DATA``, or ``../shared/data`` beside
the checkout.  Iris comes with scikit-learn.  An experiment whose set is missing says so, and goes
on.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_iris

ROOT = Path(os.environ.get("THRESHER_DATA", Path(__file__).parents[2] / "shared" / "data"))

#: which class is told from the rest; where none is named, the first one
_FIRST = {"covtype": 1, "magic": 1, "ionosphere": 1, "spambase": 1}


class Binary(NamedTuple):
    X: np.ndarray
    y: np.ndarray  # -1 / +1

    @property
    def majority_error(self) -> float:
        """What a model without any weight reaches: the share of the smaller class."""
        share = float(np.mean(self.y > 0))
        return min(share, 1.0 - share)


def available(name: str) -> bool:
    return name == "iris" or (ROOT / name).is_dir()


def load(name: str, positive: int | None = None) -> Binary:
    """All rows of a set (its published parts joined), class ``positive`` against the rest."""
    raw = read(name)
    classes = labels(name, raw)
    if positive is None:
        positive = _FIRST.get(name, int(classes.min()))
    return Binary(columns(name, raw), np.where(classes == positive, 1.0, -1.0))


def read(name: str) -> dict[str, np.ndarray]:
    """All arrays of a set, as they are."""
    raw: dict[str, np.ndarray] = {}
    if name == "iris":
        raw["X"], raw["y"] = load_iris(return_X_y=True)
    for file in sorted((ROOT / name).glob("*.npz")):
        with np.load(file, allow_pickle=False) as archive:
            raw.update({key: archive[key] for key in archive.files})
    return raw


def columns(name: str, raw: dict[str, np.ndarray]) -> np.ndarray:
    """Its published parts joined."""
    return covertype_columns(raw) if name == "covtype" else _joined(raw, "X")


def labels(name: str, raw: dict[str, np.ndarray]) -> np.ndarray:
    return raw["y"] if name == "covtype" else _joined(raw, "y")


def _joined(raw: dict[str, np.ndarray], key: str) -> np.ndarray:
    if key in raw:
        return raw[key].astype(np.float64 if key == "X" else np.int64)
    parts = [raw[f"{key}_train"]] + ([raw[f"{key}_test"]] if f"{key}_test" in raw else [])
    return np.concatenate(parts).astype(np.float64 if key == "X" else np.int64)


def covertype_columns(raw: dict[str, np.ndarray]) -> np.ndarray:
    """The 54 published columns: 10 numbers, 4 wilderness flags, 40 soil flags."""

    def one_hot(codes: np.ndarray, k: int) -> np.ndarray:
        return np.eye(k, dtype=np.float32)[codes - codes.min()]

    parts = [raw["X_num"], one_hot(raw["wilderness"], 4), one_hot(raw["soil"], 40)]
    return np.hstack(parts).astype(np.float32)


def label_noise(n: int, flipped: float, rng: np.random.Generator) -> tuple[Binary, np.ndarray]:
    """Two Gaussians of the pinball experiment; observed labels, and the true ones."""
    truth = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    X = rng.standard_normal((n, 2)) * np.sqrt([0.2, 3.0]) + truth[:, None] * np.array([0.5, -3.0])
    y = truth.copy()
    y[rng.choice(n, size=round(flipped * n), replace=False)] *= -1.0
    return Binary(X, y), truth


def half_relevant(n: int, d: int, rng: np.random.Generator) -> Binary:
    """y = sign(<w*, a> + noise) with w* one on the first half of the features."""
    X = rng.standard_normal((n, d))
    return Binary(X, np.where(X[:, : d // 2].sum(axis=1) + rng.standard_normal(n) > 0, 1.0, -1.0))
