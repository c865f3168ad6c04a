"""Which settings a runner of a race tries: at first, with more rows, and while there is time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from thresher._allowed import FLAG, allowed_of
from thresher.maps.relevance import MOST_FEATURES
from thresher.race.capacity import capacity, components, grows, larger, map_of, modest, rescaled
from thresher.race.runner import Runner
from thresher.search.space import Choice, Float, Int, Space
from thresher.search.spaces import context_of, space_for
from thresher.search.unit_interval import from_unit, reflect, to_unit

__all__ = ["Proposals", "first_changes"]

_FINER = 3.0  # squared distances of four times the rows on a surface of 2 or 3 dimensions
_MARGINS = ("squared_hinge", "logistic")


class Proposals:
    """Settings for fits on the first of the rows ``train`` of X and y."""

    def __init__(self, X: Any, y: np.ndarray, train: np.ndarray, rng: np.random.Generator):
        self.X, self.y, self.train, self.rng = X, y, train, rng
        self.spaces: dict[tuple[str, int], Space] = {}

    def first(self, runner: Runner, rows: int) -> list[dict[str, Any]]:
        """The best settings so far, for so many rows; at first the defaults, in all units."""
        if runner.best is not None:
            carried = rescaled(runner.best.params, runner.best.rows, rows)
            carried = modest(runner.estimator, carried, rows)
            return [carried, *self._finer(runner, carried, rows)]
        starts = _map_starts(runner.estimator, rows, self.y.dtype.kind == "f")
        return [{}, *(starts or _other_scales(runner.estimator, self.X))]

    def next(self, runner: Runner, rows: int) -> dict[str, Any]:
        """A step from the best settings, mostly; or a new start."""
        assert runner.best is not None
        space, sizes = self._space(runner, rows), self._sizes(runner, rows)
        drawn = space.sample(self.rng, context_of(runner.estimator))
        known = runner.known
        # Larger models err less and take longer: how large they are is a question of its own.
        drawn |= {name: known[name] for name in sizes.keys() & drawn.keys() if known.get(name)}
        runner.asked += 1
        if runner.asked % 4 == 3:
            return drawn
        trees = grows(runner.estimator)
        if self._may_grow(runner, sizes, rows) and runner.asked % (2 if trees else 4) == 0:
            factor = self.rng.uniform(1.3, 2.0) if trees else 2.0
            return larger(runner.estimator, runner.best.params, rows, factor)
        width = 0.3 / math.sqrt(1 + len(runner.trials) / 4)
        return {
            k: v if k in sizes else self._near(space, k, known.get(k), v, width)
            for k, v in drawn.items()
        }

    def _finer(self, runner: Runner, params: dict[str, Any], rows: int) -> list[dict[str, Any]]:
        """More rows say more: held back less, and with a narrower kernel or smaller leaves, the
        model may follow them."""
        assert runner.best is not None
        searched = self._space(runner, rows).dimensions
        known = rescaled(runner.known, runner.best.rows, rows) | params
        weaker = params | _held_less(known, searched, _FINER)
        finer = _map_finer(runner.estimator, params)
        if finer:
            return [weaker | finer]
        width = searched.get("gamma")
        if finer is not None or not isinstance(width, Float):
            return []
        gamma = known.get("gamma")
        gamma = gamma if isinstance(gamma, float) else math.sqrt(width.low * width.high)
        narrower = weaker | {"gamma": min(_FINER * gamma, width.high)}
        return [narrower, params | _held_less(known, searched, _FINER**2)]

    def _space(self, runner: Runner, rows: int) -> Space:
        """What the learner declares for these rows, and the size of its model; found once."""
        key = (runner.name, rows)
        if key not in self.spaces:
            part = self.train[:rows]
            declared = space_for(runner.estimator, self.X[part], self.y[part])
            losses = _losses(runner.estimator)
            more = self._sizes(runner, rows) | ({"loss": Choice(*losses)} if losses else {})
            self.spaces[key] = Space({**declared.dimensions, **declared.constants, **more})
        return self.spaces[key]

    def _sizes(self, runner: Runner, rows: int) -> dict[str, Int]:
        """How large a model may be; more trees only add to what all rows have taught a forest."""
        wait = grows(runner.estimator) and rows < self.train.size
        return {} if wait else capacity(runner.estimator, rows)

    def _may_grow(self, runner: Runner, sizes: dict[str, Int], rows: int) -> bool:
        """Whether its best model is not yet as large as so many rows can fill."""
        assert runner.best is not None
        size = components(runner.estimator, runner.best.params, rows)
        return any(size < most.high for most in sizes.values())

    def _near(self, space: Space, name: str, old: Any, drawn: Any, width: float) -> Any:
        """A number close to the old one; a choice changes now and then.

        Spaces are made around defaults that are no numbers ("auto"): those are in the middle,
        where the model does not say what number they came to.
        """
        dimension = space.dimensions.get(name)
        old = None if isinstance(old, str) and not isinstance(dimension, Choice) else old
        if dimension is None or (old is None and isinstance(dimension, Choice)):
            return drawn
        if isinstance(dimension, Choice):
            return drawn if self.rng.random() < width else old
        distribution = dimension.distribution()
        place = 0.5
        if old is not None:
            place = to_unit(distribution, min(max(old, dimension.low), dimension.high))
        moved = reflect(place + width * self.rng.standard_normal())
        return dimension.value(from_unit(distribution, moved))


def _map_starts(estimator: Any, rows: int, numbers: bool) -> list[dict[str, Any]]:
    made = map_of(estimator)
    return [] if made is None else made.starts(rows, numbers)


def _map_finer(estimator: Any, params: dict[str, Any]) -> dict[str, Any] | None:
    """What the map has to say of more rows; None: nothing."""
    made = map_of(estimator)
    return None if made is None else made.finer(params, _FINER)


def _held_less(known: dict[str, Any], searched: Any, factor: float) -> dict[str, Any]:
    """A weaker penalty than the known one, in the learner's own terms, if it has one."""
    if "C" in searched and known.get("C"):
        return {"C": factor * known["C"]}
    if "alpha" in searched and known.get("alpha"):
        return {"alpha": known["alpha"] / factor}
    return {}


def _losses(estimator: Any) -> tuple[str, ...]:
    """Which is better, a margin for all or a likelihood, only the rows tell."""
    loss = estimator.get_params(deep=False).get("loss")
    return _MARGINS if isinstance(loss, str) and loss in _MARGINS else ()


def _other_scales(estimator: Any, X: Any) -> list[dict[str, Any]]:
    scale = estimator.get_params(deep=False).get("scale")
    if not isinstance(scale, bool):
        return []
    words = allowed_of(type(estimator)).get("scale", FLAG).also
    words = words if X.shape[1] <= MOST_FEATURES else ()
    others = words if hasattr(X, "indptr") else (not scale, *words)
    return [{"scale": other} for other in others]


def first_changes(estimator: Any, X: Any) -> list[dict[str, Any]]:
    """Scales and losses that a race tries beside the defaults, each compiled by itself."""
    losses = [{"loss": loss} for loss in _losses(estimator) if loss != estimator.loss]
    return [{}, *_other_scales(estimator, X), *losses]
