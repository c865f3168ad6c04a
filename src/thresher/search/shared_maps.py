r"""Rows mapped once for all folds, and kernel values from inner products computed once for all.

What a kernel estimator (``KernelClassifier``, ``KernelRegressor``) does to the rows before its
linear model is fitted depends on few of its settings and, unless landmarks follow the targets, on
no target.  So in a search

- units and map are learned once per setting from all the rows that some fold trains on, and
  their features are computed once for all folds: a factor of the number of folds.  A fold's test
  rows thus take part in choosing landmarks, widths and units, without their targets; the linear
  model that is judged on them has not seen them (the fixed-size LS-SVM is tuned this way, De
  Brabanter et al., 2010).  Measured on a9a (means of 12 samples): with 2000 rows the error differs
  by at most 0.1 percentage points from that with a map per fold, with 300 by -0.8 to 0.8;
- trials that differ in the linear model only (alpha, loss, penalty, solver) share the features;
- trials that differ in the kernel too share the landmarks, where their choice does not look at the
  kernel, and the inner products :math:`x_i \cdot z_j`, of which every kernel is a function.

A map learned from each fold's own rows is what a pipeline, ``make_pipeline(Nystroem(),
LinearClassifier())``, gets.  The same happens here where it matters or cannot be otherwise: where
folds do not train on all the rows that they do not test (time series), where the choice of
landmarks follows the targets ("margin"), with maps that are not ours, and where the features do
not fit in the estimator's ``memory``, which also limits what is kept in all.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from thresher.estimators.input import to_rows
from thresher.estimators.kernel import KernelModel
from thresher.kernels import Kernel, Linear
from thresher.kernels.gram import Points, blocks, finish, squares
from thresher.kernels.matrices import canonical
from thresher.maps import Nystroem
from thresher.maps.base import FeatureMap
from thresher.registry import resolve
from thresher.search.cache import Cache
from thresher.search.settings import settings_key

__all__ = ["MappedRows", "on_features"]

#: settings of a kernel estimator that decide about its features; those of the units come last
_MAP = ("map", "kernel", "gamma", "n_components", "landmarks", "random_state", "memory",
        "scale", "fit_intercept")  # fmt: skip


class Products(NamedTuple):
    """Inner products of all rows with the landmarks, both relative to an origin."""

    landmarks: Any
    inner: np.ndarray
    rows_squared: np.ndarray
    landmarks_squared: np.ndarray


class MappedRows:
    """The features of all rows of a search, by the settings of the map.

    Parameters
    ----------
    X, weight : all rows, checked
    known : positions of the rows that the map is learned from
    cache : keeps the features
    """

    def __init__(self, X: Any, weight: np.ndarray | None, known: np.ndarray, cache: Cache):
        self.X = canonical(X) if hasattr(X, "indptr") else X
        self.weight, self.known, self.cache = weight, known, cache
        self.seconds = 0.0  # the longest that one map took

    def key(self, params: dict[str, Any]) -> tuple:
        """The same for trials with the same features."""
        return settings_key(params, _is_of_map)

    def features(self, model: KernelModel, params: dict[str, Any]) -> np.ndarray | None:
        """Those that ``model``, set to ``params``, is to be fitted on; None: they are its own."""
        key = ("features", self.key(params))
        return self.cache.get(key, lambda: self._mapped(model, params))

    def _mapped(self, model: KernelModel, params: dict[str, Any]) -> np.ndarray | None:
        feature_map = model.make_map()
        if model.scale == "relevance" or not feature_map.serves_all_folds:
            return None
        start = time.perf_counter()
        X, known = self._in_units(model)
        own = isinstance(feature_map, Nystroem) and feature_map.ignores_kernel
        if own and any(map(_is_of_kernel, params)):
            Z = self._by_products(feature_map, params, X, known)
        else:
            feature_map.learn(known)
            Z = feature_map.features(X) if self._has_room(feature_map.width) else None
        self.seconds = max(self.seconds, time.perf_counter() - start)
        return Z

    def _in_units(self, model: KernelModel) -> tuple[Any, Any]:
        """All rows, and those to learn the map from, in the units of the latter."""
        whole = self.known.size == self.X.shape[0]
        weight = None if self.weight is None else self.weight[self.known]
        chosen = self.X if whole else self.X[self.known]
        units = model.learn_units(to_rows(chosen), None, weight)
        known = chosen if units is None else units.matrix(chosen)
        X = known
        if not whole:
            X = self.X if units is None else units.matrix(self.X)
        return X, known if weight is None or np.all(weight > 0.0) else known[weight > 0.0]

    def _by_products(
        self, feature_map: Nystroem, params: dict[str, Any], X: Any, known: Any
    ) -> np.ndarray | None:
        """Features from inner products with landmarks that the kernel has no say in."""
        radial = "radial" in resolve(feature_map.kernel, Kernel, "kernel").traits
        rest = settings_key(params, lambda name: _is_of_map(name) and not _is_of_kernel(name))
        products = self.cache.get(
            ("products", radial, rest), lambda: self._products(feature_map, X, known, radial)
        )
        if products is None:
            return None
        feature_map.set_params(landmarks=products.landmarks).learn(known)
        return _finished(feature_map, products)

    def _products(self, feature_map: Nystroem, X: Any, known: Any, radial: bool) -> Products | None:
        Z = clone(feature_map).learn(known).landmarks_
        if not self._has_room(Z.shape[0]):
            return None
        landmarks = Z
        if radial and not hasattr(X, "indptr"):  # as ``kernels.gram.Points`` does, for the rounding
            origin = Z.mean(axis=0, dtype=np.float64).astype(X.dtype)
            X, Z = X - origin, Z - origin
        inner = Points(Linear(), Z, X.dtype)(X)
        return Products(landmarks, inner, *(squares(A).astype(inner.dtype) for A in (X, Z)))

    def _has_room(self, width: int) -> bool:
        return self.X.shape[0] * width * self.X.dtype.itemsize <= self.cache.limit


class AsGiven(FeatureMap):
    """The map of rows that are features already."""

    def __init__(self, random_state: Any = None):
        self.random_state = random_state

    def learn(self, X: Any, y: np.ndarray | None = None) -> AsGiven:
        self.width_ = X.shape[1]
        return self

    def features(self, X: Any, out: np.ndarray | None = None) -> np.ndarray:
        return X

    @property
    def width(self) -> int:
        return self.width_


def on_features(model: KernelModel) -> KernelModel:
    """``model``, to be given features in place of rows."""
    return model.set_params(map=AsGiven(), scale=False)


def _finished(feature_map: Nystroem, products: Products) -> np.ndarray:
    """Inner products to features, block by block."""
    _, inner, rows_squared, landmarks_squared = products
    _, basis = feature_map.ready(inner.dtype.str)
    out = np.empty((inner.shape[0], basis.projection.shape[1]), dtype=inner.dtype)
    for part in blocks(*inner.shape):
        K = inner[part].copy()
        finish(feature_map.kernel_, K, rows_squared[part], landmarks_squared)
        out[part] = basis.apply(K)
    return out


def _is_of_map(name: str) -> bool:
    return name.partition("__")[0] in _MAP


def _is_of_kernel(name: str) -> bool:
    return name.removeprefix("map__").partition("__")[0] in ("kernel", "gamma")
