"""Tables of what the registry knows: ``.. registry:: losses``.

They are read off ``thresher.registry`` and the classes themselves when a page is built, so that a
name given by ``register`` is in them and nobody keeps a list.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from _reference import noted, summary, table
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from thresher import registry
from thresher._terms import capabilities
from thresher.losses import Loss
from thresher.penalties import Penalty


def _offers(protocol: type) -> Callable[[type], str]:
    """Optional methods and traits, beyond what every class of the protocol has."""
    return lambda cls: _words(capabilities(cls.__new__(cls)) - capabilities(protocol()))


def _words(found: Any) -> str:
    return ", ".join(sorted(found)) or "--"


def _parameters(cls: type) -> str:
    return ", ".join(f"``{name}``" for name in inspect.signature(cls).parameters) or "--"


# Of each role: its table, and what else there is to say of a class.
_TABLES: dict[str, tuple[registry.Names, dict[str, Callable[[Any], str]]]] = {
    "losses": (registry.LOSSES, {
        "tasks": lambda cls: _words(cls.tasks), "also offers": _offers(Loss),
    }),
    "penalties": (registry.PENALTIES, {"also offers": _offers(Penalty)}),
    "kernels": (registry.KERNELS, {"traits": lambda cls: _words(cls.traits)}),
    "maps": (registry.MAPS, {"parameters": _parameters}),
    "solvers": (registry.SOLVERS, {
        "needs of the loss": lambda cls: _words(cls.loss_needs),
        "of the penalty": lambda cls: _words(cls.penalty_needs),
        "streams": lambda cls: "yes" if cls.streaming else "--",
    }),
}  # fmt: skip


class Registry(SphinxDirective):
    """One table of the registry: name, class, its first sentence, its capabilities."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        names, columns = _TABLES[self.arguments[0]]
        noted(self.env, registry.Names, *names.values())
        lines = []
        for name, cls in names.items():
            where = f":py:class:`~{cls.__module__}.{cls.__qualname__}`"
            told = [describe(cls) for describe in columns.values()]
            lines.append([f'``"{name}"``', where, summary(cls), *told])
        header = [f"``{names.role}=``", "class", "what it is", *columns]
        return self.parse_text_to_nodes(table(header, lines))


class LearnersTable(SphinxDirective):
    """What ``--learner`` names: help, estimators by task, who races for it."""

    def run(self) -> list[nodes.Node]:
        noted(self.env, registry.Learners)
        lines = [
            [f'``"{name}"``', entry.advice, ", ".join(map(_class, entry.estimators.values()))]
            for name, entry in registry.LEARNERS.items()
        ]
        return self.parse_text_to_nodes(table(["``learner=``", "what it is", "classes"], lines))


class TasksTable(SphinxDirective):
    """What a target may mean, and what makes one model better than another."""

    def run(self) -> list[nodes.Node]:
        noted(self.env, registry.Task)
        lines = [
            [f'``"{name}"``', task.target, ", ".join(f"``{c}``" for c in task.criteria)]
            for name, task in registry.TASKS.items()
        ]
        return self.parse_text_to_nodes(table(["``task=``", "what it is", "criteria"], lines))


def _class(where: str) -> str:
    return f":py:class:`~{where}`"


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("registry", Registry)
    app.add_directive("learners", LearnersTable)
    app.add_directive("tasks", TasksTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
