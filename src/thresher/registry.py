"""Names for people in a hurry: ``loss="logistic"`` instead of ``loss=Logistic()``.

Classes are written down by where they live and imported when they are first asked for: reading a
table costs nothing, and every layer may.  The command line, the wizard, the docs and the tests
enumerate these tables, so a new term, map or solver needs its class and one line here (or one call
of :func:`register`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from inspect import signature
from typing import Any

__all__ = [
    "BASIS", "KERNELS", "LEARNERS", "LOSSES", "MAPS", "PENALTIES", "SOLVERS", "TASKS", "Contestant",
    "LearnerEntry", "Learners", "Names", "Task", "metrics_of", "register", "resolve",
]  # fmt: skip


class Names(Mapping[str, Any]):
    """Classes of one role by name, each imported when it is first asked for.

    Parameters
    ----------
    role : str
        What the classes are for a user: "loss".
    base : str
        Where the class lives that all of them are made from: "thresher.losses.Loss".
    entries : dict of str
        Name of each class -> where it lives.

    Examples
    --------
    >>> from thresher.registry import LOSSES
    >>> LOSSES["hinge"].__name__, "huber" in LOSSES
    ('Hinge', True)
    """

    def __init__(self, role: str, base: str, entries: dict[str, str]):
        self.role, self.base = role, base
        self._entries: dict[str, Any] = dict(entries)

    def __getitem__(self, name: str) -> Any:
        found = self._entries[name]
        if isinstance(found, str):
            found = self._entries[name] = _imported(found)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def takes(self, cls: type) -> bool:
        """Whether it is a class of this role."""
        return any(f"{base.__module__}.{base.__qualname__}" == self.base for base in cls.__mro__)

    def add(self, name: str, cls: type) -> None:
        """Give a class a name; the same class may have it already."""
        if name in self and self[name] is not cls:
            known = getattr(self[name], "__name__", self[name])
            raise ValueError(f"{name!r} already names {known}")
        self._entries[name] = cls

    def remove(self, name: str) -> None:
        """Take a name back."""
        del self._entries[name]

    def name_of(self, cls: type) -> str | None:
        """The name that a class has here, without importing any other."""
        where = f"{cls.__module__}.{cls.__qualname__}"
        return next((n for n, c in self._entries.items() if c is cls or c == where), None)


LOSSES = Names("loss", "thresher.losses.Loss", {
    "hinge": "thresher.losses.Hinge",
    "squared_hinge": "thresher.losses.SquaredHinge",
    "logistic": "thresher.losses.Logistic",
    "least_squares": "thresher.losses.LeastSquares",
    "modified_huber": "thresher.losses.ModifiedHuber",
    "pinball": "thresher.losses.Pinball",
    "huber": "thresher.losses.Huber",
    "epsilon_insensitive": "thresher.losses.EpsilonInsensitive",
    "squared_epsilon_insensitive": "thresher.losses.SquaredEpsilonInsensitive",
})  # fmt: skip
PENALTIES = Names("penalty", "thresher.penalties.base.Penalty", {
    "l2": "thresher.penalties.coordinates.L2",
    "l1": "thresher.penalties.coordinates.L1",
    "elastic_net": "thresher.penalties.coordinates.ElasticNet",
    "weighted_l2": "thresher.penalties.coordinates.WeightedL2",
    "weighted_l1": "thresher.penalties.coordinates.WeightedL1",
    "box": "thresher.penalties.coordinates.Box",
    "group": "thresher.penalties.groups.GroupL2",
    "sparse_group": "thresher.penalties.groups.SparseGroupL2",
})  # fmt: skip
KERNELS = Names("kernel", "thresher.kernels.functions.Kernel", {
    "rbf": "thresher.kernels.functions.RBF",
    "exponential": "thresher.kernels.functions.Exponential",
    "polynomial": "thresher.kernels.functions.Polynomial",
    "linear": "thresher.kernels.functions.Linear",
    "sigmoid": "thresher.kernels.functions.Sigmoid",
    "cosine": "thresher.kernels.functions.Cosine",
})  # fmt: skip
MAPS = Names("map", "thresher.maps.base.FeatureMap", {
    "nystroem": "thresher.maps.nystroem.Nystroem",
    "local": "thresher.maps.local.LocalNystroem",
    "fourier": "thresher.maps.fourier.FourierFeatures",
    "forest": "thresher.maps.forest.ForestFeatures",
    "terms": "thresher.maps.terms.TermFeatures",
    "boosted": "thresher.maps.boosted.BoostedFeatures",
    "stack": "thresher.maps.stack.StackFeatures",
})  # fmt: skip
SOLVERS = Names("solver", "thresher.solvers.base.Solver", {
    "asgd": "thresher.solvers.asgd.AveragedSGD",
    "dcd": "thresher.solvers.dcd.DualDescent",
    "newton": "thresher.solvers.newton.Newton",
    "smoothed_newton": "thresher.solvers.smoothing.SmoothedNewton",
    "summed_newton": "thresher.solvers.summed_newton.SummedNewton",
    "proximal_newton": "thresher.solvers.proximal_newton.ProximalNewton",
    "quasi_newton": "thresher.solvers.quasi_newton.QuasiNewton",
    "pegasos": "thresher.solvers.pegasos.Pegasos",
    "weighted_pegasos": "thresher.solvers.pegasos.WeightedPegasos",
    "dropout_pegasos": "thresher.solvers.dropout.DropoutPegasos",
    "sgd": "thresher.solvers.pegasos.SGD",
    "truncated_gradient": "thresher.solvers.proximal.TruncatedGradient",
    "fobos": "thresher.solvers.proximal.FOBOS",
    "rda": "thresher.solvers.rda.RDA",
    "adaptive_rda": "thresher.solvers.rda.AdaptiveRDA",
    "rda_plus": "thresher.solvers.rda_plus.RDAPlus",
    "lps": "thresher.solvers.lps.LPS",
    "rw_l1_rda": "thresher.solvers.reweighted.ReweightedL1",
    "rw_l2_rda": "thresher.solvers.reweighted.ReweightedL2",
    "asset": "thresher.solvers.asset.ASSET",
    "least_squares": "thresher.solvers.least_squares.DirectLeastSquares",
    "cutting_plane": "thresher.solvers.cutting_planes.CuttingPlane",
    "ocas": "thresher.solvers.cutting_planes.OCAS",
    "mcpa": "thresher.solvers.cutting_planes.MCPA",
})  # fmt: skip
#: functions of rows for the basis of a semiparametric model; ours need no names
BASIS = Names("basis function", "", {})
_TABLES = (LOSSES, PENALTIES, KERNELS, MAPS, SOLVERS)


# ---------------------------------------------------------------- tasks and learners


@dataclass(frozen=True)
class Task:
    """What a target means.

    Parameters
    ----------
    noun : what its estimators are, "classifier"; also in model files
    target : what a target is, for people
    coding : "classes", whose labels become numbers from 0, "numbers", which stay as they are, or
        "none": there is no target to learn from; labels, where given, are only compared with
    columns : what can be said of a row: its prediction, scores, probabilities
    criteria : what can make one model better than another, the usual one first
    metrics : where the class lives that measures predictions chunk by chunk
    measure : the one of its numbers that early stopping and pictures follow, the lower the better
    by_values : whether the values of a target can tell that it is this task

    Examples
    --------
    >>> from thresher.registry import TASKS
    >>> TASKS["regression"].criteria
    ('mse', 'mae', 'r2')
    """

    noun: str
    target: str
    coding: str
    columns: tuple[str, ...]
    criteria: tuple[str, ...]
    metrics: str
    measure: str
    by_values: bool = True

    @property
    def has_classes(self) -> bool:
        return self.coding == "classes"

    @property
    def has_target(self) -> bool:
        return self.coding != "none"


TASKS: dict[str, Task] = {
    "classification": Task(
        "classifier", "The target says which class a row belongs to.",
        "classes", ("prediction", "score", "probability"),
        ("error", "auc", "log_loss", "sparse_error"),
        "thresher.training.metrics.ClassificationMetrics", "error",
    ),
    "regression": Task(
        "regressor", "The target is a quantity.", "numbers", ("prediction",),
        ("mse", "mae", "r2"),
        "thresher.training.metrics.RegressionMetrics", "rmse",
    ),
    "novelty": Task(
        "detector", "The target says which class a row belongs to; new rows may belong to none.",
        "classes", ("prediction", "score"), ("novelty", "class_error", "novelty_auc"),
        "thresher.training.novelty.NoveltyMetrics", "error", by_values=False,
    ),
    "clustering": Task(
        "clusterer", "There is none: rows are grouped by themselves.", "none",
        ("prediction", "score"), ("silhouette", "balanced_line_fit"),
        "thresher.training.clustering.ClusteringMetrics", "distance", by_values=False,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Contestant:
    """How a learner takes part in a race.

    Parameters
    ----------
    name : in the race
    parameters : of the estimator, where they are not its defaults
    by_task : more of them for single tasks
    rows : "any", or "sparse" if only sparse rows are worth a try
    most_features : beyond which it does not take part
    scales : whether features are standardised first, where rows are dense

    Examples
    --------
    >>> from thresher.registry import LEARNERS
    >>> [entry.name for entry in LEARNERS["linear"].contestants]
    ['linear', 'sparse linear']
    """

    name: str
    parameters: dict[str, Any] = field(default_factory=dict)
    by_task: dict[str, dict[str, Any]] = field(default_factory=dict)
    rows: str = "any"
    most_features: int | None = None
    scales: bool = True


@dataclass(frozen=True)
class LearnerEntry:
    """What ``--learner`` names.

    Parameters
    ----------
    help : what it is, in a line
    advice : for whom it is, in a sentence
    estimators : task -> where its estimator lives
    contestants : its entries in a race; feature maps bring theirs
    losses : names of the losses that it learns with, by task; empty: all of the task
    partly : whether it learns from rows without labels too, which others refuse

    Examples
    --------
    >>> from thresher.registry import LEARNERS
    >>> LEARNERS["hyperplanes"].help
    'several linear functions per class'
    """

    help: str
    advice: str
    estimators: dict[str, str]
    contestants: tuple[Contestant, ...] = ()
    losses: dict[str, tuple[str, ...]] = field(default_factory=dict)
    partly: bool = False


class Learners(Mapping[str, LearnerEntry]):
    """The learners by name; their estimators are imported when they are asked for.

    Parameters
    ----------
    entries : name of each learner -> what it is

    Examples
    --------
    >>> from thresher.registry import LEARNERS
    >>> LEARNERS.estimator("linear", "regression").__name__
    'LinearRegressor'
    """

    def __init__(self, entries: dict[str, LearnerEntry]):
        self._entries = entries

    def __getitem__(self, name: str) -> LearnerEntry:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def estimator(self, name: str, task: str) -> Any:
        """The class of the learner's estimators for a task."""
        if name not in self:
            raise ValueError(f"learner={name!r} is unknown: choose one of {', '.join(self)}")
        found = self[name].estimators.get(task)
        if found is None:
            able = [other for other, entry in self.items() if task in entry.estimators]
            raise ValueError(f"learner={name!r} is not for {task}; use {' or '.join(able)}")
        return _imported(found)

    def reading(self, name: str) -> dict[str, Any]:
        """How a learner wants its data to be opened."""
        return {"partly_labelled": True} if name in self and self[name].partly else {}

    def agreed(self, name: str | None, task: str | None) -> tuple[str, str | None]:
        """A learner and a task that go together, where one of them is left out."""
        if name is None:
            able = [n for n, entry in self.items() if task is None or task in entry.estimators]
            return (able or ["linear"])[0], task
        own = [t for t in (self[name].estimators if name in self else ()) if TASKS[t].has_target]
        if task is None and len(own) == 1 and not TASKS[own[0]].by_values:
            task = own[0]
        return name, task

    def kinds(self) -> dict[str, Any]:
        """The estimators' classes by their names in files."""
        return {kind: _imported(where) for kind, _, where in self._places()}

    def kind_of(self, cls: type) -> str | None:
        """The name in files of a class of estimators, without importing the others."""
        where = f"{cls.__module__}.{cls.__qualname__}"
        return next((kind for kind, _, place in self._places() if place == where), None)

    def name_of(self, cls: type) -> str | None:
        """The learner that a class of estimators belongs to."""
        where = f"{cls.__module__}.{cls.__qualname__}"
        return next((name for _, name, place in self._places() if place == where), None)

    def _places(self) -> Iterator[tuple[str, str, str]]:
        for name, entry in self.items():
            for task, where in entry.estimators.items():
                yield f"{name}_{TASKS[task].noun}", name, where


