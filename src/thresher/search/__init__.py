"""Finding settings: coupled simulated annealing and others over declared spaces, kept by Optuna.

Names are imported when first used: whoever only wants the sampler does not load the estimators.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "thresher.search.criteria": ["CRITERIA", "Criterion", "sparse_error"],
    "thresher.search.csa": ["CSASampler", "KeyedRandomSampler"],
    "thresher.search.pruning": ["HopelessPruner"],
    "thresher.search.records": ["SearchFailed", "TrialEvent"],
    "thresher.search.significance": ["Comparison", "compare", "paired_t_test", "sign_test"],
    "thresher.search.space": ["Choice", "Float", "Int", "Space"],
    "thresher.search.spaces": ["declare", "space_for"],
    "thresher.search.storage": ["StudyError"],
    "thresher.search.tuned": ["TUNED", "TunedClassifier", "TunedClusterer", "TunedRegressor"],
    "thresher.search.validation": ["make_folds"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "CRITERIA",
    "TUNED",
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
    "TunedClusterer",
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
    from thresher.search.criteria import CRITERIA, Criterion, sparse_error
    from thresher.search.csa import CSASampler, KeyedRandomSampler
    from thresher.search.pruning import HopelessPruner
    from thresher.search.records import SearchFailed, TrialEvent
    from thresher.search.significance import Comparison, compare, paired_t_test, sign_test
    from thresher.search.space import Choice, Float, Int, Space
    from thresher.search.spaces import declare, space_for
    from thresher.search.storage import StudyError
    from thresher.search.tuned import TUNED, TunedClassifier, TunedClusterer, TunedRegressor
    from thresher.search.validation import make_folds


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'thresher.search' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
