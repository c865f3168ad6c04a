"""What colour a code has, for colour-blind people too.

Numbers go from blue by white to orange, categories have the colours of Okabe and Ito, paler in
every further round; what is missing is dark grey.
"""

from __future__ import annotations

import numpy as np

from thresher.views.charts.style import OKABE_ITO
from thresher.views.explorer.codes import MISSING

__all__ = ["colour_tables"]

_STOPS = ("#053061", "#4393c3", "#f7f7f7", "#e08214", "#7f3b08")
_MISSING = "#464646"
_PALER, _ROUNDS = 0.18, 4


def colour_tables() -> dict[str, np.ndarray]:
    """Red, green and blue of all codes, for numbers and for categories."""
    stops = np.array([_rgb(colour) for colour in _STOPS], dtype=float)
    at = np.linspace(0.0, 1.0, len(_STOPS))
    numbers = [np.interp(np.arange(MISSING) / 254, at, channel) for channel in stops.T]
    # Black is too near to what is missing.
    words = np.array([_rgb(c) for c in OKABE_ITO if c != "#000000"], dtype=float)
    rounds, place = np.divmod(np.arange(MISSING), len(words))
    white = _PALER * np.minimum(rounds, _ROUNDS)[:, None]
    categories = words[place] * (1.0 - white) + 255.0 * white
    return {"number": _table(np.array(numbers).T), "category": _table(categories)}


def _rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[k : k + 2], 16) for k in (1, 3, 5))


def _table(colours: np.ndarray) -> np.ndarray:
    return np.rint(np.vstack([colours, _rgb(_MISSING)])).astype(np.uint8)
