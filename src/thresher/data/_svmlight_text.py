"""SVMlight / LIBSVM text to sparse rows: ``label [qid:n] index:value ... [# comment]``.

A compiled loop reads the lines that are in order.  At any other line it stops and hands that
line to ``_careful_line``, plain Python, which reads what is merely unusual (a number whose
rounding needs many digits) and says what is wrong with the rest.  So there is one description of
errors, none of it in the fast loop, and no line is lost silently.

The loop has no bounds to check: it only ever looks for the end of a number or of a line, and
``padded`` sees to it that a newline and padding follow.
"""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher.data._bytes import after_newline, as_bytes, at, count, ctz, marks, padded, pointer
from thresher.data._numbers import OK, eight_digits, more_digits, scan

__all__ = ["BadLine", "SvmlightBlock", "cut", "parse_svmlight"]

U = np.uint64
_LARGEST = 2**31 - 1
_NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WORDS = re.compile(rb"[^ \t]+")
_DONE, _ODD = 0, 1


class BadLine(NamedTuple):
    """A line that was left out, where in it the problem is, and what the problem is."""

    line: int
    column: int
    token: str
    problem: str


class SvmlightBlock(NamedTuple):
    """The rows of a block; ``qid`` is -1 in rows without one, None where no row has one.

    ``zeros`` is how many values are zero, written out for no reason.
    """

    labels: np.ndarray
    qid: np.ndarray | None
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    zeros: int
    lines: np.ndarray
    bad: list[BadLine]


class _Rows(NamedTuple):
    """Room for all rows of a block, filled from the front."""

    labels: np.ndarray
    qid: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    lines: np.ndarray


def _room(rows: int, elements: int) -> _Rows:
    return _Rows(
        np.empty(rows),
        np.empty(rows, dtype=np.int64),
        np.zeros(rows + 1, dtype=np.int64),
        np.empty(elements, dtype=np.int32),
        np.empty(elements),
        np.empty(rows, dtype=np.int64),
    )


# ---------------------------------------------------------------- the compiled loop


@njit(cache=True, nogil=True)
def _sort_row(indices, values):
    """Order a row by index; False if an index appears twice."""
    order = np.argsort(indices)
    indices[:] = indices[order]
    values[:] = values[order]
    return np.all(indices[1:] > indices[:-1])


@njit(cache=True, nogil=True)
def _qid(text, p):
    """The query number of ``qid:n`` at ``p`` and the position after it, which is p if none."""
    if at(text, p) != 113 or at(text, p + 1) != 105 or at(text, p + 2) != 100:
        return -1, p
    if at(text, p + 3) != 58:
        return -1, p
    digits = ctz(marks(text, p + 4))
    if digits < 1 or digits > 18:
        return -1, p
    return np.int64(more_digits(text, p + 4, digits)), p + 4 + digits


@njit(cache=True, nogil=True)
def _parse(data, p, stop, line, row, k, zeros, rows):
    """Read lines from ``p`` until ``stop``, the start of a line, or until a line is odd.

    Returns (position, line number, rows, elements, zeros, why): the start of the line it stopped
    at, and the rows, elements and zeros among them there are by then.
    """
    labels, qids, indptr, indices, values = (
        rows.labels,
        rows.qid,
        rows.indptr,
        rows.indices,
        rows.values,
    )
    lines = rows.lines
    text = pointer(data)
    while p < stop:
        start = p
        while at(text, p) == 32 or at(text, p) == 9:
            p += 1
        c = at(text, p)
        if c == 10 or c == 35 or (c == 13 and at(text, p + 1) == 10):
            while at(text, p) != 10:
                p += 1
            p += 1
            line += 1
            continue
        if c == 43 and at(text, p + 1) > 45:
            p += 1
        label, p, code = scan(text, p, marks(text, p))
        c = at(text, p)
        if code != OK or (c > 32 and c != 35):
            return start, line, row, k, zeros, _ODD
        while at(text, p) == 32 or at(text, p) == 9:
            p += 1
        if at(text, p) == 113:
            qids[U(row)], p = _qid(text, p)
        else:
            qids[U(row)] = -1
        first = k
        last = np.int64(-1)
        fine, unsorted, nothing = True, 0, 0
        while True:
            while at(text, p) == 32 or at(text, p) == 9:
                p += 1
            seen = marks(text, p)
            digits = ctz(seen)
            if at(text, p + digits) != 58 or digits < 1 or digits > 10:
                break
            if digits <= 8:
                index = np.int64(eight_digits(text, p, digits))
            else:
                index = np.int64(more_digits(text, p, digits))
                if index > _LARGEST:
                    break
            p += digits + 1
            c = at(text, p)
            if (at(text, p + 1) == 32 or at(text, p + 1) == 10) and c >= 48 and c <= 57:
                value = np.float64(c - 48)  # as good as always 1, in most files of words
                p += 1
            else:
                value, p, code = scan(text, p, seen >> U(digits + 1))
                c = at(text, p)
                if code != OK or (c > 32 and c != 35):
                    fine = False
                    break
            indices[U(k)] = index
            values[U(k)] = value
            k += 1
            nothing += 1 if value == 0.0 else 0
            unsorted += 1 if index <= last else 0
            last = index
        c = at(text, p)
        if c == 35:
            while at(text, p) != 10:
                p += 1
        elif c == 13:
            p += 1
        if at(text, p) != 10 or not fine:
            return start, line, row, first, zeros, _ODD
        if unsorted and not _sort_row(indices[first:k], values[first:k]):
            return start, line, row, first, zeros, _ODD
        labels[U(row)] = label
        lines[U(row)] = line
        zeros += nothing
        row += 1
        indptr[U(row)] = k
        p += 1
        line += 1
    return p, line, row, k, zeros, _DONE


