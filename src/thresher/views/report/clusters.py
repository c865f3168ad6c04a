"""Clusters: how large and how tight they are, what sets them apart, and where they lie."""

from __future__ import annotations

import numpy as np

from thresher.views.charts.shapes import Bars, Chart, Points
from thresher.views.report.evidence import Evidence
from thresher.views.report.features import mean_and_spread, names_of
from thresher.views.report.section import Section, Table, number

__all__ = ["clusters"]

_SHOWN, _NAMED, _COLOURED = 40, 4, 8
_DRAWN = 2000  # rows of the picture
_MEASURES = {
    "distance": "mean squared distance to the own cluster",
    "silhouette": "silhouette of a sample (1: far from other clusters, 0: between two)",
    "vi": "variation of information beside the labels, nats (0: the same)",
    "rand": "Rand index beside the labels (1: the same)",
    "ari": "adjusted Rand index beside the labels (1: the same, 0: chance)",
}


def clusters(found: Evidence) -> Section:
    section = Section("clusters", "The clusters", tables_first=True)
    metrics = found.metrics
    if metrics.get("rows"):
        section.paragraphs = [f"Measured on {found.measured_on}."]
        rows = [[told, number(metrics[key])] for key, told in _MEASURES.items() if key in metrics]
        section.tables = [Table(["measure", "value"], rows, "measures")]
    if found.name is None or found.predicted is None:
        section.paragraphs.append(
            "No data was given to the report: sizes and pictures need --data."
        )
        return section
    section.tables.append(_sizes(found))
    section.charts = [_shares(found)]
    picture = _picture(found)
    section.charts += [] if picture is None else [picture]
    return section


def _order(found: Evidence) -> np.ndarray:
    """The largest first."""
    assert found.predicted is not None
    return np.argsort(-found.predicted, kind="stable")[:_SHOWN]


def _sizes(found: Evidence) -> Table:
    assert found.predicted is not None
    total, apart = max(int(found.predicted.sum()), 1), _apart(found)
    rows = []
    for c in _order(found):
        count = int(found.predicted[c])
        away = found.away[c] / count if found.away is not None and count else None
        rows.append([str(c), f"{count:,}", f"{count / total:.1%}", number(away), apart[c]])
    head = ["cluster", "rows", "share", "mean squared distance", "what sets it apart"]
    return Table(head, rows, "clusters, the largest first")


def _apart(found: Evidence) -> list[str]:
    """The features by which the mean of a cluster's rows differs most from the mean of all."""
    k, sample = found.model.function.outputs, found.sample
    if sample is None or not sample.size:
        return [""] * k
    X = sample.X
    labels = found.model.function.scores(X).argmax(axis=1)
    mean, spread = mean_and_spread(X)
    out = []
    for c in range(k):
        mine = np.flatnonzero(labels == c)
        if not mine.size:
            out.append("no rows of the sample")
            continue
        own = np.asarray(X[mine].mean(axis=0)).ravel()
        apart = np.divide(own - mean, spread, out=np.zeros_like(own), where=spread > 0.0)
        places = np.argsort(-np.abs(apart), kind="stable")[:_NAMED]
        told = [
            f"{name} {own[j]:.3g} ({apart[j]:+.1f})"
            for j, name in zip(places, names_of(found.model, places), strict=True)
            if abs(apart[j]) >= 0.1
        ]
        out.append(", ".join(told) or "nothing: it lies in the middle")
    return out


def _shares(found: Evidence) -> Chart:
    assert found.predicted is not None
    order = _order(found)
    shares = 100.0 * found.predicted[order] / max(int(found.predicted.sum()), 1)
    names = [f"cluster {c}" for c in order]
    told = f"The largest is cluster {order[0]} with {shares[0]:.1f} % of the rows"
    return Chart(
        "shares", "Sizes of the clusters", f"{told}.", f"Bars of the shares of rows. {told}.",
        [Bars(names, shares, left="", right="")], x="% of the rows",
    )  # fmt: skip


def _picture(found: Evidence) -> Chart | None:
    """A sample of the rows in the plane in which the clusters' means differ most."""
    sample, model = found.sample, found.model
    if sample is None or sample.size < 3 or model.schema.n_features < 2:
        return None
    every = max(1, sample.size // _DRAWN)
    rows = sample.taken(np.arange(0, sample.size, every))
    X = model.estimator.comparable(rows.X)
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    labels = model.function.scores(rows.X).argmax(axis=1)
    present = np.unique(labels)
    means = np.stack([X[labels == c].mean(axis=0) for c in present])
    origin = X.mean(axis=0)
    spread = means - origin if present.size > 2 else X - origin
    plane = np.linalg.svd(spread, full_matrices=False)[2][:2]
    if plane.shape[0] < 2:
        return None
    x, y = ((X - origin) @ plane.T).T
    shown = [c for c in _order(found) if c in present][:_COLOURED]
    layers = [Points(x[labels == c], y[labels == c], f"cluster {c}", i)
              for i, c in enumerate(shown)]  # fmt: skip
    rest = present.size - len(shown)
    left = f" {rest} smaller clusters are left out." if rest else ""
    caption = (
        f"{x.size:,} rows in the plane in which the means of the clusters differ most.{left} "
        "Clusters that overlap here may lie apart in other directions."
    )
    return Chart(
        "places", "Where the rows lie", caption, f"A scatter plot. {caption}", layers,
        x="first direction", y="second direction", wide=True,
    )  # fmt: skip
