"""Finding settings: coupled simulated annealing and others over declared spaces, kept by Optuna.

Names are imported when first used: whoever only wants the sampler does not load the estimators.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
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

__all__ = sorted(_HOME)

if TYPE_CHECKING:
    from thresher.tune.criteria import CRITERIA, Criterion, sparse_error  # noqa: F401
    from thresher.tune.csa import CSASampler, KeyedRandomSampler  # noqa: F401
    from thresher.tune.pruning import HopelessPruner  # noqa: F401
    from thresher.tune.records import SearchFailed, TrialEvent  # noqa: F401
    from thresher.tune.significance import Comparison, compare, paired_t_test, sign_test  # noqa: F401
    from thresher.tune.space import Choice, Float, Int, Space  # noqa: F401
    from thresher.tune.spaces import declare, space_for  # noqa: F401
    from thresher.tune.storage import StudyError  # noqa: F401
    from thresher.tune.tuned import TunedClassifier, TunedRegressor  # noqa: F401
    from thresher.tune.validation import make_folds  # noqa: F401


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'thresher.tune' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
