"""The data in an order in which rows are alike, with targets and scores beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from thresher._threads import cores
from thresher.orderings.row_ordering import RowOrdering
from thresher.views.charts.shapes import Chart, Picture
from thresher.views.explorer.picture import picture_with_sides
from thresher.views.explorer.session import Session
from thresher.views.report.evidence import Evidence
from thresher.views.report.section import Section

__all__ = ["ordered"]

_MOST_ROWS, _MOST_COLUMNS = 4000, 60
_TARGET = "the target"


def ordered(found: Evidence) -> Section | None:
    """A map of some rows; None without rows to show."""
    if found.sample is None or not found.sample.size:
        return None
    X, y, _ = found.matrix()
    rows = np.linspace(0, X.shape[0] - 1, min(X.shape[0], _MOST_ROWS)).astype(np.int64)
    X, y = X[rows], y[rows]
    chosen = _columns(X)
    names = found.model.schema.feature_names() or [f"x{j + 1}" for j in range(X.shape[1])]
    part = X[:, chosen]
    part = part.toarray() if hasattr(part, "indptr") else np.asarray(part)
    table = {_free(str(names[j]), names): part[:, k] for k, j in enumerate(chosen)}
    table[_TARGET] = np.asarray(y if found.model.classes is None else y.astype(str))
    session = Session(
        pa.table(table), _TARGET, _scores(found)[rows], RowOrdering(random_state=0, n_jobs=-1),
        threads=cores(),
    )  # fmt: skip
    section = Section("map", "The data in order")
    section.paragraphs = [_words(found, rows.size, X.shape[1], chosen.size)]
    section.charts = [_chart(session)]
    return section


def _columns(X: Any) -> np.ndarray:
    """All columns that vary, or the fullest of them."""
    if hasattr(X, "indptr"):
        filled = np.bincount(X.indices, minlength=X.shape[1])
    else:
        filled = np.count_nonzero(np.not_equal(X, X[0]), axis=0)
    fullest = np.argsort(-filled, kind="stable")[:_MOST_COLUMNS]
    return np.sort(fullest[filled[fullest] > 0]) if filled.any() else fullest[:1]


def _free(name: str, names: Any) -> str:
    return f"{name} (column)" if name in (_TARGET, "score") and name in names else name


def _scores(found: Evidence) -> np.ndarray:
    """One number for each row: the score, or the largest of several classes."""
    assert found.sample is not None
    scores = found.model.predicted(found.sample).scores
    return np.asarray(scores, dtype=np.float64).reshape(scores.shape[0], -1).max(axis=1)


def _words(found: Evidence, rows: int, columns: int, shown: int) -> str:
    some = f"{shown} of {columns:,} columns, those with most values" if shown < columns else (
        f"{columns} columns")  # fmt: skip
    return (
        f"{rows:,} rows of {found.name} and {some}, in an order in which neighbours are alike. To "
        "the left of the map are the target and the scores of the model, which have no part in the "
        "order: where one changes and the other does not, the model is wrong about a whole region. "
        "`thresher explore` shows such a map of all rows on a page."
    )


def _chart(session: Session) -> Chart:
    pixels, names = picture_with_sides(session)
    return Chart(
        "map", "Rows in order", "Blue is low and orange high among the values of a column; dark "
        "grey is missing. Classes have a colour each, as wide as their share of the rows there.",
        f"a heat map of {session.order.size:,} rows and {len(session.columns)} columns",
        (Picture(pixels, names),), y="rows, neighbours alike", wide=True,
    )  # fmt: skip
