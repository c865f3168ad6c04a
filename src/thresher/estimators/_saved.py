"""Which fitted attributes of each estimator are kept in a file, and what must hold for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from thresher.estimators import _calibration
from thresher.estimators._input import Units
from thresher.estimators.budgeted import BudgetedClassifier, BudgetedRegressor
from thresher.estimators.hyperplanes import MultiHyperplaneClassifier
from thresher.estimators.kernel import KernelClassifier, KernelRegressor
from thresher.estimators.linear import LinearClassifier, LinearRegressor
from thresher.kernels import Kernel
from thresher.maps import ForestFeatures, FourierFeatures, LocalNystroem, Nystroem, TermFeatures
from thresher.penalties import Penalty
from thresher.solvers import Solver, Status
from thresher.solvers.hyperplanes import Hyperplanes

__all__ = ["KINDS", "Saved", "check_units", "require"]


@dataclass(frozen=True)
class Saved:
    """How a class of estimators is kept; ``check`` raises ValueError for what cannot be right."""

    cls: type
    attributes: tuple[str, ...]
    optional: tuple[str, ...]
    check: Callable[[Any], None]


def require(condition: Any, message: str) -> None:
    """ValueError with this message unless the condition holds."""
    if not condition:
        raise ValueError(message)


def _check_linear(model: Any) -> None:
    coef, intercept = model.coef_, model.intercept_
    for name, value in (("coef_", coef), ("intercept_", intercept)):
        plain = issparse(value) or isinstance(value, np.ndarray)
        require(plain and value.dtype.kind == "f", f"{name} must be an array of floats")
        numbers = value.data if issparse(value) else value
        require(np.all(np.isfinite(numbers)), f"{name} holds NaN or infinite weights")
    require(coef.ndim == 2, f"coef_ must have two dimensions, got shape {coef.shape}")
    require(
        not issparse(intercept) and intercept.shape == (coef.shape[0],),
        f"intercept_ of shape {intercept.shape} does not fit coef_ of shape {coef.shape}",
    )
    d = model.n_features_in_
    require(type(d) is int and d == coef.shape[1], f"coef_ {coef.shape} is not for {d!r} features")
    _check_feature_names(getattr(model, "feature_names_in_", None), d)
    _check_history(model)


def _check_feature_names(names: Any, count: int) -> None:
    if names is None:
        return
    strings = isinstance(names, np.ndarray) and names.dtype.kind in "OU"
    require(strings and names.shape == (count,), f"feature_names_in_ must be {count} strings")


def _check_history(model: Any) -> None:
    """What tells of the fit, and what a further fit would start from."""
    iterations, density = model.n_iter_, model.density_
    count = isinstance(iterations, int | np.integer) and not isinstance(iterations, bool)
    require(count and iterations >= 0, "n_iter_ must be a count")
    require(isinstance(density, float) and 0 <= density <= 1, "density_ must be from 0 to 1")
    require(isinstance(model.status_, Status), "status_ must be a Status")
    require(isinstance(model.solver_, Solver), "solver_ must be a Solver")
    require(isinstance(model.penalty_, Penalty), "penalty_ must be a Penalty")
    require(isinstance(getattr(model, "trace_", []), list), "trace_ must be a list")


def _check_classifier(model: Any) -> None:
    _check_linear(model)
    _check_labels(model, model.coef_.shape[0])


def _check_calibrator(model: Any, outputs: int) -> None:
    calibrator, method = getattr(model, "calibrator_", None), model.calibrate
    known = method is None or (isinstance(method, str) and method in _calibration.METHODS)
    require(known, f"calibrate={method!r:.50} is unknown")
    require(method is not None or calibrator is None, "a calibrator_ without calibrate")
    fits = {
        type(None): True,
        _calibration.Sigmoid: outputs == 1,
        _calibration.Softmax: outputs > 1,
        _calibration.Isotonic: len(getattr(calibrator, "regressions", ())) == outputs,
    }
    require(
        fits.get(type(calibrator), False), f"calibrator_ does not fit a model of {outputs} outputs"
    )


def _check_regressor(model: Any) -> None:
    _check_linear(model)
    require(model.coef_.shape[0] == 1, f"a regression has one output, got {model.coef_.shape[0]}")


# ---------------------------------------------------------------- nonlinear models


def _check_numbers(model: Any, **shapes: tuple[int, ...]) -> None:
    """Arrays of finite floats of these shapes."""
    for name, shape in shapes.items():
        value = getattr(model, name)
        plain = isinstance(value, np.ndarray) and value.dtype.kind == "f"
        require(plain and value.shape == shape, f"{name} must be an array of shape {shape}")
        require(np.all(np.isfinite(value)), f"{name} holds NaN or infinite numbers")


def _check_labels(model: Any, outputs: int | None) -> None:
    """Sorted classes, as many as the outputs need, and a calibrator that fits them."""
    classes = model.classes_
    known = isinstance(classes, np.ndarray) and classes.ndim == 1
    require(known and classes.dtype.kind in "biufUO", "classes_ must be numbers or strings")
    require(classes.size >= 2, "a classifier needs at least two classes")
    require(np.all(classes[:-1] < classes[1:]), "classes_ must be sorted and distinct")
    expected = 1 if classes.size == 2 else int(classes.size)
    if outputs is not None:
        text = f"{classes.size} classes need {expected} rows of coef_, got {outputs}"
        require(outputs == expected, text)
    _check_calibrator(model, expected)


def _check_told(model: Any) -> int:
    """How the fit ended; returns the number of features."""
    d, passes = model.n_features_in_, model.n_iter_
    require(type(d) is int and d > 0, "n_features_in_ must be a count")
    count = isinstance(passes, int | np.integer) and not isinstance(passes, bool)
    require(count and passes >= 0, "n_iter_ must be a count")
    require(isinstance(model.status_, Status), "status_ must be a Status")
    _check_feature_names(getattr(model, "feature_names_in_", None), d)
    return int(d)


def _outputs_of(model: Any, name: str) -> int:
    value = getattr(model, name)
    require(isinstance(value, np.ndarray) and value.ndim == 2, f"{name} must be a table")
    return int(value.shape[0])


def check_units(units: Any, d: int) -> None:
    """None, or a change of units of ``d`` features."""
    if units is not None:
        whole = isinstance(units, Units) and units.scale is not None
        require(whole, "the units of the rows are damaged")
        _check_change(units.shift, units.scale, d)


def _check_change(shift: Any, scale: Any, d: int) -> None:
    for name, value in (("shift", shift), ("scale", scale)):
        plain = value is None or (isinstance(value, np.ndarray) and value.shape == (d,))
        require(plain and (value is None or np.all(np.isfinite(value))), f"{name} is damaged")


def _check_budgeted(model: Any) -> None:
    d, outputs = _check_told(model), _outputs_of(model, "dual_coef_")
    size = int(model.dual_coef_.shape[1])
    _check_numbers(
        model, support_vectors_=(size, d), dual_coef_=(outputs, size), intercept_=(outputs,)
    )
    _check_change(model.shift_, model.scale_, d)
    require(isinstance(model.kernel_, Kernel), "kernel_ must be a Kernel")
    if hasattr(model, "classes_"):
        _check_labels(model, outputs)
    else:
        require(outputs == 1, f"a regression has one output, got {outputs}")


def _check_hyperplanes(model: Any) -> None:
    d, size = _check_told(model), _outputs_of(model, "coef_")
    _check_numbers(model, coef_=(size, d), intercept_=(size,))
    _check_labels(model, None)
    owners = model.weight_classes_
    whole = isinstance(owners, np.ndarray) and owners.dtype.kind in "iu" and owners.shape == (size,)
    require(whole and np.all(np.diff(owners) >= 0), "weight_classes_ must be sorted numbers")
    every = np.array_equal(np.unique(owners), np.arange(model.classes_.size))
    require(every, "every class needs a weight")
    require(isinstance(model.solver_, Hyperplanes), "solver_ must be Hyperplanes")


def _check_landmarks(made: Any, d: int) -> int:
    """Their number."""
    points = made.landmarks_
    sparse = issparse(points)
    require(sparse or isinstance(points, np.ndarray), "landmarks_ must be a matrix")
    require(points.ndim == 2 and points.shape[1] == d, "landmarks_ do not fit the features")
    numbers = points.data if sparse else points
    require(numbers.dtype.kind == "f" and np.all(np.isfinite(numbers)), "landmarks_: NaN")
    return int(points.shape[0])


def _check_map(made: Any, d: int, features: int) -> int:
    """The size of the model that is folded into the map."""
    if isinstance(made, ForestFeatures):
        made.trees_.check(d)
        require(made.trees_.leaves == features, "coef_ does not fit the leaves of the trees")
        return features
    if isinstance(made, TermFeatures):
        _check_numbers(made, weights_=(d,))
        sound = np.all(made.weights_ > 0.0) and 0.0 <= made.entries_ <= d
        require(sound and d == features, "the weights of the terms are wrong")
        return features
    if isinstance(made, Nystroem):
        size = _check_landmarks(made, d)
        _check_numbers(made, projection_=(size, features))
    elif isinstance(made, LocalNystroem):
        size = _check_landmarks(made, d) + len(made.maps_)
        _check_numbers(made, centres_=(len(made.maps_), d))
        for one in made.maps_:
            _check_numbers(one, projection_=one.projection_.shape)
        fits = made._n_features_out == features
        require(fits, "coef_ does not fit the features of the map")
    else:
        known = isinstance(made, FourierFeatures)
        require(known, f"a map of type {type(made).__name__} cannot be kept in a file")
        size = features
        _check_numbers(made, frequencies_=(d, size), phases_=(size,))
    require(isinstance(made.kernel_, Kernel), "kernel_ must be a Kernel")
    return size


def _check_kernel(model: Any) -> None:
    d, outputs = _check_told(model), _outputs_of(model, "coef_")
    size = _check_map(model.map_, d, int(model.coef_.shape[1]))
    shapes = {"coef_": model.coef_.shape, "dual_coef_": (outputs, size), "intercept_": (outputs,)}
    _check_numbers(model, **shapes)
    check_units(model._raw_units, d)
    _check_history(model)
    if hasattr(model, "classes_"):
        _check_labels(model, outputs)
    else:
        require(outputs == 1, f"a regression has one output, got {outputs}")


_TOLD = ("n_features_in_", "n_iter_", "status_")
_LINEAR = ("coef_", "intercept_", *_TOLD, "density_", "solver_", "penalty_")
_OPTIONAL = ("feature_names_in_", "trace_")
_LABELLED = ("feature_names_in_", "trace_", "calibrator_")
_KERNEL = (*_LINEAR, "dual_coef_", "map_", "_raw_units")
_BUDGETED = (
    "support_vectors_", "dual_coef_", "intercept_", "kernel_", "alpha_", "shift_", "scale_", *_TOLD,
)  # fmt: skip
_PLANES = (
    "coef_", "intercept_", "weight_classes_", "weight_ids_", "births_", "prunes_", "clones_",
    "solver_", "classes_", *_TOLD,
)  # fmt: skip

KINDS: dict[str, Saved] = {
    "linear_classifier": Saved(
        LinearClassifier, (*_LINEAR, "classes_"), _LABELLED, _check_classifier
    ),
    "linear_regressor": Saved(LinearRegressor, _LINEAR, _OPTIONAL, _check_regressor),
    "kernel_classifier": Saved(
        KernelClassifier, (*_KERNEL, "classes_"), (*_LABELLED, "loo_error_"), _check_kernel
    ),
    "kernel_regressor": Saved(KernelRegressor, _KERNEL, (*_OPTIONAL, "loo_error_"), _check_kernel),
    "budgeted_classifier": Saved(
        BudgetedClassifier, (*_BUDGETED, "classes_"), _LABELLED, _check_budgeted
    ),
    "budgeted_regressor": Saved(BudgetedRegressor, _BUDGETED, _OPTIONAL, _check_budgeted),
    "hyperplanes": Saved(MultiHyperplaneClassifier, _PLANES, _LABELLED, _check_hyperplanes),
}
