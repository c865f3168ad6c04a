"""Something large that many tasks need: written once where workers see it, read once by each."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from thresher._files import atomic_file
from thresher.engines.base import EngineError

__all__ = ["Handed"]

_made: dict[str, Any] = {}  # on a worker: what it was asked about last


class Handed(NamedTuple):
    """The name of a file that workers read; tasks carry no more."""

    path: str

    @classmethod
    def over(cls, thing: Any, folder: str) -> Handed:
        """Written to a new file of ``folder``."""
        import cloudpickle  # comes with Dask, which is there where there are workers

        path = os.path.join(folder, f"{uuid.uuid4().hex}.handed")
        with atomic_file(path) as file:
            cloudpickle.dump(thing, file)
        return cls(path)

    def made(self, make: Callable[..., Any]) -> Any:
        """``make(*thing)``, made once by a process as long as it is asked for nothing else."""
        if self.path not in _made:
            import cloudpickle

            if not Path(self.path).exists():
                raise EngineError(
                    f"a worker cannot see {self.path}: the machines must share the folder for "
                    "temporary files (TMPDIR)"
                )
            thing = cloudpickle.loads(Path(self.path).read_bytes())
            _made.clear()
            _made[self.path] = make(*thing)
        return _made[self.path]
