"""Fitted estimators as documents of plain values and arrays, and back.

A document holds the constructor's parameters and the fitted attributes.  What is read back is
checked as if a stranger had written it: shapes that agree, finite weights, as many outputs as the
classes need.  Not kept: callbacks, a ``random_state`` that is not an integer, and the state of a
stream (``partial_fit`` opens a new one after loading; checkpoints are for going on).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from thresher.artifacts.container import BadFile
from thresher.artifacts.encoding import UnknownTerm, decode, encode
from thresher.estimators import _calibration
from thresher.estimators._input import Units
from thresher.estimators._saved import KINDS, Saved
from thresher.maps import FourierFeatures, Nystroem
from thresher.registry import KERNELS, LOSSES, PENALTIES, SOLVERS

__all__ = ["from_document", "to_document"]

_NAMED: dict[str, dict[str, Any]] = {
    "loss": LOSSES, "penalty": PENALTIES, "solver": SOLVERS, "kernel": KERNELS,
}  # fmt: skip


def to_document(estimator: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The fitted ``estimator`` as (plain JSON, arrays), ready for ``container.write``."""
    name = next((key for key, saved in KINDS.items() if saved.cls is type(estimator)), None)
    if name is None:
        known = ", ".join(saved.cls.__name__ for saved in KINDS.values())
        raise TypeError(f"{type(estimator).__name__} cannot be saved; these can: {known}")
    check_is_fitted(estimator)
    saved = KINDS[name]
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
    saved = KINDS.get(name) if isinstance(name, str) else None
    if saved is None:
        raise BadFile(f"unknown estimator {name!r:.100}; known: {', '.join(KINDS)}")
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


def _check_keys(saved: Saved, parameters: dict[str, Any], attributes: dict[str, Any]) -> None:
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
    return kept | _map_parameters(kept.get("map"))


def _map_parameters(value: Any) -> dict[str, Any]:
    """A map given as an object, by its name and the parameters that the estimator has as well."""
    if not isinstance(value, Nystroem | FourierFeatures):
        return {}
    name = "nystroem" if isinstance(value, Nystroem) else "fourier"
    shared = {key: getattr(value, key) for key in ("n_components", "kernel", "gamma")}
    return {"map": name, **shared, "landmarks": getattr(value, "landmarks", "uniform")}


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
    if isinstance(value, Units):
        return {"form": "units", "shift": value.shift, "scale": value.scale}
    if isinstance(value, Nystroem):
        parts = {"landmarks": _packed(value.landmarks_), "projection": value.projection_}
        return {"form": "nystroem", **parts, "kernel": value.kernel_}
    if isinstance(value, FourierFeatures):
        parts = {"frequencies": value.frequencies_, "phases": value.phases_}
        return {"form": "fourier", **parts, "kernel": value.kernel_}
    if isinstance(value, BaseEstimator):
        raise TypeError(f"a model with the map {type(value).__name__} cannot be saved")
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


def _nystroem(landmarks: Any, projection: Any, kernel: Any) -> Any:
    fitted = Nystroem(kernel=kernel)
    fitted.landmarks_, fitted.projection_, fitted.kernel_ = _unpacked(landmarks), projection, kernel
    return fitted


def _fourier(frequencies: Any, phases: Any, kernel: Any) -> Any:
    fitted = FourierFeatures(kernel=kernel)
    fitted.frequencies_, fitted.phases_, fitted.kernel_ = frequencies, phases, kernel
    return fitted


_FORMS: dict[str, tuple[set[str], Callable[..., Any]]] = {
    "csr": ({"shape", "data", "indices", "indptr"}, _sparse),
    "sigmoid": ({"slope", "offset"}, _sigmoid),
    "softmax": ({"slope"}, _softmax),
    "isotonic": ({"steps"}, _isotonic),
    "units": ({"shift", "scale"}, Units),
    "nystroem": ({"landmarks", "projection", "kernel"}, _nystroem),
    "fourier": ({"frequencies", "phases", "kernel"}, _fourier),
}