# ---------------------------------------------------------------- the careful reader


class _Bad(Exception):
    """What is wrong with the token at a byte of a line."""

    def __init__(self, start: int, token: bytes, problem: str) -> None:
        self.start, self.token, self.problem = start, token, problem


def _text(token: bytes) -> str:
    """A token as a person may read it, at most 40 characters of it."""
    return token[:160].decode("utf-8", "replace")[:40]


def _number(start: int, token: bytes) -> float:
    if not _NUMBER.fullmatch(token):
        word = token.lower().lstrip(b"+-")
        kind = "a finite number" if word in (b"nan", b"inf", b"infinity") else "a number"
        raise _Bad(start, token, f"{_text(token)!r} is not {kind}")
    value = float(token)
    if math.isinf(value):
        raise _Bad(start, token, f"{_text(token)!r} is too large for a number")
    return value


def _integer(start: int, token: bytes, largest: int, name: str) -> int:
    if token[:1] == b"-" and token[1:].isdigit():
        raise _Bad(start, token, f"{name} {_text(token)} is negative")
    if not token.isdigit():
        raise _Bad(start, token, f"{_text(token)!r} is not a {name}")
    short = token.lstrip(b"0") or b"0"
    if len(short) > 19 or int(short) > largest:
        raise _Bad(start, token, f"{name} {_text(token)} is larger than {largest}")
    return int(short)


def _label(start: int, token: bytes) -> float:
    if b":" in token:
        raise _Bad(start, token, "a label expected before index:value")
    if b"," in token and all(_NUMBER.fullmatch(part) for part in token.split(b",")):
        raise _Bad(start, token, f"several labels in one line ({_text(token)}), one expected")
    return _number(start, token)


def _careful_line(line: bytes) -> tuple[float, int, list[int], list[float]] | None:
    """(label, qid, indices, values) of a line, None for an empty one; raises ``_Bad``."""
    body, mark, _ = line.partition(b"#")
    if not mark:
        body = body.removesuffix(b"\r")
    words = [(match.start(), match.group()) for match in _WORDS.finditer(body)]
    if not words:
        return None
    label = _label(*words.pop(0))
    qid = -1
    if words and words[0][1].startswith(b"qid:"):
        start, word = words.pop(0)
        qid = _integer(start + 4, word[4:], 2**63 - 1, "query number")
    found: dict[int, float] = {}
    for start, word in words:
        name, colon, number = word.partition(b":")
        if not colon or not number or not name:
            raise _Bad(start, word, "index:value expected")
        if name == b"qid":
            raise _Bad(start, word, "qid:n expected right after the label, once")
        index = _integer(start, name, _LARGEST, "feature index")
        if index in found:
            raise _Bad(start, word, f"feature index {index} appears twice")
        found[index] = _number(start + len(name) + 1, number)
    indices = sorted(found)
    return label, qid, indices, [found[index] for index in indices]


def _put(rows: _Rows, row: int, k: int, line: int, text: bytes, bad: list[BadLine]) -> int:
    """Read one odd line into place: the number of rows (0 or 1) it gave; errors go to ``bad``."""
    try:
        read = _careful_line(text)
    except _Bad as error:
        column = len(text[: error.start].decode("utf-8", "replace")) + 1
        bad.append(BadLine(line, column, _text(error.token), error.problem))
        return 0
    if read is None:
        return 0
    rows.labels[row], rows.qid[row], indices, values = read
    rows.lines[row] = line
    rows.indptr[row + 1] = k + len(indices)
    rows.indices[k : k + len(indices)] = indices
    rows.values[k : k + len(indices)] = values
    return 1


def parse_svmlight(block: Any, first_line: int = 1, newlines: int | None = None) -> SvmlightBlock:
    """Read whole lines of text (bytes, or any buffer of bytes; the last newline may be missing).

    Indices are as in the file, sorted within each row; rows keep the order of their lines.  Lines
    that cannot be read are left out and reported in ``bad``.  ``newlines``: how many there are,
    where they have been counted.

    >>> parse_svmlight(b"+1 2:0.5 7:1 # a comment\\n-1 x:1\\n").bad[0].problem
    "'x' is not a feature index"
    """
    data = as_bytes(block)
    rows = _room((count(data, 10) if newlines is None else newlines) + 1, count(data, 58))
    bad: list[BadLine] = []
    line, row, k, zeros = first_line, 0, 0, 0
    for text, p, stop, _ in padded(data, 0):
        while True:
            p, line, row, k, zeros, why = _parse(text, p, stop, line, row, k, zeros, rows)
            if why == _DONE:
                break
            end, first = _line_end(text, p), k
            row += _put(rows, row, k, line, text[p:end].tobytes(), bad)
            k = int(rows.indptr[row])
            zeros += int(np.count_nonzero(rows.values[first:k] == 0.0))
            p, line = end + 1, line + 1
    qid = rows.qid[:row]
    return SvmlightBlock(
        rows.labels[:row],
        qid if row and qid.max() >= 0 else None,
        rows.indptr[: row + 1],
        rows.indices[:k],
        rows.values[:k],
        zeros,
        rows.lines[:row],
        bad,
    )


@njit(cache=True, nogil=True)
def _line_end(data, p):
    while data[p] != 10:
        p += 1
    return p


def cut(block: Any, start: int = 0) -> int:
    """Where a block may be cut: just after its last newline; 0 if there is none from ``start``."""
    return int(after_newline(as_bytes(block), start, len(block)))
