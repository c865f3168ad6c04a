"""Directional (compass) search, as a generator that asks for values.

From the best point so far, look a step up and down along every coordinate of the unit cube; move to
the best of these 2 d points if it is better (and lengthen the step), otherwise halve the step.  The
2 d points are asked for together, so they can be evaluated in parallel.

Reference: Kolda, Lewis and Torczon, Optimization by direct search, SIAM Review 45 (2003).
"""

from __future__ import annotations

import numpy as np

from thresher.search.simplex import Proposals

__all__ = ["compass"]


def compass(
    start: np.ndarray, value: float, *, width: float = 0.25, tol: float = 1e-4
) -> Proposals:
    """Ask for values around ``start`` (whose ``value`` is known) until the step is small."""
    d = start.size
    directions = np.vstack([np.eye(d), -np.eye(d)])
    while d and width > tol:
        points = start + width * directions
        points = points[np.all((points >= 0.0) & (points <= 1.0), axis=1)]
        if points.size:
            values = yield points
            best = int(np.argmin(values))
            if values[best] < value:
                start, value = points[best], float(values[best])
                width = min(2.0 * width, 0.5)
                continue
        width *= 0.5
