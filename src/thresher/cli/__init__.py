"""The ``thresher`` command.  Everything heavy is imported by the command that needs it."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

from thresher import _lean
from thresher._interrupts import Presses, clean_interrupts
from thresher._threads import lingering

__all__ = ["main"]

OK, FAILED, USAGE, BAD_DATA, BAD_MODEL, BAD_OPTION, BAD_CLUSTER, INTERRUPTED = *range(7), 130


def main() -> None:
    """Run a command; its errors are one line for people and an exit code for programs."""
    _lean.install()
    from thresher.cli.app import app

    warnings.showwarning = _told
    code = _guarded(app)
    if code == INTERRUPTED and lingering():
        # Whoever interrupts does not want to wait for fits that nobody can stop.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _told(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning in the words of the command line, above the line of progress."""
    from thresher.cli.show import warn

    warn(str(message))


def _guarded(app: Any) -> int:
    presses = Presses()
    try:
        # An int is a code to end with: Typer turns interrupts and exits into such.
        with presses, clean_interrupts():
            code = app(standalone_mode=False)
        if code == INTERRUPTED:
            return _interrupted()
        return code if isinstance(code, int) else OK
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else FAILED
    except KeyboardInterrupt:
        return _interrupted()
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        sys.stderr.close()
        return OK
    except Exception as error:
        return _interrupted() if presses.heard else _explained(error)


def _interrupted() -> int:
    print("interrupted", file=sys.stderr)
    return INTERRUPTED


def _explained(error: Exception) -> int:
    import typer

    if isinstance(error, typer.Exit):
        return int(error.exit_code)
    if isinstance(error, typer.Abort):
        return INTERRUPTED
    if hasattr(error, "exit_code") and hasattr(error, "show"):  # wrong usage, as Click says it
        error.show()
        return int(error.exit_code)
    code = _code(error)
    if code == FAILED:
        import traceback

        traceback.print_exc()
        return FAILED
    from thresher.cli.spelling import as_options

    what = "not enough memory: " if isinstance(error, MemoryError) else ""
    print(f"thresher: {what}{as_options(str(error))}", file=sys.stderr)
    return code


def _code(error: Exception) -> int:
    from thresher.artifacts.container import BadFile
    from thresher.artifacts.encoding import UnknownTerm
    from thresher.data.errors import DataError
    from thresher.engines import EngineError

    if isinstance(error, DataError):
        return BAD_DATA
    if isinstance(error, EngineError):
        return BAD_CLUSTER
    if isinstance(error, BadFile | UnknownTerm):
        return BAD_MODEL
    if isinstance(error, OSError | MemoryError) or _of_a_study(error):
        return BAD_DATA
    return BAD_OPTION if isinstance(error, ValueError | TypeError | ImportError) else FAILED


def _of_a_study(error: Exception) -> bool:
    """Whether a file of trials cannot be used; asks no module that is not loaded already."""
    storage = sys.modules.get("thresher.search.storage")
    return storage is not None and isinstance(error, storage.StudyError)
