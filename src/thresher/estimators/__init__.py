"""scikit-learn estimators: validation, label coding and parameters; no loop over samples here."""

from thresher.estimators._progress import FitEvent
from thresher.estimators.linear import LinearClassifier, LinearRegressor

__all__ = ["FitEvent", "LinearClassifier", "LinearRegressor"]
