"""What estimators behind a feature map share: the map, and the parameters that go into it."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from sklearn.base import clone

from thresher._allowed import FLAG
from thresher._rows import Rows
from thresher._seed import seed_from
from thresher.dimensions import Int
from thresher.estimators.base import Learner
from thresher.estimators.fronts import Front
from thresher.maps.base import FeatureMap
from thresher.maps.foreign import Foreign
from thresher.registry import MAPS

__all__ = ["MapModel"]

_OF_MAPS = ("n_components", "kernel", "gamma", "landmarks", "n_jobs")


class MapModel(Learner):
    """Base of the estimators whose rows go through a map."""

    allowed = {"scale": FLAG | "relevance"}
    kernel: Any
    gamma: Any
    map: Any
    n_components: Any
    landmarks: Any

    @property
    def map_(self) -> Any:
        """The fitted map."""
        if "function_" not in vars(self):
            raise AttributeError("map_")
        return self.function_.map.shown

    # ------------------------------------------------------------ nested parameters

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters; with ``deep``, also those of the map and of the terms."""
        params = super().get_params(deep)
        if deep and hasattr(self.map, "get_params"):
            params |= {f"map__{name}": value for name, value in self.map.get_params().items()}
        return params

    def set_fields(self, name: str, fields: dict[str, Any]) -> None:
        """Also ``map__min_leaf=20``; a map that is a name becomes the object it stands for."""
        if name != "map":
            super().set_fields(name, fields)
        else:
            self.map = self.make_map().shown.set_params(**fields)

    # ------------------------------------------------------------ the map

    @property
    def has_map(self) -> bool:
        """Whether there is a map at all; linear learners that may do without override it."""
        return True

    def check_options(self) -> None:
        super().check_options()
        if self.has_map:
            self.planned_map().check_options()

    def planned_map(self) -> FeatureMap:
        """The map as the parameters say, to be asked and not to be fitted."""
        return self.map if isinstance(self.map, FeatureMap) else self.make_map()

    def make_map(self) -> FeatureMap:
        """A new map, as the parameters say."""
        if isinstance(self.map, FeatureMap):
            return clone(self.map)
        if not isinstance(self.map, str):
            if not (hasattr(self.map, "fit") and hasattr(self.map, "transform")):
                raise TypeError(
                    f"map must be one of {tuple(MAPS)} or a transformer, got {self.map!r}"
                )
            return Foreign(clone(self.map))
        if self.map not in MAPS:
            raise ValueError(
                f"map={self.map!r} is unknown: give a transformer or one of {tuple(MAPS)}"
            )
        cls = MAPS[self.map]
        known = inspect.signature(cls).parameters
        own = {name: getattr(self, name) for name in _OF_MAPS if name in known}
        if "random_state" in known:
            own["random_state"] = seed_from(self.random_state)
        return cls(**own)

    @property
    def _size_name(self) -> str:
        return "n_components" if isinstance(self.map, str) else "map__n_components"

    def capacity(self, rows: int) -> dict[str, Int]:
        room = self.planned_map().room(rows)
        return {} if room is None else {self._size_name: room}

    def components(self, params: dict[str, Any], rows: int) -> int:
        name = self._size_name
        wanted = params.get(name, self.get_params().get(name))
        return self.planned_map().components(wanted, rows)

    def work(self, params: dict[str, Any], rows: int) -> float:
        return self.planned_map().work(self.components(params, rows), rows)

    def learn_front(
        self, rows: Rows, targets: np.ndarray, weight: np.ndarray | None, moments: Any = None
    ) -> Front:
        return self.learn_map(self.make_map(), rows, targets, weight, moments)
