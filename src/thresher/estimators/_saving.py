"""Fitted estimators as documents of plain values and arrays, and back.

A document holds the constructor's parameters and the fitted attributes.  What is read back is
checked as if a stranger had written it: shapes that agree, finite weights, as many outputs as the
classes need.  Not kept: callbacks, a ``random_state`` that is not an integer, and the state of a
stream (``partial_fit`` opens a new one after loading; checkpoints are for going on).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.utils.validation import check_is_fitted

from thresher.artifacts.container import BadFile
from thresher.artifacts.encoding import UnknownTerm, decode, encode
from thresher.estimators import _calibration
from thresher.estimators.linear import LinearClassifier, LinearRegressor
from thresher.penalties import Penalty
from thresher.registry import LOSSES, PENALTIES, SOLVERS
from thresher.solvers import Solver, Status

__all__ = ["from_document", "to_document"]

_LINEAR = (
    "coef_", "intercept_", "n_features_in_", "n_iter_", "status_", "density_", "solver_",
    "penalty_",
)  # fmt: skip
_NAMED: dict[str, dict[str, Any]] = {"loss": LOSSES, "penalty": PENALTIES, "solver": SOLVERS}


@dataclass(frozen=True)
class _Saved:
    """How a class of estimators is kept; ``check`` raises ValueError for what cannot be right."""

    cls: type
    attributes: tuple[str, ...]
    optional: tuple[str, ...]
    check: Callable[[Any], None]


def to_document(estimator: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The fitted ``estimator`` as (plain JSON, arrays), ready for ``container.write``."""
    name = next((key for key, saved in _TABLE.items() if saved.cls is type(estimator)), None)
    if name is None:
        known = ", ".join(saved.cls.__name__ for saved in _TABLE.values())
        raise TypeError(f"{type(estimator).__name__} cannot be saved; these can: {known}")
    check_is_fitted(estimator)
    saved = _TABLE[name]
    saved.check(estimator)
    arrays: dict[str, np.ndarray] = {}
    parameters = {
        key: encode(value, arrays, key) for key, value in _kept_parameters(estimator).items()
    }
    attributes = {
        key: encode(_packed(getattr(estimator, key)), arrays, key)
        for key in (*saved.attributes, *saved.optional)
        if hasattr(estimator, key)
    }
    document = {"estimator": name, "parameters": parameters, "attributes": attributes}
    return document, arrays


def from_document(
    document: dict[str, Any], arrays: dict[str, np.ndarray], terms: Iterable[type] = ()
) -> Any:
    """The estimator that :func:`to_document` was given; ``terms`` are the user's own classes.

    Raises ``BadFile`` for a document that no estimator can have given, ``UnknownTerm`` for a class
    that is neither Thresher's nor among ``terms``.
    """
    name = document.get("estimator")
    saved = _TABLE.get(name) if isinstance(name, str) else None
    if saved is None:
        raise BadFile(f"unknown estimator {name!r:.100}; known: {', '.join(_TABLE)}")
    parameters, attributes = document.get("parameters"), document.get("attributes")
    if not isinstance(parameters, dict) or not isinstance(attributes, dict):
        raise BadFile("the document has no parameters or no attributes")
    _check_keys(saved, parameters, attributes)
    terms = tuple(terms)
    estimator = saved.cls(**decode(parameters, arrays, terms))
    _check_named(estimator)
    try:
        for key, value in decode(attributes, arrays, terms).items():
            setattr(estimator, key, _unpacked(value))
        saved.check(estimator)
    except UnknownTerm:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise BadFile(str(error)) from error
    return estimator


def _check_keys(saved: _Saved, parameters: dict[str, Any], attributes: dict[str, Any]) -> None:
    known = set(inspect.signature(saved.cls).parameters) - {"callbacks"}
    unknown = sorted(set(parameters) - known)
    unknown += sorted(set(attributes) - {*saved.attributes, *saved.optional})
    if unknown:
        raise BadFile(f"{saved.cls.__name__} has no {unknown[0][:100]!r}, which the file gives")
    missing = sorted(set(saved.attributes) - set(attributes))
    if missing:
        raise BadFile(f"the file does not give the {missing[0]!r} of {saved.cls.__name__}")


