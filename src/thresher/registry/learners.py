"""What ``--learner`` names: estimators by task, help, entries in the race."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from thresher.registry._places import imported, place_of
from thresher.registry.tasks import TASKS

__all__ = ["LEARNERS", "Contestant", "LearnerEntry", "Learners"]


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
    task : the only one that it takes part in; None: all that its learner knows

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
    task: str | None = None


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
    needs : an option of a training that it is for; the wizard does not offer it without

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
    needs: str = ""


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
        return imported(found)

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
        return {kind: imported(where) for kind, _, where in self._places()}

    def kind_of(self, cls: type) -> str | None:
        """The name in files of a class of estimators, without importing the others."""
        where = place_of(cls)
        return next((kind for kind, _, place in self._places() if place == where), None)

    def name_of(self, cls: type) -> str | None:
        """The learner that a class of estimators belongs to."""
        where = place_of(cls)
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
        contestants=(Contestant("exact kernel"),),
        losses={
            "classification": ("hinge", "least_squares"),
            "regression": ("epsilon_insensitive", "least_squares"),
        },
    ),
    "mkl": LearnerEntry(
        "exact kernel machine that chooses among many kernels and columns",
        "An exact kernel machine that learns which kernels of which columns matter: for up to some "
        "thousand rows in memory, and where it is to be said what a model looks at.",
        {
            "classification": "thresher.estimators.multiple_kernels.MultipleKernelClassifier",
            "regression": "thresher.estimators.multiple_kernels.MultipleKernelRegressor",
        },
        losses={"classification": ("hinge",), "regression": ("epsilon_insensitive",)},
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
    "multitask": LearnerEntry(
        "a linear function for each of many tasks, learned together",
        "A linear function for each task that a column names (people, schools, sensors), with "
        "features that matter to all of them.",
        {
            "regression": "thresher.estimators.multitask.MultiTaskRegressor",
            "classification": "thresher.estimators.multitask.MultiTaskClassifier",
        },
        needs="task_column",
    ),
    "novelty": LearnerEntry(
        "classes, and rows that belong to none",
        "Says which class a row belongs to, or that it is like none of them; learns from known "
        "outliers too, and from one class alone.",
        {"novelty": "thresher.estimators.novelty.NoveltyClassifier"},
        losses={"novelty": ("hinge",)},
    ),
    "one_class": LearnerEntry(
        "rows that are unlike all others",
        "Tells rows that are unlike all others, without a target. Up to some ten thousand rows.",
        {"one_class": "thresher.estimators.one_class.OneClassMachine"},
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
