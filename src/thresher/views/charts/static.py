"""The same charts drawn by Matplotlib: PDF pages, one PNG, or pictures within a page."""

from __future__ import annotations

import base64
import io
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from thresher._files import output_file
from thresher.views.charts.shapes import Bars, Chart, Heatmap, Line, Parallel, Picture, Points
from thresher.views.charts.style import GREY, OKABE_ITO, axes, needed, style

__all__ = ["drawn", "pictures", "plotted", "write_pdf", "write_png"]

_DASH = {"solid": "-", "dashed": "--", "dotted": ":", "dashdot": "-."}
_MARK = {
    "circle": "o", "square": "s", "triangle": "^", "diamond": "D", "inverted_triangle": "v",
    "x": "x", "plus": "+", "star": "*",
}  # fmt: skip
_CORNER = {
    "top_right": "upper right", "top_left": "upper left", "bottom_right": "lower right",
    "bottom_left": "lower left",
}  # fmt: skip


def pictures(charts: Sequence[Chart]) -> dict[str, str]:
    """An <img> with the picture inside for each chart's key."""
    from html import escape

    out = {}
    for chart in charts:
        with _figure(chart.wide, chart.height) as figure:
            drawn(chart, figure.add_subplot())
            file = io.BytesIO()
            figure.savefig(file, format="png", dpi=110)
        code = base64.b64encode(file.getvalue()).decode()
        alt = escape(chart.alt, quote=True)
        out[chart.key] = f'<img class="static" alt="{alt}" src="data:image/png;base64,{code}">'
    return out


def write_pdf(
    path: str | os.PathLike[str], title: str, lines: list[str], charts: list[Chart]
) -> None:
    """A page of text, then the figures, each with its caption."""
    pages = needed("matplotlib.backends.backend_pdf").PdfPages
    with output_file(path) as file, pages(file, metadata={"Title": title}) as pdf:
        for start in range(0, max(len(lines), 1), 46):
            with _page() as figure:
                figure.text(0.08, 0.93, _plain(title), size=17, weight="bold", va="top")
                text = "\n".join(map(_plain, lines[start : start + 46]))
                figure.text(0.08, 0.88, text, size=9.5, va="top", linespacing=1.5)
                pdf.savefig(figure)
        for pair in _pairs(charts):
            with _page() as figure:
                for place, chart in enumerate(pair):
                    _on_page(figure, chart, place)
                pdf.savefig(figure)


def write_png(path: str | os.PathLike[str], title: str, charts: list[Chart]) -> None:
    """All figures side by side."""
    columns = 2 if len(charts) < 5 else 3
    rows = max(1, math.ceil(len(charts) / columns))
    with _canvas(6.0 * columns, 4.6 * rows + 0.6) as figure:
        figure.suptitle(_plain(title), size=17, weight="bold")
        for place, chart in enumerate(charts, start=1):
            drawn(chart, figure.add_subplot(rows, columns, place))
        with output_file(path) as file:
            figure.savefig(file, format="png", dpi=100)


def _pairs(charts: list[Chart]) -> Iterator[list[Chart]]:
    """Two figures to a page; tall ones alone."""
    page: list[Chart] = []
    for chart in charts:
        if page and (len(page) == 2 or chart.height > 420 or page[0].height > 420):
            yield page
            page = []
        page.append(chart)
    if page:
        yield page


def _on_page(figure: Any, chart: Chart, place: int) -> None:
    tall = chart.height > 420
    bottom = 0.14 if tall else 0.6 - 0.47 * place
    left = 0.34 if any(isinstance(layer, Bars) for layer in chart.layers) else 0.12
    drawn(chart, figure.add_axes((left, bottom, 0.94 - left, 0.76 if tall else 0.31)))
    caption = "\n".join(_wrapped(_plain(chart.caption), 105))
    figure.text(0.08, bottom - 0.055, caption, size=8.5, va="top", color="#333333")


def _wrapped(text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width)


@contextmanager
def _canvas(width: float, height: float, layout: str | None = "constrained") -> Iterator[Any]:
    """A figure that belongs to nobody: pyplot's state and the user's backend are left alone."""
    needed("matplotlib.backends.backend_agg")
    figure = needed("matplotlib.figure").Figure(figsize=(width, height), layout=layout)
    yield figure


def _page() -> Any:
    return _canvas(8.27, 11.69, None)


def _figure(wide: bool, height: int) -> Any:
    return _canvas(9.0 if wide else 4.6, height / 96)


def _plain(text: str) -> str:
    """Text as it is: a dollar would begin a formula."""
    return text.replace("\\", "\\\\").replace("$", r"\$")


def drawn(chart: Chart, ax: Any) -> Any:
    """Draw on these axes."""
    for layer in chart.layers:
        _DRAW[type(layer)](ax, layer)
    ax.set_title(_plain(chart.title), size=11, loc="left", weight="bold")
    ax.set_xlabel(_plain(chart.x))
    ax.set_ylabel(_plain(chart.y))
    if chart.log_x:
        ax.set_xscale("log")
    if chart.log_y:
        ax.set_yscale("log")
    if chart.x_range:
        ax.set_xlim(chart.x_range)
    if chart.y_range:
        ax.set_ylim(chart.y_range)
    if ax.get_legend_handles_labels()[1]:
        ax.legend(loc=_CORNER[chart.legend], fontsize=8, framealpha=0.8)
    return ax


