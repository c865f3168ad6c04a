"""Text files as blocks of whole lines: plain, compressed, standard input, remote, any encoding."""

from __future__ import annotations

import codecs
import difflib
import glob
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa

from thresher.data._bytes import after_newline, count, survey
from thresher.data.errors import DataError
from thresher.data.pipes import is_pipe, local, spooled

__all__ = ["STDIN", "Span", "TextBlock", "anchor", "expand", "is_seekable_text", "open_bytes",
           "open_remote", "stamp", "suffix", "text_blocks"]  # fmt: skip

STDIN = "-"
BLOCK_BYTES = 4 << 20
_COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
_LONGEST_LINE = 64 << 20
_SMALLEST_BLOCK = 16
_UTF8 = {"utf-8", "utf8", "ascii", "us-ascii"}
_BROKEN = (OSError, EOFError, pa.ArrowException)


class Span(NamedTuple):
    """Part of a file: bytes, row groups, batches or blocks, from ``start`` on; ``stop`` None: to
    the end.

    ``first`` is the number of its first line or row, counted from 1.
    """

    path: str
    start: int = 0
    stop: int | None = None
    first: int = 1


class TextBlock(NamedTuple):
    """Some whole lines of a file; ``first_line`` counts from 1, ``newlines`` are in the block.

    A ``plain`` block holds no quote and nothing beyond ASCII; a ``rest`` is what the file ends with
    where no line ends: without a newline, or within a quote.  ``marked``: a byte order mark came
    before it.
    """

    file: str
    data: np.ndarray
    first_line: int
    newlines: int
    plain: bool
    rest: bool = False
    marked: bool = False


# ---------------------------------------------------------------- files


