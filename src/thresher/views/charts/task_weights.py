"""Which features matter to which tasks: the weights as a heat map."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from thresher.functions.base import dense
from thresher.views.charts.shapes import Chart, Heatmap

__all__ = ["plot_task_weights", "task_weights_chart"]

_FEATURES, _TASKS, _TEXTS = 30, 40, 12


def task_weights_chart(model: Any, names: Any = None, key: str = "tasks") -> Chart:
    """Weights by feature and task: blue above zero, vermilion below, white where there are none.

    Of many, the features with the largest weights and tasks from one end of the list to the other.
    """
    W = dense(model.coef_).T
    if names is None:
        names = getattr(model, "feature_names_in_", [f"feature {j}" for j in range(W.shape[0])])
    norms = np.sqrt(np.einsum("jq,jq->j", W, W))
    largest = np.argsort(-norms, kind="stable")
    features = np.sort(largest[norms[largest] > 0.0][:_FEATURES])
    features = features if features.size else np.sort(largest[:_FEATURES])
    tasks = np.unique(np.linspace(0, W.shape[1] - 1, min(W.shape[1], _TASKS)).astype(int))
    shown = W[np.ix_(features, tasks)]
    most = float(np.max(np.abs(shown), initial=0.0)) or 1.0
    few = tasks.size <= _TEXTS
    texts = [[f"{w:+.2g}" if few and w != 0.0 else "" for w in row] for row in shown.tolist()]
    layer = Heatmap(
        [str(names[j]) for j in features], shown / most, texts, ("feature", "task"),
        [str(model.tasks_[q]) for q in tasks],
    )  # fmt: skip
    used = model.selection_
    left_out = "" if shown.size == W.size else " Only a part of them is shown."
    return Chart(
        key, "Weights by feature and task",
        f"{used.weights:,} of {W.size:,} weights are not zero, those of {used.features:,} of "
        f"{W.shape[0]:,} features. Blue is above zero, vermilion below; the darkest is "
        f"{most:.3g}.{left_out}",
        f"weights of {len(features)} features in {len(tasks)} tasks", [layer], wide=True,
    )  # fmt: skip


def plot_task_weights(model: Any, ax: Any = None, *, title: str | None = None) -> Any:
    """Draw the weights of many tasks as a heat map, features down and tasks across.

    Parameters
    ----------
    model : fitted MultiTaskRegressor or MultiTaskClassifier
    ax : Matplotlib axes or None, default=None
        None: new ones.
    title : str or None, default=None

    Returns
    -------
    ax : Matplotlib axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from thresher import MultiTaskRegressor
    >>> from thresher.views import plot_task_weights
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> model = MultiTaskRegressor(alpha=0.1).fit(X, X[:, :2] @ [[1.0, 2.0, 3.0], [0.0, 1.0, -1.0]])
    >>> plot_task_weights(model).images[0].get_array().shape
    (2, 3)
    """
    from thresher.views.charts.static import plotted

    check_is_fitted(model)
    return plotted(task_weights_chart(model), ax, title)