LEARNERS = Learners({
    "linear": LearnerEntry(
        "one weight for each feature",
        "One weight for each feature: fast for any size, and can be read.",
        {
            "classification": "thresher.estimators.linear.LinearClassifier",
            "regression": "thresher.estimators.linear.LinearRegressor",
        },
        (
            Contestant("linear", by_task={"classification": {"loss": "logistic"}}),
            Contestant(
                "sparse linear", {"penalty": "l1"}, {"classification": {"loss": "logistic"}}
            ),
        ),
    ),
    "kernel": LearnerEntry(
        "fixed-size kernel machine",
        "A kernel machine of fixed size: curved boundaries by comparing rows with some hundred "
        "landmarks. Best with up to some hundred features.",
        {
            "classification": "thresher.estimators.kernel.KernelClassifier",
            "regression": "thresher.estimators.kernel.KernelRegressor",
        },
    ),
    "budgeted": LearnerEntry(
        "kernel machine on a budget of support vectors",
        "A kernel machine that learns row by row with at most 200 support vectors: for streams.",
        {
            "classification": "thresher.estimators.budgeted.BudgetedClassifier",
            "regression": "thresher.estimators.budgeted.BudgetedRegressor",
        },
        (Contestant("budgeted"),),
        {"classification": ("hinge",)},
    ),
    "svm": LearnerEntry(
        "exact kernel machine, all rows compared with each other",
        "The exact kernel machine, as LIBSVM learns it: for up to some ten thousand rows in "
        "memory; with more, 'kernel' comes close in a few percent of the time.",
        {
            "classification": "thresher.estimators.support.SupportVectorClassifier",
            "regression": "thresher.estimators.support.SupportVectorRegressor",
        },
        losses={
            "classification": ("hinge", "least_squares"),
            "regression": ("epsilon_insensitive", "least_squares"),
        },
    ),
    "hyperplanes": LearnerEntry(
        "several linear functions per class",
        "Several linear functions for each class: between linear and kernel in accuracy, nearly as "
        "fast as linear.",
        {"classification": "thresher.estimators.hyperplanes.MultiHyperplaneClassifier"},
        (Contestant("hyperplanes"),),
        {"classification": ("hinge",)},
    ),
    "confidence": LearnerEntry(
        "one weight for each feature, and how well it is known",
        "One weight for each feature with its variance, learned row by row without step sizes: for "
        "streams, and where it matters how sure a prediction is.",
        {
            "classification": "thresher.estimators.confidence.ConfidenceClassifier",
            "regression": "thresher.estimators.confidence.ConfidenceRegressor",
        },
        losses={"classification": ("squared_hinge",), "regression": ("least_squares",)},
    ),
    "few_labels": LearnerEntry(
        "classes of many rows of which few have labels",
        "Classes of many rows of which few have labels: rows that hang together belong together. "
        "Leave the target of the others blank. Best with up to some hundred features.",
        {"classification": "thresher.estimators.few_labels.SemiSupervisedClassifier"},
        losses={"classification": ("least_squares",)},
        partly=True,
    ),
    "semiparametric": LearnerEntry(
        "functions with readable coefficients beside a kernel machine",
        "Functions of your choice with coefficients that can be read, and a kernel machine for "
        "what they leave over: where some of the answer is known, or asked for. Up to some "
        "100,000 rows.",
        {"regression": "thresher.estimators.semiparametric.SemiparametricRegressor"},
        losses={"regression": ("epsilon_insensitive", "least_squares")},
    ),
    "universum": LearnerEntry(
        "classes from few labels, beside rows of no class and rows without a label",
        "Few rows have labels, and most of the others may belong to no class: learns from all of "
        "them. Rows without a label have an empty target.",
        {"classification": "thresher.estimators.universum.UniversumClassifier"},
        losses={"classification": ("hinge",)},
        partly=True,
    ),
    "novelty": LearnerEntry(
        "classes, and rows that belong to none",
        "Says which class a row belongs to, or that it is like none of them; learns from known "
        "outliers too, and from one class alone.",
        {"novelty": "thresher.estimators.novelty.NoveltyClassifier"},
        losses={"novelty": ("hinge",)},
    ),
    "kmeans": LearnerEntry(
        "clusters around centres",
        "Clusters around centres, without a target; a penalty leaves each centre few features.",
        {"clustering": "thresher.estimators.kmeans.StochasticKMeans"},
    ),
    "planes": LearnerEntry(
        "clusters along planes",
        "Clusters along planes, without a target: for rows that lie on a few flat pieces.",
        {"clustering": "thresher.estimators.plane_clustering.PlaneClustering"},
    ),
    "spectral": LearnerEntry(
        "clusters of any shape, by a kernel",
        "Clusters of any shape, without a target: rows that are alike hang together. For up to "
        "some hundred features.",
        {"clustering": "thresher.estimators.spectral.KernelSpectralClustering"},
    ),
})  # fmt: skip


