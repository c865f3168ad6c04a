"""Between estimators and the formats of other tools."""

from __future__ import annotations

from typing import Any

import numpy as np

from thresher.artifacts.onnx_scores import (
    ForestScores,
    FourierScores,
    KernelScores,
    LinearScores,
    LocalScores,
    PlaneScores,
    TermScores,
)
from thresher.estimators._calibration import Isotonic, Sigmoid, Softmax
from thresher.estimators.linear import LinearClassifier, LinearRegressor
from thresher.losses import Logistic, Loss, ModifiedHuber
from thresher.maps import ForestFeatures, FourierFeatures, LocalNystroem, Nystroem, TermFeatures
from thresher.penalties import L2
from thresher.registry import resolve
from thresher.solvers import Newton, Status

__all__ = ["imported_estimator", "onnx_scores", "probability_of"]


def probability_of(estimator: Any) -> Any:
    """How the classifier makes probabilities of scores, as ``write_onnx`` takes it."""
    calibrator = getattr(estimator, "calibrator_", None)
    if isinstance(calibrator, Sigmoid):
        return "sigmoid", calibrator.slope, calibrator.offset
    if isinstance(calibrator, Softmax):
        return "softmax", calibrator.slope
    if isinstance(calibrator, Isotonic):
        steps = [(r.X_thresholds_, r.y_thresholds_) for r in calibrator.regressions]
        return "isotonic", steps
    loss = resolve(estimator.loss, Loss, "loss") if hasattr(estimator, "loss") else None
    if isinstance(loss, Logistic):
        return "logistic"
    return "modified_huber" if isinstance(loss, ModifiedHuber) else None


def onnx_scores(estimator: Any) -> Any:
    """How the estimator scores rows, as ``write_onnx_scores`` takes it."""
    if hasattr(estimator, "weight_classes_"):
        return PlaneScores(estimator.coef_, estimator.intercept_, estimator.weight_classes_)
    if hasattr(estimator, "support_vectors_"):
        parts = (estimator.kernel_, estimator.support_vectors_, estimator.dual_coef_)
        return KernelScores(estimator.shift_, estimator.scale_, *parts, estimator.intercept_)
    coef, intercept = estimator.coef_, np.asarray(estimator.intercept_, dtype=np.float64)
    if not hasattr(estimator, "map_"):
        dense = coef.toarray() if hasattr(coef, "toarray") else coef
        return LinearScores(np.asarray(dense, dtype=np.float64), intercept)
    made = estimator.map_
    shift, scale = estimator._raw_units or (None, None)
    if isinstance(made, FourierFeatures):
        return FourierScores(shift, scale, made.frequencies_, made.phases_, coef, intercept)
    if isinstance(made, ForestFeatures):
        return _forest_scores(estimator, made, shift, scale)
    if isinstance(made, TermFeatures):
        return TermScores(shift, scale, float(made.power), made.weights_, coef, intercept)
    if not isinstance(made, Nystroem | LocalNystroem):
        raise ValueError(f"the map {type(made).__name__} is not known to ONNX")
    points = made.landmarks_
    points = points.toarray() if hasattr(points, "toarray") else points
    table = estimator.dual_coef_
    if isinstance(made, Nystroem):
        return KernelScores(shift, scale, made.kernel_, points, table, intercept)
    table, constants = np.split(table, [points.shape[0]], axis=1)
    cells = (made.centres_, made.landmark_ends(), constants)
    return LocalScores(shift, scale, made.kernel_, points, table, intercept, *cells)


def _forest_scores(estimator: Any, made: ForestFeatures, shift: Any, scale: Any) -> ForestScores:
    trees = made.trees_
    roots, feature, right = (
        numbers.astype(np.int64) for numbers in (trees.roots, trees.feature, trees.right)
    )
    nodes = (roots, feature, trees.threshold, right, trees.is_leaf)
    table = estimator.coef_.astype(np.float64) / np.sqrt(roots.size)
    intercept = np.asarray(estimator.intercept_, dtype=np.float64)
    return ForestScores(shift, scale, estimator.n_features_in_, *nodes, table, intercept)


def imported_estimator(
    coef: np.ndarray, intercept: np.ndarray, labels: np.ndarray | None, logistic: bool
) -> Any:
    """A fitted estimator around weights that another tool learned; labels None: a regression."""
    estimator: Any
    if labels is None:
        estimator = LinearRegressor()
    else:
        estimator = LinearClassifier("logistic" if logistic else "squared_hinge")
        estimator.classes_ = labels
    estimator.coef_ = np.atleast_2d(coef)
    estimator.intercept_ = np.atleast_1d(intercept)
    estimator.n_features_in_ = estimator.coef_.shape[1]
    estimator.n_iter_, estimator.status_ = 0, Status.COMPLETED
    estimator.density_ = float(np.mean(estimator.coef_ != 0.0)) if estimator.coef_.size else 0.0
    estimator.solver_, estimator.penalty_ = Newton(), L2(0.0)
    return estimator
