"""From data of any size to a model: what a user calls."""

from __future__ import annotations

import time
from dataclasses import fields
from inspect import signature
from typing import Any

from thresher._interrupts import clean_interrupts
from thresher.data import DataSet, open_data
from thresher.data.errors import nearest
from thresher.data.rows_file import on_disk
from thresher.data.wishes import WHOLE
from thresher.engines import engine_for, expect
from thresher.registry import LEARNERS
from thresher.training.asked import Training
from thresher.training.model import Model
from thresher.training.one_run import Run

__all__ = ["by_tasks", "run", "train"]


def train(data: Any, y: Any = None, **options: Any) -> Model:
    """Train on a file, several files, a data frame or a matrix, whatever their size.

    Parameters
    ----------
    data, y : as :func:`thresher.open_data` takes them, like all options that are not listed here
        (``target=``, ``weight=``, ...)
    learner : {"linear", "kernel", "budgeted", "svm", "mkl", "hyperplanes", "confidence", \
"semiparametric", "multitask", "novelty", "few_labels", "universum", "kmeans", "planes", \
"spectral"} or None, default=None
        Linear model, fixed-size kernel machine, kernel machine on a budget of support vectors,
        exact kernel machine (of up to some ten thousand rows in memory), one that chooses among
        many kernels, several linear functions per class, weights with their variances, functions
        with readable coefficients beside a kernel machine, a function for each task that
        ``task_column=`` names, or clusters around centres, along planes or of any shape;
        "novelty" says which class a row belongs to, or that it belongs to none (``outlier_label=``
        names rows of no class).  "few_labels" and "universum" learn from rows without a label too,
        the latter also from rows of no class (``irrelevant=``).  None: "linear", or who serves the
        ``task=`` that was asked for.  Clusters are learned without a target; one that is named
        serves only to compare with.
    params : dict or None, default=None
        Parameters of the learner's estimator, ``{"loss": "logistic"}``; features are scaled unless
        it says otherwise or the rows are a sparse matrix.
    budget : float or None, default=None
        Seconds to spend in all: all learners race on the rows (on the first ones, where not all fit
        in memory), and the best, or several of them together, are trained on all; ``learner`` and
        ``params`` are then found and not given.
    prefer : {"accuracy", "size"}, default="accuracy"
        What a race with a ``budget`` is about; "size": one learner, and the smaller model where the
        best is not clearly better.
    passes : int or None, default=None
        Over the data; None: by its size.
    holdout : float, default=0.1
        Share of the rows to measure on (at most 100,000 of them).
    memory : int, default=2**30
        Rows that take less than half of so many bytes are learned from in memory, by the best
        solver for them; more are streamed.
    scan : bool, default=True
        Spend one pass on counting the rows and learning the features' scales before a stream.
    seed : int, default=0
        Of everything random.
    checkpoint, model, resume : str or None, path or None, bool
        Save the state of a stream every "60s" or so many rows beside ``model``, the file that the
        model is written to, and go on from there.
    tune : int or None, default=None
        Settings of the learner to try before it is trained, for example 40; what ``params`` say
        stays as it is.  Where the rows do not fit in memory a stratified sample of them is tried
        on; the model learns from all rows, and none of those held out are seen by the search.
    criterion, search, cv, study : default=None
        Of the tuning: what makes settings better ("error", "auc", "log_loss", "sparse_error";
        "mse", "mae", "r2"), how to search, on which folds, and a file that keeps the trials, so
        that a search that was killed goes on (see :class:`thresher.search.TunedClassifier`).
    cluster : int, str, dask.distributed.Client, engine or None, default=None
        Who reads the rows and learns from them: so many processes on this machine, the workers of a
        scheduler at an address ("tcp://host:8786"), or those of a client.  The workers read the
        files themselves; data in memory are written to a temporary file first.
    shards : int or None, default=None
        Parts that workers learn from side by side, merged after every pass; None: by the size of
        the files.  The model depends on it, and not on the number of workers.
    task_column : str or None, default=None
        The column that names the task of each row: a linear function for each task is learned
        (learner "multitask"), in memory or as a stream.  The names of all tasks are looked for in
        the whole file first; tasks that are new when predicting get the mean over the tasks.
    on_progress : callable or None, default=None
        Called with a :class:`Progress` now and then.
    on_workers : callable or None, default=None
        Told once who the workers of a ``cluster`` are, and where their dashboard is.

    Returns
    -------
    Model
        The fitted estimator with the schema of the data.

    Examples
    --------
    >>> import pandas as pd
    >>> from thresher import train
    >>> frame = pd.DataFrame({"size": range(100), "kind": ["a", "b"] * 50})
    >>> frame["large"] = frame["size"] > 49
    >>> model = train(frame, target="large")
    >>> model.predict(pd.DataFrame({"size": [3, 97], "kind": ["a", "c"]})).tolist()
    [0, 1]
    """
    begun = time.perf_counter()
    own = {f.name for f in fields(Training)} - {"begun"}
    options |= by_tasks(options)
    learner, task = LEARNERS.agreed(options.get("learner"), options.get("task"))
    options = {**options, "learner": learner}
    if task is not None and not isinstance(data, DataSet):
        options["task"] = task
    how = Training(**{k: v for k, v in options.items() if k in own}, begun=begun)
    reading = {k: v for k, v in options.items() if k not in own}
    _check_reading(reading, own, opened=isinstance(data, DataSet))
    if not isinstance(data, DataSet):
        reading = {**LEARNERS.reading(how.learner), **reading}
    expect(how.cluster)
    dataset = data if isinstance(data, DataSet) else open_data(data, y, **reading)
    trained = run(dataset, how)
    if how.model is not None:
        trained.save(how.model)
    return trained


def by_tasks(options: dict[str, Any]) -> dict[str, Any]:
    """What a column of tasks means for reading and learning."""
    column = options.get("task_column")
    if column is None:
        return {}
    learner = options.get("learner") or "multitask"
    if not LEARNERS[learner].needs:
        raise ValueError(f"task_column is for learner='multitask', not for {learner!r}")
    types = dict(options.get("types") or {})
    if not str(types.get(column, "category")).startswith("category"):
        raise ValueError(f"the task column {column!r} must be a category, not {types[column]!r}")
    return {"learner": learner, "types": {**types, column: types.get(column, WHOLE)}}


def _check_reading(reading: dict[str, Any], own: set[str], opened: bool) -> None:
    """Refuse options that nobody knows, and those of reading where the data are open already."""
    known = set(signature(open_data).parameters) - {"data", "y"}
    for name in reading:
        if name not in known:
            raise TypeError(
                f"train has no option {name!r}: {nearest(name, sorted(own | known))} "
                f"(what a learner takes goes into params)"
            )
        if opened:
            raise TypeError(f"{name} is said when data are opened: give it to open_data")


@clean_interrupts()
def run(data: DataSet, how: Training) -> Model:
    """Train as ``how`` says."""
    if how.cluster is None:
        return Run(data, how).model()
    with engine_for(how.cluster) as engine, on_disk(data, how.shards) as found:
        if how.on_workers is not None:
            how.on_workers(engine.describe())
        return Run(found, how, engine).model()
