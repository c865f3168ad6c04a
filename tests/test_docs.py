"""The docstrings that `make docs` prints and editors show: literal text, complete, in step."""

from __future__ import annotations

import ast
import enum
import inspect
import re
from dataclasses import fields
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import thresher
from thresher.training import Training

SOURCES = Path(thresher.__file__).parent
ROOMS = (
    "thresher", "thresher.data", "thresher.functions", "thresher.kernels", "thresher.losses",
    "thresher.maps", "thresher.matchings", "thresher.orderings", "thresher.penalties",
    "thresher.race", "thresher.registry", "thresher.schedules", "thresher.search",
    "thresher.solvers", "thresher.testing", "thresher.views",
)  # fmt: skip

#: of ``thresher.train``, whose options are those of ``Training``; some are for commands only
TRAINING = [f.name for f in fields(Training) if f.name not in ("terms", "stop", "begun")]


def public():
    """Every public class and function once, by the first room that has it."""
    found = {}
    for room in ROOMS:
        module = import_module(room)
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isroutine(value):
                found.setdefault(value, f"{room}.{name}")
    return {where: value for value, where in found.items()}


@cache
def parsed(module):
    return ast.parse(Path(inspect.getsourcefile(import_module(module))).read_text("utf-8"))


def written(value):
    """The docstring as it stands in the source, or None."""
    nodes = [n for n in parsed(value.__module__).body if getattr(n, "name", "") == value.__name__]
    return ast.get_docstring(nodes[-1]) if nodes else None


def test_no_class_puts_its_docstring_together():
    assembled = set()
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            body = node.body if isinstance(node, ast.ClassDef) else []
            for line in body:
                targets = line.targets if isinstance(line, ast.Assign) else []
                if any(isinstance(t, ast.Name) and t.id == "__doc__" for t in targets):
                    assembled.add(node.name)
            if isinstance(node, ast.Attribute) and node.attr == "__doc__":
                assert not isinstance(node.ctx, ast.Store), f"{path.name} changes a docstring"
    assert assembled == set()


@pytest.mark.parametrize("where", public())
def test_public_names_have_docstrings_in_the_source(where):
    value = public()[where]
    text = written(value)
    assert text
    assert inspect.cleandoc(value.__doc__) == text


def signature(value):
    """The names of the parameters, by which an object is made or a function called."""
    if inspect.isclass(value) and issubclass(value, (Exception, enum.Enum)):
        return []
    if getattr(value, "_is_protocol", False):  # nobody makes one
        return []
    if inspect.isclass(value) and hasattr(value, "_fields"):
        return list(value._fields)
    if value is thresher.train:
        return ["data", "y", *TRAINING]
    return list(inspect.signature(value).parameters)


def documented(text):
    """The names in the section "Parameters" of a docstring; none if there is no such section."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^[A-Z]\w+\n-+\n|\Z)", text, re.S | re.M)
    lines = section[1].splitlines() if section else []
    heads = [line.partition(" :")[0] for line in lines if re.match(r"\S", line)]
    return [name.strip().lstrip("*") for head in heads for name in head.split(",")]


def faults(value):
    """What the docstring of a public name lacks."""
    text = inspect.cleandoc(value.__doc__)
    has, should = documented(text), signature(value)
    lacking = [f"parameter {name} is not described" for name in should if name not in has]
    lacking += [f"there is no parameter {name}" for name in has if name not in should]
    if not re.search(r"^Examples\n-+\n+.*>>> ", text, re.S | re.M):
        lacking.append("no example")
    return lacking


def test_parameters_and_examples_are_complete():
    found = {where: faults(value) for where, value in public().items()}
    assert {where: lacking for where, lacking in found.items() if lacking} == {}


def test_the_reference_has_a_page_for_every_room():
    pages = {p.stem: p.read_text("utf-8") for p in (SOURCES.parents[1] / "docs/api").glob("*.rst")}
    listed = "\n".join(pages.values())
    homes = {value.__module__.split(".")[1] for value in public().values()}
    homes -= {"registry", "dimensions"}
    assert [room for room in sorted(homes) if f".. room:: thresher.{room}\n" not in listed] == []
    assert ".. autofunction:: thresher.register\n" in pages["extending"]
    assert all(f"\n   {page}\n" in pages["index"] for page in pages if page != "index")
