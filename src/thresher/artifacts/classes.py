"""The classes that files may name, and what their fields may hold.

Files name terms, solvers, states, functions and enums by their qualified names; the classes are
looked up in a table, never imported.  Compiled code believes the types of fields, so a file may not
change them.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib
import inspect
import math
import pkgutil
from typing import Any

import numpy as np

from thresher import functions, kernels, losses, penalties, registry, schedules, solvers
from thresher._terms import Term
from thresher.artifacts.container import BadFile
from thresher.maps import bundles, leaves

__all__ = [
    "ROLES", "check_fields", "check_names", "field_names", "own_classes", "qualified",
    "registered_classes", "role_of",
]  # fmt: skip

ROLES: list[tuple[str, type]] = [
    ("loss", losses.Loss),
    ("penalty", penalties.Penalty),
    ("kernel", kernels.Kernel),
    ("schedule", schedules.Schedule),
    ("solver", solvers.Solver),
    ("term", object),
]


def role_of(cls: type) -> str:
    return next(role for role, base in ROLES if issubclass(cls, base))


def qualified(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def field_names(cls: type) -> list[str] | None:
    """Names of the fields of a dataclass or NamedTuple; None for other classes."""
    if dataclasses.is_dataclass(cls):
        return [f.name for f in dataclasses.fields(cls) if f.init]
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return list(cls._fields)
    return None


@functools.cache
def own_classes() -> dict[str, type]:
    """Thresher's terms, solvers, states and enums by qualified name."""
    modules = [
        importlib.import_module(f"{package.__name__}.{found.name}")
        for package in (penalties, solvers, functions)
        for found in pkgutil.iter_modules(package.__path__)
    ]
    return {
        qualified(cls): cls
        for module in [losses, kernels.functions, schedules, leaves, bundles, *modules]
        for cls in vars(module).values()
        if inspect.isclass(cls) and cls.__module__ == module.__name__ and _is_plain(cls)
    }


def _is_plain(cls: type) -> bool:
    return issubclass(cls, enum.Enum) or field_names(cls) is not None


def registered_classes() -> dict[str, type]:
    tables = (registry.LOSSES, registry.PENALTIES, registry.KERNELS, registry.SOLVERS)
    return {qualified(cls): cls for table in tables for cls in table.values()}


@functools.cache
def _accepted(annotation: str) -> tuple[type, ...] | None:
    """Classes that a field with this annotation may hold; None: anything."""
    number = (int, float, np.number)
    known: dict[str, tuple[type, ...]] = {
        "None": (type(None),),
        "bool": (bool, np.bool_),
        "int": (int, np.integer),
        "float": number,
        "str": (str,),
        "np.ndarray": (np.ndarray,),
        **{base.__name__: (base,) for _, base in ROLES[:-1]},
        "schedules.Schedule": (schedules.Schedule,),
        "Term": (Term,),
    }
    own = {cls.__name__: (cls,) for cls in own_classes().values()}
    parts = [{**own, **known}.get(part.strip()) for part in annotation.split("|")]
    return None if None in parts else tuple(cls for part in parts for cls in part or ())


def check_fields(cls: type, fields: dict[str, Any]) -> None:
    """Compiled code believes the types of a term's fields, so a file may not change them."""
    if dataclasses.is_dataclass(cls):
        annotations = {f.name: str(f.type) for f in dataclasses.fields(cls)}
    else:
        # A NamedTuple takes no base, so that one with methods of others stands below its fields.
        of_fields = next(base for base in cls.__mro__ if "_fields" in vars(base))
        kinds = of_fields.__annotations__.items()
        annotations = {name: getattr(kind, "__forward_arg__", str(kind)) for name, kind in kinds}
    for name, value in fields.items():
        accepted = _accepted(annotations[name])
        if accepted is not None and not _is_one_of(value, accepted):
            raise BadFile(f"{cls.__name__}.{name} must be {annotations[name]}, "
                          f"but the file gives {type(value).__name__}")  # fmt: skip
        if dataclasses.is_dataclass(cls) and isinstance(value, float) and math.isnan(value):
            raise BadFile(f"{cls.__name__}.{name} is not a number (NaN)")


def _is_one_of(value: Any, accepted: tuple[type, ...]) -> bool:
    """Python takes a bool for an int; a file may not."""
    if isinstance(value, bool):
        return bool in accepted
    return isinstance(value, accepted)


def check_names(cls: type, names: list[str], given: dict[str, Any]) -> None:
    missing, unknown = sorted(set(names) - set(given)), sorted(set(given) - set(names))
    if missing:
        raise BadFile(f"{cls.__name__} needs {missing[0]!r}, which the file does not give: it was "
                      "written for another version of the class")  # fmt: skip
    if unknown:
        raise BadFile(f"{cls.__name__} has no parameter {unknown[0][:100]!r}, which the file "
                      "gives: it was written for another version of the class")  # fmt: skip
