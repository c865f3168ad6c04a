"""What files of earlier versions say otherwise, said as this version says it.

Documents are plain JSON: they are rewritten before anything in them is decoded, and what comes out
is checked as any other document.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thresher.artifacts.container import BadFile

__all__ = ["added_fields", "added_state", "current_name", "upgraded"]

Json = dict[str, Any]

#: where the classes of a module have gone, or one of them that has gone elsewhere
_MOVED = {
    "thresher.kernels": "thresher.kernels.functions",
    "thresher.penalties": "thresher.penalties.coordinates",
    "thresher.penalties.GroupL2": "thresher.penalties.groups",
    "thresher.solvers.rda_plus.PlusState": "thresher.solvers._plus_states",
}


def current_name(name: str) -> str:
    """Where a class of ours lives now; other names are what they are."""
    module, _, cls = name.rpartition(".")
    home = _MOVED.get(name) or _MOVED.get(module)
    return f"{home}.{cls}" if home else name


#: fields that classes got after files of version 2 were written, as JSON of the same meaning
_ADDED: dict[str, Json] = {
    "thresher.penalties.groups.GroupL2": {
        "weights": None,
        "elastic": 0.0,
        "shared": False,
        "members": None,
        "names": None,
    },
    "thresher.schedules.Pegasos": {"delay": 0.0},
    "thresher.solvers.asgd.AveragedSGD": {"origin": 0.0},
    "thresher.solvers.pegasos.Pegasos": {"average": False, "units": None},
    "thresher.solvers.dcd.DualDescent": {"origin": 0.0},
    "thresher.solvers.dropout.DropoutPegasos": {"average": False, "units": None},
    "thresher.solvers.asset.ASSET": {"units": None},
    "thresher.solvers.pegasos.SGD": {"origin": 0.0},
    "thresher.solvers.proximal.FOBOS": {"origin": 0.0},
    "thresher.solvers.proximal.TruncatedGradient": {"origin": 0.0},
    "thresher.solvers.rda.RDA": {"origin": 0.0, "floor": 0.0},
    "thresher.solvers.rda.AdaptiveRDA": {"origin": 0.0},
    "thresher.solvers.rda_plus.RDAPlus": {"floor": 0.0, "reservoir": 0, "least_rows": 0},
    "thresher.solvers._plus_states.PlusState": {"sample": None},
    "thresher.solvers._plus_states.TaskPlusState": {"sample": None},
    "thresher.solvers.reweighted.ReweightedL1": {"hold": None, "origin": 0.0},
    "thresher.solvers.reweighted.ReweightedL2": {"origin": 0.0},
    "thresher.solvers.weighted_pca.WeightedPCA": {"smoothing": 0.0},
}


def added_fields(name: str) -> Json:
    """What a class of ours has that older files do not give, and what it was without it."""
    return _ADDED.get(name, {})


#: what maps learned besides since files of version 2 were written
_ADDED_STATE: dict[str, Json] = {"forest": {"bundles_": None}, "boosted": {"bundles_": None}}


def added_state(name: str) -> Json:
    """What the state of a map has that older files do not give, and what it was without it."""
    return _ADDED_STATE.get(name, {})


def upgraded(model: Json, version: int) -> Json:
    """The part of a document that is the model, as version 2 writes it.

    Version 1 kept the attributes of the estimator, with forms of its own for matrices, maps and
    calibrations; from version 2 on a model is parameters, a function and a record.
    """
    if version != 1:
        return model
    try:
        kind, attributes = model["estimator"], model["attributes"]
        values = {name: _value(value) for name, value in attributes.items()}
        parameters = {
            name: _map_parameter(value) if name == "map" else value
            for name, value in model["parameters"].items()
        }
        function, record = _FUNCTIONS[kind](values, parameters)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadFile(f"a damaged document of version 1: {error}") from error
    kind = "hyperplanes_classifier" if kind == "hyperplanes" else kind
    return {"estimator": kind, "parameters": parameters, "function": function, "record": record}


def _object(name: str, **fields: Any) -> Json:
    return {"$object": {"class": f"thresher.{name}", "role": "term", "fields": fields}}


# ---------------------------------------------------------------- forms of values


def _value(value: Any) -> Any:
    """A value of version 1, which tagged its own forms by "form"."""
    if not isinstance(value, dict) or "form" not in value:
        return value
    parts = {name: _value(part) for name, part in value.items() if name != "form"}
    return _FORMS[value["form"]](parts)


def _map(name: str, parameters: Json, **state: Any) -> Json:
    return {"$map": {"name": name, "parameters": parameters, "state": state}}


def _with_kernel(name: str, *fields: str) -> Callable[[Json], Json]:
    def made(parts: Json) -> Json:
        state = {f"{field}_": parts[field] for field in (*fields, "kernel")}
        return _map(name, {"kernel": parts["kernel"]}, **state)

    return made


def _terms(parts: Json) -> Json:
    powers = {name: parts[name] for name in ("power", "rarity")}
    return _map("terms", powers, weights_=parts["weights"], entries_=parts["entries"])


_FORMS: dict[str, Callable[[Json], Json]] = {
    "csr": lambda parts: {"$csr": parts},
    "sigmoid": lambda parts: _object("functions.calibration.Sigmoid", **parts),
    "softmax": lambda parts: _object("functions.calibration.Softmax", **parts),
    "isotonic": lambda parts: _object("functions.calibration.Isotonic", **parts),
    "units": lambda parts: _object("functions.units.Units", **parts),
    "nystroem": _with_kernel("nystroem", "landmarks", "projection"),
    "local": _with_kernel("local", "centres", "landmarks", "projections", "sizes"),
    "fourier": _with_kernel("fourier", "frequencies", "phases"),
    "forest": lambda parts: _map("forest", {}, trees_=_object("maps.leaves.Trees", **parts)),
    "terms": _terms,
}


def _map_parameter(value: Any) -> Any:
    """A map that was given as an object: its name and its own parameters."""
    if not isinstance(value, dict) or "map" not in value:
        return value
    own = {name: _value(part) for name, part in value.items() if name != "map"}
    return {"$map": {"name": value["map"], "parameters": own, "state": None}}


# ---------------------------------------------------------------- attributes to functions


def _linear(a: Json, parameters: Json) -> tuple[Json, Json]:
    del a["density_"]
    fields = {"coef": a.pop("coef_"), "intercept": a.pop("intercept_")}
    return _object("functions.linear.LinearFunction", **fields), a


def _kernel(a: Json, parameters: Json) -> tuple[Json, Json]:
    del a["density_"]
    fields = {
        "map": a.pop("map_"), "coef": a.pop("coef_"), "table": a.pop("dual_coef_"),
        "intercept": a.pop("intercept_"), "features": a["n_features_in_"],
        "units": a.pop("_raw_units"),
    }  # fmt: skip
    return _object("functions.mapped.MappedFunction", **fields), a


def _budgeted(a: Json, parameters: Json) -> tuple[Json, Json]:
    shift, scale, kernel = a.pop("shift_"), a.pop("scale_"), a.pop("kernel_")
    units = None if scale is None else _object("functions.units.Units", shift=shift, scale=scale)
    fields = {
        "kernel": kernel, "vectors": a.pop("support_vectors_"), "coef": a.pop("dual_coef_"),
        "intercept": a.pop("intercept_"), "units": units,
    }  # fmt: skip
    a["penalty_"] = _object("penalties.coordinates.L2", strength=a.pop("alpha_"))
    a["solver_"] = _object(
        "solvers.budgeted.Budgeted", kernel=kernel, budget=parameters["budget"],
        maintenance=parameters["maintenance"], constant=float(parameters["fit_intercept"]),
        eta0=parameters["eta0"], memory=16.0 if parameters["average"] else None,
    )  # fmt: skip
    return _object("functions.expansion.Expansion", **fields), a


def _planes(a: Json, parameters: Json) -> tuple[Json, Json]:
    fields = {
        "coef": a.pop("coef_"), "intercept": a.pop("intercept_"),
        "owners": a.pop("weight_classes_"), "ids": a.pop("weight_ids_"),
    }  # fmt: skip
    known = dict(a["solver_"]["$object"]["fields"])
    a["penalty_"] = _object("penalties.coordinates.L2", strength=known.pop("lam"))
    known.pop("seed")
    alternating = parameters["variant"] == "batch"
    a["solver_"] = _object(
        "solvers.hyperplanes.Hyperplanes", **known, average=parameters["average"],
        alternating=alternating, sub_epochs=parameters["sub_epochs"], endless=False,
    )  # fmt: skip
    return _object("functions.planes.Planes", **fields), a


_FUNCTIONS: dict[str, Callable[[Json, Json], tuple[Json, Json]]] = {
    "linear_classifier": _linear,
    "linear_regressor": _linear,
    "kernel_classifier": _kernel,
    "kernel_regressor": _kernel,
    "budgeted_classifier": _budgeted,
    "budgeted_regressor": _budgeted,
    "hyperplanes": _planes,
}
