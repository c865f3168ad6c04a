"""Fitted estimators as documents of plain values and arrays, and back.

A document holds the constructor's parameters, the function that was learned, and a record of how.
What is read back is checked as if a stranger had written it.  Not kept: callbacks, a
``random_state`` that is not an integer, and the state of a stream (``partial_fit`` opens a new one
after loading; checkpoints are for going on).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from thresher.artifacts.container import BadFile
from thresher.artifacts.encoding import UnknownTerm, decode, encode, kept_parameters
from thresher.artifacts.upgrades import upgraded
from thresher.estimators.base import Learner
from thresher.functions.base import check_numbers, require
from thresher.penalties import Penalty
from thresher.registry import KERNELS, LEARNERS, LOSSES, MAPS, PENALTIES, SOLVERS, Names
from thresher.solvers import Solver, Status

__all__ = ["from_document", "to_document"]

_NAMED: dict[str, Names] = {
    "loss": LOSSES, "penalty": PENALTIES, "solver": SOLVERS, "kernel": KERNELS, "map": MAPS,
}  # fmt: skip


def to_document(estimator: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The fitted ``estimator`` as (plain JSON, arrays), ready for ``container.write``."""
    kind = LEARNERS.kind_of(type(estimator))
    if kind is None:
        known = ", ".join(cls.__name__ for cls in LEARNERS.kinds().values())
        raise TypeError(f"{type(estimator).__name__} cannot be saved; these can: {known}")
    check_is_fitted(estimator)
    _check(estimator)
    arrays: dict[str, np.ndarray] = {}
    parameters = {
        key: encode(value, arrays, key) for key, value in kept_parameters(estimator).items()
    }
    names = [n for n in (*estimator.record, *estimator.optional_record) if hasattr(estimator, n)]
    record = {name: encode(getattr(estimator, name), arrays, name) for name in names}
    function = encode(estimator.function_, arrays, "function_")
    document = {
        "estimator": kind, "parameters": parameters, "function": function, "record": record,
    }  # fmt: skip
    return document, arrays


def from_document(
    document: dict[str, Any], arrays: dict[str, np.ndarray], version: int,
    terms: Iterable[type] = (),
) -> Any:  # fmt: skip
    """The estimator that :func:`to_document` was given; ``terms`` are the user's own classes.

    Raises ``BadFile`` for a document that no estimator can have given, ``UnknownTerm`` for a class
    that is neither Thresher's nor among ``terms``.
    """
    document = upgraded(document, version)
    kind, kinds = document.get("estimator"), LEARNERS.kinds()
    if not isinstance(kind, str) or kind not in kinds:
        raise BadFile(f"unknown estimator {kind!r:.100}; known: {', '.join(kinds)}")
    cls, terms = kinds[kind], tuple(terms)
    parameters, record = document.get("parameters"), document.get("record")
    if not isinstance(parameters, dict) or not isinstance(record, dict):
        raise BadFile("the document has no parameters or no record")
    _check_keys(cls, parameters, record)
    estimator = cls(**decode(parameters, arrays, terms))
    _check_named(estimator)
    function = decode(document.get("function"), arrays, terms)
    try:
        for key, value in decode(record, arrays, terms).items():
            setattr(estimator, key, value)
        estimator.function_ = function
        _check(estimator)
    except (BadFile, UnknownTerm, MemoryError):
        raise
    except Exception as error:  # checks meet damage with a dozen kinds of error
        raise BadFile(str(error)) from error
    return estimator


def _check_keys(cls: type[Learner], parameters: dict[str, Any], record: dict[str, Any]) -> None:
    known = set(inspect.signature(cls).parameters) - {"callbacks"}
    unknown = sorted(set(parameters) - known)
    unknown += sorted(set(record) - {*cls.record, *cls.optional_record})
    if unknown:
        raise BadFile(f"{cls.__name__} has no {unknown[0][:100]!r}, which the file gives")
    missing = sorted(set(cls.record) - set(record))
    if missing:
        raise BadFile(f"the file does not give the {missing[0]!r} of {cls.__name__}")


def _check_named(estimator: Any) -> None:
    """A registered name must mean something here too, and anything else be a term of that role."""
    given, usual = estimator.get_params(deep=False), inspect.signature(type(estimator)).parameters
    for role, table in _NAMED.items():
        if role not in given:
            continue
        value, default = given[role], usual[role].default
        named = isinstance(value, str)
        missing = value is None and default is None
        if not named and not missing and not table.takes(type(value)):
            raise BadFile(f"the {role} of the file is a {type(value).__name__}")
        if named and value != default and value not in table:
            raise UnknownTerm(
                f"the model uses the {role} named {value[:100]!r}, which is not registered here: "
                f"call thresher.register({value[:100]!r}, ...) with its class before loading"
            )


def _check(model: Any) -> None:
    """ValueError unless function, targets and record are those of a fit."""
    function, d = model.function_, model.n_features_in_
    ours = isinstance(function, tuple) and hasattr(function, "to_onnx")
    require(ours, "the file holds no function")
    function.check()
    fits = type(d) is int and d > 0 and d == function.features
    require(fits, f"the function of {function.features} features is not for {d!r}")
    model.check_targets()
    names = getattr(model, "feature_names_in_", None)
    strings = isinstance(names, np.ndarray) and names.dtype.kind in "OU" and names.shape == (d,)
    require(names is None or strings, f"feature_names_in_ must be {d} strings")
    passes = model.n_iter_
    count = isinstance(passes, int | np.integer) and not isinstance(passes, bool)
    require(count and passes >= 0, "n_iter_ must be a count")
    require(isinstance(model.status_, Status), "status_ must be a Status")
    require(isinstance(model.solver_, Solver), "solver_ must be a Solver")
    require(isinstance(model.penalty_, Penalty), "penalty_ must be a Penalty")
    require(isinstance(getattr(model, "trace_", []), list), "trace_ must be a list")
    if hasattr(model, "group_norms_"):
        grouped = "grouped" in model.penalty_.traits
        require(grouped, "group_norms_ without a penalty over groups")
        check_numbers("group_norms_", model.group_norms_, (model.penalty_.n_groups,))
