r"""The quadratic model of proximal Newton for many tasks, minimised feature by feature.

The weights of a feature in all tasks, a row w of W, are one block.  Tasks do not share rows of
their Hessians, so that a block's is diagonal, h, and with slopes g at the present w the minimum is
known up to a number: with c = soft(h w - g, entries),

.. math:: w_q = \frac{c_q}{h_q + \mathrm{ridge} + \mathrm{rows}/\nu}, \qquad
          \sum_q \frac{c_q^2}{((h_q + \mathrm{ridge})\,\nu + \mathrm{rows})^2} = 1, \qquad
          \nu = \|w\|,

and w = 0 where ||c|| <= ``rows``.  One over the root of the left-hand side is concave in nu, so
that Newton's method goes up to the solution from 0 without a search.

Two ways.  With least squares, targets for all tasks in all rows and task weights of one, the tasks
share one matrix S of the working set (:func:`descend_by_matrix`, and :func:`descend_by_lines` where
rows are fewer than features); others hear of the moves of 32 features at a time, by a matrix
product.  Else steps go through copies of
the columns (:func:`descend_by_columns`), with curvatures for each row and task, zero at holes, and
intercepts eliminated as in ``_working_set.py``.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

__all__ = [
    "column_sums", "descend_by_columns", "descend_by_lines", "descend_by_matrices",
    "descend_by_matrix", "move_rows", "solve_row",
]  # fmt: skip

_NEWTON = 50
_BLOCK, _FEW_MOVED = 32, 6  # features that others are told of together, by a matrix product; unless
# fewer than a sixth of them have moved


@njit(cache=True, nogil=True)
def solve_row(c, h, by_row, by_entry, ridge, w):
    """Minimise over a row; c = h w - g goes in, the new weights are written to w."""
    square = 0.0
    for q in range(c.size):
        c[q] = math.copysign(max(abs(c[q]) - by_entry, 0.0), c[q])
        square += c[q] * c[q]
    if math.sqrt(square) <= by_row or square == 0.0:
        w[:] = 0.0
        return
    pull = 0.0
    if by_row > 0.0:
        nu = 0.0
        for _ in range(_NEWTON):
            total, slope = 0.0, 0.0
            for q in range(c.size):
                level = h[q] + ridge
                bottom = level * nu + by_row
                part = c[q] / bottom
                total += part * part
                slope += part * part * level / bottom
            if slope <= 0.0:
                break
            root = math.sqrt(total)
            move = total * (root - 1.0) / (slope * root)
            nu = max(nu + move, 0.0)
            if abs(move) <= 1e-13 * nu:
                break
        pull = by_row / nu if nu > 0.0 else math.inf
    for q in range(c.size):
        level = h[q] + ridge + pull
        if level > 0.0:
            w[q] = c[q] / level
        elif c[q] == 0.0 and by_entry > 0.0:  # no row bends: the penalty alone speaks
            w[q] = 0.0


@njit(cache=True, nogil=True)
def _equal_row(c, h, by_row, by_entry, ridge, w):
    """The same where all tasks have the curvature h."""
    square = 0.0
    for q in range(c.size):
        c[q] = math.copysign(max(abs(c[q]) - by_entry, 0.0), c[q])
        square += c[q] * c[q]
    norm = math.sqrt(square)
    factor = (1.0 - by_row / norm) / (h + ridge) if norm > by_row else 0.0
    for q in range(c.size):
        w[q] = factor * c[q]


@njit(cache=True, nogil=True)
def _moved(w, new):
    """w becomes ``new``, which becomes the move: its square, and whether a weight is left."""
    change, alive = 0.0, False
    for q in range(w.size):
        alive = alive or new[q] != 0.0
        move = new[q] - w[q]
        w[q] = new[q]
        new[q] = move
        change += move * move
    return change, alive


@njit(cache=True, nogil=True)
def descend_by_matrix(S, gradient, by_row, by_entry, ridge, W, sweeps, enough):
    """Minimise over the rows of W; ``gradient`` is that at W.

    Sweeps end when one of all rows gains no more than ``enough``, at most about.
    """
    size, tasks = W.shape
    slopes = gradient.T.copy()  # task by task: there are more features than tasks
    c, new = np.empty(tasks), np.empty(tasks)
    near, moves = np.empty((tasks, _BLOCK)), np.empty((tasks, _BLOCK))
    room = np.empty((tasks, size))
    awake, everyone = np.ones(size, np.bool_), True
    for _ in range(sweeps):
        gained = 0.0
        for start in range(0, size, _BLOCK):
            stop, moved = min(start + _BLOCK, size), 0
            if not (everyone or np.any(awake[start:stop])):
                continue
            moves[:] = 0.0
            for q in range(tasks):
                near[q, : stop - start] = slopes[q, start:stop]
            for a in range(start, stop):
                h = S[a, a]
                if not (everyone or awake[a]) or h + ridge <= 0.0:
                    continue
                for q in range(tasks):
                    c[q] = h * W[a, q] - near[q, a - start]
                _equal_row(c, h, by_row[a], by_entry[a], ridge, new)
                change, awake[a] = _moved(W[a], new)
                if change > 0.0:
                    moved += 1
                    line = S[a, start:stop]
                    for q in range(tasks):
                        move, own = new[q], near[q]
                        moves[q, a - start] = move
                        for b in range(line.size):
                            own[b] += move * line[b]
                gained += 0.5 * change * (h + ridge)
            if moved:
                _tell_all(S, start, stop, moves, _FEW_MOVED * moved < _BLOCK, room, slopes)
        if gained <= enough:
            if everyone:
                break
            everyone = True
        else:
            everyone = False


@njit(cache=True, nogil=True)
def _tell_all(S, start, stop, moves, few, room, slopes):
    """The slopes of all features hear of the moves of a block: one by one if they are few."""
    if not few and stop - start == _BLOCK:
        np.dot(moves, S[start:stop], room)
        for q in range(slopes.shape[0]):
            own, more = slopes[q], room[q]
            for b in range(own.size):
                own[b] += more[b]
        return
    for a in range(start, stop):
        line = S[a]
        for q in range(slopes.shape[0]):
            move, own = moves[q, a - start], slopes[q]
            if move != 0.0:
                for b in range(line.size):
                    own[b] += move * line[b]


@njit(cache=True, nogil=True)
def descend_by_matrices(S, slopes, by_row, by_entry, ridge, W, sweeps, share):
    """The same where each task has a matrix, S (tasks, features, features); slopes (tasks, ..).

    Slopes move along.  Sweeps end when one of all rows gains no more than this share of all.
    """
    size, tasks = W.shape
    c, h, new = np.empty(tasks), np.empty(tasks), np.empty(tasks)
    awake, everyone, total = np.ones(size, np.bool_), True, 0.0
    for _ in range(sweeps):
        gained = 0.0
        for a in range(size):
            if not (everyone or awake[a]):
                continue
            for q in range(tasks):
                h[q] = S[q, a, a]
                c[q] = h[q] * W[a, q] - slopes[q, a]
                new[q] = W[a, q]
            solve_row(c, h, by_row[a], by_entry[a], ridge, new)
            awake[a] = False
            for q in range(tasks):
                move = new[q] - W[a, q]
                W[a, q] = new[q]
                awake[a] = awake[a] or new[q] != 0.0
                gained += 0.5 * (h[q] + ridge) * move * move
                if move != 0.0:
                    line, own = S[q, a], slopes[q]
                    for b in range(size):
                        own[b] += move * line[b]
        total += gained
        if gained <= share * total:
            if everyone:
                break
            everyone = True
        else:
            everyone = False


@njit(cache=True, nogil=True)
def descend_by_lines(lines, gradient, by_row, by_entry, ridge, W, sweeps, enough):
    """The same with S = lines lines', (features, rows), where rows are the fewer."""
    size, tasks = W.shape
    moved = np.zeros((lines.shape[1], tasks))
    c, new, moves = np.empty(tasks), np.empty(tasks), np.empty((_BLOCK, tasks))
    own = np.empty((size, _BLOCK))  # of S: what lies on its diagonal, block by block
    for start in range(0, size, _BLOCK):
        block = lines[start : start + _BLOCK]
        own[start : start + _BLOCK, : block.shape[0]] = np.dot(block, block.T)
    awake, everyone = np.ones(size, np.bool_), True
    for _ in range(sweeps):
        gained = 0.0
        for start in range(0, size, _BLOCK):
            stop = min(start + _BLOCK, size)
            if not (everyone or np.any(awake[start:stop])):
                continue
            block = lines[start:stop]
            near, some = np.dot(block, moved), False
            moves[:] = 0.0
            for a in range(start, stop):
                h = own[a, a - start]
                if not (everyone or awake[a]) or h + ridge <= 0.0:
                    continue
                for q in range(tasks):
                    c[q] = h * W[a, q] - gradient[a, q] - near[a - start, q]
                _equal_row(c, h, by_row[a], by_entry[a], ridge, new)
                change, awake[a] = _moved(W[a], new)
                if change > 0.0:
                    some = True
                    moves[a - start] = new
                    for b in range(stop - start):
                        x, row = own[a, b], near[b]
                        for q in range(tasks):
                            row[q] += x * new[q]
                gained += 0.5 * change * (h + ridge)
            if some:
                moved += np.dot(block.T, moves[: stop - start])
        if gained <= enough:
            if everyone:
                break
            everyone = True
        else:
            everyone = False


