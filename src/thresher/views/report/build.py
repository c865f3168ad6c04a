"""A report of a trained model: one self-contained page, a PDF or a picture."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from thresher._files import output_file
from thresher.training import Model, load_model
from thresher.views.charts.shapes import Chart
from thresher.views.charts.style import have, needed
from thresher.views.report.chosen import chosen
from thresher.views.report.clusters import clusters
from thresher.views.report.evidence import Evidence, gathered
from thresher.views.report.facts import costs, data, summary, winner
from thresher.views.report.learning import learning, weights
from thresher.views.report.ordered import ordered
from thresher.views.report.page import page
from thresher.views.report.performance import performance
from thresher.views.report.refits import Fits
from thresher.views.report.reproduce import reproduce
from thresher.views.report.section import Section
from thresher.views.report.tasks import weights_by_task
from thresher.views.report.trials import tried

__all__ = ["sections_of", "write_report"]

_Path = str | os.PathLike[str]


def write_report(
    model: Model | _Path,
    data: Any = None,
    html: _Path | None = None,
    pdf: _Path | None = None,
    png: _Path | None = None,
    *,
    quick: bool = False,
    seconds: float = 20.0,
    static: bool | None = None,
    title: str | None = None,
    on_line: Callable[[str], None] = lambda line: None,
    **reading: Any,
) -> list[Section]:
    """Write a report of a model, as it does on ``data`` if some is given.

    Parameters
    ----------
    model : Model or path of a model file
    data : file, files, data frame, matrix or None, default=None
        What the model can predict, read once and in bounded memory; None: only what the training
        has kept.
    html : path or None, default=None
        Where to write one page that loads nothing from elsewhere.
    pdf, png : path or None, default=None
        Where to write the same figures, drawn by Matplotlib.
    quick : bool, default=False
        Leave out what has to learn again: learning curve, stability of weights, sparsity path.
    seconds : float, default=20.0
        Time for each of these; what is not done by then is left out.
    static : bool or None, default=None
        Pictures instead of interactive plots in the page; None: if Bokeh is not installed.
    title : str or None, default=None
        Of the page; None: it names the model file.
    on_line : callable
        Called with a line of progress now and then; by default nobody is.
    **reading : options of ``thresher.open_data``

    Returns
    -------
    sections : list
        The sections of the report, as plain data.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from thresher import train
    >>> from thresher.views import write_report
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = train(X, (X[:, 0] > 0).astype(int))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = Path(folder, "report.html")
    ...     sections = write_report(model, html=page, quick=True)
    ...     page.exists(), len(sections) > 2
    (True, True)
    """
    if html is None and pdf is None and png is None:
        raise ValueError("a report needs a file to go to: html=, pdf= or png=")
    _check(html, pdf, png, static)
    if not isinstance(model, Model):
        title = title or f"Report on {Path(model).name}"
        model = load_model(model)
    sections = sections_of(model, data, quick, seconds, on_line, **reading)
    title = title or "Report on a model"
    charts = [chart for section in sections for chart in section.charts]
    on_line(f"drawing  {len(charts)} figures")
    if html is not None:
        _write_html(html, title, sections, charts, not have("bokeh") if static is None else static)
    if pdf is not None or png is not None:
        _write_static(pdf, png, title, sections, charts)
    return sections


def _check(html: _Path | None, pdf: _Path | None, png: _Path | None, static: bool | None) -> None:
    """Better now than after the work."""
    if pdf is not None or png is not None or (html is not None and static):
        needed("matplotlib")
    if html is not None and not static and not have("bokeh"):
        needed("bokeh" if static is False or not have("matplotlib") else "matplotlib")
    for path in (html, pdf, png):
        if path is not None and not Path(path).parent.is_dir():
            raise ValueError(f"{os.fspath(path)}: there is no folder {Path(path).parent}")


def sections_of(
    model: Model, given: Any, quick: bool, seconds: float, on_line: Callable[[str], None],
    **reading: Any,
) -> list[Section]:  # fmt: skip
    """Everything that there is to say, in the order of reading."""
    found = gathered(model, given, on_line, **reading)
    if not model.is_supervised:
        grouped = clusters(found) if found.has_clusters else None
        parts = [summary(found), data(found), tried(model.training), winner(found),
                 grouped, costs(found), reproduce(model)]  # fmt: skip
        return [section for section in parts if section is not None]
    fits = _fits(found, quick, seconds, on_line)
    sections = [
        summary(found), data(found), ordered(found), tried(model.training), winner(found),
        performance(found),
        weights(found, fits() if fits is not None and model.has_weights else None),
        chosen(found), weights_by_task(found), learning(found, fits), costs(found),
        reproduce(model),
    ]  # fmt: skip
    return [section for section in sections if section is not None]


def _fits(
    found: Evidence, quick: bool, seconds: float, on_line: Callable[[str], None]
) -> Callable[[], Fits] | None:
    if quick or found.sample is None or not found.sample.size:
        return None
    return lambda: Fits(found, seconds, on_line)


def _write_html(
    path: _Path, title: str, sections: list[Section], charts: list[Chart], static: bool
) -> None:
    if static:
        from thresher.views.charts.static import pictures

        script, plots = "", pictures(charts)
    else:
        from thresher.views.charts.interactive import embedded

        script, plots = embedded(charts)
    made = f"Made by Thresher on {datetime.now().astimezone():%Y-%m-%d %H:%M %Z}."
    text = page(title, sections, script, plots, made)
    with output_file(path) as file:
        file.write(text.encode())


def _write_static(
    pdf: _Path | None, png: _Path | None, title: str, sections: list[Section], charts: list[Chart]
) -> None:
    from thresher.views.charts.static import write_pdf, write_png

    if pdf is not None:
        lines = [line for section in sections for line in section.lines()]
        write_pdf(pdf, title, lines, charts)
    if png is not None:
        write_png(png, title, charts)
