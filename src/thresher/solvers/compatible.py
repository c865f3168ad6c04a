"""Who learns with whom: what a solver needs of losses, penalties and targets, and who offers it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from thresher._terms import capabilities
from thresher.registry import LOSSES, PENALTIES, SOLVERS
from thresher.schedules import Schedule

if TYPE_CHECKING:
    from thresher.solvers.base import Problem, Solver

__all__ = ["check_compatible", "takes"]

_NUMBERS: dict[str, tuple[tuple[type, ...], str]] = {
    "int": ((int, np.integer), "a whole number"),
    "float": ((int, float, np.integer, np.floating), "a number"),
}
_TARGETS = ("classes", "matrix", "pairs", "none")
_IN_WORDS = {
    "matrix": "a matrix of targets, a column for each task", "pairs": "rows that name their task",
    "none": "without targets",
}  # fmt: skip


def check_compatible(solver: Solver, problem: Problem) -> None:
    """Fail before any work, naming the missing capability and what would do."""
    _check_numbers(solver)
    for role, term, needs in (
        ("loss", problem.loss, solver.loss_needs),
        ("penalty", problem.penalty, solver.penalty_needs),
    ):
        missing = sorted(needs - capabilities(term))
        if missing and "grouped" in capabilities(term) and problem.targets != "none":
            raise ValueError(
                f"solver {type(solver).__name__} does not take {type(term).__name__}, a penalty "
                f"over groups; these do: {', '.join(_who_take_groups(problem))}"
            )
        if missing:
            raise ValueError(
                f"solver {type(solver).__name__} needs a {role} that offers {', '.join(missing)}, "
                f"which {type(term).__name__} does not; {_alternatives(role, needs)}"
            )
    misfit = problem.penalty.misfit(problem.n_features)
    if misfit:
        raise ValueError(misfit)
    _check_targets(solver, problem)
    joined = problem.penalty.shared and problem.outputs > 1 and not problem.has_tasks
    if joined and not solver.joins_blocks:
        able = [name for name, cls in SOLVERS.items() if cls.joins_blocks]
        raise ValueError(
            f"solver {type(solver).__name__} learns each class by itself, so that groups cannot be "
            f"shared among them; these do: {', '.join(able)}"
        )
    schedule = getattr(solver, "schedule", None)
    if schedule is not None and not isinstance(schedule, Schedule):
        raise TypeError(
            f"{type(solver).__name__}: schedule must be a Schedule such as Constant(0.1), "
            f"got {schedule!r}"
        )
    solver.check(problem)


def _check_numbers(solver: Solver) -> None:
    """ValueError for a field that is to be a number, and is none."""
    for field in fields(solver):  # type: ignore[arg-type]
        kind, _, rest = str(field.type).partition(" | ")
        value = getattr(solver, field.name)
        if kind not in _NUMBERS or (value is None and rest == "None"):
            continue
        classes, wanted = _NUMBERS[kind]
        if not isinstance(value, classes) or isinstance(value, bool | np.bool_):
            raise ValueError(
                f"{type(solver).__name__}: {field.name} must be {wanted}, got {value!r}"
            )


def takes(solver: Solver, problem: Problem) -> bool:
    """Whether the solver can learn with the problem's loss and penalty."""
    try:
        check_compatible(solver, problem)
    except ValueError:
        return False
    return True


def _alternatives(role: str, needs: frozenset[str]) -> str:
    table = LOSSES if role == "loss" else PENALTIES
    names = [name for name, cls in table.items() if needs <= _class_capabilities(cls)]
    return f"these do: {', '.join(names)}" if names else "no built-in one does"


def _who_take_groups(problem: Problem) -> list[str]:
    """Solvers that learn with the problem's loss, and its penalty over groups."""
    able = []
    for name, cls in SOLVERS.items():
        fits = cls.penalty_needs <= capabilities(problem.penalty)
        if fits and cls.loss_needs <= capabilities(problem.loss):
            with suppress(ValueError, TypeError):  # it says no, or is not made without settings
                cls().check(problem)
                able.append(name)
    return able


def _class_capabilities(cls: Any) -> frozenset[str]:
    return capabilities(cls.__new__(cls))


def _check_targets(solver: Solver, problem: Problem) -> None:
    if problem.targets not in _TARGETS:
        raise ValueError(f"targets must be one of {', '.join(_TARGETS)}, got {problem.targets!r}")
    if problem.targets not in solver.target_kinds:
        able = [name for name, cls in SOLVERS.items() if problem.targets in cls.target_kinds]
        raise ValueError(
            f"solver {type(solver).__name__} does not learn "
            f"{_IN_WORDS.get(problem.targets, problem.targets)}; these do: {', '.join(able)}"
        )
