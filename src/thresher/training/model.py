"""A trained model with the schema of its data: predicts on raw files, saves to one safe file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from thresher.artifacts import container
from thresher.artifacts.container import BadFile
from thresher.data import Batch, DataError, DataSet, Schema, open_data
from thresher.data.rows_file import on_disk
from thresher.engines import engine_for
from thresher.estimators.saving import from_document, to_document
from thresher.losses import Loss
from thresher.registry import TASKS, metrics_of, resolve
from thresher.training.scoring import by_workers

__all__ = ["Model", "Predicted", "load_model", "save_model"]


class Predicted(NamedTuple):
    """Predictions for one chunk: values are labels or numbers."""

    batch: Batch
    values: np.ndarray
    scores: np.ndarray
    probabilities: np.ndarray | None

    def labelled(self) -> Predicted:
        """Those of rows that have a label to compare with; regression has no others."""
        known = self.batch.labelled
        if known.all():
            return self
        probabilities = None if self.probabilities is None else self.probabilities[known]
        return Predicted(
            self.batch.taken(known), self.values[known], self.scores[known], probabilities
        )


@dataclass
class Model:
    """A fitted estimator, the schema that makes rows of raw data, and how it was trained.

    Parameters
    ----------
    estimator : LinearClassifier, KernelRegressor, ...
        Fitted.
    schema : Schema
        Makes rows of raw data, as it did in the training.
    training : dict, default={}
        What is told about the training: rows, passes, metrics on held-out rows, seed, seconds.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import train
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> model = train(X, (X[:, 0] > 0).astype(int))
    >>> model.predict(X[:4]).tolist() == (X[:4, 0] > 0).astype(int).tolist()
    True
    """

    estimator: Any
    schema: Schema
    training: dict[str, Any] = field(default_factory=dict)

    # ------------------------------------------------------------ use

    def open(self, data: Any, labelled: bool = False, **options: Any) -> DataSet:
        """Data read by this model's schema; targets are asked for only if ``labelled``."""
        if isinstance(data, DataSet):
            for name in options:
                raise TypeError(f"{name} is said when data are opened: give it to open_data")
            return data
        schema = self.schema if labelled else self.schema.without_target()
        if labelled and not self.is_supervised:
            schema = self._beside_labels(schema, data, options)
        named = options.get("target")
        if self.is_supervised and named is not None and named != getattr(schema.target, "name", 0):
            raise ValueError(f"the model has its own target, and cannot take {named!r} for it")
        return open_data(data, schema=schema, **options)

    def _beside_labels(self, schema: Schema, data: Any, options: dict[str, Any]) -> Schema:
        """With the labels that a clustering is to be compared with, where some are named."""
        target = options.get("target")
        if target is None and options.get("y") is None:
            return schema
        labels = open_data(data, **options).schema.target
        assert labels is not None
        if any(column.name == labels.name for column in schema.features):
            raise ValueError(
                f"the column {labels.name!r} is one of those that the clusters were made of: it "
                "cannot be what they are compared with"
            )
        return replace(schema, target=labels)

    def predict(self, data: Any, cluster: Any = None, **options: Any) -> np.ndarray:
        """Labels or numbers for every row of a file, frame or matrix.

        ``cluster``: who reads and scores the rows, as :func:`train` takes it.
        """
        parts = [p.values for p in self.predictions(self.open(data, **options), cluster)]
        return np.concatenate(parts) if parts else np.empty(0)

    def predict_proba(self, data: Any, cluster: Any = None, **options: Any) -> np.ndarray:
        parts = []
        for part in self.predictions(self.open(data, **options), cluster):
            if part.probabilities is None:
                raise ValueError(
                    "this model has no probabilities: train it with loss='logistic' or "
                    "calibrate='sigmoid'"
                )
            parts.append(part.probabilities)
        return np.concatenate(parts)

    def predictions(self, data: DataSet, cluster: Any = None) -> Iterator[Predicted]:
        """Predictions chunk by chunk: memory stays bounded for any number of rows.

        Those of a ``cluster`` come without the rows' features where there is a target.
        """
        if cluster is not None:
            with engine_for(cluster) as engine, on_disk(data) as found:
                yield from by_workers(engine, self, found)
            return
        for batch in data.chunks():
            self.estimator.mind_rows(batch.X, batch.first)
            yield self.predicted(batch)

    def predicted(self, batch: Batch) -> Predicted:
        """Predictions for rows that the schema has made."""
        return Predicted(batch, *self.estimator.decoded(self.function.scores(batch.X)))

    def evaluate(
        self, data: Any, on_rows: Callable[[int], None] | None = None, cluster: Any = None,
        **options: Any,
    ) -> dict[str, Any]:  # fmt: skip
        """Error, AUC, log loss, F1 and confusion matrix, or RMSE, MAE and R2.

        Of novelty detection the error on known classes, with and without rejections, the share of
        outliers that are found (detection) and of known rows that are rejected (false alarms).
        Of a clustering the silhouette of a sample; beside labels (``target=``, or those of the
        training data) also VI, Rand and ARI.
        """
        opened = self.open(data, labelled=True, **options)
        found = self.measured(self.predictions(opened, cluster), on_rows)
        if self.is_supervised and not found["rows"]:
            raise DataError(f"{opened.name}: no row has a label to compare predictions with")
        return found

    def measured(
        self, predictions: Iterable[Predicted], on_rows: Callable[[int], None] | None = None
    ) -> dict[str, Any]:
        metrics = metrics_of(self.estimator.task, self.classes, self.outlier)
        rows = 0
        for p in predictions:
            if p.batch.y is None and self.is_supervised:
                raise DataError("the data has no target to compare predictions with")
            rows += p.batch.size
            p = p.labelled()
            X = None if self.is_supervised else self.estimator.comparable(p.batch.X)
            metrics.add(p.batch.y, p.scores, p.probabilities, p.batch.weight, X)
            if on_rows is not None:
                on_rows(rows)
        return metrics.summary()

    @property
    def function(self) -> Any:
        """What was learned."""
        return self.estimator.function_

    @property
    def is_classifier(self) -> bool:
        return TASKS[self.estimator.task].has_classes

    @property
    def is_supervised(self) -> bool:
        """Whether it has learned from a target."""
        return TASKS[self.estimator.task].has_target

    @property
    def classes(self) -> np.ndarray | None:
        """All that a prediction may be, in the order of the scores."""
        return self.estimator.outcomes_ if self.is_classifier else None

    @property
    def outlier(self) -> Any:
        """The label of rows of no class, if there can be such rows."""
        return self.estimator.outlier if self.is_classifier else None

    @property
    def is_linear(self) -> bool:
        """One linear function of the features per output."""
        return self.has_weights and not self.function.basis

    @property
    def has_weights(self) -> bool:
        """Whether each feature, or what a map makes of it, has one weight for each output."""
        return self.function.columns(np.empty((0, self.function.features))) is not None

    def weighted(self, X: Any) -> Any:
        """Rows as the weights take them."""
        return self.function.columns(X)

    def coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights of shape (outputs, features), for rows as :meth:`weighted` gives them, and the
        intercepts."""
        if not self.has_weights:
            raise ValueError(f"{type(self.estimator).__name__} has no weights of the features")
        coef = self.function.coef
        dense = coef.toarray() if hasattr(coef, "toarray") else coef
        return np.atleast_2d(dense), np.atleast_1d(self.function.intercept)

    def chosen_parts(self) -> list[tuple[str, list[float]]]:
        """What was chosen of many (kernels, say), with its weights; empty if nothing was."""
        first, names = self.schema.first_index, self.schema.feature_names()
        if names is None:
            names = [f"feature {j + first}" for j in range(self.function.features)]
        return self.estimator.chosen_parts(names)

    def ranked_groups(self) -> list[dict[str, Any]]:
        """The groups of a penalty over groups, those with the largest weights first.

        Of each its name, the norm of its weights (0: it was dropped), as the solver saw the
        features, and how many of its features there are and have a weight.
        """
        norms, penalty = getattr(self.estimator, "group_norms_", None), self.estimator.penalty_
        if norms is None:
            return []
        used = np.any(self.coefficients()[0] != 0.0, axis=0)
        bounds = zip(penalty.pointers[:-1], penalty.pointers[1:], strict=True)
        members = [penalty.order[start:stop] for start, stop in bounds]
        return [
            {
                "name": penalty.name_of(int(g)), "norm": float(norms[g]),
                "features": int(members[g].size), "used": int(np.count_nonzero(used[members[g]])),
            }
            for g in np.argsort(-norms, kind="stable")
        ]  # fmt: skip

    def described(self) -> str:
        """The learner in a line."""
        estimator, parts = self.estimator, [type(self.estimator).__name__]
        for name in ("loss", "algorithm"):
            if name in estimator.get_params(deep=False):
                value = getattr(estimator, name)
                parts.append(type(resolve(value, Loss, name)).__name__ if name == "loss" else value)
        parts += [str(estimator.penalty_), type(estimator.solver_).__name__]
        parts += [self.function.basis] if self.function.basis else []
        return ", ".join(parts)

    # ------------------------------------------------------------ files

    def save(self, path: str | os.PathLike[str]) -> None:
        """One file of JSON and plain arrays, written completely or not at all."""
        document, arrays = to_document(self.estimator)
        document = {"model": document, "schema": self.schema.to_json(), "training": self.training}
        container.write(path, document, arrays, kind="model")


def save_model(
    estimator: Any, path: str | os.PathLike[str], schema: Schema | None = None, **training: Any
) -> None:
    """Save a fitted estimator (or a :class:`Model`); loading it executes nothing.

    Parameters
    ----------
    estimator : fitted estimator of Thresher, or Model
        A Model brings its own schema and its own account of the training.
    path : str or path
        File to write, all of it or nothing.
    schema : Schema or None, default=None
        Of the data that the estimator takes; None: a matrix of so many features.
    **training : what to tell about the training: numbers, strings, lists and dictionaries

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from thresher import LinearRegressor, load_model, save_model
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> estimator = LinearRegressor().fit(X, X[:, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(estimator, Path(folder) / "plane.thresher", rows=50)
    ...     model = load_model(Path(folder) / "plane.thresher")
    >>> model.training, bool(np.all(model.predict(X) == estimator.predict(X)))
    ({'rows': 50}, True)
    """
    if isinstance(estimator, Model):
        estimator.save(path)
    else:
        Model(estimator, schema or _matrix_schema(estimator), training).save(path)


def load_model(path: str | os.PathLike[str], terms: Iterable[type] = ()) -> Model:
    """Read a model file, of this version or an earlier one.

    Parameters
    ----------
    path : str or path
        File that ``thresher train``, :meth:`Model.save` or :func:`save_model` wrote.
    terms : iterable of classes, default=()
        Your own losses, penalties, kernels, schedules or solvers that the model uses, if they are
        not registered.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from thresher import load_model, train
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     train(X, (X[:, 0] > 0).astype(int)).save(Path(folder) / "side.thresher")
    ...     model = load_model(Path(folder) / "side.thresher")
    >>> model.predict(np.array([[-2.0, 0.0], [2.0, 0.0]])).tolist()
    [0, 1]
    """
    document, arrays = container.read(path, kind="model")
    model = document.get("model")
    if not isinstance(model, dict):
        raise BadFile(f"{os.fspath(path)}: the file holds no model")
    try:
        estimator = from_document(model, arrays, document["version"], terms)
        schema = Schema.from_json(document.get("schema"))
    except (BadFile, DataError) as error:
        raise BadFile(f"{os.fspath(path)}: {error}") from None
    _check_together(estimator, schema, os.fspath(path))
    training = document.get("training")
    return Model(estimator, schema, training if isinstance(training, dict) else {})


def _check_together(estimator: Any, schema: Schema, path: str) -> None:
    if schema.n_features != estimator.n_features_in_:
        raise BadFile(
            f"{path}: the schema makes {schema.n_features} features, the model takes "
            f"{estimator.n_features_in_}"
        )
    if not TASKS[estimator.task].has_target:
        return  # labels are only compared with
    known = estimator.outcomes_.tolist() if TASKS[estimator.task].has_classes else []
    if schema.target is not None and list(schema.target.classes) != known:
        raise BadFile(f"{path}: the classes of schema and model differ")


def _matrix_schema(estimator: Any) -> Schema:
    from thresher.data.schema import Target

    target = None
    if TASKS[estimator.task].has_classes:
        classes = estimator.outcomes_
        classes = classes.astype(int) if classes.dtype == bool else classes  # as in other data
        target = Target("y", estimator.task, tuple(classes.tolist()), estimator.outlier)
    d = int(estimator.n_features_in_)
    return Schema(target=target, matrix_features=d, row_bytes=8 * d + 8)
