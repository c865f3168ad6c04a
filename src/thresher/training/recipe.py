"""One training, said twice: as a command and as Python code, which agree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

from sklearn.base import BaseEstimator

from thresher.registry import KERNELS, LOSSES, PENALTIES

__all__ = ["Recipe"]

#: parameters of estimators that have an option of their own
_OWN_OPTION = ("loss", "penalty", "solver", "alpha", "class_weight", "calibrate", "tol")
_FLAGS = {
    "header": ("--header", "--no-header"),
    "zero_based": ("--zero-based", "--one-based"),
    "scale": ("--scale", "--no-scale"),
    "scan": ("--scan", "--no-scan"),
}
_NAMES = {"cv": "--folds"}


@dataclass
class Recipe:
    """What it takes to get a model.

    Parameters
    ----------
    paths : of the data
    reading : options of ``open_data``: target, task, types, ignore, delimiter, ...
    learner : as ``train`` takes it
    params : of the estimator; "map__min_leaf" for those of a map or a term
    options : other arguments of ``train``: budget, tune, passes, holdout, ...
    model : file to write
    """

    paths: list[str]
    reading: dict[str, Any] = field(default_factory=dict)
    learner: str = "linear"
    params: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    model: str | None = None

    def arguments(self) -> dict[str, Any]:
        """Of ``thresher.train``, besides the data."""
        out = dict(self.reading)
        out |= {"learner": self.learner} if self.learner != "linear" else {}
        out |= {"params": self.params} if self.params else {}
        out |= self.options
        return out | ({"model": self.model} if self.model else {})

    def words(self) -> list[str]:
        """Of a command line."""
        words = ["thresher", "train", *self.paths]
        for name, value in self.reading.items():
            words += _option(name, value)
        words += ["--learner", self.learner] if self.learner != "linear" else []
        for name, value in self.params.items():
            words += _parameter(name, value)
        for name, value in self.options.items():
            words += _option(name, f"{value:g}s" if name == "budget" else value)
        return [*words, *(["--model", self.model] if self.model else [])]

    def code(self, *after: str) -> str:
        """A Python program; ``after`` are its last lines."""
        data = repr(self.paths[0] if len(self.paths) == 1 else self.paths)
        arguments = [data, *(f"{name}={said(value)}" for name, value in self.arguments().items())]
        names = [*sorted({cls.__name__ for cls in _classes(self.params)}), "train"]
        lines = [f"from thresher import {', '.join(names)}", "", "model = train("]
        return "\n".join([*lines, *(f"    {a}," for a in arguments), ")", *after, ""])


def said(value: Any) -> str:
    """As Python writes it, in one line; learners and maps by what differs from their defaults."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {said(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(said, value)) + "]"
    if not isinstance(value, BaseEstimator):
        return repr(value)
    usual = signature(type(value)).parameters
    given = value.get_params(deep=False).items()
    told = [
        f"{n}={said(v)}" for n, v in given if n != "callbacks" and said(v) != said(usual[n].default)
    ]
    return f"{type(value).__name__}({', '.join(told)})"


def _classes(value: Any) -> Iterator[type]:
    """Ours, that a program must import to say a value."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _classes(item)
    elif isinstance(value, BaseEstimator):
        yield type(value)
        yield from _classes(value.get_params(deep=False))
    elif any(type(value) in table.values() for table in (LOSSES, PENALTIES, KERNELS)):
        yield type(value)


def _option(name: str, value: Any) -> list[str]:
    if name == "ignore":
        return [word for column in value for word in ("--ignore", column)]
    if name == "types":
        return [w for column, kind in value.items() for w in ("--type", f"{column}={kind}")]
    if name in _FLAGS:
        return [_FLAGS[name][0 if value else 1]]
    return [_NAMES.get(name, f"--{name.replace('_', '-')}"), str(value)]


def _parameter(name: str, value: Any) -> list[str]:
    if name == "scale" and isinstance(value, bool):
        return _option(name, value)
    text = value if isinstance(value, str) else said(value)
    if name in _OWN_OPTION:
        return [f"--{name.replace('_', '-')}", text]
    return ["--set", f"{name.replace('__', '.')}={text}"]
