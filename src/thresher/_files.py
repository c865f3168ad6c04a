"""Writing a file completely or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

__all__ = ["Path_", "atomic_file", "output_file"]

Path_ = str | os.PathLike[str]
_NO_DIRECTORY_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)


@contextlib.contextmanager
def atomic_file(path: Path_) -> Iterator[IO[bytes]]:
    """A new binary file that takes the place of ``path`` when the block ends without an error.

    It is written beside ``path``, flushed to the disk and renamed, so that at every moment, also
    after a crash or on a full disk, ``path`` is either the old file or the new one.
    """
    target = Path(os.path.realpath(path))  # a link stays a link
    mode = _mode_of(target)
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno is not None:
            state = "the old file is unchanged" if mode is not None else "nothing was left behind"
            reason = error.strerror or str(error)
            raise OSError(error.errno, f"could not write {path}: {reason}; {state}") from error
        raise
    _sync_directory(target.parent)


def output_file(path: Path_) -> contextlib.AbstractContextManager[IO[bytes]]:
    """Devices and pipes are written to as they are; a file takes its name when complete."""
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        return open(path, "wb")
    return atomic_file(path)


def _mode_of(target: Path) -> int | None:
    """Permissions to keep, or None for a new file; only plain files may be replaced."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, f"could not write {target}: it exists and is no plain file")
    return stat.S_IMODE(mode)


def _sync_directory(directory: Path) -> None:
    """Make the rename last; where directories cannot be flushed there is nothing to do."""
    try:
        handle = os.open(directory, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_DIRECTORY_SYNC:
            raise
    finally:
        os.close(handle)
