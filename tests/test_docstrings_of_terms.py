"""Docstrings that editors can read: literal text, a line that says what it is, an example."""

import ast
import inspect
from dataclasses import fields

import pytest

from thresher.registry import PENALTIES, SOLVERS


@pytest.mark.parametrize("cls", [*SOLVERS.values(), *PENALTIES.values()])
def test_docstring(cls):
    text = inspect.cleandoc(cls.__doc__)
    first, _, rest = text.partition("\n")
    assert first.endswith(".")
    assert rest.startswith("\n")
    assert "\nExamples\n--------\n>>> " in text
    parameters = text.partition("\nParameters\n----------\n")[2]
    for field in fields(cls):
        assert f"\n{field.name} : " in f"\n{parameters}", field.name


@pytest.mark.parametrize("cls", [*SOLVERS.values(), *PENALTIES.values()])
def test_docstring_is_literal(cls):
    body = ast.parse(inspect.getsource(cls)).body[0].body
    assert isinstance(body[0], ast.Expr)
    assert isinstance(body[0].value, ast.Constant)
