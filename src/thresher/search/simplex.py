r"""Nelder and Mead's simplex, as a generator that asks for values.

:func:`nelder_mead` yields lists of points of the unit cube and is sent their values, so whoever
drives it decides how and where points are evaluated.  Coefficients adapt to the dimension d
(reflection 1, expansion 1 + 2/d, contraction 3/4 - 1/(2d), shrinkage 1 - 1/d), points are folded
back into the cube.

References: Nelder and Mead, Computer Journal 7 (1965); Gao and Han, Computational Optimization and
Applications 51 (2012).
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from thresher.search.unit_interval import reflect

__all__ = ["Proposals", "nelder_mead"]

#: yields points (m, d), is sent their m values (inf for failures)
Proposals = Generator[np.ndarray, np.ndarray, None]


def nelder_mead(
    start: np.ndarray, value: float, *, width: float = 0.05, tol: float = 1e-4
) -> Proposals:
    """Ask for values around ``start`` (whose ``value`` is known) until the simplex is small.

    The d corners of the first simplex are asked for together, later points one by one.
    """
    d = start.size
    if d == 0:
        return
    expand, contract, shrink = 1.0 + 2.0 / d, 0.75 - 0.5 / d, 1.0 - 1.0 / d
    if d == 1:
        expand, contract, shrink = 2.0, 0.5, 0.5
    corners = np.repeat(start[None], d, axis=0)
    corners[np.arange(d), np.arange(d)] += np.where(start <= 1.0 - width, width, -width)
    values = yield corners
    points, values = np.vstack([start, corners]), np.append(value, values)
    while np.ptp(points, axis=0).max() > tol:
        order = np.argsort(values, kind="stable")
        points, values = points[order], values[order]
        centre = points[:-1].mean(axis=0)
        away = centre - points[-1]
        trial = _inside(centre + away)
        f = (yield trial[None])[0]
        if f < values[0]:
            further = _inside(centre + expand * away)
            g = (yield further[None])[0]
            points[-1], values[-1] = (further, g) if g < f else (trial, f)
            continue
        if f < values[-2]:
            points[-1], values[-1] = trial, f
            continue
        outside = f < values[-1]
        closer = centre + (contract if outside else -contract) * away
        closer = _inside(closer)
        g = (yield closer[None])[0]
        if g < min(f, values[-1]):
            points[-1], values[-1] = closer, g
            continue
        points[1:] = points[0] + shrink * (points[1:] - points[0])
        values[1:] = yield points[1:].copy()


def _inside(point: np.ndarray) -> np.ndarray:
    return np.array([reflect(u) for u in point])