def expand(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """Files named by one path, a glob, or a list of both; every one must exist."""
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    out: list[str] = []
    for given in paths:
        path = os.fspath(given)
        if path == STDIN:
            out.append(path)
        elif "://" in path:
            out.extend(_remote_glob(path) if "*" in path else [path])
        elif is_pipe(path):
            out.append(spooled(path))
        elif os.path.exists(path):
            out.append(_checked(path))
        else:
            found = sorted(glob.glob(path, recursive=True))
            if not found:
                raise DataError(_missing(path))
            out.extend(map(_checked, found))
    if not out:
        raise DataError("no file given")
    if out.count(STDIN) > 1:
        raise DataError("standard input can be read only once")
    return out


def _checked(path: str) -> str:
    if os.path.isdir(path):
        raise DataError(f"{path} is a directory: name its files, for example '{path}/*.csv'")
    if not os.access(path, os.R_OK):
        raise DataError(f"{path} cannot be read: permission denied")
    return path


def _missing(path: str) -> str:
    folder, name = os.path.split(path)
    try:
        near = difflib.get_close_matches(name, os.listdir(folder or "."), n=1)
    except OSError:
        return f"no file {path}: the folder {folder} cannot be read"
    hint = f": did you mean {os.path.join(folder, near[0])!r}?" if near else ""
    matches = " matches" if any(c in name for c in "*?[") else ""
    return f"no file{matches} {path}{hint}"


def suffix(path: str) -> str:
    """File type by name, without a compression suffix: '.csv' of 'data.csv.gz'."""
    suffixes = [s.lower() for s in Path(_bare(path)).suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _bare(path: str) -> str:
    """Without the query of a URL."""
    return path.split("?")[0] if "://" in path else path


def anchor(path: str) -> str:
    """The name of a file that does not depend on the folder that a process works in."""
    fixed = path == STDIN or "://" in path or local(path) is not path
    return path if fixed else os.path.abspath(path)


def stamp(path: str) -> tuple[str, int, int] | None:
    """(name, size, time of change) of a local file: what tells that it is still the same."""
    if path == STDIN or "://" in path or local(path) is not path:
        return None
    try:
        status = os.stat(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read any more: {error.strerror}") from None
    return os.path.basename(path), status.st_size, status.st_mtime_ns


def open_bytes(path: str) -> IO[bytes]:
    """The file's bytes, uncompressed by its suffix."""
    if path == STDIN:
        return sys.stdin.buffer
    kind = _COMPRESSED.get(Path(_bare(path)).suffix.lower())
    try:
        raw: Any = open_remote(path) if "://" in path else open(local(path), "rb", buffering=0)  # noqa: SIM115
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    return pa.CompressedInputStream(pa.PythonFile(raw, "r"), kind) if kind else raw


def open_remote(path: str) -> Any:
    """A file object for a URL, by fsspec."""
    try:
        return _fsspec(path).open(path, "rb").open()
    except (OSError, ValueError, ImportError) as error:
        raise DataError(f"{path} cannot be opened: {error}") from None


def _remote_glob(path: str) -> list[str]:
    try:
        system, pattern = _fsspec(path).core.url_to_fs(path)
        found = sorted(system.glob(pattern))
    except (OSError, ValueError, ImportError) as error:
        raise DataError(f"{path} cannot be listed: {error}") from None
    if not found:
        raise DataError(f"no file matches {path}")
    return [system.unstrip_protocol(name) for name in found]


def _fsspec(path: str) -> Any:
    try:
        import fsspec
    except ModuleNotFoundError:
        raise DataError(
            f"{path} is remote: reading it needs fsspec, pip install 'thresher[remote]'"
        ) from None
    return fsspec


# ---------------------------------------------------------------- blocks


def is_seekable_text(path: str, encoding: str) -> bool:
    """Whether reading may begin anywhere: a local file as it is, in UTF-8."""
    compressed = Path(_bare(path)).suffix.lower() in _COMPRESSED
    return "://" not in path and not compressed and encoding.lower() in _UTF8


def text_blocks(
    span: Span, cut: Callable[[np.ndarray], int], size: int, encoding: str = "utf-8"
) -> Iterator[TextBlock]:
    """Blocks of about ``size`` bytes that end at ``cut`` (just after a line's end), which is asked
    only where quotes may be: elsewhere the last newline ends a line.

    A line longer than the block makes the block grow.  Other encodings are turned into UTF-8.
    Every block has memory of its own, so that threads can parse one while the next is read.
    """
    size, path, marked = max(size, _SMALLEST_BLOCK), span.path, False
    line, left, buffer = span.first, 0, np.empty(size, np.uint8)
    with _opened(path) as stream:
        fill = _limited(_filler(stream, path, encoding), stream, span)
        while got := fill(buffer[left:].data):
            data = buffer[: left + got]
            if line == 1 and not left and data[:3].tobytes() == codecs.BOM_UTF8:
                data, marked = data[3:], True
            newlines, special = survey(data)
            end = cut(data) if special else after_newline(data, 0, data.size)
            if end:
                newlines -= count(data[end:], 10)
                yield TextBlock(path, data[:end], line, newlines, not special, marked=marked)
                line, marked = line + newlines, False
            left = data.size - end
            if left > max(_LONGEST_LINE, 2 * size):
                raise DataError(
                    f"{path}, from line {line}: no end of the line in {_LONGEST_LINE >> 20} MB: "
                    "a quote that is not closed, or not a text file"
                )
            rest, grown = data[end:], left > buffer.size // 2
            buffer = np.empty(buffer.size * (1 + grown), np.uint8)
            buffer[:left] = rest
    if left:
        newlines, special = survey(buffer[:left])
        yield TextBlock(path, buffer[:left], line, newlines, not special, True, marked)


def _opened(path: str) -> AbstractContextManager[IO[bytes]]:
    """The stream; standard input is not ours to close."""
    stream = open_bytes(path)
    return nullcontext(stream) if path == STDIN else closing(stream)


def _filler(stream: IO[bytes], path: str, encoding: str) -> Callable[[memoryview], int]:
    """A function that fills a buffer with UTF-8, completely unless the file ends."""
    if encoding.lower() not in _UTF8:
        return _Transcoder(stream, path, encoding).fill

    def fill(view: memoryview) -> int:
        done = 0
        while done < len(view):  # pipes and decompressors may bring less than asked for
            got = _reading(path, stream.readinto, view[done:])  # type: ignore[attr-defined]
            if not got:
                break
            done += got
        return done

    return fill


def _limited(
    fill: Callable[[memoryview], int], stream: Any, span: Span
) -> Callable[[memoryview], int]:
    """The same for the bytes of a span alone."""
    if span.start:
        stream.seek(span.start)
    if span.stop is None:
        return fill
    left = span.stop - span.start

    def some(view: memoryview) -> int:
        nonlocal left
        got = fill(view[:left])
        left -= got
        return got

    return some


def _reading(path: str, read: Callable[[Any], Any], what: Any) -> Any:
    try:
        return read(what)
    except _BROKEN as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path} cannot be read to its end: {reason}") from None


class _Transcoder:
    """Text in another encoding, handed out as UTF-8."""

    def __init__(self, stream: IO[bytes], path: str, encoding: str):
        try:
            "".encode(encoding)  # also tells codecs that are no text encodings
            self.decoder = codecs.getincrementaldecoder(encoding)()
        except LookupError:
            raise DataError(f"unknown encoding {encoding!r}") from None
        self.stream, self.path, self.encoding = stream, path, encoding
        self.ready, self.ended = b"", False

    def fill(self, view: memoryview) -> int:
        parts = [self.ready]
        size = len(self.ready)
        while size < len(view) and not self.ended:
            raw = _reading(self.path, self.stream.read, len(view))
            self.ended = not raw
            parts.append(self._decoded(raw))
            size += len(parts[-1])
        whole = b"".join(parts)
        size = min(len(whole), len(view))
        view[:size], self.ready = whole[:size], whole[size:]
        return size

    def _decoded(self, raw: bytes) -> bytes:
        try:
            return self.decoder.decode(raw, final=self.ended).encode()
        except UnicodeError as error:
            reason = getattr(error, "reason", error)
            raise DataError(f"{self.path} is not {self.encoding} text: {reason}") from None
