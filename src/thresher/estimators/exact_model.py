"""What machines share that can only be fitted by comparing all rows with each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from thresher._rows import Rows
from thresher._threads import threads
from thresher.estimators.exact_fit import ExactFit
from thresher.estimators.progress import Held

__all__ = ["INSTEAD", "ExactModel"]

_FEW_ROWS = 5000  # whose pairs cost about as much as all that is not about pairs
_GROWTH = 1.75
_HARMLESS = 30.0  # C, up to which it is no matter for the time
#: of an exact machine, where rows are too many
INSTEAD = (
    "learner='kernel' (landmarks in place of all rows, in a few percent of the time) or "
    "learner='budgeted' (row by row)"
)


class ExactModel(ExactFit):
    """Machines that know no other way to learn."""

    # ------------------------------------------------------------ streams

    def work(self, params: dict[str, Any], rows: int) -> float:
        """What does not grow with the rows is most of it where they are few.

        Working sets need ever fewer of all pairs: exponents between 1.5 and 2.2 were measured.
        Where classes overlap, time grows with the root of a large C or a little faster (eight sets
        of 3,000 rows, C up to 1e5: 2 to 7 times as much at 1,000, on three where they do not, 1.5).
        """
        C = params.get("C", getattr(self, "C", None)) or 1.0
        pairs = float(_FEW_ROWS) ** _GROWTH + float(rows) ** _GROWTH
        return pairs * float(np.sqrt(1.0 + C / _HARMLESS))

    def _can_stream(self) -> bool:
        raise AttributeError(
            f"{type(self).__name__} compares all rows with each other and has no partial_fit: use "
            "the learner 'budgeted' for streams"
        )

    def streams_files(self) -> bool:
        """An exact machine needs all rows together."""
        return False

    def without_stream(self) -> tuple[str, str]:
        """Who needs all rows, and what to use where they are too many."""
        return "the exact kernel machine", INSTEAD

    # ------------------------------------------------------------ units

    @property
    def shift_(self) -> np.ndarray | None:
        """Rows are read as (x - shift_) * scale_."""
        units = getattr(self.function_, "units", None)
        return None if units is None else units.shift

    @property
    def scale_(self) -> np.ndarray | None:
        """Rows are read as (x - shift_) * scale_."""
        units = getattr(self.function_, "units", None)
        return None if units is None else units.scale

    # ------------------------------------------------------------ the fit

    @property
    def _jobs(self) -> int:
        return threads(self.n_jobs)

    def fit_targets(
        self, rows: Rows, targets: np.ndarray, weight: np.ndarray | None, outputs: int,
        held: Held | None = None,
    ) -> None:  # fmt: skip
        """Learn from coded targets: -1 and +1, class numbers if ``outputs`` > 1, or numbers."""
        self.fit_exactly(rows, targets, weight, outputs)
