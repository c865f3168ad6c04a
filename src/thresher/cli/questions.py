"""The wizard's questions: what is asked, why it matters, what most people choose, and defaults.

A question is data; nothing here prints or reads.
"""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path

from thresher._durations import seconds_of
from thresher.cli.talk import NO_TARGET, Choice, Question, Talk
from thresher.data.errors import nearest
from thresher.registry import LEARNERS, LOSSES, MAPS, TASKS

__all__ = ["NOTHING", "QUESTIONS", "tunes"]

_TARGETS = ("target", "label", "labels", "class", "y", "outcome", "response", "income", "price")
_MOST_LISTED = 30
NOTHING = "none"  # of whoever knows no rows of no class


# ---------------------------------------------------------------- target and task


def _columns(talk: Talk) -> list[Choice]:
    listed = talk.data.schema.columns[:_MOST_LISTED]
    target = talk.data.schema.target
    columns = [
        Choice(c.name, "" if target and c.name == target.name else c.describe()) for c in listed
    ]
    nothing = Choice(NO_TARGET, "Predict nothing: group the rows by themselves (clustering).")
    return columns if NO_TARGET in talk.data.schema.names else [*columns, nothing]


def _likely_target(talk: Talk) -> str:
    names = talk.data.schema.names
    known = [n for n in names if n.strip().casefold() in _TARGETS]
    return known[-1] if known else names[-1]


def _check_target(talk: Talk, value: str) -> str:
    names = talk.data.schema.names
    if value == NO_TARGET and value not in names:
        talk.data = talk.opened()
        return value
    if value not in names:
        place = int(value) if re.fullmatch(r"-?\d+", value) else 0
        if not place or abs(place) > len(names):
            raise ValueError(f"there is no column {value!r}: {nearest(value, names)}")
        value = names[place - 1 if place > 0 else place]
    talk.data = talk.opened(target=value)
    return value


def _inferred_task(talk: Talk) -> str:
    target = talk.data.schema.target
    return "classification" if target is None else target.task


def _check_task(talk: Talk, value: str) -> str:
    wishes = {"target": talk.answers["target"]} if "target" in talk.answers else {}
    if value != _inferred_task(talk):
        talk.data = talk.opened(**wishes, task=value)
    target = talk.data.schema.target
    if target is None:
        raise ValueError("the data has no target")
    talk.answers.pop("outlier_label", None)
    if TASKS[target.task].has_classes and len(target.classes) < 2:
        raise ValueError(
            f"all rows looked at are of one class, {target.classes}: choose regression"
        )
    return value


def _labels(talk: Talk) -> list[Choice]:
    target = talk.data.schema.target
    listed = [] if target is None else [c for c in target.classes if c != target.outlier]
    return [Choice(str(c), "Its rows are known outliers.") for c in listed[:_MOST_LISTED]]


def _usual_outlier(talk: Talk) -> str:
    target = talk.data.schema.target
    return "" if target is None else str(target.outlier)


def _check_outlier(talk: Talk, value: str) -> str:
    target = talk.data.schema.target
    assert target is not None
    wishes = {"target": talk.answers["target"]} if "target" in talk.answers else {}
    talk.data = talk.opened(**wishes, task=target.task, outlier_label=value)
    return value


# ---------------------------------------------------------------- losses

