"""How good the predictions are: ROC, precision-recall, confusion, calibration, residuals."""

from __future__ import annotations

from typing import Any

import numpy as np

from thresher.views.charts.curves import calibration, histogram, precision_recall, roc
from thresher.views.charts.descent import descent_chart
from thresher.views.charts.normals import normals_chart
from thresher.views.charts.shapes import Chart, Heatmap, Line, Points, thinned
from thresher.views.report.evidence import Evidence
from thresher.views.report.section import Section, Table, number

__all__ = ["METRICS", "headline", "performance"]

METRICS = {
    "error": "share of wrong labels", "class_error": "share of wrong classes without rejections",
    "false_alarms": "share of known rows that are rejected",
    "detection": "share of outliers that are rejected",
    "auc": "area under the ROC curve", "f1": "F1", "log_loss": "log loss",
    "rmse": "root mean squared error", "mae": "mean absolute error",
    "r2": "R² (share of the variance explained)",
}  # fmt: skip
_SHARES = ("error", "class_error", "false_alarms", "detection")
_MOST_CLASSES, _MOST_CELLS = 6, 20


def headline(metrics: dict[str, Any]) -> str:
    """The one number that people ask for."""
    if "false_alarms" in metrics:
        return _of_novelty(metrics)
    if "error" in metrics:
        return f"{metrics['error']:.2%} of the labels are wrong"
    if "rmse" in metrics:
        r2 = metrics.get("r2")
        told = "" if r2 is None else f", {r2:.1%} of the variance explained"
        return f"root mean squared error {metrics['rmse']:.4g}{told}"
    if "silhouette" in metrics:
        beside = f", adjusted Rand index {metrics['ari']:.3f}" if "ari" in metrics else ""
        return f"silhouette {metrics['silhouette']:.3f}{beside}"
    if "outliers" in metrics:
        return f"{metrics['outliers']:.2%} of the rows are unlike the others"
    return "not measured"


def _of_novelty(metrics: dict[str, Any]) -> str:
    told = []
    if metrics["error"] is not None:
        told.append(f"{metrics['error']:.2%} of the known rows are wrong or rejected")
    if metrics["detection"] is not None:
        told.append(f"{metrics['detection']:.2%} of the outliers are detected")
    return ", ".join(told) or "not measured"


def performance(found: Evidence) -> Section:
    section = Section("performance", "How good it is", tables_first=True)
    section.charts = charts(found)
    if found.metrics.get("rows"):
        section.paragraphs = [f"Measured on {found.measured_on}."]
        rows = [
            [label, f"{found.metrics[key]:.2%}" if key in _SHARES else number(found.metrics[key])]
            for key, label in METRICS.items()
            if found.metrics.get(key) is not None
        ]
        section.tables = [Table(["measure", "value"], rows, "measures")]
    if found.on_training_rows:
        section.paragraphs.append(found.caution)
    if found.name is None:
        section.paragraphs.append("No data was given to the report: curves need --data.")
    elif not found.labelled:
        section.paragraphs.append(
            f"{found.name} has no target: {found.rows:,} rows were predicted, not judged."
        )
    if found.kept.every > 1:
        section.paragraphs.append(
            f"Curves are drawn from every {found.kept.every}th row; the measures are of all rows."
        )
    return section


def charts(found: Evidence) -> list[Chart]:
    if found.model.classes is None:
        return _regression(found) if found.labelled else _distribution_of_values(found)
    out = []
    if found.labelled and found.metrics.get("rows"):
        out += _ranking(found)
    if "confusion" in found.metrics and len(found.metrics["classes"]) <= _MOST_CELLS:
        out.append(_confusion(found.metrics))
    if found.labelled and "probability" in found.kept:
        out += _calibration(found)
    if "score" in found.kept:
        out.append(_scores(found))
    if found.model.outlier is not None and found.model.classes.size <= _MOST_CELLS:
        out.append(normals_chart(found.model.estimator))
    if getattr(found.model.estimator, "objectives_", None):
        out.append(descent_chart(found.model.estimator))
    return out


def _weights(found: Evidence) -> np.ndarray:
    kept = found.kept
    return kept["weight"] if "weight" in kept else np.ones(kept["score"].shape[0])