# ---------------------------------------------------------------- by columns


@njit(cache=True, nogil=True)
def _row(index, k, start):
    """The row of element k, of a column that starts there; without an index all rows have one."""
    return index[k] if index.size else k - start


@njit(cache=True, nogil=True)
def column_sums(starts, index, values, base, slopes, curvatures, gradient, first, second):
    """Of each column j and task: sums of slope x, and of curvature x and x^2 unless empty."""
    width = slopes.shape[1]
    for j in range(starts.size - 1):
        for k in range(starts[j], starts[j + 1]):
            i, x = _row(index, k, starts[j]), values[k]
            q = base[i]
            for c in range(width):
                gradient[j, q + c] += slopes[i, c] * x
            if curvatures.size:
                for c in range(width):
                    h = curvatures[i, c] * x
                    first[j, q + c] += h
                    second[j, q + c] += h * x


@njit(cache=True, nogil=True)
def move_rows(starts, index, values, base, moves, out):
    """out += the moves (columns, tasks) of the predictions of all rows."""
    for j in range(starts.size - 1):
        for k in range(starts[j], starts[j + 1]):
            i, x = _row(index, k, starts[j]), values[k]
            q = base[i]
            for c in range(out.shape[1]):
                out[i, c] += x * moves[j, q + c]


