"""A talk with the user: what a question is, answers so far, and the data as they describe it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from thresher.data import DataSet, open_data
from thresher.data.errors import nearest

__all__ = ["NO_TARGET", "Choice", "Question", "Talk"]

NO_TARGET = "none"  # the answer of whoever predicts nothing


class Choice(NamedTuple):
    value: str
    text: str


@dataclass
class Talk:
    """Files, how to read them, and the answers so far; ``data`` is opened as they say."""

    paths: list[str]
    reading: dict[str, Any] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.data = self.opened()
        if not self.data.source.rereadable:
            raise ValueError(
                f"{self.data.name} can be read only once, the wizard looks first: save it to a file"
            )

    def opened(self, **wishes: Any) -> DataSet:
        return open_data(self.paths, **self.reading, **wishes, partly_labelled=True)

    @property
    def is_table(self) -> bool:
        return self.data.schema.is_table

    @property
    def groups(self) -> bool:
        """Whether rows are to be grouped, and nothing is predicted."""
        return self.answers.get("target") == NO_TARGET and NO_TARGET not in self.data.schema.names

    @property
    def task(self) -> str:
        if self.groups:
            return "clustering"
        if "task" in self.answers:
            return self.answers["task"]
        target = self.data.schema.target
        return "classification" if target is None else target.task

    def rarest(self) -> float:
        """Share of the rarest class in the first rows."""
        sample, target = self.data.sample, self.data.schema.target
        if sample.y is None or target is None or not target.classes:
            return 1.0
        counts = np.bincount(sample.codes, minlength=len(target.classes))
        return float(counts.min() / max(counts.sum(), 1))

    def answer(self, question: Question, text: str) -> str:
        """Take an answer (empty: the default), or say what is wrong with it."""
        value = text.strip() or question.default(self)
        values = [choice.value for choice in question.choices(self)]
        if values and (not question.open_ended or _counts(value, values)):
            value = _chosen(value, values)
        self.answers[question.key] = question.check(self, value)
        return self.answers[question.key]


def _counts(text: str, values: list[str]) -> bool:
    """Whether it is the number of a choice, and not one itself."""
    return text not in values and text.isdigit() and 1 <= int(text) <= len(values)


def _chosen(text: str, values: list[str]) -> str:
    """A choice by its number, its name or the beginning of its name."""
    if text.isdigit() and 1 <= int(text) <= len(values):
        return values[int(text) - 1]
    word = text.casefold().replace("-", "_")
    exact = [v for v in values if v.casefold() == word]
    begun = exact or [v for v in values if v.casefold().startswith(word)]
    if len(begun) == 1:
        return begun[0]
    if begun:
        raise ValueError(f"{text!r} could be {' or '.join(begun)}")
    raise ValueError(f"{text!r} is no answer: {nearest(text, values)}")


def _as_is(talk: Talk, value: str) -> str:
    return value


@dataclass(frozen=True)
class Question:
    """``check`` may turn an answer into another, or raise ValueError with the reason."""

    key: str
    text: str
    why: str
    usual: str
    choices: Callable[[Talk], list[Choice]]
    default: Callable[[Talk], str]
    check: Callable[[Talk, str], str] = _as_is
    asked: Callable[[Talk], bool] = lambda talk: True
    open_ended: bool = False  # the choices are suggestions
