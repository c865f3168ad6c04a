"""Thresher: learning from data that is too big, too sparse or too nonlinear for the usual tools.

Names are imported when first used, so that ``import thresher`` itself costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

_HOMES = {
    "thresher.data": ["DataError", "DataSet", "Schema", "open_data"],
    "thresher.estimators": [
        "BudgetedClassifier", "BudgetedRegressor", "ConfidenceClassifier", "ConfidenceRegressor",
        "FitEvent", "KernelClassifier", "KernelRegressor", "KernelSpectralClustering",
        "LinearClassifier", "LinearRegressor", "MultiHyperplaneClassifier", "MultiTaskClassifier",
        "MultiTaskRegressor", "MultipleKernelClassifier", "MultipleKernelRegressor",
        "NoveltyClassifier", "OneClassMachine", "PlaneClustering", "SemiSupervisedClassifier",
        "SemiparametricRegressor", "StochasticKMeans", "SupportVectorClassifier",
        "SupportVectorRegressor", "UniversumClassifier",
    ],
    "thresher.maps": [
        "BankFeatures", "BoostedFeatures", "ForestFeatures", "FourierFeatures", "LocalNystroem",
        "Nystroem",
        "StackFeatures", "TermFeatures",
    ],
    "thresher.kernels": [
        "RBF", "Cosine", "Exponential", "Kernel", "Linear", "Polynomial", "Sigmoid",
    ],
    "thresher.orderings": ["ColumnOrdering", "OrderingEvent", "RowOrdering"],
    "thresher.losses": [
        "EpsilonInsensitive", "Hinge", "Huber", "LeastSquares", "Logistic", "Loss", "ModifiedHuber",
        "Pinball", "SquaredEpsilonInsensitive", "SquaredHinge",
    ],
    "thresher.matchings": ["GridLayout", "ObjectMatching"],
    "thresher.penalties": [
        "L1", "L2", "Box", "ElasticNet", "GroupL2", "Penalty", "SparseGroupL2", "WeightedL1",
        "WeightedL2",
    ],
    "thresher.registry": ["register"],
    "thresher.solvers": ["Status"],
    "thresher.race": ["AutoClassifier", "AutoRegressor"],
    "thresher.search": ["CSASampler", "TunedClassifier", "TunedClusterer", "TunedRegressor"],
    "thresher.training": ["Model", "load_model", "save_model", "train"],
}  # fmt: skip
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME)]

if TYPE_CHECKING:
    from thresher.data import DataError, DataSet, Schema, open_data
    from thresher.estimators import (
        BudgetedClassifier,
        BudgetedRegressor,
        ConfidenceClassifier,
        ConfidenceRegressor,
        FitEvent,
        KernelClassifier,
        KernelRegressor,
        KernelSpectralClustering,
        LinearClassifier,
        LinearRegressor,
        MultiHyperplaneClassifier,
        MultipleKernelClassifier,
        MultipleKernelRegressor,
        MultiTaskClassifier,
        MultiTaskRegressor,
        NoveltyClassifier,
        OneClassMachine,
        PlaneClustering,
        SemiparametricRegressor,
        SemiSupervisedClassifier,
        StochasticKMeans,
        SupportVectorClassifier,
        SupportVectorRegressor,
        UniversumClassifier,
    )
    from thresher.kernels import (
        RBF,
        Cosine,
        Exponential,
        Kernel,
        Linear,
        Polynomial,
        Sigmoid,
    )
    from thresher.losses import (
        EpsilonInsensitive,
        Hinge,
        Huber,
        LeastSquares,
        Logistic,
        Loss,
        ModifiedHuber,
        Pinball,
        SquaredEpsilonInsensitive,
        SquaredHinge,
    )
    from thresher.maps import (
        BankFeatures,
        BoostedFeatures,
        ForestFeatures,
        FourierFeatures,
        LocalNystroem,
        Nystroem,
        StackFeatures,
        TermFeatures,
    )
    from thresher.matchings import GridLayout, ObjectMatching
    from thresher.orderings import ColumnOrdering, OrderingEvent, RowOrdering
    from thresher.penalties import (
        L1,
        L2,
        Box,
        ElasticNet,
        GroupL2,
        Penalty,
        SparseGroupL2,
        WeightedL1,
        WeightedL2,
    )
    from thresher.race import AutoClassifier, AutoRegressor
    from thresher.registry import register
    from thresher.search import CSASampler, TunedClassifier, TunedClusterer, TunedRegressor
    from thresher.solvers import Status
    from thresher.training import Model, load_model, save_model, train


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'thresher' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
