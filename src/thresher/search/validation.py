"""How rows are held out: a list of (train, test) positions, made once and shared by all trials.

============================  ===================================================================
``cv``                        folds
============================  ===================================================================
5                             five folds, shuffled, stratified for classification
"5x3"                         the same three times over with different shuffles
0.2                           one split with a fifth of the rows held out (stratified)
"loo"                         every row once
"time", "time5"               later rows are predicted from earlier ones, five times
array of fold numbers         fold k tests the rows with number k; -1 is always for training
iterable of (train, test)     as given
splitter of scikit-learn      what it splits
============================  ===================================================================
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple, overload

import numpy as np
from sklearn.model_selection import (
    KFold,
    PredefinedSplit,
    StratifiedKFold,
    TimeSeriesSplit,
    train_test_split,
)

from thresher.registry import TASKS

__all__ = ["Fold", "make_folds"]


class Fold(NamedTuple):
    train: np.ndarray
    test: np.ndarray


class LeaveOneOut(Sequence[Fold]):
    """Every row once; a fold is made when it is asked for, since all take n^2 numbers."""

    def __init__(self, n: int):
        self.n = n

    def __len__(self) -> int:
        return self.n

    @overload
    def __getitem__(self, k: int) -> Fold: ...
    @overload
    def __getitem__(self, k: slice) -> list[Fold]: ...

    def __getitem__(self, k: int | slice) -> Fold | list[Fold]:
        rows = np.arange(self.n)
        if isinstance(k, slice):
            return [self[i] for i in rows[k]]
        test = rows[[k]]  # refuses numbers out of range
        return Fold(np.delete(rows, test), test)


def make_folds(
    cv: Any, X: Any, y: np.ndarray, task: str, *, seed: int = 0, groups: Any = None
) -> Sequence[Fold]:
    """The folds that ``cv`` stands for.

    Parameters
    ----------
    cv : int, float, str, array, iterable or splitter
        How to hold rows out; see the table above.
    X : rows
        Only splitters of scikit-learn look at them.
    y : array
        Labels or numbers to predict.
    task : {"classification", "regression", "novelty"}
        Folds of labels are stratified; novelty detection may have one class only.
    seed : int, default=0
        Of the shuffles.
    groups : array or None, default=None
        For splitters of scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.search import make_folds
    >>> y = np.array([0, 0, 1, 1])
    >>> [np.sort(y[fold.test]).tolist() for fold in make_folds(2, None, y, "classification")]
    [[0, 1], [0, 1]]
    >>> [len(fold.train) for fold in make_folds("loo", None, y, "classification")]
    [3, 3, 3, 3]
    """
    n = len(y)
    strata = _codes(y) if TASKS[task].has_classes else None
    if task == "novelty" and np.unique(y).size == 1:
        strata = None  # one class, and nothing to be told apart
    if isinstance(cv, bool):
        raise TypeError(f"cv={cv} is no way to split rows")
    if isinstance(cv, (int, np.integer)):
        return _kfold(int(cv), n, strata, seed)
    if isinstance(cv, float):
        return [_held_out(cv, n, strata, seed)]
    if isinstance(cv, str):
        return _named(cv, n, strata, seed)
    if hasattr(cv, "split"):
        pairs = list(cv.split(X, y, groups))
    elif isinstance(cv, np.ndarray) and cv.ndim == 1 and cv.dtype.kind in "iu":
        if cv.size != n:
            raise ValueError(f"cv gives fold numbers of {cv.size} rows, but there are {n}")
        pairs = list(PredefinedSplit(cv).split())
    else:
        pairs = list(cv)
    return [_checked(pair, n) for pair in pairs] or _none(cv)


def _named(cv: str, n: int, strata: np.ndarray | None, seed: int) -> Sequence[Fold]:
    if cv == "loo":
        if n < 2:
            raise ValueError(f"leave-one-out needs at least two rows, got n_samples={n}")
        return LeaveOneOut(n)
    if match := re.fullmatch(r"time(\d*)", cv):
        k = int(match[1] or 5)
        _enough(k + 1, n)
        return [Fold(*pair) for pair in TimeSeriesSplit(k).split(np.empty((n, 1)))]
    if match := re.fullmatch(r"(\d+)x(\d+)", cv):
        k, repeats = int(match[1]), int(match[2])
        return [f for r in range(repeats) for f in _kfold(k, n, strata, seed + r)] or _none(cv)
    raise ValueError(
        f"cv={cv!r} is unknown: give a number of folds, 'KxR' such as '5x3', 'loo', 'time', a "
        "share of rows to hold out, fold numbers, pairs of positions or a splitter of scikit-learn"
    )


def _enough(k: int, n: int) -> None:
    if k < 2:
        raise ValueError(f"cross-validation needs at least two folds, got {k}")
    if n < k:
        raise ValueError(
            f"n_samples={n} rows cannot be split into {k} folds: use cv={max(n, 2)} or 'loo'"
        )


def _kfold(k: int, n: int, strata: np.ndarray | None, seed: int) -> list[Fold]:
    _enough(k, n)
    if strata is None:
        return [Fold(*p) for p in KFold(k, shuffle=True, random_state=seed).split(np.empty((n, 1)))]
    single = _single(strata)
    rows = np.flatnonzero(~single)
    largest = int(np.bincount(strata).max())
    if largest < k:
        raise ValueError(
            f"n_samples={n} rows in {k} folds, but the largest class has {largest} members: use "
            f"cv={max(largest, 2)} or 'loo'"
        )
    splitter = StratifiedKFold(k, shuffle=True, random_state=seed)
    with warnings.catch_warnings():  # a class with fewer rows than folds is in some of them
        warnings.simplefilter("ignore", UserWarning)
        pairs = list(splitter.split(np.empty((rows.size, 1)), strata[rows]))
    always = np.flatnonzero(single)
    return [Fold(np.sort(np.concatenate([rows[a], always])), rows[b]) for a, b in pairs]


def _held_out(share: float, n: int, strata: np.ndarray | None, seed: int) -> Fold:
    if not 0.0 < share < 1.0:
        raise ValueError(f"cv={share} is no share of rows to hold out: give one between 0 and 1")
    single = np.zeros(n, dtype=bool) if strata is None else _single(strata)
    rows = np.flatnonzero(~single)
    if not 1 <= int(share * rows.size) < rows.size:
        raise ValueError(f"cv={share} of n_samples={n} rows leaves nothing to hold out or learn")
    labels = None if strata is None else strata[rows]
    if labels is not None and share * rows.size < np.unique(labels).size:
        labels = None
    train, test = train_test_split(rows, test_size=share, random_state=seed, stratify=labels)
    return Fold(np.sort(np.concatenate([train, np.flatnonzero(single)])), np.sort(test))


def _single(strata: np.ndarray) -> np.ndarray:
    """Rows that are alone in their class: they stay in training, since nothing could learn them."""
    counts = np.bincount(strata)
    single = counts[strata] == 1
    if np.count_nonzero(counts > 1) < 2:
        raise ValueError(
            "cross-validation needs two members of at least two classes; the classes have "
            f"{', '.join(map(str, counts[:10]))} members"
        )
    if np.any(single):
        warnings.warn(
            f"{np.count_nonzero(single)} classes have one member: those rows are learned from in "
            "every fold and never predicted",
            UserWarning,
            stacklevel=5,
        )
    return single


def _codes(y: np.ndarray) -> np.ndarray:
    return np.unique(y, return_inverse=True)[1].astype(np.int64)


def _checked(pair: Any, n: int) -> Fold:
    train, test = (np.asarray(part) for part in pair)
    train, test = (np.flatnonzero(p) if p.dtype == bool else p for p in (train, test))
    for part in (train, test):
        if part.size == 0:
            raise ValueError("a fold of cv is empty")
        if part.min() < -n or part.max() >= n:
            raise ValueError(f"cv points to row {part.max()}, but there are {n} rows")
    if np.intersect1d(train, test).size:
        raise ValueError("a fold of cv tests rows that it has learned from")
    return Fold(train, test)


def _none(cv: Any) -> Any:
    raise ValueError(f"cv={cv!r} gives no folds")
