"""The whole map as one picture, for papers: Matplotlib draws it where it is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from thresher._files import atomic_file
from thresher.views.charts.style import needed
from thresher.views.explorer.colours import colour_tables
from thresher.views.explorer.session import Session
from thresher.views.explorer.window import Window

__all__ = ["draw_picture", "map_colours", "write_picture"]

_MOST_ROWS, _MOST_COLUMNS = 2000, 2000
_MOST_NAMES = 80


def map_colours(session: Session) -> np.ndarray:
    """Red, green and blue of the whole map, of at most 2000 rows and columns of cells."""
    pyramid, order = session.pyramid, session.column_order
    level = pyramid.level_of(_MOST_ROWS)
    step = -(-order.size // _MOST_COLUMNS)
    window = Window(level, 0, pyramid.rows(level), 0, order.size, step)
    width = -(-order.size // step)
    cells = np.frombuffer(session.window(window), np.uint8).reshape(width, -1)
    tables = colour_tables()
    out = np.empty((cells.shape[1], width, 3), np.uint8)
    for k in range(width):
        group = [session.columns[j] for j in order[k * step : (k + 1) * step]]
        kind = "category" if all(column.is_category for column in group) else "number"
        out[:, k] = tables[kind][cells[k]]
    return out


def draw_picture(session: Session, axes: Any = None) -> Any:
    """The map on axes of Matplotlib, new ones if none are given; returns them."""
    if axes is None:
        figure = needed("matplotlib.figure").Figure(figsize=(7, 5), layout="constrained")
        axes = figure.subplots()
    names = [session.columns[j].name for j in session.column_order]
    axes.imshow(
        map_colours(session), aspect="auto", interpolation="nearest",
        extent=(-0.5, len(names) - 0.5, session.order.size, 0),
    )  # fmt: skip
    if len(names) <= _MOST_NAMES:
        axes.set_xticks(range(len(names)), names, rotation=90)
    axes.set_ylabel(f"{session.order.size:,} rows, in the order {session.order_name!r}")
    return axes


def write_picture(session: Session, path: str | Path) -> None:
    """The map as a file; its suffix says the format, .png, .pdf or .svg."""
    kind = Path(path).suffix.lower().removeprefix(".") or "png"
    figure = draw_picture(session).figure
    if kind not in figure.canvas.get_supported_filetypes():
        raise ValueError(f"{path}: a picture ends in .png, .pdf or .svg")
    with atomic_file(path) as file:
        figure.savefig(file, format=kind, dpi=200)