def _check_named(estimator: Any) -> None:
    """A registered name must mean something here too."""
    for role, table in _NAMED.items():
        value = getattr(estimator, role, None)
        if isinstance(value, str) and value != "auto" and value not in table:
            raise UnknownTerm(
                f"the model uses the {role} named {value[:100]!r}, which is not registered here: "
                f"call thresher.register({value[:100]!r}, ...) with its class before loading"
            )


def _kept_parameters(estimator: Any) -> dict[str, Any]:
    kept = estimator.get_params(deep=False)
    kept.pop("callbacks", None)
    if isinstance(kept.get("random_state"), np.integer):
        kept["random_state"] = int(kept["random_state"])
    if not isinstance(kept.get("random_state"), int):
        kept.pop("random_state", None)
    return kept


# ---------------------------------------------------------------- attributes that need a form


def _packed(value: Any) -> Any:
    """Sparse matrices and calibrators as tagged dictionaries of plain values."""
    if issparse(value):
        rows = csr_matrix(value)
        parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
        return {"form": "csr", "shape": list(rows.shape), **parts}
    if isinstance(value, _calibration.Sigmoid):
        return {"form": "sigmoid", "slope": float(value.slope), "offset": float(value.offset)}
    if isinstance(value, _calibration.Softmax):
        return {"form": "softmax", "slope": float(value.slope)}
    if isinstance(value, _calibration.Isotonic):
        steps = [(r.X_thresholds_, r.y_thresholds_) for r in value.regressions]
        return {"form": "isotonic", "steps": steps}
    return value


