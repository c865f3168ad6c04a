"""Parameters of parameters: ``loss__tau=0.3`` for estimators whose parameters are terms.

Of a parameter with a number for each feature, ``solver__precisions__3=0.3`` is the fourth.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from thresher.kernels import Kernel
from thresher.losses import Loss
from thresher.penalties import Penalty
from thresher.registry import resolve
from thresher.solvers import Solver

__all__ = ["NestedParameters"]

_BASES: dict[str, type] = {"loss": Loss, "penalty": Penalty, "solver": Solver, "kernel": Kernel}


class NestedParameters(BaseEstimator):
    """``get_params`` and ``set_params`` that see the fields of losses, penalties, solvers, kernels.

    Terms are immutable: setting a field replaces the term by a changed copy.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        params = super().get_params(deep=False)
        if deep:
            for name, value in list(params.items()):
                if dataclasses.is_dataclass(value) and not isinstance(value, type):
                    for f in dataclasses.fields(value):
                        params[f"{name}__{f.name}"] = getattr(value, f.name)
        return params

    def set_params(self, **params: Any) -> Self:
        nested: dict[str, dict[str, Any]] = defaultdict(dict)
        for key, value in params.items():
            name, _, field = key.partition("__")
            if field:
                nested[name][field] = value
            else:
                super().set_params(**{name: value})
        for name, fields in nested.items():
            self.set_fields(name, fields)
        return self

    def set_fields(self, name: str, fields: dict[str, Any]) -> None:
        if name not in _BASES or not hasattr(self, name):
            known = [base for base in _BASES if hasattr(self, base)]
            raise ValueError(
                f"Invalid parameter {name!r} for estimator {self}: "
                f"only {', '.join(known)} have parameters of their own"
            )
        value = self.named(name)
        if value == "auto":
            raise ValueError(
                f"{name}='auto' is chosen while learning: name the {name} whose "
                f"{min(fields)} is to be set"
            )
        term = resolve(value, _BASES[name], name)
        known = sorted(f.name for f in dataclasses.fields(term))
        fields = _gathered(term, fields)
        unknown = sorted(set(fields) - set(known))
        if unknown:
            raise ValueError(
                f"Invalid parameter {unknown[0]!r} for {name} {type(term).__name__}; "
                f"valid ones are {known}"
            )
        setattr(self, name, dataclasses.replace(term, **fields))

    def named(self, name: str) -> Any:
        """The parameter, or the name that None stands for."""
        return getattr(self, name)


def _gathered(term: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """Fields, with those that are single numbers of an array made arrays; the others stay ones."""
    whole = {name: value for name, value in fields.items() if "__" not in name}
    single: dict[str, dict[int, float]] = defaultdict(dict)
    for name, value in fields.items():
        field, _, place = name.partition("__")
        if place.isdecimal():
            single[field][int(place)] = value
        elif place:
            whole[name] = value  # no field has this name
    for field, numbers in single.items():
        before = whole.get(field, getattr(term, field, None))
        size = max(numbers) + 1
        values = np.ones(size) if before is None or isinstance(before, str) else np.array(before)
        if values.ndim != 1 or values.size < size:
            raise ValueError(f"{field} has {values.size} numbers: there is no {field}__{size - 1}")
        values[list(numbers)] = list(numbers.values())
        whole[field] = values
    return whole
