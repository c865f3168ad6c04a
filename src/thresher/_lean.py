"""First imports, without what nobody asks for, in processes that are ours: commands and workers.

Whoever imports Thresher as a library finds Python's imports as they are.

A small module of scikit-learn imports all of ``scipy.stats`` and pandas for functions that hardly
anybody calls: half of the time of importing scikit-learn.  While that one module is imported, and
only then, stand-ins take their places: the real modules are imported as soon as anybody asks a
stand-in for anything, and whoever imports them by name later gets the real ones.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

__all__ = ["arrow_alone", "install"]

_ASKS_TOO_MUCH = "sklearn.utils.fixes"
_HEAVY = ("scipy.stats", "pandas")


class _StandIn(ModuleType):
    """A module that is imported when it is asked for something."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


@contextmanager
def _stand_ins() -> Iterator[None]:
    """For those that are there and not loaded; gone afterwards."""
    wanted = [name for name in _HEAVY if name not in sys.modules and find_spec(name)]
    placed = {name: _StandIn(name) for name in wanted}
    sys.modules.update(placed)
    try:
        yield
    finally:
        for name, module in placed.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


class _Lean:
    """Finds that one module as others would, once, and has it run among stand-ins."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != _ASKS_TOO_MUCH:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def among_stand_ins(module: ModuleType) -> None:
            with _stand_ins():
                run(module)

        spec.loader.exec_module = among_stand_ins  # type: ignore[method-assign]
        return spec


def install() -> None:
    """From now on, unless scikit-learn is there already."""
    if _ASKS_TOO_MUCH not in sys.modules:
        sys.meta_path.insert(0, _Lean())


class _NoPandas:
    """Finds everything else."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)


def arrow_alone() -> None:
    """Let PyArrow do without pandas, in a process in which nobody else uses it.

    For its first array PyArrow imports pandas, in case the values were some of pandas' own.  Having
    found none it does not look again, until it is given a data frame.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    nobody = _NoPandas()
    sys.meta_path.insert(0, nobody)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(nobody)
