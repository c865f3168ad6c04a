"""Plain delimited text to numbers: the compiled road for lines without quotes or surprises.

A ``LinePlan`` says what becomes of each field of a line.  ``parse_lines`` follows it line by line
straight into the arrays of a chunk, without a table of strings in between, and stops at the first
line that is not plain; what such a line means, or what is wrong with it, is for a slower reader
to say.  So this one has no errors to report, only the position of the line it left.

Words are looked up in one hash table for all columns: a null word of a column is an entry whose
code is NaN.  As in ``_svmlight_text`` nothing is checked against the end of the text, since every
line ends in a newline with padding behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher.data._bytes import (
    PAD,
    after_line,
    after_newline,
    as_bytes,
    at,
    count,
    ctz,
    marks,
    padded,
    peek,
    pointer,
    product,
)
from thresher.data._numbers import HARD, OK, parse_number, scan, scan_any, scan_short

__all__ = [
    "END",
    "FULL",
    "HASH",
    "NUMBER",
    "ODD",
    "SKIP",
    "WORD",
    "LinePlan",
    "line_plan",
    "murmur3",
    "parse_lines",
    "safe_cut",
]

SKIP, NUMBER, WORD, HASH = 0, 1, 2, 3
_NOWHERE = -3
_CHECKED = 4  # a number in a file where some numbers mean "missing"
END, FULL, ODD = 0, 1, 2
_ALONE = 8  # lines that are read one by one after two that are not all short numbers

U = np.uint64
_LOW7 = U(0x7F7F7F7F7F7F7F7F)
_HIGH = U(0x8080808080808080)
_PRINTABLE = U(0x6060606060606060)  # 0x80 - 0x20 in each byte
_QUOTES = U(0x2222222222222222)
_MIX, _SEED = U(0x9E3779B97F4A7C15), U(0xD6E8FEB86659FD93)
_NONE, _M32 = U(0), U(0xFFFFFFFF)


class LinePlan(NamedTuple):
    """What becomes of each field (``kinds``, ``places``, ``masks``) and the table of words."""

    kinds: np.ndarray
    places: np.ndarray
    masks: np.ndarray
    end_marks: np.ndarray  # the byte after each field
    delimiter: int
    slots: np.ndarray  # a power of two of them: a word's number, or -1
    words: np.ndarray  # the bytes of all words
    offsets: np.ndarray
    owners: np.ndarray  # the column each word belongs to
    codes: np.ndarray


class _Table(NamedTuple):
    """A plan's arrays as pointers, which are handed on without counting references."""

    mask: Any
    slots: Any
    words: Any
    offsets: Any
    owners: Any
    codes: Any


# ---------------------------------------------------------------- words


@njit(cache=True, nogil=True, forceinline=True)
def _word_at(text, p, stop):
    """Up to eight bytes from ``p``, zero from ``stop`` on."""
    word = peek(text, p)
    if stop - p < 8:
        word = word & ((U(1) << U(8 * (stop - p))) - U(1))
    return word


@njit(cache=True, nogil=True)
def _hash(text, start, stop, column):
    high, low = product(U(column) ^ _SEED, _MIX, _NONE)
    state = high ^ low ^ U(stop - start)
    for p in range(start, stop, 8):
        high, low = product(state ^ _word_at(text, p, stop), _MIX, _NONE)
        state = high ^ low
    return state


@njit(cache=True, nogil=True)
def _find(table, text, start, stop, column):
    """(The word's number or -1, the slot it is in or would go into)."""
    slot = np.int64(_hash(text, start, stop, column) & table.mask)
    while True:
        word = at(table.slots, slot)
        if word < 0:
            return word, slot
        p = at(table.offsets, word)
        if at(table.owners, word) == column and at(table.offsets, word + 1) - p == stop - start:
            q = start
            while q < stop and _word_at(text, q, stop) == _word_at(table.words, p, p + stop - q):
                p += 8
                q += 8
            if q >= stop:
                return word, slot
        slot = np.int64(U(slot + 1) & table.mask)


@njit(cache=True, nogil=True)
def _table(plan):
    return _Table(
        U(plan.slots.size - 1),
        pointer(plan.slots),
        pointer(plan.words),
        pointer(plan.offsets),
        pointer(plan.owners),
        pointer(plan.codes),
    )


@njit(cache=True, nogil=True)
def _fill(plan):
    """Enter all words; of equal ones in a column the first counts."""
    table = _table(plan)
    text = pointer(plan.words)
    for word in range(plan.owners.size):
        start, stop = plan.offsets[word], plan.offsets[word + 1]
        known, slot = _find(table, text, start, stop, plan.owners[word])
        if known < 0:
            plan.slots[slot] = word


@njit(cache=True, nogil=True, forceinline=True)
def _scramble(k):
    k = (k * U(0xCC9E2D51)) & _M32
    k = ((k << U(15)) | (k >> U(17))) & _M32
    return (k * U(0x1B873593)) & _M32


