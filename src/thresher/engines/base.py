"""The one question to an engine: this task for each of these recipes, every answer once.

A *task* is a function of a recipe and of what all tasks share.  It must be pure: an engine may run
it twice, and two tasks may be handed the same objects.  A *recipe* is small and says where rows
are; the worker reads them itself.

Whoever asks puts the answers in the order of the recipes before it adds them up, so that a result
does not depend on who was first.  A new engine is one class with :meth:`Engine.run`; without
futures (Spark) it may collect all answers and then hand them out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

__all__ = ["Engine", "EngineError", "Serial", "Task", "in_order"]

R = TypeVar("R")
#: of a recipe, and of what all tasks share
Task = Callable[[Any, Any], R]


class EngineError(Exception):
    """The engine, not the work, has failed: no answer from a scheduler, workers that die."""


class Engine(Protocol):
    """Runs pure tasks, somewhere; several threads may ask at once."""

    @property
    def width(self) -> int:
        """How many tasks run at a time."""
        ...

    def run(self, task: Task[R], recipes: Sequence[Any], shared: Any) -> Iterator[tuple[int, R]]:
        """``(k, task(recipes[k], shared))`` for every k, exactly once each, in any order.

        An exception of a task ends the run and is raised here; leaving early cancels the rest.
        """
        ...

    def prepare(self, task: Task[Any], recipe: Any, shared: Any) -> None:
        """Run a small task once on every machine, so that its code is compiled once there."""
        ...

    def describe(self) -> str:
        """What messages call it."""
        ...


class Serial:
    """One after the other, in this process: what the others' results are held against."""

    width = 1

    def run(self, task: Task[R], recipes: Sequence[Any], shared: Any) -> Iterator[tuple[int, R]]:
        for k, recipe in enumerate(recipes):
            yield k, task(recipe, shared)

    def prepare(self, task: Task[Any], recipe: Any, shared: Any) -> None:
        pass

    def describe(self) -> str:
        return "this process"


def in_order(
    engine: Engine, task: Task[R], recipes: Sequence[Any], shared: Any,
    on_answer: Callable[[R], None] | None = None,
) -> list[R]:  # fmt: skip
    """All answers in the order of the recipes; ``on_answer`` hears of each as it comes in."""
    answers: dict[int, R] = {}
    for k, answer in engine.run(task, recipes, shared):
        if k in answers:
            raise EngineError(f"{engine.describe()} gave the answer of task {k} twice")
        answers[k] = answer
        if on_answer is not None:
            on_answer(answer)
    if len(answers) != len(recipes):
        missing = min(set(range(len(recipes))) - answers.keys())
        raise EngineError(f"{engine.describe()} has not answered task {missing}")
    return [answers[k] for k in range(len(recipes))]