_MARGIN = "With m = label (+1 or -1) times score: m > 0 is right, m > 1 is right by a margin. "
_CLASSIFYING = [
    Choice("squared_hinge", "max(0, 1 - m)^2. Flat floor where a row is right by a margin, then a "
           "wall that gets steeper the more wrong it is. Fast and accurate."),
    Choice("hinge", "max(0, 1 - m). Flat floor, then a straight ramp: the support vector machine. "
           "A row that is very wrong pulls less than with the square."),
    Choice("logistic", "log(1 + e^-m). A ramp that levels off smoothly and never gets quite flat. "
           "Gives probabilities."),
    Choice("pinball", "1 - m below the margin, (m - 1)/2 beyond it. A lopsided V with its point at "
           "the margin: every row counts, so noise near the boundary matters less."),
    Choice("modified_huber", "The squared hinge, continued as a straight line where m < -1. "
           "Forgives wrong labels, and gives probabilities."),
    Choice("least_squares", "(1 - m)^2 / 2. A bowl around the margin: rows that are too right cost "
           "as well. One direct solve; fine for balanced, clean data."),
]  # fmt: skip
_REGRESSING = [
    Choice("least_squares", "r^2 / 2 of the residual r. A bowl: large misses dominate. The mean of "
           "the target is what it aims at."),
    Choice("huber", "r^2 / 2 near zero, straight lines beyond 1.35. A bowl with straight walls: "
           "outliers pull, but no harder the farther away they are."),
    Choice("epsilon_insensitive", "max(0, |r| - 0.1). A flat ditch with straight walls: small "
           "misses are free. Support vector regression; aims at the median."),
    Choice("squared_epsilon_insensitive", "max(0, |r| - 0.1)^2. A flat ditch with rising walls."),
]  # fmt: skip


def _losses(talk: Talk) -> list[Choice]:
    """Ours with their pictures, then registered ones by what they say of themselves."""
    known = _REGRESSING if not TASKS[talk.task].has_classes else _CLASSIFYING
    shown = {choice.value for choice in known}
    others = [
        Choice(name, (inspect.getdoc(cls) or "").partition("\n")[0])
        for name, cls in LOSSES.items()
        if talk.task in cls.tasks and name not in shown
    ]
    return known + others


# ---------------------------------------------------------------- the learner


def _learners(talk: Talk) -> list[Choice]:
    """Those that can learn with the loss that was chosen."""
    loss, out = talk.answers.get("loss"), []
    for name, entry in LEARNERS.items():
        own = entry.losses.get(talk.task, ())
        if entry.needs:
            continue
        if talk.task in entry.estimators and (not own or loss is None or loss in own):
            out.append(Choice(name, entry.advice))
    return out


def _takes_no_class(talk: Talk) -> bool:
    """Whether the learner has a use for rows of no class."""
    learner = talk.answers["learner"]
    if not LEARNERS[learner].partly:
        return False
    return "irrelevant" in LEARNERS.estimator(learner, talk.answers["task"])().get_params()


def _no_class(talk: Talk) -> list[Choice]:
    target = talk.data.schema.target
    listed = () if target is None else target.classes[:_MOST_LISTED]
    return [
        Choice(NOTHING, "All labels are classes."),
        *(Choice(str(c), "Its rows are of no class.") for c in listed),
    ]


def _has_losses(talk: Talk) -> bool:
    """Whether some learner of the task lets its loss be chosen."""
    able = [entry for entry in LEARNERS.values() if talk.task in entry.estimators]
    return _chooses(talk) and any(not entry.losses.get(talk.task) for entry in able)


def _races(talk: Talk) -> bool:
    """Whether learners of the task take part in races."""
    able = (e for e in LEARNERS.values() if e.contestants)
    return _predicts(talk) and any(talk.task in e.estimators for e in able)


def _maps(talk: Talk) -> list[Choice]:
    """By what they say of themselves, registered ones too."""
    return [
        Choice(name, (inspect.getdoc(cls) or "").partition("\n")[0]) for name, cls in MAPS.items()
    ]


_SPARSE = [
    Choice("no", "Every feature may keep a weight (l2 penalty). Most accurate when many matter."),
    Choice("yes", "Weights of features that do not help become zero (l1 penalty)."),
    Choice("mixed", "In between (elastic net): zeros, but features that move together stay "
           "together."),
]  # fmt: skip


# ---------------------------------------------------------------- tuning, criterion, budget, file

_TUNING = [
    Choice("no", "One training with settings that suit most data."),
    Choice("20", "Twenty settings: a hundred short trainings."),
    Choice("40", "Forty settings: enough for two or three numbers."),
    Choice("100", "A hundred settings."),
]


def tunes(answers: dict[str, str]) -> bool:
    return answers.get("tune", "no") != "no"