def _outputs(found: Evidence, table: np.ndarray) -> list[tuple[str, int, np.ndarray]]:
    """(class, its number, its column); of two classes only the second, of many the largest."""
    classes = found.model.classes
    assert classes is not None
    if table.ndim == 1:
        return [(str(classes[1]), 1, table)]
    if classes.size == 2:
        return [(str(classes[1]), 1, table[:, 1])]
    counts = np.bincount(found.kept["y"].astype(int), minlength=classes.size)
    largest = np.sort(np.argsort(-counts, kind="stable")[:_MOST_CLASSES])
    return [(str(classes[c]), int(c), table[:, c]) for c in largest]


def _ranking(found: Evidence) -> list[Chart]:
    codes, weight = found.kept["y"].astype(int), _weights(found)
    rocs: list[Line | Points] = [Line([0, 1], [0, 1], "by chance", None)]
    precisions: list[Line | Points] = []
    areas, averages = [], []
    for place, (name, c, scores) in enumerate(_outputs(found, found.kept["score"])):
        curve = roc(codes == c, scores, weight)
        if curve is None:
            continue
        rocs.append(Line(*thinned(curve.x, curve.y), f"{name}: {curve.summary:.3f}", place))
        areas.append(f"{name} {curve.summary:.3f}")
        curve = precision_recall(codes == c, scores, weight)
        if curve is not None:
            x, y = thinned(curve.x, curve.y)
            precisions.append(Line(x, y, f"{name}: {curve.summary:.3f}", place))
            averages.append(f"{name} {curve.summary:.3f}")
    if not areas:
        return []
    told = ", ".join(areas)
    unit = (-0.01, 1.01)
    return [
        Chart(
            "roc", "ROC curve",
            "True positives found against false alarms, for every threshold. The area "
            f"is the chance that a positive row scores above a negative one: {told}.",
            f"ROC curve; areas: {told}", rocs, "false positive rate", "true positive rate",
            x_range=unit, y_range=unit, legend="bottom_right",
        ),
        Chart(
            "precision", "Precision and recall",
            "How many of the rows called positive are so (precision), against how many of the "
            f"positive rows are found (recall). Average precision: {', '.join(averages)}.",
            f"precision against recall; averages: {', '.join(averages)}", precisions, "recall",
            "precision", x_range=unit, y_range=unit, legend="bottom_left",
        ),
    ]  # fmt: skip


def _confusion(metrics: dict[str, Any]) -> Chart:
    table = np.array(metrics["confusion"], dtype=np.float64)
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1e-300)
    short = len(table) > 8
    texts = [
        [f"{s:.0%}" if short else f"{n:,.0f} ({s:.0%})" for n, s in zip(counts, row, strict=True)]
        for counts, row in zip(table.tolist(), shares.tolist(), strict=True)
    ]
    names = [str(c) for c in metrics["classes"]]
    worst = shares - np.eye(len(table))
    i, j = divmod(int(np.argmax(worst - 2 * np.eye(len(table)))), len(table))
    told = f"Most often mistaken: {names[i]} taken for {names[j]} ({shares[i, j]:.0%})."
    return Chart(
        "confusion", "Confusion matrix",
        f"Rows are the truth, columns the predictions, shares are of each row. {told}",
        f"confusion matrix of {len(names)} classes. {told}", [Heatmap(names, shares, texts)],
        "prediction", "truth",
    )  # fmt: skip


def _calibration(found: Evidence) -> list[Chart]:
    codes, weight = found.kept["y"].astype(int), _weights(found)
    layers: list[Line | Points] = [Line([0, 1], [0, 1], "perfect", None)]
    told = []
    for place, (name, c, chance) in enumerate(_outputs(found, found.kept["probability"])):
        curve = calibration((codes == c).astype(float), chance, weight)
        if curve is not None:
            layers.append(Line(curve.x, curve.y, name, place, markers=True))
            told.append(f"{name} {curve.summary:.3f}")
    if not told:
        return []
    listed = ", ".join(told)
    return [Chart(
        "calibration", "Calibration",
        "Predicted probability against what happened, in bins of equally many rows; on the dotted "
        f"line a 70% is right seven times in ten. Mean distance: {listed}.",
        f"observed against predicted share; mean distance from the diagonal: {listed}", layers,
        "predicted probability", "observed share", x_range=(-0.01, 1.01), y_range=(-0.01, 1.01),
        legend="top_left",
    )]  # fmt: skip


