"""How to get the same model again: a command, Python code, versions."""

from __future__ import annotations

import platform
import shlex
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from thresher.registry import MAPS
from thresher.training import Model
from thresher.training.recipe import Recipe
from thresher.views.report.evidence import has_name
from thresher.views.report.section import Section, Table

__all__ = ["recipe", "reproduce", "search_recipe"]

_AGAIN = "again.thresher"
_NOT_ASKED = (
    "callbacks", "verbose", "n_jobs", "random_state", "trace", "max_iter", "outlier_label",
)  # fmt: skip


def reproduce(model: Model) -> Section:
    section = Section("reproduce", "How to reproduce it")
    if "data" in model.training:
        found = recipe(model)
        section.codes = [("In a shell", shlex.join(found.words())), ("In Python", found.code())]
        section.paragraphs = [
            "With the same data and versions the model is the same to the bit. Column types and "
            "reading options that were given by hand are those of the table above."
        ]
        if model.training.get("trials"):
            section.paragraphs.append(
                "These are the settings that the search has found, without the search; calibrated "
                "probabilities are fitted anew and may differ a little."
            )
        if model.training.get("tuning"):
            section.codes.append(("With the search", shlex.join(search_recipe(model).words())))
    rows = [["Python", platform.python_version()], ["system", platform.platform()]]
    for package in ("thresher", "numpy", "scipy", "numba", "scikit-learn"):
        try:
            rows.append([package, version(package)])
        except PackageNotFoundError:  # run from its sources
            continue
    section.tables = [Table(["", "version"], rows, "versions that made this report")]
    return section


def settings(model: Model) -> dict[str, Any]:
    """The estimator's parameters that are not the defaults of a training."""
    estimator, schema = model.estimator, model.schema
    default = type(estimator)().get_params(deep=False)
    default["scale"] = schema.is_table or schema.layout == "dense"
    given = estimator.get_params(deep=False)
    other = {
        name: value
        for name, value in given.items()
        if name not in _NOT_ASKED and str(value) != str(default.get(name))
    }
    return other | _map_settings(other.get("map"))


def _map_settings(value: Any) -> dict[str, Any]:
    """A map that is an object, by its name and the parameters that are not its defaults."""
    name = MAPS.name_of(type(value))
    if name is None:
        return {}
    default = type(value)().get_params(deep=False)
    own = {k: v for k, v in value.get_params(deep=False).items() if str(v) != str(default[k])}
    return {"map": name, **{f"map__{k}": v for k, v in own.items() if k != "n_jobs"}}


def _passes(model: Model) -> int | None:
    """Passes, where they were or may have been given."""
    training, estimator = model.training, model.estimator
    if not training.get("in_memory", True):
        return int(training["passes"]) if training.get("status") == "COMPLETED" else None
    given = training.get("passes_given") or estimator.max_iter
    return given if given != type(estimator)().max_iter else None


def _columns(model: Model) -> dict[str, Any]:
    """What was said about the columns, as far as the schema tells."""
    schema = model.schema
    out: dict[str, Any] = {}
    if schema.target is not None:
        if schema.is_table:
            out["target"] = schema.target.name
        out["task"] = schema.target.task
        if schema.target.outlier is not None:
            out["outlier_label"] = schema.target.outlier
    if schema.weight is not None:
        out["weight"] = schema.weight
    out["ignore"] = [c.name for c in schema.columns if c.kind == "ignored" and not c.note
                     and c.name != (schema.target and schema.target.name)
                     and c.name != schema.weight]  # fmt: skip
    out["types"] = (
        {c.name: "date" for c in schema.columns if c.kind == "date"}
        | {c.name: f"hashed:{c.bits}" for c in schema.columns if c.kind == "hashed"}
        | {c.name: f"powers:{c.powers}" for c in schema.columns if c.powers > 1}
    )
    missing = {c.missing for c in schema.features} - {"mean"}
    if missing:
        out["missing"] = missing.pop()
    return {name: value for name, value in out.items() if value or value == 0}


def _run(model: Model) -> dict[str, Any]:
    training = model.training
    out: dict[str, Any] = {"passes": _passes(model)}
    for name in ("holdout", "memory"):
        out[name] = training.get(name)
    out["seed"] = training.get("seed") or None
    return {name: value for name, value in out.items() if value is not None}


def _data(model: Model) -> str:
    name = str(model.training["data"])
    return name if has_name(name) else "DATA"


def recipe(model: Model) -> Recipe:
    """What gives this model again, without the search that has found it."""
    learner = model.training.get("learner", "linear")
    return Recipe([_data(model)], _columns(model), learner, settings(model), _run(model), _AGAIN)


def search_recipe(model: Model) -> Recipe:
    """What finds the settings again."""
    tuning = model.training["tuning"]
    run = {name: value for name, value in _run(model).items() if name != "passes"}
    run |= {"passes": tuning["passes"]} if tuning["passes"] else {}
    run |= {"tune": tuning["trials"], "criterion": tuning["criterion"]}
    run |= {"search": tuning["search"], "cv": tuning["cv"]}
    run |= {"study": tuning["study"]} if tuning["study"] else {}
    return replace(recipe(model), params=tuning["given"], options=run)
