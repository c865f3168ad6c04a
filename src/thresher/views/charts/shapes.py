"""Charts as plain data: what a figure shows, drawn by Bokeh or by Matplotlib alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Bars", "Chart", "Heatmap", "Line", "Parallel", "Picture", "Points", "thinned"]

MOST_POINTS = 500


@dataclass(frozen=True)
class Line:
    """A curve; ``number`` gives colour, dash and marker, None is a grey line of reference."""

    x: Any
    y: Any
    label: str = ""
    number: int | None = 0
    markers: bool = False
    steps: bool = False


@dataclass(frozen=True)
class Points:
    """A cloud of points."""

    x: Any
    y: Any
    label: str = ""
    number: int = 0
    size: float = 6.0


@dataclass(frozen=True)
class Bars:
    """Horizontal bars, the first at the top; those to the left have another colour and hatch."""

    names: Sequence[str]
    values: np.ndarray
    low: np.ndarray | None = None  # ends of a range drawn over each bar
    high: np.ndarray | None = None
    left: str = "lowers the prediction"
    right: str = "raises the prediction"


@dataclass(frozen=True)
class Heatmap:
    """Shares (colour, below zero another one) with a text in each cell.

    ``sides`` are rows and columns; ``columns`` are named as ``names`` unless they are given.
    """

    names: Sequence[str]
    shares: np.ndarray
    texts: list[list[str]]
    sides: tuple[str, str] = ("truth", "prediction")
    columns: Sequence[str] | None = None

    @property
    def across(self) -> Sequence[str]:
        """Names of the columns."""
        return self.names if self.columns is None else self.columns


@dataclass(frozen=True)
class Parallel:
    """Parallel coordinates: one axis for each name, one line for each trial.

    ``places`` are (trials, axes) in 0 .. 1; ``ticks`` hold the (place, text) pairs of each axis;
    ``merit`` in 0 .. 1 is the colour, the best being the darkest and drawn last and widest.
    """

    names: Sequence[str]
    places: np.ndarray
    ticks: list[list[tuple[float, str]]]
    merit: np.ndarray


@dataclass(frozen=True)
class Picture:
    """Pixels, the first row at the top, and names below or beside them.

    ``pixels`` are bytes of shape (height, width, 3); ``names`` pairs of a place along the width, 0
    to 1, and a text.
    """

    pixels: np.ndarray
    names: Sequence[tuple[float, str]] = ()


@dataclass(frozen=True)
class Chart:
    """A figure with its title, what it says (caption) and what is seen (alt)."""

    key: str
    title: str
    caption: str
    alt: str
    layers: Sequence[Line | Points | Bars | Heatmap | Parallel | Picture] = field(
        default_factory=tuple
    )
    x: str = ""
    y: str = ""
    log_x: bool = False
    log_y: bool = False
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    legend: str = "top_right"  # as Bokeh names the corners
    wide: bool = False

    @property
    def height(self) -> int:
        """Pixels; bars and cells need room for their names."""
        for layer in self.layers:
            if isinstance(layer, Bars):
                return 110 + 22 * len(layer.names)
            if isinstance(layer, Heatmap):
                return max(320, 120 + 26 * len(layer.names))
            if isinstance(layer, Picture):
                return 520
        return 360 if self.wide else 320


def thinned(x: np.ndarray, y: np.ndarray, most: int = MOST_POINTS) -> tuple[Any, Any]:
    """At most so many points of a curve, evenly spread along its length, with both ends."""
    if x.size <= most:
        return x, y
    span_x, span_y = np.ptp(x) or 1.0, np.ptp(y) or 1.0
    way = np.concatenate(
        [[0.0], np.cumsum(np.abs(np.diff(x)) / span_x + np.abs(np.diff(y)) / span_y)]
    )
    picked = np.searchsorted(way, np.linspace(0.0, way[-1], most))
    picked = np.unique(np.concatenate([[0], np.minimum(picked, x.size - 1), [x.size - 1]]))
    return x[picked], y[picked]
