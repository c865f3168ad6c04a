r"""Objects on the places of a grid, or of any shape, with alike objects side by side.

It is a matching in which one set are places.  A grid has symmetries, so that a convex problem has
nothing to say; instead linear assignments with a kernel on places that becomes narrower,

.. math:: \pi_{t+1} = \arg\min_\pi \sum_i \|x_i - m_{\pi(i)}\|^2, \qquad
   m_j = \text{mean of the objects within } r_t \text{ of place } j,

which is kernelized sorting with a linear kernel on objects, one neighbourhood after the other.
Barthel, Hezel, Jung and Schall (2023), linear assignment sorting; here with discs for
neighbourhoods, so that any set of places will do.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from thresher._allowed import OPEN_SHARE, check_allowed, whole
from thresher._random import generator
from thresher._seed import seed_from
from thresher.matchings.assignment import best_assignment

__all__ = ["GridLayout", "distance_preservation"]

_FIRST = 0.35  # radius of the first neighbourhood, in lengths of the grid
_NORM = 16  # at which the measure agrees best with what people prefer


class GridLayout(BaseEstimator):
    """Objects, such as images or rows, on a grid on which neighbours are alike.

    Parameters
    ----------
    shape : (int, int), Boolean array or None, default=None
        Rows and columns of the grid, or a mask that is true where there is a place; None: a grid
        that is nearly square.  There may be more places than objects.
    decay : float, default=0.93
        By which the radius of neighbourhoods falls from step to step, below 1: time is in
        proportion to 1 / (1 - decay).
    block : int, default=512
        Most places in one assignment; more of them are dealt out anew in every step.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    grid_ : array of int of shape (rows, columns)
        The object at each place; -1: none.
    places_ : array of int of shape (n_objects, 2)
        Row and column of each object.
    quality_ : float
        Of :func:`distance_preservation`: 1 is better than any grid can be.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import GridLayout
    >>> colours = np.random.default_rng(0).random((64, 3))
    >>> layout = GridLayout(random_state=0).fit(colours)
    >>> layout.grid_.shape
    (8, 8)
    >>> bool(layout.quality_ > 0.8)
    True
    >>> cross = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], dtype=bool)
    >>> bool((GridLayout(cross).fit(colours[:5]).grid_[~cross] == -1).all())
    True
    """

    allowed = {"decay": OPEN_SHARE, "block": whole(2)}

    def __init__(
        self,
        shape: Any = None,
        *,
        decay: float = 0.93,
        block: int = 512,
        random_state: Any = None,
    ):
        self.shape = shape
        self.decay = decay
        self.block = block
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Place the rows of X; ``y`` is not used."""
        X = validate_data(self, X, dtype=np.float64)
        mask = self._mask(len(X))
        seed = seed_from(self.random_state)
        places = np.argwhere(mask)
        where = _arranged(X, places, self.decay, self.block, generator(seed, 42))
        self.places_ = places[where]
        self.grid_ = np.full(mask.shape, -1, dtype=np.int64)
        self.grid_[tuple(self.places_.T)] = np.arange(len(X))
        self.quality_ = distance_preservation(X, self.places_, seed=seed)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Row and column of each object."""
        return self.fit(X).places_

    def arranged(self, objects: Any, empty: Any = 0) -> np.ndarray:
        """Something of each object in the form of the grid, ``empty`` where there is none."""
        check_is_fitted(self)
        objects = np.asarray(objects)
        if len(objects) != len(self.places_):
            raise ValueError(f"{len(self.places_)} objects were placed, {len(objects)} are given")
        out = np.full(self.grid_.shape + objects.shape[1:], empty, dtype=objects.dtype)
        out[self.grid_ >= 0] = objects[self.grid_[self.grid_ >= 0]]
        return out

    def _mask(self, n: int) -> np.ndarray:
        """Where there are places, checked."""
        check_allowed(self)
        if self.shape is None:
            columns = int(np.ceil(np.sqrt(n)))
            return np.ones((-(-n // columns), columns), dtype=bool)
        given = np.asarray(self.shape)
        if given.dtype == bool and given.ndim == 2:
            mask = given
        elif given.shape == (2,) and given.dtype.kind in "iu" and given.min() > 0:
            mask = np.ones(tuple(given), dtype=bool)
        else:
            raise ValueError(
                f"shape must be (rows, columns), a Boolean matrix or None, got {self.shape!r}"
            )
        if mask.sum() < n:
            raise ValueError(f"{n} objects do not fit on {mask.sum()} places")
        return mask


def _arranged(
    X: np.ndarray, places: np.ndarray, decay: float, block: int, rng: np.random.Generator
) -> np.ndarray:
    """The place of each object."""
    n, m = len(X), len(places)
    far = cdist(places, places)
    X = X - X.mean(axis=0)
    where = rng.permutation(m)[:n]
    radius = _FIRST * float(np.ptp(places, axis=0).max() + 1)
    while radius >= 1.0:
        near = (far[:, where] <= radius).astype(np.float64)
        means = near @ X / np.maximum(near.sum(axis=1, keepdims=True), 1.0)
        for part in np.array_split(rng.permutation(m), -(-m // block)):
            inside = np.flatnonzero(np.isin(where, part))
            closeness = 2.0 * X[inside] @ means[part].T - np.sum(means[part] ** 2, axis=1)
            where[inside] = part[best_assignment(closeness)]
        radius *= decay
    return where


def distance_preservation(
    X: Any, places: Any, p: float = _NORM, *, most: int = 1000, seed: int = 0
) -> float:
    r"""How well a layout keeps distances, from 0 to 1, which is better than any grid can be.

    With D_k the mean distance of an object to its k nearest on the grid, B_k that to its k
    nearest of all, and D the mean of all distances, it is
    :math:`\|(1 - D_k / D)_+\|_p \,/\, \|(1 - B_k / D)_+\|_p` over k = 1, 2, ...: what is gained
    over chance, of what could be.  Of objects equally near on the grid the most alike come first,
    so that random layouts of a few hundred objects have 0.3 or so.  Barthel, Hezel, Jung and
    Schall (2023), distance preservation quality.

    Parameters
    ----------
    X : array of shape (n_objects, n_features)
    places : array of shape (n_objects, 2)
        Where each is on the grid.
    p : float, default=16
        Large: near neighbours decide, as they do for people.
    most : int, default=1000
        Objects whose neighbours are looked at.
    seed : int, default=0
        Of the choice of them.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.matchings import distance_preservation
    >>> line = np.arange(10.0)[:, None]
    >>> distance_preservation(line, np.hstack([line, 0 * line]))
    1.0
    """
    X, places = np.asarray(X, dtype=np.float64), np.asarray(places, dtype=np.float64)
    n = len(X)
    chosen = np.arange(n) if n <= most else np.sort(generator(seed, 43).choice(n, most, False))
    apart, on_grid = cdist(X[chosen], X), cdist(places[chosen], places, "sqeuclidean")
    average = float(apart.sum()) / max(len(chosen) * (n - 1), 1)
    if average == 0.0:
        return 1.0  # all objects are alike: every layout is right

    def gained(ordered: np.ndarray) -> float:
        nearest = np.cumsum(ordered.mean(axis=0)[1:]) / np.arange(1, n)  # without themselves
        return float(np.linalg.norm(np.maximum(1.0 - nearest / average, 0.0), p))

    np.put_along_axis(on_grid, chosen[:, None], -1.0, axis=1)
    by_place = np.lexsort((apart, on_grid), axis=1)
    best = np.sort(apart, axis=1)
    possible = gained(best)
    return gained(np.take_along_axis(apart, by_place, axis=1)) / possible if possible > 0.0 else 1.0
