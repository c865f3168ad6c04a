"""The explorer's page in a notebook: the same page in a frame, without a server or a port.

Questions and answers go through the notebook's own connection to its kernel, so that it works where
the notebook does, on a machine far away too.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib.resources import files
from typing import Any

from thresher.orderings.row_ordering import RowOrdering
from thresher.training import Model
from thresher.views.charts.style import needed
from thresher.views.explorer.answers import WRONG, answered
from thresher.views.explorer.explore import MEMORY, open_session
from thresher.views.explorer.page import framed_page
from thresher.views.explorer.session import Session

__all__ = ["explorer_widget", "reply"]


def explorer_widget(
    data: Any,
    target: str | int | None = None,
    *,
    model: Model | None = None,
    ordering: RowOrdering | None = None,
    ignore: Collection[str] = (),
    height: int = 640,
    memory: int = MEMORY,
    **options: Any,
) -> Any:
    """A table as one heat map in a notebook; needs ``anywidget`` (``thresher[notebook]``).

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
    height : int, default=640
        Pixels.
    memory : int, default=4 GiB
        Bytes; of a larger table some rows are ordered and the others placed beside them.
    **options : as :func:`thresher.open_data` takes them

    Returns
    -------
    widget : anywidget.AnyWidget
        With the table, orders and named selections in its ``session``.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.views import explorer_widget
    >>> widget = explorer_widget(np.eye(5))  # doctest: +SKIP
    >>> widget.session.named  # what was selected, after some looking  # doctest: +SKIP
    {}
    """
    session = open_session(data, target, model, ordering, ignore, memory, **options)
    return _widget(session, height)


def reply(session: Session, asked: Any) -> tuple[dict[str, Any], list[bytes]]:
    """The answer to a message of the page, and the bytes that go with it."""
    try:
        question = asked["id"], str(asked["path"]), asked["body"]
    except WRONG:
        return {"id": None, "wrong": "not a question"}, []
    try:
        answer = answered(session, *question[1:])
    except WRONG as error:
        return {"id": question[0], "wrong": str(error) or type(error).__name__}, []
    if isinstance(answer, bytes):
        return {"id": question[0]}, [answer]
    return {"id": question[0], "value": answer}, []


def _widget(session: Session, height: int) -> Any:
    anywidget = needed("anywidget", "notebook")
    traitlets = needed("traitlets", "notebook")

    class Explorer(anywidget.AnyWidget):  # type: ignore[misc, name-defined]
        _esm = files("thresher.views.explorer").joinpath("widget.js").read_text("utf-8")
        page = traitlets.Unicode().tag(sync=True)
        height = traitlets.Int().tag(sync=True)

    widget = Explorer(page=framed_page(), height=height)
    widget.session = session

    def answer(_: Any, content: Any, buffers: Any) -> None:
        message, parts = reply(session, content)
        widget.send(message, parts)

    widget.on_msg(answer)
    return widget
