"""Finding settings: coupled simulated annealing and others over declared spaces, kept by Optuna.

Names are imported when first used: whoever only wants the sampler does not load the estimators.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "thresher.tune.auto": ["AutoClassifier", "AutoRegressor"],
    "thresher.tune.criteria": ["CRITERIA", "Criterion", "sparse_error"],
    "thresher.tune.csa": ["CSASampler", "KeyedRandomSampler"],
    "thresher.tune.pruning": ["HopelessPruner"],
    "thresher.tune.records": ["SearchFailed", "TrialEvent"],
    "thresher.tune.significance": ["Comparison", "compare", "paired_t_test", "sign_test"],
    "thresher.tune.space": ["Choice", "Float", "Int", "Space"],
    "thresher.tune.spaces": ["declare", "space_for"],
    "thresher.tune.storage": ["StudyError"],
    "thresher.tune.tuned": ["TunedClassifier", "TunedRegressor"],
    "thresher.tune.validation": ["make_folds"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "CRITERIA",
    "AutoClassifier",
    "AutoRegressor",
    "CSASampler",
    "Choice",
    "Comparison",
    "Criterion",
    "Float",
    "HopelessPruner",
    "Int",
    "KeyedRandomSampler",
    "SearchFailed",
    "Space",
    "StudyError",
    "TrialEvent",
    "TunedClassifier",
    "TunedRegressor",
    "compare",
    "declare",
    "make_folds",
    "paired_t_test",
    "sign_test",
    "space_for",
    "sparse_error",
]

if TYPE_CHECKING:
    from thresher.tune.auto import AutoClassifier, AutoRegressor
    from thresher.tune.criteria import CRITERIA, Criterion, sparse_error
    from thresher.tune.csa import CSASampler, KeyedRandomSampler
    from thresher.tune.pruning import HopelessPruner
    from thresher.tune.records import SearchFailed, TrialEvent
    from thresher.tune.significance import Comparison, compare, paired_t_test, sign_test
    from thresher.tune.space import Choice, Float, Int, Space
    from thresher.tune.spaces import declare, space_for
    from thresher.tune.storage import StudyError
    from thresher.tune.tuned import TunedClassifier, TunedRegressor
    from thresher.tune.validation import make_folds


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'thresher.tune' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
