"""Look at any data: on a page of this machine, in a file of its own, or as a picture."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.utils.validation import check_is_fitted

from thresher._threads import cores
from thresher.data import DataError, DataSet, open_data
from thresher.data.errors import nearest
from thresher.data.record_batches import record_batches
from thresher.orderings.row_ordering import RowOrdering
from thresher.training import Model
from thresher.views.explorer.beside import Crowd, place_beside
from thresher.views.explorer.codes import CodedColumn
from thresher.views.explorer.orders import RowOrder
from thresher.views.explorer.page import write_page
from thresher.views.explorer.picture import draw_picture, picture_kind, write_picture
from thresher.views.explorer.reading import Read, read_table
from thresher.views.explorer.server import Server, check_port
from thresher.views.explorer.session import Session

__all__ = ["MEMORY", "check_outlets", "explore", "open_session", "plot_ordering", "serve"]

MEMORY = 4 << 30


def explore(
    data: Any,
    target: str | int | None = None,
    *,
    model: Model | None = None,
    ordering: RowOrdering | None = None,
    ignore: Collection[str] = (),
    html: str | Path | None = None,
    png: str | Path | None = None,
    browser: bool = True,
    port: int = 0,
    memory: int = MEMORY,
    **options: Any,
) -> None:
    """Show a table as one heat map, rows and columns in an order with neighbours alike.

    Opens a page, and returns when it is closed; with ``html`` or ``png`` writes files instead.

    Parameters
    ----------
    data : path, glob, list of them, data frame, or matrix
    target : str, int or None, default=None
        A column to show beside the map; it has no part in the order.
    model : Model or None, default=None
        One whose scores are shown beside it.
    ordering : RowOrdering or None, default=None
        How rows are ordered; one that is fitted to these rows is taken as it is.
    ignore : collection of str, default=()
        Columns to leave out.
    html : path or None, default=None
        Write a page that needs no server.
    png : path or None, default=None
        Write a picture; it may also end in .pdf or .svg.
    browser : bool, default=True
        Open the page; False: only print its address.
    port : int, default=0
        Of the page; 0: any that is free.
    memory : int, default=4 GiB
        Bytes; of a larger table every second, fourth, ... row is kept and ordered, and the others
        are placed beside these.
    **options : as :func:`thresher.open_data` takes them

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib
    >>> from thresher.views import explore
    >>> page = pathlib.Path(tempfile.mkdtemp()) / "page.html"
    >>> explore(np.eye(5), html=page)
    >>> page.read_text().startswith("<!doctype html>")
    True
    """
    check_outlets(html, png, port)
    session = open_session(data, target, model, ordering, ignore, memory, **options)
    if html is not None:
        write_page(session, html)
    if png is not None:
        write_picture(session, png)
    if html is None and png is None:
        serve(session, port, browser, print)


def plot_ordering(ordering: RowOrdering, X: Any, ax: Any = None) -> Any:
    """Draw the rows that an ordering was fitted to, in its order, as a heat map.

    Parameters
    ----------
    ordering : fitted RowOrdering
    X : array, frame or sparse matrix
        The rows that the order was fitted to.
    ax : Matplotlib axes or None, default=None
        None: new ones.

    Returns
    -------
    ax : Matplotlib axes

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import RowOrdering
    >>> from thresher.views import plot_ordering
    >>> X = np.random.default_rng(0).random((30, 4))
    >>> ax = plot_ordering(RowOrdering(random_state=0).fit(X), X)
    >>> ax.images[0].get_array().shape
    (30, 4, 3)
    """
    check_is_fitted(ordering)
    return draw_picture(open_session(X, ordering=ordering), ax)


def check_outlets(html: str | Path | None, png: str | Path | None, port: int) -> None:
    """Whether the map can be written or served where it is asked for, before it is made."""
    for path in (html, png):
        if path is not None and not Path(path).absolute().parent.is_dir():
            folder = Path(path).absolute().parent
            raise FileNotFoundError(f"could not write {path}: no folder {folder}")
    if png is not None:
        picture_kind(png)
    if html is None and png is None:
        check_port(port)


def serve(session: Session, port: int, browser: bool, say: Callable[[str], Any]) -> None:
    """Open the page of a session, and serve it until it is closed."""
    server = Server(session, port)
    say(server.url)
    if browser and not webbrowser.open(server.url):
        say("no browser was found: open the address above yourself")
    server.run()


def open_session(
    data: Any,
    target: str | int | None = None,
    model: Model | None = None,
    ordering: RowOrdering | None = None,
    ignore: Collection[str] = (),
    memory: int = MEMORY,
    say: Callable[[str], Any] = lambda line: None,
    **options: Any,
) -> Session:
    """Read, score, order: what a page shows."""
    data = _named(data)
    opened = open_data(data, target=target, **options)
    goal = opened.schema.target
    say("reading")
    read = read_table(record_batches(opened), memory)
    names = read.table.column_names
    for column in ignore:
        if column not in names:
            raise DataError(f"no column {column!r} to ignore: {nearest(column, names)}")
    scores = None
    if model is not None:
        say("scoring")
        scores = _scores(model, model.open(data, **options), read)
    say(f"ordering {read.table.num_rows:,} rows")
    kept = read.table.drop_columns(list(ignore))
    given = ordering is not None and hasattr(ordering, "order_")

    def rest(columns: Sequence[CodedColumn], rows: RowOrder) -> Crowd:
        say(f"placing the other {read.n_rows - read.table.num_rows:,} rows")
        return place_beside(
            record_batches(opened), columns, rows, read.stride, read.n_rows, say
        )  # fmt: skip

    return Session(
        kept, None if goal is None else goal.name, scores,
        ordering or RowOrdering(random_state=0, n_jobs=-1), title=opened.name,
        stride=read.stride, threads=cores(),
        rest=rest if read.stride > 1 and kept.num_rows > 2 and not given else None,
    )  # fmt: skip


def _named(data: Any) -> Any:
    """A matrix as a table, in which values may be missing; everything else as it is."""
    if not isinstance(data, np.ndarray) or data.ndim != 2:
        return data
    return pa.table([pa.array(x) for x in data.T], names=[f"x{j + 1}" for j in range(len(data.T))])


def _scores(model: Model, data: DataSet, read: Read) -> np.ndarray:
    """One number for each row that was read: the score, or the largest of several classes."""
    scores = np.concatenate([part.scores for part in model.predictions(data)])
    if scores.shape[0] != read.n_rows:
        raise DataError(f"the model scores {scores.shape[0]} of {read.n_rows} rows: some are bad")
    scores = scores.reshape(read.n_rows, -1).max(axis=1)
    return scores[:: read.stride].astype(np.float64)