@njit(cache=True, nogil=True)
def descend_by_columns(
    starts, index, values, base, curvatures, gradient, first, mean, diagonal, by_row, by_entry,
    ridge, W, sweeps, enough,
):  # fmt: skip
    """Minimise over the rows of W, whose columns these are; ``gradient`` is that at the start.

    ``first`` are sums of curvature x, ``mean`` those over the curvature of the task (0 without an
    intercept): predictions move by x delta - mean delta.
    """
    size, tasks = W.shape
    width = curvatures.shape[1]
    moved, offset = np.zeros(curvatures.shape), np.zeros(tasks)
    c, new = np.empty(tasks), np.empty(tasks)
    awake, everyone = np.ones(size, np.bool_), True
    for _ in range(sweeps):
        gained = 0.0
        for a in range(size):
            if not (everyone or awake[a]):
                continue
            for q in range(tasks):
                c[q] = diagonal[a, q] * W[a, q] - gradient[a, q] + offset[q] * first[a, q]
                new[q] = W[a, q]
            for k in range(starts[a], starts[a + 1]):
                i, x = _row(index, k, starts[a]), values[k]
                at = base[i]
                for s in range(width):
                    c[at + s] -= x * curvatures[i, s] * moved[i, s]
            solve_row(c, diagonal[a], by_row[a], by_entry[a], ridge, new)
            change, alive = 0.0, False
            for q in range(tasks):
                new[q] -= W[a, q]
                change += diagonal[a, q] * new[q] * new[q]
                W[a, q] += new[q]
                alive = alive or W[a, q] != 0.0
                offset[q] += mean[a, q] * new[q]
            if change > 0.0:
                for k in range(starts[a], starts[a + 1]):
                    i, x = _row(index, k, starts[a]), values[k]
                    at = base[i]
                    for s in range(width):
                        moved[i, s] += x * new[at + s]
            gained += 0.5 * change
            awake[a] = alive
        if gained <= enough:
            if everyone:
                break
            everyone = True
        else:
            everyone = False