def _check_tune(talk: Talk, value: str) -> str:
    value = "no" if value.casefold() in ("n", "no", "none", "0") else value
    if value != "no" and not (value.isdigit() and int(value) > 0):
        raise ValueError(f"{value!r} is no number of settings: write no, 20 or 40")
    return value


_CRITERIA = {
    "error": "Share of wrong labels.",
    "auc": "How well rows are ranked, whatever the threshold: for rare classes.",
    "log_loss": "How good the probabilities are; they are calibrated if the loss has none of its "
    "own.",
    "sparse_error": "Share of wrong labels, and a little for every weight that is not zero.",
    "mse": "Mean squared error: large misses count most.",
    "mae": "Mean absolute error: all misses count by their size.",
    "r2": "Share of the variance that is explained.",
    "novelty": "Mistakes on known classes and missed outliers, in equal parts.",
    "class_error": "Share of wrong classes, where no row is rejected.",
    "novelty_auc": "How well known rows and outliers are told apart, whatever the threshold.",
}


def _criteria(talk: Talk) -> list[Choice]:
    sparse = tunes(talk.answers) and talk.answers.get("sparse", "no") != "no"
    names = [n for n in TASKS[talk.task].criteria if sparse or n != "sparse_error"]
    return [Choice(name, _CRITERIA[name]) for name in names]


def _usual_criterion(talk: Talk) -> str:
    rare = "auc" in TASKS[talk.task].criteria and talk.rarest() < 0.1
    return "auc" if rare else TASKS[talk.task].criteria[0]


_BUDGETS = [
    Choice("none", "No race: one training, of seconds for most data."),
    Choice("1m", "A minute."),
    Choice("10m", "Ten minutes."),
    Choice("1h", "An hour."),
]


def _predicts(talk: Talk) -> bool:
    return not talk.groups


def _chooses(talk: Talk) -> bool:
    """Whether the user does, and not a race."""
    return _predicts(talk) and talk.answers.get("budget", "none") == "none"


def _check_clusters(talk: Talk, value: str) -> str:
    if value != "auto" and not (value.isdigit() and int(value) > 1):
        raise ValueError(f"{value!r} is no number of groups: write 8 or auto")
    return value


def _check_budget(talk: Talk, value: str) -> str:
    value = _BUDGETS[0].value if value.casefold() in ("no", "none", "0") else value
    if value != _BUDGETS[0].value:
        seconds_of(value)
    return value


def _free_name(talk: Talk) -> str:
    stem = re.sub(r"\W+", "-", Path(str(talk.data.name)).name.split(".")[0]).strip("-") or "model"
    name, count = f"{stem}.thresher", 1
    while os.path.exists(name):
        count += 1
        name = f"{stem}-{count}.thresher"
    return name


def _check_file(talk: Talk, value: str) -> str:
    folder = Path(value).parent
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    if Path(value).is_dir() or not os.access(folder, os.W_OK):
        raise ValueError(f"{value} cannot be written")
    if any(os.path.exists(p) and os.path.samefile(p, value) for p in talk.paths
           if os.path.exists(value)):  # fmt: skip
        raise ValueError(f"{value} is the data: choose another name")
    return value


