"""Users' own Python files, executed because the user asked for it by name."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from thresher import _lean

__all__ = ["load_plugins"]


def load_plugins(paths: list[Path]) -> tuple[type, ...]:
    """Run each file; the classes it defines can be used by name or found in model files."""
    from thresher.losses import Loss
    from thresher.penalties import Penalty
    from thresher.solvers import Solver

    found: list[type] = []
    for path in paths:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise ValueError(f"--plugin {path} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        _send_along(module)
        found += [
            value
            for value in vars(module).values()
            if isinstance(value, type)
            and issubclass(value, Loss | Penalty | Solver)
            and value.__module__ == path.stem
        ]
    _lean.arrow_alone()  # plugins are all that could use pandas in a command, and have imported it
    return tuple(found)


def _send_along(module: ModuleType) -> None:
    """Workers cannot import the file by name: what it defines travels with the tasks."""
    try:
        import cloudpickle
    except ModuleNotFoundError:  # there can be no workers then
        return
    cloudpickle.register_pickle_by_value(module)
