"""The estimator of a training: a learner, with what the data say of labels, groups and tasks."""

from __future__ import annotations

from typing import Any

import numpy as np

from thresher.data import Schema
from thresher.data.errors import nearest
from thresher.penalties import Features, Penalty
from thresher.registry import LEARNERS, PENALTIES, TASKS, resolve

__all__ = ["classes_of", "estimator_for", "task_of"]


def task_of(schema: Schema, learner: str) -> str:
    """The target's, or that of a learner that does without one."""
    alone = [task for task in TASKS if not TASKS[task].has_target]
    entry = LEARNERS.get(learner)
    own = [task for task in alone if entry is not None and task in entry.estimators]
    if own:
        return own[0]
    if schema.target is None:
        raise ValueError("training needs a target: name its column (target=...)")
    return schema.target.task


def classes_of(schema: Schema, task: str) -> np.ndarray:
    """Labels to learn."""
    target = schema.target
    if target is None or not TASKS[task].has_target:
        return np.empty(0)
    if TASKS[target.task].has_classes and len(target.classes) < 2:
        raise ValueError(
            f"the target {target.name!r} has one class only, {target.classes[0]!r}, in the rows "
            "looked at: are they sorted by it?"
        )
    return np.array(target.classes)


def estimator_for(
    schema: Schema, task: str, learner: str, asked: dict[str, Any], seed: int | None,
    task_column: str | None,
) -> Any:  # fmt: skip
    """The learner's estimator with the parameters that were asked for, not fitted."""
    estimator = LEARNERS.estimator(learner, task)()
    _check_partly(schema, learner)
    params = {"random_state": seed, **_own_params(estimator, task, learner, asked)}
    params |= _irrelevant(schema, params, estimator)
    if schema.target is not None and schema.target.outlier is not None:
        params |= _outliers(params, schema.target.outlier)
    params.setdefault("scale", schema.is_table or schema.layout == "dense")
    if task_column is not None:
        params["task_columns"] = _task_columns(schema, task_column)
    estimator.set_params(**params)
    estimator.name_features(schema.feature_names())
    _bind_groups(estimator, schema)
    return estimator


def _check_partly(schema: Schema, learner: str) -> None:
    """Most learners need a label in every row."""
    if schema.target is not None and schema.target.partly and not LEARNERS[learner].partly:
        able = " or ".join(name for name, entry in LEARNERS.items() if entry.partly)
        raise ValueError(
            f"learner={learner!r} learns from labelled rows only: leave out "
            f"partly_labelled (--partly-labelled) and irrelevant (--irrelevant), or use {able}"
        )


def _irrelevant(schema: Schema, params: dict[str, Any], estimator: Any) -> dict[str, Any]:
    """The label of rows of no class is the data's affair."""
    marker = None if schema.target is None else schema.target.irrelevant
    if params.get("irrelevant", marker) != marker:
        raise ValueError(
            f"irrelevant={params['irrelevant']!r} is said when data are opened (irrelevant=..., "
            "--irrelevant), and is no parameter of the learner here"
        )
    if marker is None:
        return {}
    if "irrelevant" not in estimator.get_params(deep=False):
        raise ValueError(f"{type(estimator).__name__} does not learn from irrelevant rows")
    return {"irrelevant": marker}


def _task_columns(schema: Schema, name: str) -> tuple[int, int]:
    """The features that the column of tasks becomes."""
    column, first = schema.column(name), 0
    if schema.target is not None and name in (schema.target.name, schema.weight):
        raise ValueError(f"the task column {name!r} is the target or the weight of the rows")
    if not schema.is_table or column.kind != "category":
        raise ValueError(f"the task column {name!r} is no category, but {column.describe()}")
    if len(schema.features) == 1:
        raise ValueError(f"there is no feature beside the task column {name!r}")
    for other in schema.features:
        if other.name == name:
            break
        first += other.width
    return first, first + column.width


def _bind_groups(estimator: Any, schema: Schema) -> None:
    """Groups of a linear model's features are those of the schema's columns, or by its names."""
    penalty = estimator.get_params(deep=False).get("penalty")
    learner = LEARNERS.name_of(type(estimator))
    if learner not in ("linear", "multitask") or penalty is None:
        return
    if isinstance(penalty, str) and not (
        penalty in PENALTIES and "grouped" in PENALTIES[penalty].traits
    ):
        return
    columns = [(c.name, c.width) for c in schema.features] if schema.is_table else None
    names = schema.feature_names()
    if learner == "multitask":  # whose groups are single features, in all tasks
        first, stop = estimator.task_columns or (0, 0)
        names = None if names is None else [*names[:first], *names[stop:]]
        features = Features(schema.n_features - (stop - first), names)
    else:
        features = Features(schema.n_features, names, columns)
    estimator.set_params(penalty=resolve(penalty, Penalty, "penalty").bound(features))


def _outliers(params: dict[str, Any], label: Any) -> dict[str, Any]:
    """The label of rows of no class is the data's affair."""
    if params.get("outlier_label") not in (None, label):
        raise ValueError(
            f"outlier_label={params['outlier_label']!r} is said when data are opened "
            "(outlier_label=..., --outlier-label), and is no parameter of the learner here"
        )
    return {"outlier_label": label}


def _own_params(estimator: Any, task: str, learner: str, asked: dict[str, Any]) -> dict[str, Any]:
    """The parameters that were asked for, without a loss that the learner has anyway."""
    known = estimator.get_params(deep=False)
    own = LEARNERS[learner].losses.get(task, ())
    asked = dict(asked)
    if "loss" in asked and "loss" not in known:
        if asked["loss"] not in own:
            always = f"it always learns with {' or '.join(own)}" if own else "it has none"
            raise ValueError(f"learner={learner!r} does not let its loss be chosen: {always}")
        del asked["loss"]
    for name in asked:
        if name.partition("__")[0] not in known:
            raise ValueError(
                f"learner={learner!r} has no option {name!r}: {nearest(name, sorted(known))}"
            )
    return asked
