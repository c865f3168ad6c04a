"""``thresher explore``: a table as one heat map, on a page of this machine or in a file."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Any

import numpy as np

from thresher._threads import cores
from thresher.cli import show
from thresher.cli.plugins import load_plugins
from thresher.data import DataError, open_data
from thresher.data.errors import nearest
from thresher.data.record_batches import record_batches
from thresher.orderings.row_ordering import RowOrdering
from thresher.training import Model, load_model
from thresher.views.explorer.page import write_page
from thresher.views.explorer.reading import Read, read_table
from thresher.views.explorer.server import Server
from thresher.views.explorer.session import Session

__all__ = ["explore"]


def explore(
    paths: list[str], target: str | None, model: Path | None, ignore: list[str],
    html: Path | None, png: Path | None, port: int, browser: bool, memory: int, seed: int,
    reading: dict[str, Any], plugins: list[Path], as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    with show.Live(quiet or as_json) as live:
        session = _opened(paths, target, model, ignore, memory, seed, reading, plugins, live)
    if html is None and png is None:
        _serve(session, port, browser, as_json)
        return
    told: dict[str, Any] = {"files": [str(p) for p in (html, png) if p is not None]}
    if html is not None:
        told["rows_per_cell"] = write_page(session, html)
    if png is not None:
        from thresher.views.explorer.picture import write_picture

        write_picture(session, png)
    if as_json:
        show.print_json(told)
    elif not quiet:
        show.console.print(f"wrote {', '.join(told['files'])}", soft_wrap=True)


def _opened(
    paths: list[str], target: str | None, model: Path | None, ignore: list[str], memory: int,
    seed: int, reading: dict[str, Any], plugins: list[Path], live: show.Live,
) -> Session:  # fmt: skip
    data = open_data(paths, target=target, **reading)
    name = None if data.schema.target is None else data.schema.target.name
    live.say("reading")
    read = read_table(record_batches(data), memory)
    scores = None
    if model is not None:
        live.say("scoring")
        scores = _scores(load_model(model, load_plugins(plugins)), paths, read, reading)
    table = read.table
    for column in ignore:
        if column not in table.column_names:
            raise DataError(
                f"no column {column!r} to ignore: {nearest(column, table.column_names)}"
            )
    live.say(f"ordering {table.num_rows:,} rows")
    return Session(
        table.drop_columns(ignore), name, scores, RowOrdering(random_state=seed, n_jobs=-1),
        title=str(data.name), stride=read.stride, threads=cores(),
    )  # fmt: skip


def _scores(model: Model, paths: list[str], read: Read, reading: dict[str, Any]) -> np.ndarray:
    """One number for each row that was read: the score, or the largest of several classes."""
    parts = [part.scores for part in model.predictions(model.open(paths, **reading))]
    scores = np.concatenate(parts)
    if scores.shape[0] != read.n_rows:
        raise DataError(f"the model scores {scores.shape[0]} of {read.n_rows} rows: some are bad")
    scores = scores.reshape(read.n_rows, -1).max(axis=1)
    return scores[:: read.stride].astype(np.float64)


def _serve(session: Session, port: int, browser: bool, as_json: bool) -> None:
    server = Server(session, port)
    if as_json:
        show.print_json({"url": server.url})
    else:
        show.console.print(f"open {server.url}", soft_wrap=True, markup=False)
    if browser and not webbrowser.open(server.url):
        show.console.print("no browser was found: open the address yourself")
    if not as_json:
        show.console.print("it ends when the page is closed, or with Ctrl-C")
    server.run()
