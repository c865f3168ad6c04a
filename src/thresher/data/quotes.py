"""Where quoted fields of delimited text begin and end; quotes open at a field's start only."""

from __future__ import annotations

import numpy as np
from numba import njit

from thresher.data._bytes import count
from thresher.data.errors import BadCell
from thresher.data.files import TextBlock

__all__ = ["left_open", "record_end"]


def record_end(data: np.ndarray, delimiter: str) -> int:
    """The position after the last newline outside quotes."""
    return int(_quotes(data, ord(delimiter))[0])


def left_open(block: TextBlock, delimiter: str) -> BadCell | None:
    """What is wrong with a block that ends within a quote: only the rest of a file can.

    The quote takes all lines up to the end of the file, and nobody can say how many it should: they
    are one bad row.
    """
    if block.plain or not block.rest:
        return None
    place = int(_quotes(block.data, ord(delimiter))[1])
    if place < 0:
        return None
    line = block.first_line + int(count(block.data[:place], 10))
    last = block.first_line + block.newlines - int(block.data[-1] == 10)
    problem = "a quote opens here that is never closed"
    if last > line:
        problem += f", so that lines {line} to {last} cannot be told apart"
    return BadCell(block.file, line, None, problem)


@njit(cache=True, nogil=True)
def _quotes(data, delimiter):
    """The position after the last newline outside quotes, and that of a quote left open or -1."""
    found, opened, quoted, fresh, closed = 0, -1, False, True, False
    for p in range(data.size):
        c = data[p]
        if c == 34:
            if not quoted and fresh:
                opened = p
            # In a quoted field two quotes stand for one: it is left and entered again at once.
            closed, quoted = quoted, not quoted and (fresh or closed)
            fresh = False
            continue
        closed = False
        if not quoted:
            if c == 10:
                found = p + 1
            fresh = c == delimiter or c == 10 or c == 13
    return found, opened if quoted else -1