def plotted(chart: Chart, ax: Any, title: str | None, **options: Any) -> Any:
    """On a user's axes or new ones, under the user's title if there is one."""
    ax = drawn(chart, axes(ax, **options))
    if title is not None:
        ax.set_title(title)
    return ax


def _line(ax: Any, layer: Line) -> None:
    label = _plain(layer.label) or None
    if layer.number is None:
        ax.plot(layer.x, layer.y, color=GREY, linestyle=":", label=label)
        return
    colour, dash, marker = style(layer.number)
    how: dict[str, Any] = {"drawstyle": "steps-post"} if layer.steps else {}
    mark = {"marker": _MARK[marker], "markersize": 5} if layer.markers else {}
    ax.plot(layer.x, layer.y, color=colour, linestyle=_DASH[dash], label=label, **how, **mark)
    ax.grid(alpha=0.3)


def _points(ax: Any, layer: Points) -> None:
    colour, _, marker = style(layer.number)
    label = _plain(layer.label) or None
    ax.scatter(layer.x, layer.y, s=layer.size**2 / 2, color=colour, marker=_MARK[marker],
               alpha=0.6, label=label, linewidths=0.8)  # fmt: skip
    ax.grid(alpha=0.3)


def _bars(ax: Any, layer: Bars) -> None:
    values, place = np.asarray(layer.values), np.arange(len(layer.names))
    for chosen, number, text, hatch in (
        (values >= 0.0, 0, layer.right, None),
        (values < 0.0, 1, layer.left, "///"),
    ):
        if chosen.any():
            ax.barh(place[chosen], values[chosen], height=0.7, color=OKABE_ITO[number],
                    hatch=hatch, edgecolor="white", label=text)  # fmt: skip
    if layer.low is not None and layer.high is not None:
        middle, half = (layer.low + layer.high) / 2, (layer.high - layer.low) / 2
        ax.errorbar(middle, place, xerr=half, fmt="none", ecolor="black", capsize=3)
    ax.set_yticks(place, [_plain(n if len(n) <= 34 else n[:33] + "…") for n in layer.names], size=8)
    ax.set_ylim(len(layer.names) - 0.4, -0.6)
    ax.axvline(0.0, color="black", linewidth=1)


def _heatmap(ax: Any, layer: Heatmap) -> None:
    colours = needed("matplotlib.colors")
    ends = [OKABE_ITO[1], "white", OKABE_ITO[0]]
    ramp = colours.LinearSegmentedColormap.from_list("signed", ends)
    ax.imshow(layer.shares, cmap=ramp, vmin=-1.0, vmax=1.0, aspect="auto")
    names, across = ([_plain(str(n)[:20]) for n in side] for side in (layer.names, layer.across))
    ax.set_xticks(np.arange(len(across)), across, size=8, rotation=45 if len(across) > 5 else 0)
    ax.set_yticks(np.arange(len(names)), names, size=8)
    for i, row in enumerate(layer.texts):
        for j, text in enumerate(row):
            ink = "white" if abs(layer.shares[i, j]) > 0.5 else "black"
            ax.text(j, i, text, color=ink, ha="center", va="center", size=8)


def _parallel(ax: Any, layer: Parallel) -> None:
    ramp = needed("matplotlib").colormaps["cividis_r"]
    order = np.argsort(layer.merit, kind="stable")
    axes = np.arange(len(layer.names))
    for i in order:
        wide = 3.0 if i == order[-1] else 1.2
        ax.plot(axes, layer.places[i], color=ramp(layer.merit[i]), linewidth=wide, alpha=0.85)
    for place, ticks in enumerate(layer.ticks):
        ax.axvline(place, color="black", linewidth=1)
        side = "right" if place == axes[-1] else "left"
        for height, text in ticks:
            ax.annotate(_plain(text), (place, height), (-3 if side == "right" else 3, 0),
                        textcoords="offset points", size=7, ha=side, va="center")  # fmt: skip
    ax.set_xticks(axes, [_plain(n) for n in layer.names], size=8)
    ax.set_yticks([])
    ax.set_ylim(-0.05, 1.05)


def _picture(ax: Any, layer: Picture) -> None:
    ax.imshow(layer.pixels, extent=(0, 1, 0, 1), aspect="auto", interpolation="nearest")
    places, names = [place for place, _ in layer.names], [_plain(name) for _, name in layer.names]
    ax.set_xticks(places, names, size=7, rotation=60, ha="right")
    ax.set_yticks([])


_DRAW: dict[type, Any] = {
    Line: _line, Points: _points, Bars: _bars, Heatmap: _heatmap, Parallel: _parallel,
    Picture: _picture,
}  # fmt: skip
