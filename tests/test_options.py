"""Options of estimators and maps: what they may be is said once, and refused by name."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import thresher
from thresher._allowed import BYTES, FLAG, POSITIVE, OneOf, allowed_of, number, whole

# Objects, words and arrays that are checked where they are resolved, or that are free.
FREE = {
    "C", "alpha", "basis", "calibrate", "callbacks", "class_weight", "cluster", "columns",
    "criterion", "cv", "estimator", "gamma", "init", "irrelevant", "kernel", "kernels", "landmarks",
    "learners", "loss", "maintenance", "map", "members", "n_components", "offsets", "ordering",
    "outlier_label", "penalty", "prior_mean", "prior_variance", "pruner", "random_state", "reject",
    "search", "shape", "solver", "space", "storage", "study_name", "task_columns", "verbose",
    "weights",
}  # fmt: skip


def _classes():
    public = (getattr(thresher, name) for name in dir(thresher))
    return [c for c in public if isinstance(c, type) and issubclass(c, BaseEstimator)]


def _rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    return X, (X[:, 0] > 0.0).astype(int)


def _wrong(allowed):
    tried = ["?", -1, float("nan"), 1.5, 7, None, [1.0], True, {}]
    return [value for value in tried if not allowed.admits(value)]


CASES = [
    pytest.param(cls, name, id=f"{cls.__name__}-{name}")
    for cls in _classes()
    for name in allowed_of(cls)
    if name in inspect.signature(cls).parameters
]


@pytest.mark.parametrize(("cls", "name"), CASES)
def test_a_value_that_an_option_may_not_have_is_refused_by_the_options_name(cls, name):
    X, y = _rows()
    allowed = allowed_of(cls)[name]
    for value in _wrong(allowed):
        with pytest.raises(ValueError, match=f"^{name} must be ") as caught:
            cls(**{name: value}).fit(X, y)
        assert str(allowed) in str(caught.value)


@pytest.mark.parametrize("cls", _classes())
def test_every_default_is_allowed_and_every_option_is_declared_or_free(cls):
    allowed = allowed_of(cls)
    for name, parameter in inspect.signature(cls).parameters.items():
        if name in allowed:
            assert allowed[name].admits(parameter.default), name
        else:
            assert name in FREE, f"{cls.__name__}.{name} is not declared"


@pytest.mark.parametrize(
    ("allowed", "words", "good", "bad"),
    [
        (POSITIVE | None, "a positive number (or None)", [1, 1e-300, None, np.float32(2)],
         [0.0, -1, np.inf, np.nan, "1", True, np.ones(1)]),
        (number(0.0, 1.0, "(]"), "a number in (0, 1]", [1, 0.5], [0, 1.5]),
        (whole(1) | "auto", "a whole number of at least 1 (or 'auto')", [1, np.int64(9), "auto"],
         [0, 1.0, "Auto", None, False]),
        (whole(1, 12), "a whole number in [1, 12]", [1, 12], [13]),
        (BYTES, "a positive number of bytes", [np.inf, 1], [0, np.nan]),
        (FLAG | "relevance", "True or False (or 'relevance')", [0, 1, np.bool_(True), "relevance"],
         [2, 0.0, "", None]),
        (OneOf(None, "a"), "one of None, 'a'", [None, "a"], ["b", 0, np.ones(2)]),
    ],
)  # fmt: skip
def test_kinds_of_values(allowed, words, good, bad):
    assert str(allowed) == words
    assert all(allowed.admits(value) for value in good)
    assert not any(allowed.admits(value) for value in bad)


def test_what_a_class_declares_adds_to_what_its_bases_do():
    class Base:
        allowed = {"a": FLAG, "b": FLAG}

    class Derived(Base):
        allowed = {"b": POSITIVE}

    assert allowed_of(Derived) == {"a": FLAG, "b": POSITIVE}
