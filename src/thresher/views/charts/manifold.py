"""How a solver comes to the manifold of the optimum, as a chart."""

from __future__ import annotations

import numpy as np

from thresher.solvers.manifold_tracker import ManifoldTracker
from thresher.views.charts.shapes import Chart, Line, Points, thinned

__all__ = ["manifold_chart"]


def manifold_chart(tracker: ManifoldTracker, key: str = "manifold") -> Chart:
    """Non-zero units along the run, how many of the optimum's are right, and the first hits.

    Parameters
    ----------
    tracker : ManifoldTracker
        After a run.
    key : str, default="manifold"
        Name of the chart on its page.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.penalties import L1
    >>> from thresher.solvers.manifold_tracker import ManifoldTracker
    >>> from thresher.views.charts.manifold import manifold_chart
    >>> tracker = ManifoldTracker(L1(), np.array([1.0, 0.0]))
    >>> tracker.look(1, np.array([0.5, 0.5]))
    >>> tracker.look(2, np.array([0.5, 0.0]))
    >>> manifold_chart(tracker).caption
    'The zeros and signs of the optimum were first met after 2 updates.'
    """
    if not tracker.sightings:
        raise ValueError("the tracker has not seen any weights yet")
    steps = np.array([s.step for s in tracker.sightings], dtype=float)
    nonzeros = np.array([s.nonzeros for s in tracker.sightings], dtype=float)
    found = np.array([s.found for s in tracker.sightings], dtype=float)
    optimal = float(np.count_nonzero(tracker.optimum_pattern))
    layers: list[Line | Points] = [
        Line(*thinned(steps, nonzeros), label="not zero", number=0, steps=True),
        Line(*thinned(steps, found), label="of the optimum's, right", number=1, steps=True),
        Line(steps[[0, -1]], np.array([optimal, optimal]), label="optimum", number=None),
    ]
    hits = (("twice the optimum", tracker.first_superset), ("the optimum", tracker.first_hit))
    for number, (label, step) in enumerate(hits, 2):
        if step is not None:
            layers.append(Points([step], [optimal], label=f"first {label}", number=number, size=9))
    hit = tracker.first_hit
    said = "not met yet" if hit is None else f"first met after {hit} updates"
    return Chart(
        key, "The way to the manifold", f"The zeros and signs of the optimum were {said}.",
        f"Non-zero units against updates: {int(nonzeros[0])} at first, {int(nonzeros[-1])} at the "
        f"end, {int(optimal)} at the optimum.",
        layers, x="updates", y="units", log_x=bool(steps[0] > 0.0),
    )  # fmt: skip
