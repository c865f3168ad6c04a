"""Names for people in a hurry: ``loss="logistic"`` instead of ``loss=Logistic()``.

The command line, the wizard, the docs and the tests all enumerate these tables, so a new term or
solver needs its class and one line here (or one call of :func:`register`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from thresher import kernels, losses, penalties, solvers

__all__ = ["KERNELS", "LOSSES", "PENALTIES", "SOLVERS", "register", "resolve"]

LOSSES: dict[str, type[losses.Loss]] = {
    "hinge": losses.Hinge,
    "squared_hinge": losses.SquaredHinge,
    "logistic": losses.Logistic,
    "least_squares": losses.LeastSquares,
    "modified_huber": losses.ModifiedHuber,
    "pinball": losses.Pinball,
    "huber": losses.Huber,
    "epsilon_insensitive": losses.EpsilonInsensitive,
    "squared_epsilon_insensitive": losses.SquaredEpsilonInsensitive,
}
PENALTIES: dict[str, type[penalties.Penalty]] = {
    "l2": penalties.L2,
    "l1": penalties.L1,
    "elastic_net": penalties.ElasticNet,
    "weighted_l2": penalties.WeightedL2,
    "weighted_l1": penalties.WeightedL1,
    "box": penalties.Box,
}
KERNELS: dict[str, type[kernels.Kernel]] = {
    "rbf": kernels.RBF,
    "exponential": kernels.Exponential,
    "polynomial": kernels.Polynomial,
    "linear": kernels.Linear,
    "sigmoid": kernels.Sigmoid,
    "cosine": kernels.Cosine,
}
SOLVERS: dict[str, type[solvers.Solver]] = {
    "asgd": solvers.AveragedSGD,
    "dcd": solvers.DualDescent,
    "newton": solvers.Newton,
    "smoothed_newton": solvers.SmoothedNewton,
    "proximal_newton": solvers.ProximalNewton,
    "quasi_newton": solvers.QuasiNewton,
    "pegasos": solvers.Pegasos,
    "weighted_pegasos": solvers.WeightedPegasos,
    "dropout_pegasos": solvers.DropoutPegasos,
    "sgd": solvers.SGD,
    "truncated_gradient": solvers.TruncatedGradient,
    "fobos": solvers.FOBOS,
    "rda": solvers.RDA,
    "adaptive_rda": solvers.AdaptiveRDA,
    "rw_l1_rda": solvers.ReweightedL1,
    "rw_l2_rda": solvers.ReweightedL2,
    "asset": solvers.ASSET,
    "least_squares": solvers.DirectLeastSquares,
}
_TABLES: list[tuple[type, dict[str, Any]]] = [
    (losses.Loss, LOSSES),
    (penalties.Penalty, PENALTIES),
    (kernels.Kernel, KERNELS),
    (solvers.Solver, SOLVERS),
]


def register(name: str, cls: type) -> type:
    """Give a loss, penalty, kernel or solver class a name that estimators and commands accept."""
    for base, table in _TABLES:
        if issubclass(cls, base):
            if table.setdefault(name, cls) is not cls:
                raise ValueError(f"{name!r} already names {table[name].__name__}")
            return cls
    raise TypeError(f"{cls.__name__} is neither a Loss, a Penalty, a Kernel nor a Solver")


def resolve(value: Any, base: type, option: str, **defaults: Any) -> Any:
    """Turn a name into an object (with ``defaults`` where its class has such fields)."""
    table = next(table for cls, table in _TABLES if cls is base)
    if isinstance(value, base):
        return value
    if isinstance(value, type) and issubclass(value, base):
        raise TypeError(
            f"{option}={value.__name__} is a class; pass an instance: {value.__name__}()"
        )
    if not isinstance(value, str) or value not in table:
        raise ValueError(
            f"{option}={value!r} is unknown: give a {base.__name__} object or one of "
            f"{', '.join(table)}"
        )
    cls = table[value]
    required = [
        f.name
        for f in dataclasses.fields(cls)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]
    if required:
        raise ValueError(
            f"{option}={value!r} needs its {', '.join(required)}: "
            f"pass {cls.__name__}({required[0]}=...) instead of the name"
        )
    known = {f.name for f in dataclasses.fields(cls)}
    return cls(**{name: v for name, v in defaults.items() if name in known})
