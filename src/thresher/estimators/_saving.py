"""Fitted estimators as documents of plain values and arrays, and back.

A document holds the constructor's parameters and the fitted attributes.  What is read back is
checked as if a stranger had written it: shapes that agree, finite weights, as many outputs as the
classes need.  Not kept: callbacks, a ``random_state`` that is not an integer, and the state of a
stream (``partial_fit`` opens a new one after loading; checkpoints are for going on, see
``_resuming.py``).
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
from thresher.estimators._stream import RowStream
from thresher.maps import (
    ForestFeatures,
    FourierFeatures,
    LocalNystroem,
    Nystroem,
    TermFeatures,
)
from thresher.maps.forest import Trees
from thresher.registry import KERNELS, LOSSES, MAPS, PENALTIES, SOLVERS, Names

__all__ = [
    "from_document", "kept_parameters", "packed", "packed_attributes", "saved_kind", "to_document",
    "unpacked",
]  # fmt: skip

_NAMED: dict[str, Names] = {
    "loss": LOSSES, "penalty": PENALTIES, "solver": SOLVERS, "kernel": KERNELS,
}  # fmt: skip


def to_document(estimator: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The fitted ``estimator`` as (plain JSON, arrays), ready for ``container.write``."""
    name, _ = saved_kind(estimator)
    check_is_fitted(estimator)
    arrays: dict[str, np.ndarray] = {}
    parameters = {
        key: encode(value, arrays, key) for key, value in kept_parameters(estimator).items()
    }
    attributes = {
        key: encode(value, arrays, key) for key, value in packed_attributes(estimator).items()
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
    estimator = saved.cls(**_remade(decode(parameters, arrays, terms)))
    _check_named(estimator)
    try:
        for key, value in decode(attributes, arrays, terms).items():
            setattr(estimator, key, unpacked(value))
        saved.check(estimator)
    except UnknownTerm:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise BadFile(str(error)) from error
    return estimator


def saved_kind(estimator: Any) -> tuple[str, Saved]:
    """The name of the estimator's class in files, and what is kept of it."""
    for name, saved in KINDS.items():
        if saved.cls is type(estimator):
            return name, saved
    known = ", ".join(saved.cls.__name__ for saved in KINDS.values())
    raise TypeError(f"{type(estimator).__name__} cannot be saved; these can: {known}")


def packed_attributes(estimator: Any) -> dict[str, Any]:
    """The fitted attributes in a form that ``encode`` takes, once they have been found sound."""
    _, saved = saved_kind(estimator)
    saved.check(estimator)
    names = [name for name in (*saved.attributes, *saved.optional) if hasattr(estimator, name)]
    return {name: packed(getattr(estimator, name)) for name in names}


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


def kept_parameters(estimator: Any) -> dict[str, Any]:
    """The constructor's parameters, without those that no file can hold; a map that is an object
    by its name and its own parameters."""
    kept = _without_chance(estimator.get_params(deep=False))
    kept.pop("callbacks", None)
    name = MAPS.name_of(type(kept.get("map")))
    if name is not None:
        own = _without_chance(kept["map"].get_params(deep=False))
        kept["map"] = {"map": name, **{key: packed(value) for key, value in own.items()}}
    return kept


def _without_chance(params: dict[str, Any]) -> dict[str, Any]:
    """Without a ``random_state`` that is not an integer."""
    seed = params.get("random_state")
    kept = {name: value for name, value in params.items() if name != "random_state"}
    return kept | ({"random_state": int(seed)} if isinstance(seed, int | np.integer) else {})


def _remade(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters with the object that :func:`kept_parameters` has described."""
    described = parameters.get("map")
    if not isinstance(described, dict):
        return parameters
    own = dict(described)
    name = own.pop("map", None)
    cls = MAPS.get(name) if isinstance(name, str) else None
    if cls is None:
        raise BadFile(f"unknown map {name!r:.100}; known: {', '.join(MAPS)}")
    unknown = sorted(set(own) - set(inspect.signature(cls).parameters))
    if unknown:
        raise BadFile(f"{cls.__name__} has no {unknown[0][:100]!r}, which the file gives")
    try:
        return parameters | {"map": cls(**{key: unpacked(value) for key, value in own.items()})}
    except (ValueError, TypeError) as error:
        raise BadFile(str(error)) from error


# ---------------------------------------------------------------- attributes that need a form


def packed(value: Any) -> Any:
    """Sparse matrices, calibrators, maps and streams as tagged dictionaries of plain values."""
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
    if isinstance(value, RowStream):
        return {"form": "row_stream", "learners": value.learners, "outputs": value.outputs}
    if isinstance(value, Nystroem):
        parts = {"landmarks": packed(value.landmarks_), "projection": value.projection_}
        return {"form": "nystroem", **parts, "kernel": value.kernel_}
    if isinstance(value, LocalNystroem):
        return {"form": "local", **_cells(value), "kernel": value.kernel_}
    if isinstance(value, FourierFeatures):
        parts = {"frequencies": value.frequencies_, "phases": value.phases_}
        return {"form": "fourier", **parts, "kernel": value.kernel_}
    if isinstance(value, ForestFeatures):
        return {"form": "forest", **value.trees_._asdict()}
    if isinstance(value, TermFeatures):
        powers = {"power": float(value.power), "rarity": float(value.rarity)}
        return {"form": "terms", **powers, "weights": value.weights_, "entries": value.entries_}
    if isinstance(value, BaseEstimator):
        raise TypeError(f"a model with the map {type(value).__name__} cannot be saved")
    return value


def unpacked(value: Any) -> Any:
    """What :func:`packed` was given."""
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


def _row_stream(learners: Any, outputs: Any) -> RowStream:
    """The learners are checked where it is known what they are for (``RowStream.check``)."""
    triples = isinstance(learners, list) and all(isinstance(t, tuple) for t in learners)
    if not triples or any(len(t) != 3 for t in learners) or type(outputs) is not int:
        raise ValueError("damaged learners of a stream")
    return RowStream(learners, outputs)


def _nystroem(landmarks: Any, projection: Any, kernel: Any) -> Any:
    fitted = Nystroem(kernel=kernel)
    fitted.landmarks_, fitted.projection_, fitted.kernel_ = unpacked(landmarks), projection, kernel
    return fitted


def _cells(value: LocalNystroem) -> dict[str, Any]:
    """The maps of all cells as a few arrays, whatever their number."""
    projections = [one.projection_ for one in value.maps_]
    return {
        "centres": value.centres_,
        "landmarks": packed(value.landmarks_),
        "projections": np.concatenate([p.ravel() for p in projections]),
        "sizes": np.array([p.shape for p in projections]),  # landmarks and features of each cell
    }


def _local(centres: Any, landmarks: Any, projections: Any, sizes: Any, kernel: Any) -> Any:
    points = unpacked(landmarks)
    whole = isinstance(sizes, np.ndarray) and sizes.dtype.kind == "i" and sizes.ndim == 2
    if not whole or sizes.shape[1:] != (2,) or np.any(sizes < 1) or np.any(sizes > 2**31):
        raise ValueError("cells: their sizes are wrong")
    flat = isinstance(projections, np.ndarray) and projections.ndim == 1
    if not isinstance(centres, np.ndarray) or getattr(points, "ndim", 0) != 2:
        raise ValueError("cells: centres and landmarks must be matrices")
    fits = points.shape[0] == sizes[:, 0].sum() and centres.shape == (len(sizes), points.shape[1])
    if not flat or not fits or projections.size != np.prod(sizes, axis=1).sum():
        raise ValueError("cells: their landmarks, projections and centres do not fit together")
    fitted = LocalNystroem(kernel=kernel)
    fitted.centres_, fitted.kernel_ = centres, kernel
    ends, last = np.cumsum(sizes[:, 0]), np.cumsum(np.prod(sizes, axis=1))
    fitted.maps_ = [
        _nystroem(points[end - m : end], projections[stop - m * k : stop].reshape(m, k), kernel)
        for (m, k), end, stop in zip(sizes.tolist(), ends, last, strict=True)
    ]
    return fitted


def _fourier(frequencies: Any, phases: Any, kernel: Any) -> Any:
    fitted = FourierFeatures(kernel=kernel)
    fitted.frequencies_, fitted.phases_, fitted.kernel_ = frequencies, phases, kernel
    return fitted


def _forest(**nodes: Any) -> Any:
    """The trees are checked where the number of features is known (``Trees.check``)."""
    fitted = ForestFeatures()
    fitted.trees_ = Trees(**nodes)
    return fitted


def _terms(power: Any, rarity: Any, weights: Any, entries: Any) -> Any:
    """The weights are checked where the number of features is known."""
    fitted = TermFeatures(_number(power, "power"), _number(rarity, "rarity"))
    fitted._check_powers()
    fitted.weights_, fitted.entries_ = weights, _number(entries, "entries")
    return fitted


_FORMS: dict[str, tuple[set[str], Callable[..., Any]]] = {
    "csr": ({"shape", "data", "indices", "indptr"}, _sparse),
    "sigmoid": ({"slope", "offset"}, _sigmoid),
    "softmax": ({"slope"}, _softmax),
    "isotonic": ({"steps"}, _isotonic),
    "units": ({"shift", "scale"}, Units),
    "row_stream": ({"learners", "outputs"}, _row_stream),
    "nystroem": ({"landmarks", "projection", "kernel"}, _nystroem),
    "local": ({"centres", "landmarks", "projections", "sizes", "kernel"}, _local),
    "fourier": ({"frequencies", "phases", "kernel"}, _fourier),
    "forest": (set(Trees._fields), _forest),
    "terms": ({"power", "rarity", "weights", "entries"}, _terms),
}
