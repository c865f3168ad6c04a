"""What Sphinx does not bring: rooms of the package, and formulas that need no script.

``.. room:: thresher.losses`` documents every name of a module's ``__all__``, so that no page lists
names by hand; ``.. names::`` is a table of those of ``thresher`` itself, with links.
"""

from __future__ import annotations

import enum
import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sklearn.base import BaseEstimator
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

# What scikit-learn adds to every estimator is described there.
_THEIRS = (
    "BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin, MetaEstimatorMixin, "
    "ClassNamePrefixFeaturesOutMixin, _SetOutputMixin"
)
# Docstrings are written to be read as they are: |w| and coef_ are no markup, outside of code.
_CODE = (
    r"``.+?``|:[a-z:]+:`.+?`|^ *>>>.+?(?:\n\s*\n|\Z)"  # literals, roles, examples
    r"|^ *\.\. .*?$|::\s*\n\s*\n(?: +[^\n]*\n|\s*\n)+"  # directives, literal blocks
)
_PLAIN = re.compile(rf"({_CODE})|(\||(?<=\w)_(?!\w))", re.DOTALL | re.MULTILINE)
_REMOTE = re.compile(r"""<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=["']https?:[^>]*>""")
_ROOMS = (
    "estimators", "maps", "orderings", "matchings", "losses", "penalties", "functions", "kernels",
    "schedules",
    "solvers", "data", "training", "search", "race", "testing", "views",
)  # fmt: skip

_OUTSIDE = {"../CONTRIBUTING.md": "contributing.md", "../benchmarks/RESULTS.md": "results.md"}


def summary(value: Any) -> str:
    """The first sentence or paragraph of a docstring, as one line."""
    paragraph = inspect.cleandoc(value.__doc__ or "").partition("\n\n")[0]
    return plain(" ".join(paragraph.split()))


def noted(env: BuildEnvironment, *found: Any) -> None:
    """Build the page again when the source of one of these has changed."""
    for value in found:
        if path := inspect.getsourcefile(value):
            env.note_dependency(path)


def plain(text: str) -> str:
    """The same text with a backslash before what only looks like markup."""
    return _PLAIN.sub(lambda found: found[1] or f"\\{found[2]}", text)


def home(name: str) -> str:
    """Where the reference describes a name of ``thresher``."""
    value = getattr(import_module("thresher"), name)
    for room in _ROOMS:
        module = import_module(f"thresher.{room}")
        if name in module.__all__ and getattr(module, name) is value:
            return f"thresher.{room}.{name}"
    return f"thresher.{name}"


def link(where: str, value: Any) -> str:
    return f":py:{'class' if isinstance(value, type) else 'func'}:`~{where}`"


def table(header: list[str], lines: list[list[str]]) -> str:
    """A table in reStructuredText."""
    out = [".. list-table::", "   :header-rows: 1", "   :widths: auto", ""]
    for line in [header, *lines]:
        for column, cell in enumerate(line):
            out.append(f"   {'* -' if column == 0 else '  -'} {cell}")
    return "\n".join(out)


class Room(SphinxDirective):
    """Every public name of a module, in the order of its ``__all__``; classes first."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        room = self.arguments[0]
        module = import_module(room)
        noted(self.env, module)
        found = {name: getattr(module, name) for name in module.__all__}
        order = sorted(found, key=lambda name: not isinstance(found[name], type))
        text = [f".. py:currentmodule:: {room}", ""]
        for name in order:
            text += [*_entry(f"{room}.{name}", found[name]), ""]
        return self.parse_text_to_nodes("\n".join(text))


def _entry(where: str, value: Any) -> list[str]:
    if inspect.isroutine(value):
        return [f".. autofunction:: {where}"]
    if not isinstance(value, type):  # a dict of objects by name
        return [f".. py:data:: {where}", "", f"   By name: {', '.join(map(repr, value))}."]
    if issubclass(value, Exception):
        return [f".. autoexception:: {where}"]
    protocol = getattr(value, "_is_protocol", False)  # nobody makes one
    out = [f".. autoclass:: {where}{'()' if protocol else ''}", "   :members:"]
    if issubclass(value, BaseEstimator):
        out += ["   :undoc-members:", f"   :inherited-members: {_THEIRS}"]
    if issubclass(value, enum.Enum):
        out += ["   :undoc-members:"]
    if issubclass(value, tuple) and hasattr(value, "_fields"):
        out += [f"   :exclude-members: {', '.join(value._fields)}"]
    return out


class NameTable(SphinxDirective):
    """The public names of ``thresher`` with links to where they are described."""

    def run(self) -> list[nodes.Node]:
        thresher = import_module("thresher")
        noted(self.env, thresher)
        names = [name for name in thresher.__all__ if not name.startswith("__")]
        lines = []
        for name in sorted(names, key=str.lower):
            value = getattr(thresher, name)
            lines.append([link(home(name), value), summary(value)])
        return self.parse_text_to_nodes(table(["name", "what it is"], lines))


def _skipped(
    app: Sphinx, what: str, name: str, value: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out what scikit-learn gives to all, and class attributes that nothing is said of."""
    routing = name.startswith("set_") and name.endswith("_request")
    spoken = callable(value) or inspect.isdatadescriptor(value) or isinstance(value, enum.Enum)
    theirs = name in ("get_params", "set_params", "get_metadata_routing")
    return True if routing or theirs or not spoken else None


def _as_written(
    app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]
) -> None:
    lines[:] = plain("\n".join(lines)).split("\n")


def _at_home(app: Sphinx, document: str, source: list[str]) -> None:
    """Pages that lie outside of this folder for readers of the repository."""
    for theirs, ours in _OUTSIDE.items():
        source[0] = source[0].replace(f"]({theirs})", f"]({ours})")


def _inline(self: Any, node: nodes.math) -> None:
    self.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def _block(self: Any, node: nodes.math_block) -> None:
    self.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>\n')
    raise nodes.SkipNode


def _check_alone(app: Sphinx, error: Exception | None) -> None:
    """The pages must load nothing from elsewhere."""
    for page in sorted(Path(app.outdir).rglob("*.html")) if error is None else []:
        if found := _REMOTE.search(page.read_text("utf-8")):
            raise ExtensionError(f"{page.name} loads from the network: {found[0]}")


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("room", Room)
    app.add_directive("names", NameTable)
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.connect("autodoc-skip-member", _skipped)
    app.connect("autodoc-process-docstring", _as_written, priority=400)  # before Napoleon
    app.connect("source-read", _at_home)
    app.connect("build-finished", _check_alone)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
