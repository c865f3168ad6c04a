"""scikit-learn estimators: validation, label coding and parameters; no loop over samples here.

Names are imported when first used: whoever learns a linear model does not wait for the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thresher.estimators.budgeted import BudgetedClassifier, BudgetedRegressor
    from thresher.estimators.confidence import ConfidenceClassifier, ConfidenceRegressor
    from thresher.estimators.few_labels import SemiSupervisedClassifier
    from thresher.estimators.hyperplanes import MultiHyperplaneClassifier
    from thresher.estimators.kernel import KernelClassifier, KernelRegressor
    from thresher.estimators.kmeans import StochasticKMeans
    from thresher.estimators.linear import LinearClassifier, LinearRegressor
    from thresher.estimators.novelty import NoveltyClassifier
    from thresher.estimators.one_class import OneClassMachine
    from thresher.estimators.plane_clustering import PlaneClustering
    from thresher.estimators.progress import FitEvent
    from thresher.estimators.semiparametric import SemiparametricRegressor
    from thresher.estimators.spectral import KernelSpectralClustering
    from thresher.estimators.support import SupportVectorClassifier, SupportVectorRegressor
    from thresher.estimators.universum import UniversumClassifier

_HOME = {
    "FitEvent": "progress",
    "BudgetedClassifier": "budgeted",
    "BudgetedRegressor": "budgeted",
    "ConfidenceClassifier": "confidence",
    "ConfidenceRegressor": "confidence",
    "KernelClassifier": "kernel",
    "KernelRegressor": "kernel",
    "LinearClassifier": "linear",
    "LinearRegressor": "linear",
    "MultiHyperplaneClassifier": "hyperplanes",
    "NoveltyClassifier": "novelty",
    "OneClassMachine": "one_class",
    "PlaneClustering": "plane_clustering",
    "KernelSpectralClustering": "spectral",
    "SemiSupervisedClassifier": "few_labels",
    "SemiparametricRegressor": "semiparametric",
    "StochasticKMeans": "kmeans",
    "SupportVectorClassifier": "support",
    "SupportVectorRegressor": "support",
    "UniversumClassifier": "universum",
}

__all__ = [
    "BudgetedClassifier",
    "BudgetedRegressor",
    "ConfidenceClassifier",
    "ConfidenceRegressor",
    "FitEvent",
    "KernelClassifier",
    "KernelRegressor",
    "KernelSpectralClustering",
    "LinearClassifier",
    "LinearRegressor",
    "MultiHyperplaneClassifier",
    "NoveltyClassifier",
    "OneClassMachine",
    "PlaneClustering",
    "SemiSupervisedClassifier",
    "SemiparametricRegressor",
    "StochasticKMeans",
    "SupportVectorClassifier",
    "SupportVectorRegressor",
    "UniversumClassifier",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"thresher.estimators.{_HOME[name]}"), name)
    raise AttributeError(f"module 'thresher.estimators' has no attribute {name!r}")