def metrics_of(task: str, classes: Any, outlier: Any = None) -> Any:
    """What measures predictions of a task, chunk by chunk.

    Parameters
    ----------
    task : name of the task
    classes : array or None
        Its labels, if it has some.
    outlier : label or None, default=None
        The one of them that rows of no class have.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.registry import metrics_of
    >>> metrics = metrics_of("regression", None)
    >>> metrics.add(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    >>> metrics.summary()["mae"]
    1.0
    """
    metrics = _imported(TASKS[task].metrics)
    return metrics(classes) if outlier is None else metrics(classes, outlier)


def _imported(where: str) -> Any:
    module, _, name = where.rpartition(".")
    return getattr(import_module(module), name)


# ---------------------------------------------------------------- names to objects


def register(name: str, cls: Any) -> Any:
    """Give a class of your own a name that estimators, commands and model files know.

    Parameters
    ----------
    name : str
        ``loss="name"`` or ``--loss name`` from now on.
    cls : type or callable
        A class of Loss, Penalty, Kernel, FeatureMap or Solver; or a function that gives a number
        for each row of an array, for the ``basis`` of a ``SemiparametricRegressor``.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from thresher import register
    >>> from thresher.losses import Hinge
    >>> @dataclass(frozen=True)
    ... class Wide(Hinge):
    ...     pass
    >>> register("wide", Wide).__name__
    'Wide'
    >>> from thresher.registry import LOSSES
    >>> LOSSES.remove("wide")
    """
    if not isinstance(cls, type):
        if not callable(cls):
            raise TypeError(f"register({name!r}, ...) needs a class or a function, got {cls!r}")
        BASIS.add(name, cls)
        return cls
    for table in _TABLES:
        if table.takes(cls):
            table.add(name, cls)
            return cls
    raise TypeError(
        f"{cls.__name__} is neither a Loss, a Penalty, a Kernel, a FeatureMap nor a Solver"
    )


