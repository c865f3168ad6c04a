"""What the kernel classifier and regressor share: a feature map before the linear machinery.

Everything of :class:`LinearModel` is kept: it learns from the mapped rows.  Where the features of
all rows fit in ``memory`` they are computed once; otherwise block by block in every pass, from the
same rows in the same order, so that streaming solvers give the same model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from thresher._random import shuffled
from thresher._rows import Dense, Rows
from thresher._seed import seed_from
from thresher.estimators import _input
from thresher.estimators._linear import LinearModel, Setup
from thresher.estimators._progress import Held, Progress
from thresher.estimators._relevance import weighed
from thresher.estimators._stream import RowStream
from thresher.maps import (
    ForestFeatures,
    FourierFeatures,
    LocalNystroem,
    Nystroem,
    TermFeatures,
)
from thresher.maps.base import FeatureMap
from thresher.maps.terms import is_terms
from thresher.penalties import L2, Penalty
from thresher.registry import MAPS
from thresher.solvers import (
    AveragedSGD,
    Chunk,
    DualDescent,
    Problem,
    QuasiNewton,
    Result,
    Solver,
    Status,
    driver,
)
from thresher.solvers.auto import default_tolerance
from thresher.solvers.base import check_compatible
from thresher.solvers.least_squares import DirectLeastSquares

__all__ = ["KernelModel"]

_WEAK = 0.1  # alpha n where no alpha is given
_FEW = 5000  # rows for which the optimum is worth its time
# Averaged SGD is far from the optimum of several classes after the 20 passes that it plans at most
# (letter, 490 landmarks: 6.4 % against 4.5).  Up to so many features their Gram matrix is cheap.
_MOST_FEATURES = 4000
# Where the loss is not smooth: the dual's passes soon leave most rows out, and cost no more than
# averaged SGD's below so many rows for each feature.
_ROWS_PER_FEATURE = 32


class KernelModel(LinearModel):
    """Base of the kernel estimators; comes before the linear one in the order of inheritance."""

    kernel: Any
    gamma: Any
    map: Any
    n_components: Any
    landmarks: Any
    memory: float
    _scales = ("relevance",)
    _raw_units: _input.Units | None

    # ------------------------------------------------------------ nested parameters

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        params = super().get_params(deep)
        if deep and hasattr(self.map, "get_params"):
            params |= {f"map__{name}": value for name, value in self.map.get_params().items()}
        return params

    def _set_fields(self, name: str, fields: dict[str, Any]) -> None:
        """Also ``map__min_leaf=20``; a map that is a name becomes the object it stands for."""
        if name != "map":
            super()._set_fields(name, fields)
        else:
            self.map = self._make_map().set_params(**fields)

    # ------------------------------------------------------------ the map

    @property
    def _usual_strength(self) -> float:
        """alpha n, where no alpha is given: at the median width 1 underfits on most data.

        Weighted terms know no width: there it is as for a linear model.
        """
        return 1.0 if is_terms(self.map) else _WEAK

    def _make_map(self) -> Any:
        if not isinstance(self.map, str):
            if not (hasattr(self.map, "fit") and hasattr(self.map, "transform")):
                raise TypeError(
                    f"map must be one of {tuple(MAPS)} or a transformer, got {self.map!r}"
                )
            return clone(self.map)
        seed = seed_from(self.random_state)
        if self.map in ("nystroem", "local"):
            made = Nystroem if self.map == "nystroem" else LocalNystroem
            return made(
                self.n_components, kernel=self.kernel, gamma=self.gamma, landmarks=self.landmarks,
                random_state=seed,
            )  # fmt: skip
        if self.map == "fourier":
            size = 500 if self.n_components == "auto" else self.n_components
            return FourierFeatures(size, kernel=self.kernel, gamma=self.gamma, random_state=seed)
        if self.map == "forest":
            return ForestFeatures(self.n_components, n_jobs=self.n_jobs, random_state=seed)
        if self.map == "terms":
            return TermFeatures()
        raise ValueError(f"map={self.map!r} is unknown: give a transformer or one of {tuple(MAPS)}")

    def _learn_map(
        self, rows: Rows, targets: np.ndarray, weight: np.ndarray | None, outputs: int
    ) -> Any:
        """Fit units and map on the rows that count; returns the rows in those units."""
        # Maps take whole numbers for classes.
        classes = self._task == "classification"
        labels = np.round(targets).astype(np.int64) if classes else targets.astype(np.float64)
        X = self._learn_units(rows, weight, labels)
        self.map_ = self._make_map()
        kept = slice(None) if weight is None or np.all(weight > 0.0) else np.flatnonzero(weight)
        if isinstance(self.map_, FeatureMap):
            self.map_.learn(X[kept], labels[kept])
        else:
            self.map_.fit(X[kept], labels[kept])
        return X

    def _learn_units(
        self, rows: Rows, weight: np.ndarray | None, labels: np.ndarray | None = None
    ) -> Any:
        """Standardise, if that is wanted, and weigh by relevance for the labels; returns the rows
        in those units."""
        units = LinearModel._units(self, rows, weight)
        if units is not None and self.scale == "relevance":
            assert labels is not None
            units = weighed(units, rows, labels, weight, seed_from(self.random_state))
        self._raw_units = units
        return self._in_units(_input.matrix_of(rows))

    def _in_units(self, X: Any) -> Any:
        return X if self._raw_units is None else self._raw_units.matrix(X)

    def _features(self, X: Any) -> Rows:
        """The mapped rows; in the precision of X."""
        own = isinstance(self.map_, FeatureMap)
        Z = self.map_.features(X) if own else self.map_.transform(X)
        return _input.to_rows(Z.tocsr() if hasattr(Z, "tocsr") else Z)

    def _width(self, X: Any) -> int:
        if isinstance(self.map_, FeatureMap):
            return self.map_._n_features_out
        return self.map_.transform(X[:1]).shape[1]

    def _units(self, rows: Rows, weight: np.ndarray | None) -> None:
        """The mapped rows keep their units: what ``scale`` asks for happened before the map."""

    # ------------------------------------------------------------ the fit

    def _fit_rows(
        self, rows: Rows, targets: np.ndarray, weight: np.ndarray | None, outputs: int, held: Any
    ) -> None:
        if not self.memory > 0.0:
            raise ValueError(f"memory must be a positive number of bytes, got {self.memory}")
        self.__dict__.pop("loo_error_", None)
        X = self._learn_map(rows, targets, weight, outputs)
        if held is not None:
            features = self._features(self._in_units(_input.matrix_of(held.rows)))
            held = Held(features, held.y, held.weight)
        block = self._block_rows(X)
        if block < X.shape[0]:
            self._fit_blocks(X, targets, weight, outputs, held, block)
        else:
            super()._fit_rows(self._features(X), targets, weight, outputs, held)

    def _block_rows(self, X: Any) -> int:
        """Rows whose features fit in memory."""
        own = isinstance(self.map_, FeatureMap)
        stored = self.map_.stored_per_row if own else self._width(X)
        return max(int(self.memory / (X.dtype.itemsize * max(stored, 1))), 256)

    def _setup(
        self, rows: Rows, chunk: Chunk, outputs: int, mass: float | None, streaming: bool = False
    ) -> Setup:
        setup = super()._setup(rows, chunk, outputs, mass, streaming)
        if self.solver != "auto":
            return setup
        solver = self._choose(setup, rows.shape, streaming)
        tol = default_tolerance(solver, setup.problem.loss, rows.shape)
        passes = self.max_iter or solver.planned_passes(rows.shape)
        return Setup(
            replace(setup.problem, tol=tol if self.tol is None else self.tol), solver,
            setup.plan._replace(passes=passes),
        )  # fmt: skip

    def _penalty(self, draft: Problem, chunk: Chunk, mass: float | None) -> Penalty:
        """Without an alpha the usual one; of weighted terms all is as for a linear model."""
        by_default = self.alpha is None and self.penalty in (None, "l2")
        if by_default and mass is not None and not is_terms(self.map):
            return L2(self._usual_strength / mass)
        return super()._penalty(draft, chunk, mass)

    def _choose(self, setup: Setup, shape: tuple[int, int], streaming: bool) -> Solver:
        """Least squares directly where features are dense; else what a linear model would take,
        or a solver that reaches the optimum of several classes."""
        if isinstance(self.map_, ForestFeatures):
            # A leaf is a feature that few rows have: the dual is never far from its optimum.
            batch = not streaming and not self.steps and _takes(DualDescent(), setup.problem)
            return DualDescent() if batch else setup.solver
        if isinstance(self.map_, TermFeatures):
            return setup.solver
        local = isinstance(self.map_, LocalNystroem)
        if not local and _takes(DirectLeastSquares(), setup.problem):
            return DirectLeastSquares()
        stochastic = isinstance(setup.solver, AveragedSGD)
        if local and isinstance(setup.solver, DualDescent) and self._task == "classification":
            # Many features, but a row has those of its cell only: stochastic passes suffice.
            stochastic = shape[0] > _FEW or setup.problem.outputs > 1
        if not stochastic or streaming or self.max_iter or self.steps:
            return AveragedSGD() if stochastic else setup.solver
        if setup.problem.outputs > 1 and not (local and shape[0] > _FEW):
            if shape[1] <= _MOST_FEATURES and _takes(QuasiNewton(), setup.problem):
                return QuasiNewton()
            few = shape[0] < _ROWS_PER_FEATURE * shape[1]
            if few and _takes(DualDescent(), setup.problem):
                return DualDescent()
        return AveragedSGD()

    def _run(self, setup: Setup, chunk: Chunk, held: Any, output: int | None) -> Result:
        result = super()._run(setup, chunk, held, output)
        if isinstance(setup.solver, DirectLeastSquares):
            pairs = setup.solver.leave_one_out(setup.problem, result.state, chunk)
            self.loo_error_ = self._loo(*pairs, chunk.weight[chunk.order])
        return result

    def _loo(self, targets: np.ndarray, predictions: np.ndarray, weight: np.ndarray) -> float:
        """Leave-one-out error: share of rows misclassified, or mean squared error."""
        if self._task == "regression":
            wrong = ((targets - predictions) ** 2)[:, 0]
        elif targets.shape[1] == 1:
            wrong = (targets[:, 0] * predictions[:, 0] <= 0.0).astype(float)
        else:
            wrong = (targets.argmax(axis=1) != predictions.argmax(axis=1)).astype(float)
        return float(np.average(wrong, weights=weight))

    # ------------------------------------------------------------ features block by block

    def _fit_blocks(
        self, X: Any, targets: np.ndarray, weight: np.ndarray | None, outputs: int, held: Any,
        block: int,
    ) -> None:  # fmt: skip
        """Passes over rows whose features do not fit: the same orders, mapped as they are met."""
        if self.trace:
            raise ValueError("trace needs all features at hand: raise memory")
        whole = driver.whole(Dense(np.empty((X.shape[0], 0), X.dtype)), targets, weight)
        first = shuffled(whole.order, 0, 3)[: min(block, 20_000)]
        sample = self._chunk(X, whole, first)
        mass = float(X.shape[0] if weight is None else weight.sum())
        setup = self._setup(sample.rows, sample, outputs, mass, streaming=True)
        if not setup.solver.streaming:
            raise ValueError(
                f"solver {type(setup.solver).__name__} needs the features of all rows in memory, "
                f"{X.shape[0]} x {self._width(X)}: raise memory, or use 'asgd' or another "
                "streaming solver"
            )
        problem, plan = setup.problem, setup.plan
        shape = (whole.order.size, problem.n_features)
        passes = self.max_iter or setup.solver.planned_passes(shape)
        block = max(block // setup.solver.seam, 1) * setup.solver.seam
        stream = RowStream.open(problem, setup.solver, sample, passes * whole.order.size)
        watched = (self.verbose or self.callbacks or held) and len(stream.learners) == 1
        progress = Progress(self, setup, held, None) if watched else None
        status, done = None, 0
        for done in range(1, passes + 1):
            for part in self._parts(whole.order, problem.seed, done - 1, plan.order, block):
                stream.update(self._chunk(X, whole, part))
            (result,) = stream.results(done)[:1]
            if progress is not None:
                event = driver.Event(
                    done, int(result.state.step), math.nan, result.coef, result.intercept
                )
                status = progress(event)
            if status is not None or result.status is Status.DIVERGED:
                break
        results = [
            replace(r, status=status or r.status) if r.status is Status.COMPLETED else r
            for r in stream.results(done)
        ]
        results = [progress.best(r) for r in results] if progress else results
        self._store(results, None, *stream.learners[0][:2])

    def _parts(
        self, rows: np.ndarray, seed: int, number: int, order: str, block: int
    ) -> Iterator[np.ndarray]:
        rows = driver.pass_order(rows, order, seed, number)
        for start in range(0, rows.size, block):
            yield rows[start : start + block]

    def _chunk(self, X: Any, whole: Chunk, part: np.ndarray) -> Chunk:
        """Some of the rows as a chunk of their own."""
        order = np.arange(part.size, dtype=np.uint32)
        weight = np.ascontiguousarray(whole.weight[part])
        return Chunk(self._features(X[part]), whole.y[part], weight, order)

    # ------------------------------------------------------------ streams and use

    def _partial_fit_rows(
        self, rows: Rows, targets: np.ndarray, weight: np.ndarray | None, outputs: int
    ) -> None:
        if not hasattr(self, "_stream"):
            X = self._learn_map(rows, targets, weight, outputs)
        else:
            X = self._in_units(_input.matrix_of(rows))
        block = max(self._block_rows(X) // 64 * 64, 64)  # between mini-batches of usual sizes
        for start in range(0, X.shape[0], block):
            part = slice(start, start + block)
            chosen = None if weight is None else weight[part]
            super()._partial_fit_rows(self._features(X[part]), targets[part], chosen, outputs)

    def _store(self, results: Any, units: Any, problem: Any, solver: Any) -> None:
        super()._store(results, units, problem, solver)
        if isinstance(self.map_, FeatureMap):
            self.dual_coef_ = self.map_.fold(self.coef_)
            if self.map_.by_entries:
                self.coef_ = self.dual_coef_  # the same numbers: once in memory, and in files

    def _scores(self, X: Any) -> np.ndarray:
        X = self._in_units(_input.checked_X(self, X))
        if isinstance(self.map_, FeatureMap):
            return self.map_.scores(X, self.dual_coef_) + self.intercept_
        scores = self.map_.transform(X) @ self.coef_.T
        return (scores.toarray() if hasattr(scores, "toarray") else scores) + self.intercept_


def _takes(solver: Solver, problem: Problem) -> bool:
    """Whether the solver can learn with the problem's loss and penalty."""
    try:
        check_compatible(solver, problem)
        solver.check(problem)
    except ValueError:
        return False
    return True