def _scores(found: Evidence) -> Chart:
    table = found.kept["score"]
    codes = found.kept["y"].astype(int) if found.labelled else None
    layers: list[Line | Points] = []
    edges = _edges(table)
    if table.ndim == 1:
        groups = [("all rows", np.ones(table.size, bool))]
        if codes is not None and found.model.classes is not None:
            groups = [(str(c), codes == k) for k, c in enumerate(found.model.classes)]
        for place, (name, chosen) in enumerate(groups):
            layers.append(Line(*histogram(table[chosen], edges), name, place))
        layers.append(Line([0.0, 0.0], [0.0, _top(layers)], "threshold", None))
        x = "score"
        what = "Scores of the rows of each class; above zero the second class is predicted."
    else:
        best = np.sort(table, axis=1)
        lead = best[:, -1] - best[:, -2]
        edges = _edges(lead)
        right = None if codes is None else table.argmax(axis=1) == codes
        groups = [("all rows", np.ones(lead.size, bool))]
        if right is not None:
            groups = [("right", right), ("wrong", ~right)]
        for place, (name, chosen) in enumerate(groups):
            layers.append(Line(*histogram(lead[chosen], edges), name, place))
        x = "lead of the best class"
        what = "By how much the best class leads the second best: small leads are doubtful."
    return Chart(
        "scores", "Score distributions", what,
        f"histogram of scores. {what}", layers, x, "share of the rows",
    )  # fmt: skip


def _edges(values: np.ndarray) -> np.ndarray:
    finite = values[np.isfinite(values)]
    low, high = np.quantile(finite, [0.002, 0.998]) if finite.size else (0.0, 1.0)
    return np.linspace(low, high if high > low else low + 1.0, 51)


def _top(layers: list[Any]) -> float:
    return max(float(np.max(layer.y)) for layer in layers)


def _regression(found: Evidence) -> list[Chart]:
    y, guess = found.kept["y"], found.kept["score"]
    some = np.arange(y.size)
    if some.size > 2000:
        some = np.sort(np.random.default_rng(0).choice(some, 2000, replace=False))
    span = [float(min(y.min(), guess.min())), float(max(y.max(), guess.max()))]
    miss = guess - y
    edges = _edges(miss)
    corners = histogram(miss, edges)
    spread = f"Half of the residuals are within {np.median(np.abs(miss)):.4g}."
    return [
        Chart(
            "truth", "Predicted against true values",
            f"{some.size:,} rows; on the dotted line the prediction is exact.",
            "scatter of predictions against true values",
            [Line(span, span, "exact", None), Points(y[some], guess[some], "rows", 0)],
            "true value", "predicted value", legend="top_left",
        ),
        Chart(
            "residuals", "Residuals", f"Prediction minus truth. {spread}",
            f"histogram of the residuals. {spread}",
            [Line(*corners, "", 0), Line([0, 0], [0, float(corners[1].max())], "exact", None)],
            "predicted minus true value", "share of the rows",
        ),
        Chart(
            "spread", "Residuals along the prediction",
            "A slope or a curve here is something that the model has missed; a funnel is noise "
            "that grows with the value.",
            "scatter of residuals against predictions",
            [Points(guess[some], miss[some], "", 0),
             Line([float(guess.min()), float(guess.max())], [0.0, 0.0], "", None)],
            "predicted value", "predicted minus true value",
        ),
    ]  # fmt: skip


def _distribution_of_values(found: Evidence) -> list[Chart]:
    if "score" not in found.kept:
        return []
    values = found.kept["score"]
    return [Chart(
        "values", "Predicted values", "Distribution of the predictions.",
        "histogram of the predictions", [Line(*histogram(values, _edges(values)), "", 0)],
        "predicted value", "share of the rows",
    )]  # fmt: skip
