"""Charts drawn by Bokeh: interactive, in one page without any network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thresher.views.charts.shapes import Bars, Chart, Heatmap, Line, Parallel, Picture, Points
from thresher.views.charts.style import GREY, OKABE_ITO, lightened, needed, style

__all__ = ["drawn", "embedded"]

NARROW, WIDE = 440, 900


def embedded(charts: Sequence[Chart]) -> tuple[str, dict[str, str]]:
    """(scripts, a div for each chart's key); the scripts hold all of Bokeh."""
    if not charts:
        return "", {}
    embed = needed("bokeh.embed")
    resources = needed("bokeh.resources").Resources(mode="inline", components=["bokeh"])
    script, divs = embed.components({chart.key: drawn(chart) for chart in charts})
    return resources.render_js() + script, divs


def drawn(chart: Chart) -> Any:
    """A Bokeh figure."""
    figure = _figure(chart)
    for layer in chart.layers:
        _DRAW[type(layer)](figure, layer)
    if figure.legend:
        figure.legend.location = chart.legend
        figure.legend.background_fill_alpha = 0.75
        figure.legend.label_text_font_size = "9pt"
        figure.legend.spacing, figure.legend.padding = 0, 4
        figure.legend.click_policy = "hide"
    return figure


def plain(text: str) -> str:
    """Text as it is: Bokeh would take $$...$$ for a formula and fetch MathJax."""
    for mark in ("$$", "\\[", "\\("):
        text = text.replace(mark, f"{mark[0]} {mark[1]}")
    return text


def _figure(chart: Chart) -> Any:
    plotting = needed("bokeh.plotting")
    ranges: dict[str, Any] = {}
    for name, given in (("x_range", chart.x_range), ("y_range", chart.y_range)):
        if given is not None:
            ranges[name] = given
    for layer in chart.layers:
        if isinstance(layer, Bars):
            ranges["y_range"] = list(reversed(_unique(layer.names)))
        elif isinstance(layer, Heatmap):
            ranges |= {"x_range": _unique(layer.across), "y_range": _unique(layer.names)[::-1]}
    figure = plotting.figure(
        width=WIDE if chart.wide else NARROW, height=chart.height, **ranges,
        x_axis_type="log" if chart.log_x else "auto", y_axis_type="log" if chart.log_y else "auto",
        tools="pan,box_zoom,wheel_zoom,save,reset", active_scroll=None, min_border_right=16,
    )  # fmt: skip
    figure.xaxis.axis_label, figure.yaxis.axis_label = plain(chart.x), plain(chart.y)
    figure.axis.axis_label_text_font_style = "normal"
    figure.axis.major_label_text_font_size = "9pt"
    if chart.log_x:
        figure.xaxis.ticker = needed("bokeh.models").FixedTicker(ticks=_decades(chart))
        figure.xaxis.formatter = needed("bokeh.models").NumeralTickFormatter(format="0,0")
    figure.toolbar.logo = None
    figure.toolbar.autohide = True
    figure.output_backend = "canvas"
    return figure


def _decades(chart: Chart) -> list[float]:
    """1, 2 and 5 times powers of ten along a short axis, powers alone along a long one."""
    xs = [float(x) for layer in chart.layers if isinstance(layer, Line) for x in layer.x]
    low, high = np.floor(np.log10(min(xs))), np.ceil(np.log10(max(xs)))
    leads = (1.0, 2.0, 5.0) if high - low <= 2 else (1.0,)
    return [lead * 10.0**power for power in np.arange(low, high + 1) for lead in leads]


def _unique(names: Sequence[str]) -> list[str]:
    """Categorical axes need different names; long ones are cut."""
    out: list[str] = []
    for name in map(plain, names):
        short = name if len(name) <= 34 else name[:33] + "…"
        while short in out:
            short += "\u200b"  # no width: different all the same
        out.append(short)
    return out


def _hover(figure: Any, renderer: Any, tips: list[tuple[str, str]]) -> None:
    tools = needed("bokeh.models")
    figure.add_tools(tools.HoverTool(renderers=[renderer], tooltips=tips))


def _line(figure: Any, layer: Line) -> None:
    named = {"legend_label": plain(layer.label)} if layer.label else {}
    if layer.number is None:
        figure.line(layer.x, layer.y, color=GREY, line_dash="dotted", line_width=1.5, **named)
        return
    colour, dash, marker = style(layer.number)
    draw = figure.step if layer.steps else figure.line
    how = {"mode": "after"} if layer.steps else {}
    made = draw(layer.x, layer.y, color=colour, line_dash=dash, line_width=2.2, **how, **named)
    if layer.markers:
        made = figure.scatter(layer.x, layer.y, color=colour, marker=marker, size=8, **named)
    _hover(figure, made, [(figure.xaxis[0].axis_label or "x", "@x"),
                          (figure.yaxis[0].axis_label or "y", "@y")])  # fmt: skip


def _points(figure: Any, layer: Points) -> None:
    colour, _, marker = style(layer.number)
    named = {"legend_label": plain(layer.label)} if layer.label else {}
    made = figure.scatter(
        layer.x, layer.y, color=colour, marker=marker, size=layer.size, alpha=0.6, **named
    )
    _hover(figure, made, [(figure.xaxis[0].axis_label or "x", "@x"),
                          (figure.yaxis[0].axis_label or "y", "@y")])  # fmt: skip


def _bars(figure: Any, layer: Bars) -> None:
    models = needed("bokeh.models")
    names, values = _unique(layer.names), np.asarray(layer.values, dtype=np.float64)
    for chosen, number, text, hatch in (
        (values >= 0.0, 0, layer.right, " "),
        (values < 0.0, 1, layer.left, "/"),
    ):
        if not chosen.any():
            continue
        source = models.ColumnDataSource(
            {
                "name": [n for n, c in zip(names, chosen, strict=True) if c],
                "value": values[chosen],
            }
        )
        made = figure.hbar(
            y="name", right="value", height=0.7, source=source, color=OKABE_ITO[number],
            hatch_pattern=hatch, hatch_color="white", hatch_alpha=0.7, legend_label=text,
        )  # fmt: skip
        _hover(figure, made, [("feature", "@name"), ("weight", "@value")])
    if layer.low is not None and layer.high is not None:
        figure.segment(layer.low, names, layer.high, names, color="black", line_width=2)
        for ends in (layer.low, layer.high):
            figure.scatter(ends, names, marker="dash", angle=np.pi / 2, size=9, color="black")
    figure.line([0, 0], [names[-1], names[0]], color="black", line_width=1)


def _heatmap(figure: Any, layer: Heatmap) -> None:
    names, across = _unique(layer.names), _unique(layer.across)
    k = len(across)
    x, y = across * len(names), [name for name in names for _ in range(k)]
    shares = layer.shares.ravel()
    colours = [_shade(s) for s in shares]
    made = figure.rect(x, y, width=1, height=1, fill_color=colours, line_color="white")
    texts = [text for row in layer.texts for text in row]
    ink = ["white" if abs(s) > 0.5 else "black" for s in shares]
    size = "10pt" if k <= 6 else "8pt"
    figure.text(x, y, texts, text_color=ink, text_align="center", text_baseline="middle",
                text_font_size=size)  # fmt: skip
    _hover(figure, made, [(layer.sides[0], "@y"), (layer.sides[1], "@x")])
    figure.grid.grid_line_color = None
    if k > 5:
        figure.xaxis.major_label_orientation = 0.8


def _shade(share: float) -> str:
    """White to Okabe and Ito's blue, or to their vermilion below zero."""
    return lightened(OKABE_ITO[0 if share >= 0.0 else 1], 1.0 - abs(float(share)))


def _parallel(figure: Any, layer: Parallel) -> None:
    models, palettes = needed("bokeh.models"), needed("bokeh.palettes")
    ramp = palettes.Cividis256[::-1]  # dark is good
    order = np.argsort(layer.merit, kind="stable")
    axes = np.arange(len(layer.names), dtype=np.float64)
    figure.multi_line(
        [axes] * order.size, list(layer.places[order]),
        color=[ramp[int(255 * layer.merit[i])] for i in order],
        line_width=[3.5 if i == order[-1] else 1.5 for i in order], alpha=0.85,
    )  # fmt: skip
    for place, (name, ticks) in enumerate(zip(layer.names, layer.ticks, strict=True)):
        figure.line([place, place], [0, 1], color="black", line_width=1.2)
        last = place == len(layer.names) - 1
        for height, text in ticks:
            figure.add_layout(models.Label(
                x=place, y=height, text=plain(text), x_offset=-4 if last else 4, y_offset=-6,
                text_align="right" if last else "left", text_font_size="8pt",
                background_fill_color="white", background_fill_alpha=0.7,
            ))  # fmt: skip
        figure.add_layout(models.Label(
            x=place, y=1.06, text=plain(name), text_align="right" if last else "left",
            text_font_size="9pt", text_font_style="bold",
        ))  # fmt: skip
    figure.x_range = models.Range1d(-0.05, len(layer.names) - 0.95)
    figure.y_range = models.Range1d(-0.05, 1.16)
    figure.axis.visible = False
    figure.grid.grid_line_color = None


def _picture(figure: Any, layer: Picture) -> None:
    models = needed("bokeh.models")
    height, width, _ = layer.pixels.shape
    opaque = np.full((height, width, 1), 255, np.uint8)
    pixels = np.concatenate([layer.pixels, opaque], axis=2)[::-1]  # Bokeh begins at the bottom
    packed = np.ascontiguousarray(pixels).view(np.uint32).reshape(height, width)
    figure.image_rgba(image=[packed], x=0, y=0, dw=1, dh=1)
    figure.x_range, figure.y_range = models.Range1d(0, 1), models.Range1d(0, 1)
    places = [place for place, _ in layer.names]
    figure.xaxis.ticker = models.FixedTicker(ticks=places)
    figure.xaxis.major_label_overrides = {place: plain(name) for place, name in layer.names}
    figure.xaxis.major_label_orientation = 1.1
    figure.yaxis.major_tick_line_color = figure.yaxis.minor_tick_line_color = None
    figure.yaxis.major_label_text_font_size = "0pt"
    figure.grid.grid_line_color = None


_DRAW: dict[type, Any] = {
    Line: _line, Points: _points, Bars: _bars, Heatmap: _heatmap, Parallel: _parallel,
    Picture: _picture,
}  # fmt: skip
