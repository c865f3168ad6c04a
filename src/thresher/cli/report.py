"""``thresher report``: a model, and how it does on some data, as a page, a PDF or a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from thresher.artifacts.container import BadFile
from thresher.cli import show
from thresher.cli.plugins import load_plugins
from thresher.training import load_model
from thresher.views.report.build import write_report

__all__ = ["report"]


def report(
    path: Path, data: list[str], html: Path | None, pdf: Path | None, png: Path | None,
    quick: bool, seconds: float, static: bool, reading: dict[str, Any], plugins: list[Path],
    as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    if html is None and pdf is None and png is None:
        html = path.with_suffix(".html")
    try:
        model = load_model(path, load_plugins(plugins))
    except BadFile as error:
        raise BadFile(f"{error} (the model comes first, the data after --data)") from None
    with show.Live(quiet or as_json) as live:
        sections = write_report(
            model, data or None, html, pdf, png, quick=quick, seconds=seconds,
            static=static or None, title=f"Report on {path.name}", on_line=live.say,
            **(reading if data else {}),
        )  # fmt: skip
    written = [str(p) for p in (html, pdf, png) if p is not None]
    figures = sum(len(section.charts) for section in sections)
    if as_json:
        show.print_json({"files": written, "figures": figures})
    elif not quiet:
        show.console.print(f"wrote {', '.join(written)} ({figures} figures)", soft_wrap=True)
