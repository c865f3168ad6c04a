"""Names of losses, penalties, kernels, maps and solvers, and the objects that they stand for."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from inspect import signature
from typing import Any

from thresher.registry._places import imported, place_of

__all__ = [
    "BASIS", "KERNELS", "LOSSES", "MAPS", "PENALTIES", "SOLVERS", "Names", "register", "resolve",
]  # fmt: skip


class Names(Mapping[str, Any]):
    """Classes of one role by name, each imported when it is first asked for.

    Parameters
    ----------
    role : str
        What the classes are for a user: "loss".
    base : str
        Where the class lives that all of them are made from: "thresher.losses.Loss".
    entries : dict of str
        Name of each class -> where it lives.

    Examples
    --------
    >>> from thresher.registry import LOSSES
    >>> LOSSES["hinge"].__name__, "huber" in LOSSES
    ('Hinge', True)
    """

    def __init__(self, role: str, base: str, entries: dict[str, str]):
        self.role, self.base = role, base
        self._entries: dict[str, Any] = dict(entries)

    def __getitem__(self, name: str) -> Any:
        found = self._entries[name]
        if isinstance(found, str):
            found = self._entries[name] = imported(found)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def takes(self, cls: type) -> bool:
        """Whether it is a class of this role."""
        return any(place_of(base) == self.base for base in cls.__mro__)

    def add(self, name: str, cls: type) -> None:
        """Give a class a name; the same class may have it already."""
        if name in self and self[name] is not cls:
            known = getattr(self[name], "__name__", self[name])
            raise ValueError(f"{name!r} already names {known}")
        self._entries[name] = cls

    def remove(self, name: str) -> None:
        """Take a name back."""
        del self._entries[name]

    def name_of(self, cls: type) -> str | None:
        """The name that a class has here, without importing any other."""
        where = place_of(cls)
        return next((n for n, c in self._entries.items() if c is cls or c == where), None)


LOSSES = Names("loss", "thresher.losses.Loss", {
    "hinge": "thresher.losses.Hinge",
    "squared_hinge": "thresher.losses.SquaredHinge",
    "logistic": "thresher.losses.Logistic",
    "least_squares": "thresher.losses.LeastSquares",
    "modified_huber": "thresher.losses.ModifiedHuber",
    "pinball": "thresher.losses.Pinball",
    "huber": "thresher.losses.Huber",
    "epsilon_insensitive": "thresher.losses.EpsilonInsensitive",
    "squared_epsilon_insensitive": "thresher.losses.SquaredEpsilonInsensitive",
})  # fmt: skip
PENALTIES = Names("penalty", "thresher.penalties.base.Penalty", {
    "l2": "thresher.penalties.coordinates.L2",
    "l1": "thresher.penalties.coordinates.L1",
    "elastic_net": "thresher.penalties.coordinates.ElasticNet",
    "weighted_l2": "thresher.penalties.coordinates.WeightedL2",
    "weighted_l1": "thresher.penalties.coordinates.WeightedL1",
    "box": "thresher.penalties.coordinates.Box",
    "group": "thresher.penalties.groups.GroupL2",
    "sparse_group": "thresher.penalties.groups.SparseGroupL2",
})  # fmt: skip
KERNELS = Names("kernel", "thresher.kernels.functions.Kernel", {
    "rbf": "thresher.kernels.functions.RBF",
    "exponential": "thresher.kernels.functions.Exponential",
    "polynomial": "thresher.kernels.functions.Polynomial",
    "linear": "thresher.kernels.functions.Linear",
    "sigmoid": "thresher.kernels.functions.Sigmoid",
    "cosine": "thresher.kernels.functions.Cosine",
})  # fmt: skip
MAPS = Names("map", "thresher.maps.base.FeatureMap", {
    "nystroem": "thresher.maps.nystroem.Nystroem",
    "local": "thresher.maps.local.LocalNystroem",
    "fourier": "thresher.maps.fourier.FourierFeatures",
    "bank": "thresher.maps.bank.BankFeatures",
    "forest": "thresher.maps.forest.ForestFeatures",
    "terms": "thresher.maps.terms.TermFeatures",
    "boosted": "thresher.maps.boosted.BoostedFeatures",
    "stack": "thresher.maps.stack.StackFeatures",
})  # fmt: skip
SOLVERS = Names("solver", "thresher.solvers.base.Solver", {
    "asgd": "thresher.solvers.asgd.AveragedSGD",
    "dcd": "thresher.solvers.dcd.DualDescent",
    "newton": "thresher.solvers.newton.Newton",
    "smoothed_newton": "thresher.solvers.smoothing.SmoothedNewton",
    "summed_newton": "thresher.solvers.summed_newton.SummedNewton",
    "proximal_newton": "thresher.solvers.proximal_newton.ProximalNewton",
    "quasi_newton": "thresher.solvers.quasi_newton.QuasiNewton",
    "pegasos": "thresher.solvers.pegasos.Pegasos",
    "weighted_pegasos": "thresher.solvers.pegasos.WeightedPegasos",
    "dropout_pegasos": "thresher.solvers.dropout.DropoutPegasos",
    "sgd": "thresher.solvers.pegasos.SGD",
    "truncated_gradient": "thresher.solvers.proximal.TruncatedGradient",
    "fobos": "thresher.solvers.proximal.FOBOS",
    "rda": "thresher.solvers.rda.RDA",
    "adaptive_rda": "thresher.solvers.rda.AdaptiveRDA",
    "rda_plus": "thresher.solvers.rda_plus.RDAPlus",
    "lps": "thresher.solvers.lps.LPS",
    "rw_l1_rda": "thresher.solvers.reweighted.ReweightedL1",
    "rw_l2_rda": "thresher.solvers.reweighted.ReweightedL2",
    "asset": "thresher.solvers.asset.ASSET",
    "least_squares": "thresher.solvers.least_squares.DirectLeastSquares",
    "cutting_plane": "thresher.solvers.cutting_planes.CuttingPlane",
    "ocas": "thresher.solvers.cutting_planes.OCAS",
    "mcpa": "thresher.solvers.cutting_planes.MCPA",
})  # fmt: skip
#: functions of rows for the basis of a semiparametric model; ours need no names
BASIS = Names("basis function", "", {})
_TABLES = (LOSSES, PENALTIES, KERNELS, MAPS, SOLVERS)


def register(name: str, cls: Any) -> Any:
    """Give a class of your own a name that estimators, commands and model files know.

    Parameters
    ----------
    name : str
        ``loss="name"`` or ``--loss name`` from now on.
    cls : type or callable
        A class of Loss, Penalty, Kernel, FeatureMap or Solver; or a function that gives a number
        for each row of an array, for the ``basis`` of a ``SemiparametricRegressor``.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from thresher import register
    >>> from thresher.losses import Hinge
    >>> @dataclass(frozen=True)
    ... class Wide(Hinge):
    ...     pass
    >>> register("wide", Wide).__name__
    'Wide'
    >>> from thresher.registry import LOSSES
    >>> LOSSES.remove("wide")
    """
    if not isinstance(cls, type):
        if not callable(cls):
            raise TypeError(f"register({name!r}, ...) needs a class or a function, got {cls!r}")
        BASIS.add(name, cls)
        return cls
    for table in _TABLES:
        if table.takes(cls):
            table.add(name, cls)
            return cls
    raise TypeError(
        f"{cls.__name__} is neither a Loss, a Penalty, a Kernel, a FeatureMap nor a Solver"
    )


def resolve(value: Any, base: type, option: str, **defaults: Any) -> Any:
    """Turn a name into an object.

    Parameters
    ----------
    value : str or object
        A name, or an object of the role, which is returned as it is.
    base : type
        Loss, Penalty, Kernel, FeatureMap or Solver.
    option : str
        What the user calls it, for the words of an error.
    **defaults : fields of the object, where its class has such fields

    Examples
    --------
    >>> from thresher.losses import Loss
    >>> from thresher.registry import resolve
    >>> resolve("pinball", Loss, "loss")
    Pinball(tau=0.5)
    """
    table = next(table for table in _TABLES if table.takes(base))
    if isinstance(value, base):
        _check_fields(type(value), option)
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
    if table is MAPS:
        return cls(**{k: v for k, v in defaults.items() if k in signature(cls).parameters})
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


def _check_fields(cls: type, option: str) -> None:
    """Compiled methods know the fields of a term, and only a dataclass tells them."""
    if hasattr(cls, "_numba_type_") and not dataclasses.is_dataclass(cls):
        raise TypeError(
            f"{option}: {cls.__name__} is not a dataclass: put @dataclass(frozen=True) above the "
            "class"
        )
