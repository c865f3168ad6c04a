"""The whole map as one picture, for papers: Matplotlib draws it where it is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from thresher._files import atomic_file
from thresher.views.charts.style import needed
from thresher.views.explorer.codes import MISSING
from thresher.views.explorer.colours import colour_tables
from thresher.views.explorer.session import Session, shown_classes
from thresher.views.explorer.window import Window

__all__ = ["draw_picture", "map_colours", "picture_kind", "picture_with_sides", "write_picture"]

_MOST_ROWS, _MOST_COLUMNS = 2000, 2000
_MOST_NAMES = 80
_STRIP, _GAP = 24, 2  # pixels
_STRIP_SHARE, _GAP_SHARE = 0.04, 0.15  # of the width of the map, and of a strip
_KINDS = ("png", "pdf", "svg")


def map_colours(session: Session, rows: int = _MOST_ROWS) -> np.ndarray:
    """Red, green and blue of the whole map, of at most so many rows, 2000 columns of cells."""
    pyramid, order = session.pyramid, session.column_order
    level = pyramid.level_of(rows)
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


def picture_with_sides(
    session: Session, rows: int = 400, width: int = 400
) -> tuple[np.ndarray, list[tuple[float, str]]]:  # fmt: skip
    """The map with the target and the scores beside it, and the names along its width.

    Bytes of at most about these rows and columns; places of the names are from 0 to 1.
    """
    level = session.pyramid.level_of(rows)
    cells = map_colours(session, rows)
    times = max(1, width // cells.shape[1])
    gap = np.full((cells.shape[0], _GAP, 3), 255, np.uint8)
    parts, names, at = [], [], 0
    for number, side in enumerate(session.sides):
        parts += [_strip(session, number, level), gap]
        names.append((at + _STRIP / 2, side.name))
        at += _STRIP + _GAP
    parts.append(np.repeat(cells, times, axis=1))
    order = session.column_order
    if order.size <= _MOST_NAMES:
        names += [(at + (k + 0.5) * times, session.columns[j].name) for k, j in enumerate(order)]
    pixels = np.concatenate(parts, axis=1)
    return pixels, [(place / pixels.shape[1], name) for place, name in names]


def _strip(session: Session, number: int, level: int) -> np.ndarray:
    """Beside the map: the colour of a mean, or the shares of classes from left to right."""
    height = session.pyramid.rows(level)
    told = np.frombuffer(session.side(number, level, 0, height), np.uint8)
    tables = colour_tables()
    if not session.sides[number].is_category:
        return np.repeat(tables["number"][told][:, None], _STRIP, axis=1)
    ends = np.cumsum(told.reshape(-1, height).astype(np.int64), axis=0)
    along = (np.arange(_STRIP) + 0.5) * 255 / _STRIP
    classes = (ends[:, :, None] <= along).sum(axis=0)
    colours = np.vstack([tables["category"][: len(ends)], tables["category"][MISSING]])
    return colours[classes]


def draw_picture(session: Session, axes: Any = None) -> Any:
    """The map and what is beside it on axes of Matplotlib, new ones if none are given."""
    if axes is None:
        figure = needed("matplotlib.figure").Figure(figsize=(7, 5), layout="constrained")
        axes = figure.subplots()
    names = [session.columns[j].name for j in session.column_order]
    n = session.order.size
    place = {"aspect": "auto", "interpolation": "nearest"}
    axes.imshow(map_colours(session), extent=(-0.5, len(names) - 0.5, n, 0), **place)
    ticks: list[tuple[float, str]] = list(enumerate(names)) if len(names) <= _MOST_NAMES else []
    left, width = -0.5, max(_STRIP_SHARE * len(names), 0.1)
    level = session.pyramid.level_of(_MOST_ROWS)
    for number, side in enumerate(session.sides):
        right = left - _GAP_SHARE * width
        left = right - width
        axes.imshow(_strip(session, number, level), extent=(left, right, n, 0), **place)
        ticks.append(((left + right) / 2, side.name))
    axes.set_xlim(left, len(names) - 0.5)
    axes.set_xticks([at for at, _ in ticks], [name for _, name in ticks], rotation=90)
    axes.set_ylabel(f"{n:,} rows, in the order {session.order_name!r}")
    _name_classes(session, axes)
    return axes


def _name_classes(session: Session, axes: Any) -> None:
    """The colours of the classes beside the map, under it."""
    patch, colours = needed("matplotlib.patches").Patch, colour_tables()["category"] / 255.0
    shown = [
        patch(color=colours[k], label=f"{side.name}: {word}")
        for side in session.sides for k, word in enumerate(shown_classes(side))
    ]  # fmt: skip
    if shown:
        axes.figure.legend(handles=shown, loc="outside lower center", ncols=4, fontsize="small")


def picture_kind(path: str | Path) -> str:
    """The format of a picture, by its suffix."""
    kind = Path(path).suffix.lower().removeprefix(".") or "png"
    if kind not in _KINDS:
        raise ValueError(f"{path}: a picture ends in .png, .pdf or .svg")
    return kind


def write_picture(session: Session, path: str | Path) -> None:
    """The map as a file; its suffix says the format, .png, .pdf or .svg."""
    kind = picture_kind(path)
    figure = draw_picture(session).figure
    with atomic_file(path) as file:
        figure.savefig(file, format=kind, dpi=200)