def resolve(value: Any, base: type, option: str, **defaults: Any) -> Any:
    """Turn a name into an object.

    Parameters
    ----------
    value : str or object
        A name, or an object of the role, which is returned as it is.
    base : type
        Loss, Penalty, Kernel, FeatureMap or Solver.
    option : str
        What the user calls it, for the words of an error.
    **defaults : fields of the object, where its class has such fields

    Examples
    --------
    >>> from thresher.losses import Loss
    >>> from thresher.registry import resolve
    >>> resolve("pinball", Loss, "loss")
    Pinball(tau=0.5)
    """
    table = next(table for table in _TABLES if table.takes(base))
    if isinstance(value, base):
        return value
    if isinstance(value, type) and issubclass(value, base):
        raise TypeError(
            f"{option}={value.__name__} is a class; pass an instance: {value.__name__}()"
        )
    if not isinstance(value, str) or value not in table:
        raise ValueError(
            f"{option}={value!r} is unknown: give a {base.__name__} object or one of "
            f"{', '.join(table)}"
        )
    cls = table[value]
    if table is MAPS:
        return cls(**{k: v for k, v in defaults.items() if k in signature(cls).parameters})
    required = [
        f.name
        for f in dataclasses.fields(cls)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]
    if required:
        raise ValueError(
            f"{option}={value!r} needs its {', '.join(required)}: "
            f"pass {cls.__name__}({required[0]}=...) instead of the name"
        )
    known = {f.name for f in dataclasses.fields(cls)}
    return cls(**{name: v for name, v in defaults.items() if name in known})
