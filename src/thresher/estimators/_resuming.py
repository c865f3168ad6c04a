"""An estimator in the middle of a stream as plain values and arrays, and back: for checkpoints.

To go on, ``partial_fit`` needs what a model file keeps (units, map, classes) and besides the stream
itself: the learner with what it found on the first rows, and its state, which holds the counters
that random numbers are drawn by.  What is read back is checked as in a model file, for compiled
loops believe a state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from thresher._lanes import LANES
from thresher.estimators._saved import check_units, require
from thresher.estimators._saving import packed, packed_attributes, saved_kind, unpacked
from thresher.estimators._stream import RowStream, check_arrays
from thresher.estimators.budgeted import BudgetedClassifier, BudgetedRegressor
from thresher.estimators.hyperplanes import MultiHyperplaneClassifier
from thresher.estimators.kernel import KernelClassifier, KernelRegressor
from thresher.solvers.budgeted import Budgeted, BudgetedState, CrammerSinger, OneOutput
from thresher.solvers.hyperplane_lanes import HyperplaneState
from thresher.solvers.hyperplanes import Hyperplanes

__all__ = ["resume_stream", "stream_state"]


class _Kept(NamedTuple):
    """What a stream has besides the fitted attributes; ``check`` raises ValueError."""

    attributes: tuple[str, ...]
    check: Callable[[Any], None]


def stream_state(estimator: Any) -> dict[str, Any]:
    """All that ``partial_fit`` has learned so far, in a form that ``encode`` takes."""
    kept = _STREAMS[type(estimator)].attributes
    return packed_attributes(estimator) | {name: packed(getattr(estimator, name)) for name in kept}


def resume_stream(estimator: Any, state: Any) -> None:
    """Bring ``estimator``, which has the parameters of the one that was saved, to that state."""
    _, saved = saved_kind(estimator)
    kept = _STREAMS[type(estimator)]
    needed = {*saved.attributes, *kept.attributes}
    if not isinstance(state, dict) or not needed <= state.keys() <= needed | {*saved.optional}:
        raise ValueError(f"it does not hold a stream of {type(estimator).__name__}")
    for name, value in state.items():
        setattr(estimator, name, unpacked(value))
    saved.check(estimator)
    kept.check(estimator)


# ---------------------------------------------------------------- what must hold for a stream


def _check_pair(stream: Any, *kinds: type) -> None:
    fits = isinstance(stream, tuple) and tuple(type(part) for part in stream) == kinds
    require(fits, f"its stream is not a pair of {kinds[0].__name__} and {kinds[1].__name__}")


def _check_kernel(model: Any) -> None:
    require(isinstance(model._stream, RowStream), "its stream has no learners")
    require(model._stream_units is None, "mapped rows keep their units")
    outputs, features = model.coef_.shape
    model._stream.check(features, outputs)


def _check_budgeted(model: Any) -> None:
    _check_pair(model._stream, Budgeted, BudgetedState)
    learner, state = model._stream
    outputs = model.dual_coef_.shape[0]
    expected = (model.n_features_in_, outputs, model.budget, model.maintenance)
    found = (learner.n_features, learner.outputs, learner.budget, learner.maintenance)
    require(found == expected, "it was made for other features, classes or another budget")
    rule = OneOutput if outputs == 1 else CrammerSinger
    require(type(learner.rule) is rule, f"its loss is not for {outputs} outputs")
    require(learner.dtype in (np.float32, np.float64), "its precision is unknown")
    require(learner.eta0 > 0.0, "its first step has no length")
    learner.check()
    check_arrays(state, learner.init())
    slots = 0 <= state.empty <= state.size <= learner.budget
    require(slots, "the state counts more support vectors than the budget")


def _check_centred(model: Any) -> None:
    _check_budgeted(model)
    require(isinstance(model._centre, float), "the mean target is not a number")


def _check_hyperplanes(model: Any) -> None:
    _check_pair(model._stream, Hyperplanes, HyperplaneState)
    solver, state = model._stream
    d, classes, lanes = model.n_features_in_, model.classes_.size, state.owner.size
    require(state.sums.dtype in (np.float32, np.float64), "its precision is unknown")
    fresh = solver.init(d, classes, state.sums.dtype)
    if state.late.shape[:1] == (d,):
        fresh = solver.averaging(fresh)
    check_arrays(state, _stretched(fresh, lanes))
    require(lanes and lanes % LANES == 0, f"{lanes} lanes are not whole registers")
    owner, used = state.owner, state.hits > 0
    require(np.array_equal(np.setdiff1d(owner, -1), np.arange(classes)), "a class has no weight")
    counts = np.bincount(owner[used & (owner >= 0)], minlength=classes)
    require(np.array_equal(counts, state.sizes), "the weights of the classes are miscounted")
    check_units(model._stream_units, d)


def _stretched(state: HyperplaneState, lanes: int) -> HyperplaneState:
    """The same types and shapes, but for the number of lanes."""
    wide: dict[str, Any] = {
        name: np.broadcast_to(value[..., :1], (*value.shape[:-1], lanes))
        for name, value in state._asdict().items()
        if isinstance(value, np.ndarray) and name != "sizes"
    }
    return state._replace(**wide)


_BUDGETED = _Kept(("_stream",), _check_budgeted)
_KERNEL = _Kept(("_stream", "_stream_units"), _check_kernel)

_STREAMS: dict[type, _Kept] = {
    KernelClassifier: _KERNEL,
    KernelRegressor: _KERNEL,
    BudgetedClassifier: _BUDGETED,
    BudgetedRegressor: _Kept(("_stream", "_centre"), _check_centred),
    MultiHyperplaneClassifier: _Kept(("_stream", "_stream_units"), _check_hyperplanes),
}
