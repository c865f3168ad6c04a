"""What kind of delimited text this is: encoding, delimiter, header."""

from __future__ import annotations

import csv
import io
from collections import Counter
from itertools import islice
from typing import Any

import pyarrow as pa

from thresher.data.arrow_cells import looks_numeric
from thresher.data.errors import DataError
from thresher.data.files import TextBlock

__all__ = ["check_utf8", "checked", "delimiter", "has_header", "records"]

#: the rarer a character is in text and numbers, the more it says when it cuts lines evenly
_DELIMITERS = ("\t", ";", "|", ",", " ")
_LOOKED_AT = 200
_IMPOSSIBLE = '0123456789+-.eE"\r\n'


def checked(delimiter: str) -> str:
    if len(delimiter) != 1 or delimiter in _IMPOSSIBLE or not "\0" < delimiter < "\x7f":
        raise DataError(
            f"the delimiter must be one ASCII character that no number holds, got {delimiter!r}"
        )
    return delimiter


def check_utf8(block: TextBlock, encoding: str) -> None:
    """Refuse text of another encoding, naming the line and what to do."""
    if block.plain or not block.data.size or block.data.max() < 128:
        return
    data = block.data.tobytes()
    try:
        data.decode()
    except UnicodeDecodeError as wrong:
        line = block.first_line + data[: wrong.start].count(b"\n")
        raise DataError(
            f"{block.file}, line {line}: byte {data[wrong.start]:#04x} is not {encoding} text; "
            "name the encoding, for example encoding='latin-1'"
        ) from None


def delimiter(text: str) -> str:
    """The first candidate that cuts nearly all records into as many fields as the first."""
    for least in (1.0, 0.9, 0.6):
        for candidate in _DELIMITERS:
            try:
                found = islice(filter(None, _reader(text, candidate)), _LOOKED_AT)
                sizes = [len(record) for record in found]
            except csv.Error:
                continue
            if sizes and sizes[0] > 1 and Counter(sizes)[sizes[0]] >= least * len(sizes):
                return candidate
    return ","


def records(text: str, delimiter: str, file: str) -> tuple[list[list[str]], int]:
    """The first records that are not empty, and how many lines the first one ends after."""
    reader = _reader(text, delimiter)
    out: list[list[str]] = []
    first = 0
    try:
        for record in filter(None, reader):
            first = first or reader.line_num
            out.append(record)
            if len(out) == _LOOKED_AT:
                break
    except csv.Error as error:
        if not out:
            raise DataError(f"{file}: the first line is not delimited text: {error}") from None
    if not out:
        raise DataError(f"{file} holds blank lines only")
    return out, first


def has_header(found: list[list[str]]) -> bool:
    """A first line without any number, above numbers or above words that are not its own.

    Numbers that count the columns, as in ``0,1,2,label``, are names.
    """
    first, rest = found[0], found[1:]
    numeric = _numeric(first)
    if any(numeric) and not _count_the_columns(first, numeric):
        return False

    def below(k: int) -> list[str]:
        return [r[k] for r in rest if k < len(r) and r[k].strip()]

    named = [k for k, name in enumerate(first) if name.strip() and not numeric[k]]
    if any(below(k) and all(_numeric(below(k))) for k in named):
        return True
    return not any(first[k] in below(k) for k in named)


def _count_the_columns(first: list[str], numeric: list[bool]) -> bool:
    """At least three, from 0 or 1 on and each in its place (after a nameless index), and a word."""
    places = [k for k, number in enumerate(numeric) if number]
    counted = any(all(first[k].strip() == str(k + base) for k in places) for base in (-1, 0, 1))
    words = any(name.strip() and not number for name, number in zip(first, numeric, strict=True))
    return counted and len(places) >= 3 and words


def _numeric(cells: list[str]) -> list[bool]:
    return looks_numeric(pa.array([cell.strip() for cell in cells], pa.string())).to_pylist()


def _reader(text: str, delimiter: str) -> Any:
    return csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
