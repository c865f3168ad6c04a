"""Pipes given as files: kept in a temporary file, since data are looked at more than once."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import weakref

from thresher.data.errors import DataError

__all__ = ["is_pipe", "local", "spooled"]


class _Spooled(str):
    """The name that a user gave a pipe, and the file that holds what came out of it.

    The file goes away with the last reference to the name.
    """

    file: str


def is_pipe(path: str) -> bool:
    """Whether it can be read only once: a named pipe, or what the shell makes of ``<(...)``."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)


def spooled(path: str) -> str:
    """The same name for all that the pipe brings, which is read to its end."""
    if isinstance(path, _Spooled):
        return path
    handle, name = tempfile.mkstemp(prefix="thresher-pipe-")
    kept = _Spooled(path)
    kept.file = name
    weakref.finalize(kept, _remove, name)
    try:
        with open(path, "rb", buffering=0) as source, open(handle, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
    except OSError as error:
        reason = error.strerror or error
        raise DataError(f"{path} is a pipe, and cannot be kept in {name}: {reason}") from None
    return kept


def local(path: str) -> str:
    """The file to open for a local path."""
    return path.file if isinstance(path, _Spooled) else path


def _remove(name: str) -> None:
    if os.path.exists(name):
        os.unlink(name)