def _unpacked(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    parts = dict(value)
    form = parts.pop("form", None)
    if not isinstance(form, str) or form not in _FORMS:
        raise ValueError(f"unknown form {form!r:.50}")
    names, make = _FORMS[form]
    if parts.keys() != names:
        raise ValueError(f"a {form} needs {', '.join(sorted(names))}")
    return make(**parts)


def _sparse(shape: Any, data: Any, indices: Any, indptr: Any) -> csr_matrix:
    plain = isinstance(shape, list) and len(shape) == 2 and all(type(n) is int for n in shape)
    parts = (data, indices, indptr)
    if not plain or not all(isinstance(part, np.ndarray) and part.ndim == 1 for part in parts):
        raise ValueError("damaged sparse matrix")
    if indices.dtype.kind != "i" or indptr.dtype.kind != "i" or indptr.size != shape[0] + 1:
        raise ValueError("damaged sparse matrix: its row pointers or columns are wrong")
    matrix = csr_matrix(parts, shape=tuple(shape))
    matrix.check_format(full_check=True)
    return matrix


def _number(value: Any, name: str) -> float:
    if type(value) is not float or not np.isfinite(value):
        raise ValueError(f"{name} must be a finite number")
    return value


def _sigmoid(slope: Any, offset: Any) -> Any:
    return _calibration.Sigmoid(_number(slope, "slope"), _number(offset, "offset"))


def _softmax(slope: Any) -> Any:
    return _calibration.Softmax(_number(slope, "slope"))


def _isotonic(steps: Any) -> Any:
    if not isinstance(steps, list) or not all(isinstance(s, tuple) and len(s) == 2 for s in steps):
        raise ValueError("damaged isotonic calibration")
    return _calibration.Isotonic([_step_function(x, y) for x, y in steps])


def _step_function(x: Any, y: Any) -> Any:
    """scikit-learn's fitted regression, from the two arrays that it pickles as well."""
    from sklearn.isotonic import IsotonicRegression

    for values in (x, y):
        plain = isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind == "f"
        if not plain or values.size == 0 or not np.all(np.isfinite(values)):
            raise ValueError("isotonic calibration: thresholds must be finite numbers")
    ordered = np.all(np.diff(x) > 0) and np.all(np.diff(y) >= 0) and y[0] >= 0 and y[-1] <= 1
    if x.size != y.size or not ordered:
        raise ValueError("isotonic calibration: thresholds must rise, values from 0 to 1")
    regression = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    regression.X_thresholds_, regression.y_thresholds_ = x, y
    regression.X_min_, regression.X_max_, regression.increasing_ = x[0], x[-1], True
    regression._build_f(x, y)
    return regression


_FORMS: dict[str, tuple[set[str], Callable[..., Any]]] = {
    "csr": ({"shape", "data", "indices", "indptr"}, _sparse),
    "sigmoid": ({"slope", "offset"}, _sigmoid),
    "softmax": ({"slope"}, _softmax),
    "isotonic": ({"steps"}, _isotonic),
}


# ---------------------------------------------------------------- checks


def _require(condition: Any, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _check_linear(model: Any) -> None:
    coef, intercept = model.coef_, model.intercept_
    for name, value in (("coef_", coef), ("intercept_", intercept)):
        plain = issparse(value) or isinstance(value, np.ndarray)
        _require(plain and value.dtype.kind == "f", f"{name} must be an array of floats")
        numbers = value.data if issparse(value) else value
        _require(np.all(np.isfinite(numbers)), f"{name} holds NaN or infinite weights")
    _require(coef.ndim == 2, f"coef_ must have two dimensions, got shape {coef.shape}")
    _require(
        not issparse(intercept) and intercept.shape == (coef.shape[0],),
        f"intercept_ of shape {intercept.shape} does not fit coef_ of shape {coef.shape}",
    )
    d = model.n_features_in_
    _require(type(d) is int and d == coef.shape[1], f"coef_ {coef.shape} is not for {d!r} features")
    _check_feature_names(getattr(model, "feature_names_in_", None), d)
    _check_history(model)


def _check_feature_names(names: Any, count: int) -> None:
    if names is None:
        return
    strings = isinstance(names, np.ndarray) and names.dtype.kind in "OU"
    _require(strings and names.shape == (count,), f"feature_names_in_ must be {count} strings")


def _check_history(model: Any) -> None:
    """What tells of the fit, and what a further fit would start from."""
    iterations, density = model.n_iter_, model.density_
    count = isinstance(iterations, int | np.integer) and not isinstance(iterations, bool)
    _require(count and iterations >= 0, "n_iter_ must be a count")
    _require(isinstance(density, float) and 0 <= density <= 1, "density_ must be from 0 to 1")
    _require(isinstance(model.status_, Status), "status_ must be a Status")
    _require(isinstance(model.solver_, Solver), "solver_ must be a Solver")
    _require(isinstance(model.penalty_, Penalty), "penalty_ must be a Penalty")
    _require(isinstance(getattr(model, "trace_", []), list), "trace_ must be a list")


def _check_classifier(model: Any) -> None:
    _check_linear(model)
    classes, outputs = model.classes_, model.coef_.shape[0]
    known = isinstance(classes, np.ndarray) and classes.ndim == 1
    _require(known and classes.dtype.kind in "biufUO", "classes_ must be numbers or strings")
    _require(classes.size >= 2, "a classifier needs at least two classes")
    _require(np.all(classes[:-1] < classes[1:]), "classes_ must be sorted and distinct")
    expected = 1 if classes.size == 2 else classes.size
    _require(
        outputs == expected,
        f"{classes.size} classes need {expected} rows of coef_, got {outputs}",
    )
    _check_calibrator(getattr(model, "calibrator_", None), outputs)


def _check_calibrator(calibrator: Any, outputs: int) -> None:
    fits = {
        type(None): True,
        _calibration.Sigmoid: outputs == 1,
        _calibration.Softmax: outputs > 1,
        _calibration.Isotonic: len(getattr(calibrator, "regressions", ())) == outputs,
    }
    _require(
        fits.get(type(calibrator), False), f"calibrator_ does not fit a model of {outputs} outputs"
    )


def _check_regressor(model: Any) -> None:
    _check_linear(model)
    _require(model.coef_.shape[0] == 1, f"a regression has one output, got {model.coef_.shape[0]}")


_OPTIONAL = ("feature_names_in_", "trace_")
_TABLE: dict[str, _Saved] = {
    "linear_classifier": _Saved(
        LinearClassifier,
        (*_LINEAR, "classes_"),
        (*_OPTIONAL, "calibrator_"),
        _check_classifier,
    ),
    "linear_regressor": _Saved(LinearRegressor, _LINEAR, _OPTIONAL, _check_regressor),
}
