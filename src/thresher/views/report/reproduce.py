"""How to get the same model again: a command, Python code, versions."""

from __future__ import annotations

import platform
import shlex
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from thresher.registry import MAPS
from thresher.training import Model
from thresher.views.report.evidence import has_name
from thresher.views.report.section import Section, Table

__all__ = ["command", "reproduce"]

_OWN_OPTION = ("loss", "penalty", "solver", "alpha", "class_weight", "calibrate", "tol")
_TO = ("--model", "again.thresher")
_NOT_ASKED = ("callbacks", "verbose", "n_jobs", "random_state", "trace", "max_iter")


def reproduce(model: Model) -> Section:
    section = Section("reproduce", "How to reproduce it")
    if "data" in model.training:
        section.codes = [("In a shell", shlex.join(command(model))), ("In Python", code(model))]
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
            section.codes.append(("With the search", shlex.join(search_command(model))))
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
    given = getattr(estimator, "max_iter", None)
    return given if given != getattr(type(estimator)(), "max_iter", None) else None


def _columns(model: Model) -> dict[str, Any]:
    """What was said about the columns, as far as the schema tells."""
    schema = model.schema
    out: dict[str, Any] = {}
    if schema.target is not None:
        if schema.is_table:
            out["target"] = schema.target.name
        out["task"] = schema.target.task
    if schema.weight is not None:
        out["weight"] = schema.weight
    out["ignore"] = [c.name for c in schema.columns if c.kind == "ignored" and not c.note
                     and c.name != (schema.target and schema.target.name)
                     and c.name != schema.weight]  # fmt: skip
    out["types"] = {c.name: "date" for c in schema.columns if c.kind == "date"} | {
        c.name: f"hashed:{c.bits}" for c in schema.columns if c.kind == "hashed"
    }
    missing = {c.missing for c in schema.features} - {"mean"}
    if missing:
        out["missing"] = missing.pop()
    return {name: value for name, value in out.items() if value}


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


def command(model: Model) -> list[str]:
    """The words of a ``thresher train`` that gives this model."""
    return [*_command(model, settings(model), _run(model)), *_TO]


def search_command(model: Model) -> list[str]:
    """The words of a ``thresher train`` that finds the settings again."""
    tuning = model.training["tuning"]
    run = {name: value for name, value in _run(model).items() if name != "passes"}
    run |= {"passes": tuning["passes"]} if tuning["passes"] else {}
    words = _command(model, tuning["given"], run)
    words += ["--tune", str(tuning["trials"]), "--criterion", tuning["criterion"]]
    words += ["--search", tuning["search"], "--folds", str(tuning["cv"])]
    return [*words, *(["--study", tuning["study"]] if tuning["study"] else []), *_TO]


def _command(model: Model, params: dict[str, Any], run: dict[str, Any]) -> list[str]:
    words = ["thresher", "train", _data(model)]
    for name, value in _columns(model).items():
        if name == "ignore":
            words += [word for column in value for word in ("--ignore", column)]
        elif name == "types":
            words += [w for column, kind in value.items() for w in ("--type", f"{column}={kind}")]
        else:
            words += [f"--{name}", str(value)]
    learner = model.training.get("learner", "linear")
    words += ["--learner", learner] if learner != "linear" else []
    for name, value in params.items():
        if name == "scale":
            words.append("--scale" if value else "--no-scale")
        elif name in _OWN_OPTION:
            words += [f"--{name.replace('_', '-')}", _text(value)]
        else:
            words += ["--set", f"{name.replace('__', '.')}={_text(value)}"]
    for name, value in run.items():
        words += [f"--{name}", str(value)]
    return words


def _text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def code(model: Model) -> str:
    """The same in Python."""
    params = settings(model)
    arguments = [repr(_data(model))]
    arguments += [f"{name}={value!r}" for name, value in _columns(model).items()]
    learner = model.training.get("learner", "linear")
    arguments += [f"learner={learner!r}"] if learner != "linear" else []
    arguments += [f"params={params!r}"] if params else []
    arguments += [f"{name}={value!r}" for name, value in _run(model).items()]
    arguments.append('model="again.thresher"')
    terms = sorted({type(v).__name__ for v in params.values() if type(v).__module__ in _TERMS})
    lines = [f"from thresher import {', '.join([*terms, 'train'])}", "", "model = train("]
    return "\n".join([*lines, *(f"    {a}," for a in arguments), ")"])


_TERMS = ("thresher.losses", "thresher.penalties", "thresher.kernels")