QUESTIONS = (
    Question(
        "target", "Which column is to be predicted?",
        "All other columns become features. A column that is only known afterwards must not be "
        "among them: leave such columns out of the file. Without a target rows are grouped.",
        "the last column", _columns, _likely_target, _check_target, lambda talk: talk.is_table,
        open_ended=True,
    ),
    Question(
        "task", "Labels or numbers?",
        "It decides what a mistake is: a wrong label, or a distance from the true number; novelty "
        "is for labels too, and says which rows are like none of the classes.",
        "what the values look like",
        lambda talk: [Choice(n, task.target) for n, task in TASKS.items() if task.has_target],
        _inferred_task, _check_task, _predicts,
    ),
    Question(
        "clusters", "How many groups?",
        "Every row will belong to one of them. With auto, two to twenty are tried, and those whose "
        "rows are nearest to their own and farthest from other groups (silhouette) are taken.",
        "auto, or a number that they can look at",
        lambda talk: [Choice("auto", "Try two to twenty.")], lambda talk: "auto", _check_clusters,
        lambda talk: talk.groups, open_ended=True,
    ),
    Question(
        "grouping", "Around points or along planes?",
        "Groups are round heaps for most data; rows that lie on a few flat pieces want planes.",
        "kmeans", _learners, lambda talk: "kmeans", asked=lambda talk: talk.groups,
    ),
    Question(
        "outlier_label", "What are rows of no class called?",
        "Rows with this label are known outliers; new rows that are like no class get it.",
        "the default, unless some rows are known outliers", _labels, _usual_outlier,
        _check_outlier, lambda talk: talk.task == "novelty", open_ended=True,
    ),
    Question(
        "budget",
        "Shall it find the learner and its settings by itself, and for how long?",
        "Within the time, linear, sparse, kernel and other learners race on your rows, and the "
        "best is taken. With none, you choose: the next questions are about that.",
        "none for a first model, some minutes for the best one",
        lambda talk: list(_BUDGETS),
        lambda talk: "none",
        _check_budget,
        _races,
        open_ended=True,
    ),
    Question(
        "loss", "Which loss?",
        "The loss is what a mistake costs while learning. " + _MARGIN,
        "the first one; logistic for probabilities", _losses,
        lambda talk: _losses(talk)[0].value,
        asked=_has_losses,
    ),
    Question(
        "learner", "Linear or nonlinear?",
        "A linear model adds up the features; a nonlinear one can bend around the classes, takes "
        "longer and cannot be read off. (The hinge loss has budgeted and hyperplanes too; squared "
        "losses have confidence, which is linear and knows how sure its weights are.)",
        "linear first, kernel if that is not good enough", _learners,
        lambda talk: _learners(talk)[0].value,
        asked=_chooses,
    ),
    Question(
        "irrelevant", "Which label do rows of no class have?",
        "Rows that are known to belong to no class say where the boundary may lie; rows without a "
        "label have an empty cell, and nothing needs to be said about them.",
        "none, if no row is known to be of no class", _no_class, lambda talk: NOTHING,
        asked=lambda talk: _chooses(talk) and _takes_no_class(talk),
        open_ended=True,
    ),
    Question(
        "map", "What are rows turned into?",
        "A kernel machine learns one weight for each of these features; smooth boundaries want "
        "landmarks, thresholds of single columns want trees, counts of words want weighted terms.",
        "nystroem; forest for tables of mixed columns", _maps, lambda talk: "nystroem",
        asked=lambda talk: _chooses(talk) and talk.answers.get("learner") == "kernel",
    ),
    Question(
        "sparse", "A sparse model?",
        "Zero weights make a model small, fast and readable, and can cost some accuracy.",
        "no, unless there are many features that do not matter", lambda talk: list(_SPARSE),
        lambda talk: "no",
        asked=lambda talk: _chooses(talk) and talk.answers.get("learner") == "linear",
    ),
    Question(
        "tune", "How many settings shall it try?",
        "Strength of the penalty, width of the kernel, shape of the loss: the best are found by "
        "cross-validation, each setting on five folds, and then the model learns from all rows.",
        "no for a first model, 40 for a good one; a kernel machine gains most",
        lambda talk: list(_TUNING), lambda talk: "no", _check_tune, _chooses, open_ended=True,
    ),
    Question(
        "criterion", "What makes one model better than another?",
        "Settings are tried by it, you are shown it at the end, and it is noted in the model.",
        "error; auc if one class is rare (below a tenth)", _criteria, _usual_criterion,
        asked=_predicts,
    ),
    Question(
        "save", "Where to save the model?",
        "The file holds the model and what it needs to read your data again; an existing file is "
        "replaced.",
        "the name of the data", lambda talk: [], _free_name, _check_file,
    ),
    Question(
        "run", "Train it now?", "No prints the command and the code only.", "yes",
        lambda talk: [Choice("yes", "Run the command."), Choice("no", "Stop here.")],
        lambda talk: "yes",
    ),
)  # fmt: skip
