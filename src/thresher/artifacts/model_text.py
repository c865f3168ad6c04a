"""Model files of LIBLINEAR and LIBSVM, lines of words and numbers: how they are read.

Whoever wrote such a file is not believed: lines have a longest length, numbers are finite, and
errors name the line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import IO

import numpy as np

from thresher.artifacts.container import BadFile

__all__ = [
    "INTEGER",
    "LINE",
    "integer_labels",
    "numbered_lines",
    "read_number",
    "read_numbers",
    "read_whole",
    "text_lines",
]

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
LINE = 32  # most characters that one number takes


def text_lines(file: IO[bytes], limit: int) -> Iterator[str]:
    """The lines in turn, none longer than ``limit``."""
    while line := file.readline(limit + 1):
        if len(line) > limit:
            raise BadFile("the line is too long")
        try:
            yield line.decode("ascii").strip()
        except UnicodeDecodeError:
            raise BadFile("the line is not plain text") from None


def numbered_lines(lines: Iterator[str], before: int) -> Iterator[tuple[int, str]]:
    number = before
    try:
        for line in lines:
            number += 1
            yield number, line
    except BadFile as error:
        raise BadFile(f"line {number + 1}: {error}") from None


def read_whole(fields: dict[str, str], name: str, low: int, high: int) -> int:
    text = fields[name]
    if not INTEGER.fullmatch(text) or not low <= int(text) <= high:
        place = list(fields).index(name) + 1
        raise BadFile(f"line {place}: {name} must be a number from {low}, got {text[:50]!r}")
    return int(text)


def read_number(text: str, line: int) -> float:
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value):
        raise BadFile(f"line {line}: {text[:50]!r} is no finite number")
    return value


def read_numbers(words: list[str], line: int) -> list[float]:
    """Quickly where all is well; one by one where an error has to be named."""
    try:
        values = [float(word) for word in words]
    except ValueError:
        values = [math.nan]
    if math.isfinite(sum(values)) and not any("_" in word for word in words):
        return values
    return [read_number(word, line) for word in words]


def integer_labels(labels: np.ndarray, tool: str) -> list[int]:
    """The labels of these tools are C integers; nothing else is bent into one."""
    if labels.dtype.kind not in "biuf":
        raise ValueError(
            f"{tool} knows integer labels only, got {labels.tolist()[0]!r}: number the classes"
        )
    if labels.dtype.kind == "f" and not np.all(labels == np.floor(labels)):
        wrong = float(labels[labels != np.floor(labels)][0])
        raise ValueError(f"{tool} knows integer labels only, got {wrong!r}: number the classes")
    numbers = [int(label) for label in labels]
    if max(map(abs, numbers)) >= 2**31:
        raise ValueError(f"{tool}'s labels have 32 bits, got {max(numbers, key=abs)}")
    if sorted(set(numbers)) != numbers:
        raise ValueError(f"labels must be sorted and distinct, got {numbers[:10]}")
    return numbers