@njit(cache=True, nogil=True)
def _murmur3(text, start, stop):
    """MurmurHash3 (x86, 32 bits, seed 0); kept in 64 bits, where nothing overflows."""
    h = U(0)
    p = start
    while p + 4 <= stop:
        h = h ^ _scramble(peek(text, p) & _M32)
        h = ((h << U(13)) | (h >> U(19))) & _M32
        h = (h * U(5) + U(0xE6546B64)) & _M32
        p += 4
    if p < stop:
        h = h ^ _scramble(_word_at(text, p, stop))
    h = h ^ U(stop - start)
    h = ((h ^ (h >> U(16))) * U(0x85EBCA6B)) & _M32
    h = ((h ^ (h >> U(13))) * U(0xC2B2AE35)) & _M32
    return h ^ (h >> U(16))


@njit(cache=True, nogil=True)
def _murmur3_of(data, size):
    return _murmur3(pointer(data), 0, size)


def murmur3(token: bytes) -> int:
    """The hash of a token that ``HASH`` fields are given, before it is masked.

    >>> murmur3(b"thresher")
    320213233
    """
    return int(_murmur3_of(as_bytes(token + bytes(PAD)), len(token)))


# ---------------------------------------------------------------- the plan


def line_plan(
    kinds: Sequence[int],
    places: Sequence[int],
    vocabularies: Sequence[Sequence[bytes] | None],
    bits: int | Sequence[int],
    nulls: Sequence[bytes],
    delimiter: int,
) -> LinePlan:
    """Plan the fields of a line.

    ``kinds``: SKIP, NUMBER, WORD or HASH.  ``places``: a column of the features, -1 the target,
    -2 the weight.  ``vocabularies``: the words of each WORD field, coded by position.  ``bits`` of
    a HASH are kept.  ``nulls`` mean missing, as an empty field does.
    """
    if not 0 < delimiter < 128 or chr(delimiter) in '0123456789+-.eE"\n\r':
        raise ValueError(f"{chr(delimiter)!r} cannot separate fields")
    missing = [null.strip(b" \t") for null in nulls if null.strip(b" \t")]
    numeric = any(parse_number(as_bytes(null), 0, len(null))[1] == OK for null in missing)
    words, owners, codes = [], [], []
    for column, kind in enumerate(kinds):
        known = (vocabularies[column] or []) if kind == WORD else []
        entries = [*missing, *known] if kind != SKIP else []
        words += entries
        owners += [column] * len(entries)
        codes += [np.nan] * len(missing) * (kind != SKIP) + [float(k) for k in range(len(known))]
    plan = LinePlan(
        np.array([_CHECKED if k == NUMBER and numeric else k for k in kinds], dtype=np.int64),
        np.where(np.array(kinds) == SKIP, _NOWHERE, np.array(places, dtype=np.int64)),
        np.broadcast_to((1 << np.asarray(bits, dtype=np.int64)) - 1, len(kinds)).astype(np.uint64),
        np.array([delimiter] * (len(kinds) - 1) + [10], dtype=np.int64),
        delimiter,
        np.full(1 << (2 * len(words)).bit_length(), -1, dtype=np.int64),
        np.frombuffer(b"".join(words) + bytes(PAD), dtype=np.uint8),
        np.cumsum([0, *map(len, words)], dtype=np.int64),
        np.array(owners, dtype=np.int64),
        np.array(codes, dtype=np.float64),
    )
    _fill(plan)
    return plan


# ---------------------------------------------------------------- lines


@njit(cache=True, nogil=True, forceinline=True)
def _zero_bytes(word):
    """The top bit of each byte that is zero."""
    return ~(((word & _LOW7) + _LOW7) | word) & _HIGH


@njit(cache=True, nogil=True)
def _field_end(text, p, delimiter):
    """The first delimiter, newline, carriage return, quote or NUL from ``p`` on."""
    delimiters = U(delimiter) * U(0x0101010101010101)
    while True:
        word = peek(text, p)
        marks = ~(((word & _LOW7) + _PRINTABLE) | word) & _HIGH
        marks = marks | _zero_bytes(word ^ _QUOTES) | _zero_bytes(word ^ delimiters)
        if marks == _NONE:
            p += 8
            continue
        p += ctz(marks) >> 3
        c = at(text, p)
        if c == delimiter or c == 10 or c == 13 or c == 34 or c == 0:
            return p
        p += 1


@njit(cache=True, nogil=True)
def _field(table, text, start, delimiter, kind, mask, column):
    """The value of the field at ``start``, the position of what ends it, and whether it is plain.

    An end that no plain line has there is for the caller to notice.
    """
    end = _field_end(text, start, delimiter)
    if kind == SKIP:
        return 0.0, end, True
    first, stop = start, end
    while first < stop and (at(text, first) == 32 or at(text, first) == 9):
        first += 1
    while first < stop and (at(text, stop - 1) == 32 or at(text, stop - 1) == 9):
        stop -= 1
    if first == stop:
        return np.nan, end, True
    word = _find(table, text, first, stop, column)[0]
    if word >= 0:
        return at(table.codes, word), end, True
    if kind == WORD:
        return -1.0, end, True
    if kind == HASH:
        return np.float64(np.int64(_murmur3(text, first, stop) & mask)), end, True
    value, p, code = scan_any(text, first, stop)
    return value, end, code == OK and p == stop


