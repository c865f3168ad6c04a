"""Where data can be cut: parts of files that hold whole rows, for readers that share the work.

A part is named, not read: workers are sent spans and read their own.  Text is cut at the ends of
lines.  A newline within quotes ends no line, which one cannot see from the middle of a file: a file
with quotes is gone through once, by the same code that cuts it into blocks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from thresher.data._bytes import after_newline, count
from thresher.data.errors import DataError
from thresher.data.files import STDIN, Span, is_seekable_text, text_blocks
from thresher.data.pipes import local

__all__ = ["Tally", "TallyAll", "joined", "one_by_one", "shares", "tally", "text_spans"]

_QUOTE = 34
_PEEK = 1 << 16  # bytes read at once in the search for the end of a line
_BLOCK = 4 << 20
Cut = Callable[[np.ndarray], int]


class Tally(NamedTuple):
    """What one look at a span's bytes finds; a last line without a newline is a line too."""

    lines: int
    quotes: bool


#: looks at many spans: one after the other here, side by side on workers
TallyAll = Callable[[Sequence[Span]], list[Tally]]


def one_by_one(spans: Sequence[Span]) -> list[Tally]:
    return [tally(span) for span in spans]


def tally(span: Span) -> Tally:
    """Count the lines of a span, and see whether there are quotes."""
    lines, quotes = 0, False
    for block in text_blocks(span, lambda data: int(after_newline(data, 0, data.size)), _BLOCK):
        lines += block.newlines + block.rest
        quotes = quotes or (not block.plain and count(block.data, _QUOTE) > 0)
    return Tally(lines, quotes)


def text_spans(
    paths: Sequence[str], n: int, cut: Cut, encoding: str, quoting: bool, tally_all: TallyAll
) -> list[tuple[Span, int]]:
    """About ``n`` spans of text files, in order, each with its number of lines.

    ``cut`` finds the end of the last whole line of some bytes; ``quoting``: lines may hold quoted
    newlines.  Compressed and remote files, and those in other encodings, stay whole.
    """
    if STDIN in paths:
        raise DataError("standard input can be read only once: it cannot be shared by workers")
    sizes = [os.stat(local(p)).st_size if is_seekable_text(p, encoding) else 0 for p in paths]
    share = max(sum(sizes) // n, 1)
    spans = [
        span
        for path, size in zip(paths, sizes, strict=True)
        for span in _cut_at_newlines(path, size, round(size / share))
    ]
    found = list(zip(spans, tally_all(spans), strict=True))
    out: list[tuple[Span, int]] = []
    for path in paths:
        mine = [(span, seen) for span, seen in found if span.path == path]
        if quoting and len(mine) > 1 and any(seen.quotes for _, seen in mine):
            out += _cut_by_blocks(path, share, cut, encoding)
        else:
            out += _numbered((span, seen.lines) for span, seen in mine)
    return out


def _cut_at_newlines(path: str, size: int, n: int) -> list[Span]:
    """``n`` spans or fewer of about the same size."""
    if n <= 1:
        return [Span(path)]
    ends = [0]
    with open(local(path), "rb", buffering=0) as file:
        for k in range(1, n):
            end = _line_end(file, max(size * k // n, ends[-1]))
            if end is None or end >= size:
                break
            if end > ends[-1]:
                ends.append(end)
    return [Span(path, a, b) for a, b in zip(ends, [*ends[1:], None], strict=True)]


def _line_end(file: object, start: int) -> int | None:
    """The byte after the first newline from ``start`` on."""
    file.seek(start)  # type: ignore[attr-defined]
    while data := file.read(_PEEK):  # type: ignore[attr-defined]
        place = data.find(b"\n")
        if place >= 0:
            return int(start + place + 1)
        start += len(data)
    return None


def _cut_by_blocks(path: str, share: int, cut: Cut, encoding: str) -> list[tuple[Span, int]]:
    """Spans of about ``share`` bytes that end where blocks do; reads the file, parses nothing."""
    out: list[tuple[Span, int]] = []
    start, line, lines, place = 0, 1, 0, 0
    for block in text_blocks(Span(path), cut, min(_BLOCK, share), encoding):
        skipped = 3 if place == 0 and block.marked else 0
        place += block.data.size + skipped
        lines += block.newlines + block.rest
        if place - start >= share:
            out.append((Span(path, start, place, line), lines))
            start, line, lines = place, line + lines, 0
    return [*out, (Span(path, start, None, line), lines)]


def _numbered(spans: Iterable[tuple[Span, int]]) -> list[tuple[Span, int]]:
    """Spans of one file with the number of their first line."""
    line, out = 1, []
    for span, lines in spans:
        out.append((span._replace(first=line), lines))
        line += lines
    return out


def joined(spans: Sequence[Span]) -> list[Span]:
    """Spans that follow each other in a file as one, so that it is opened once."""
    out: list[Span] = []
    for span in spans:
        last = out[-1] if out else None
        if last is not None and (last.path, last.stop) == (span.path, span.start):
            out[-1] = last._replace(stop=span.stop)
        else:
            out.append(span)
    return out


def shares(sizes: Any, n: int) -> list[slice]:
    """At most ``n`` runs of consecutive things of about the same total size, none of them empty."""
    sizes = np.asarray(sizes, dtype=np.float64)
    middles = np.cumsum(sizes) - sizes / 2
    group = np.floor(n * middles / max(float(sizes.sum()), 1e-300))
    bounds = [0, *(np.flatnonzero(np.diff(group)) + 1), sizes.size]
    return [slice(int(a), int(b)) for a, b in pairwise(bounds)]
