"""``thresher explore``: a table as one heat map, on a page of this machine or in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from thresher.cli import show
from thresher.cli.plugins import load_plugins
from thresher.orderings.row_ordering import RowOrdering
from thresher.training import load_model
from thresher.views.explorer.explore import check_outlets, open_session, serve
from thresher.views.explorer.page import write_page
from thresher.views.explorer.picture import write_picture
from thresher.views.explorer.session import Session

__all__ = ["explore"]


def explore(
    paths: list[str], target: str | None, model: Path | None, ignore: list[str],
    html: Path | None, png: Path | None, port: int, browser: bool, memory: int, seed: int,
    reading: dict[str, Any], plugins: list[Path], as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    check_outlets(html, png, port)
    with show.Live(quiet or as_json) as live:
        known = None if model is None else load_model(model, load_plugins(plugins))
        ordering = RowOrdering(random_state=seed, n_jobs=-1)
        session = open_session(
            paths, target, known, ordering, ignore, memory, live.say, **reading
        )  # fmt: skip
    if html is None and png is None:
        _serve(session, port, browser, as_json)
        return
    told: dict[str, Any] = {"files": [str(p) for p in (html, png) if p is not None]}
    if html is not None:
        told["rows_per_cell"] = write_page(session, html)
    if png is not None:
        write_picture(session, png)
    if as_json:
        show.print_json({**told, "rows": int(session.order.size), "stride": session.stride})
    elif not quiet:
        show.console.print(f"wrote {', '.join(told['files'])}", soft_wrap=True)


def _serve(session: Session, port: int, browser: bool, as_json: bool) -> None:
    def say(line: str) -> None:
        if as_json and line.startswith("http"):
            show.print_json({"url": line})
        else:
            show.console.print(line, soft_wrap=True, markup=False)

    if not as_json:
        show.console.print("The explorer ends when its page is closed, or with Ctrl-C:")
    serve(session, port, browser, say)