@njit(cache=True, nogil=True)
def _is_blank(text, p):
    while at(text, p) == 32 or at(text, p) == 9:
        p += 1
    return at(text, p) == 10 or at(text, p) == 13


@njit(cache=True, nogil=True)
def _two_lines(plan, text, p, q, features, target, weight, row):
    """Read the lines at ``p`` and ``q``: the position after both, -1 unless all is short numbers.

    A field starts where the last one ended; while the processor waits to know where that is, it
    works on the other line.
    """
    kinds, places, end_marks = plan.kinds, plan.places, plan.end_marks
    for column in range(kinds.size):
        kind, end_mark = kinds[U(column)], end_marks[U(column)]
        a, p = scan_short(text, p, marks(text, p))
        b, q = scan_short(text, q, marks(text, q))
        if kind != NUMBER or p < 0 or q < 0:
            return np.int64(-1)
        if end_mark == 10:
            p, q = p + (at(text, p) == 13), q + (at(text, q) == 13)
        if at(text, p) != end_mark or at(text, q) != end_mark:
            return np.int64(-1)
        p, q, place = p + 1, q + 1, places[U(column)]
        if place >= 0:
            features[U(row), U(place)], features[U(row + 1), U(place)] = a, b
        elif place == -1:
            target[U(row)], target[U(row + 1)] = a, b
        elif place == -2:
            weight[U(row)], weight[U(row + 1)] = a, b
    return q


@njit(cache=True, nogil=True)
def _parse(plan, data, p, stop, features, target, weight, row):
    """Read lines from ``p`` until ``stop``, the start of a line: (rows, position, why)."""
    kinds, places, masks, end_marks = plan.kinds, plan.places, plan.masks, plan.end_marks
    delimiter = plan.delimiter
    table, text = _table(plan), pointer(data)
    last, alone = kinds.size - 1, 0
    while p < stop:
        if row >= features.shape[0]:
            return row, p, FULL
        if alone == 0:
            q, end = after_line(text, p), np.int64(-1)
            if q < stop and row + 1 < features.shape[0]:
                end = _two_lines(plan, text, p, q, features, target, weight, row)
            if end >= 0:
                row, p = row + 2, end
                continue
            alone = _ALONE
        start, alone = p, alone - 1
        if at(text, p) <= 32 and _is_blank(text, p):
            return row, start, ODD
        for column in range(kinds.size):
            kind, end_mark = kinds[U(column)], end_marks[U(column)]
            value, end, code = 0.0, p, HARD
            if kind == NUMBER:
                value, end, code = scan(text, p, marks(text, p))
            if code != OK or at(text, end) != end_mark:
                mask = masks[U(column)]
                value, end, plain = _field(table, text, p, delimiter, kind, mask, column)
                if at(text, end) == 13 and column == last:
                    end += 1
                if not plain or at(text, end) != end_mark:
                    return row, start, ODD
            p = end + 1
            place = places[U(column)]
            if place >= 0:
                features[U(row), U(place)] = value
            elif place == -1:
                target[U(row)] = value
            elif place == -2:
                weight[U(row)] = value
        row += 1
    return row, p, END


def parse_lines(
    plan: LinePlan,
    block: Any,
    start: int,
    features: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray,
    first_row: int,
) -> tuple[int, int, int]:
    """Read lines from byte ``start`` into ``features[first_row:]``: (rows, position, why).

    ``why`` it stopped: END of the block, FULL arrays, or an ODD line; ``position`` is where the
    next line starts.  The block holds whole lines, the last may lack its newline.  Up to two rows
    beyond those counted may have been written half.
    """
    data = as_bytes(block)
    row, position, why = first_row, start, END
    for text, p, stop, origin in padded(data, start):
        row, p, why = _parse(plan, text, p, stop, features, target, weight, row)
        position = min(origin + p, data.size)
        if why != END:
            break
    return row - first_row, position, why


@njit(cache=True, nogil=True)
def _unquoted_cut(data, start, in_quotes):
    found = 0
    for p in range(start, data.size):
        c = data[U(p)]
        if c == 34:
            in_quotes = not in_quotes
        elif c == 10 and not in_quotes:
            found = p + 1
    return found


def safe_cut(block: Any, start: int = 0, in_quotes: bool = False) -> int:
    """Where a block may be cut: after its last newline outside double quotes; 0 if none.

    ``in_quotes``: byte ``start`` is inside quotes.
    """
    data = as_bytes(block)
    if not in_quotes and count(data[start:], 34) == 0:
        return int(after_newline(data, start, data.size))
    return int(_unquoted_cut(data, start, in_quotes))
