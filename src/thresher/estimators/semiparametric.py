"""``SemiparametricRegressor``: a kernel machine beside functions whose coefficients can be read."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from thresher._allowed import FLAG, OPEN_SHARE, POSITIVE, OneOf, whole
from thresher._clock import passed_on
from thresher._interrupts import clean_interrupts
from thresher._random import generator
from thresher._rows import Rows
from thresher._seed import seed_from
from thresher._threads import threads
from thresher.estimators import input
from thresher.estimators.base import Learner, Setup
from thresher.estimators.basis import basis_terms, column_names, refuse_useless
from thresher.estimators.basis_front import BasisFront
from thresher.estimators.fronts import UnitsFront
from thresher.estimators.noted_fit import NotedFit
from thresher.estimators.regressor import Regressor
from thresher.estimators.spaces import kernel_dimensions, strength, term_dimensions
from thresher.estimators.views import view
from thresher.functions.basis import tabulated
from thresher.kernels.width import GAMMA, resolve_kernel
from thresher.losses import Loss
from thresher.maps.base import FeatureMap
from thresher.penalties import L2, WeightedL2
from thresher.registry import LOSSES, resolve
from thresher.solvers import (
    Chunk,
    DirectLeastSquares,
    Newton,
    Problem,
    Result,
    Solver,
    Status,
    driver,
)
from thresher.solvers.auto import default_tolerance
from thresher.solvers.base import Near
from thresher.solvers.compatible import takes
from thresher.solvers.semiparametric import INNER, SemiparametricDual
from thresher.solvers.semiparametric_ridge import SemiparametricLeastSquares
from thresher.solvers.smoothing import SmoothedNewton
from thresher.solvers.stream import Facts

__all__ = ["Parts", "SemiparametricRegressor"]

PARTS = ("both", "parametric", "kernel")
_TUBE = 0.1  # epsilon, of what the functions leave of the targets' deviation
_ROUNDING = 1e-12  # of the targets, below which nothing is left of them
_BOUND = 3.0  # c in the same unit: targets lie within three deviations (Cherkassky and Ma, 2004)


class Parts(NamedTuple):
    """What a model says of rows, part by part; the sum is its prediction.

    Parameters
    ----------
    kernel : array of shape (rows,)
    functions : array of shape (rows, functions)
        beta_j psi_j(x), in the order of ``basis_names_``.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import SemiparametricRegressor
    >>> X = np.linspace(0.0, 1.0, 30)[:, None]
    >>> model = SemiparametricRegressor("1, x0").fit(X, 2.0 * X[:, 0])
    >>> parts = model.predict_parts(X)
    >>> bool(np.allclose(parts.kernel + parts.functions.sum(axis=1), model.predict(X)))
    True
    """

    kernel: np.ndarray
    functions: np.ndarray


class SemiparametricRegressor(Regressor):
    r"""Kernel regression beside a few functions with coefficients that can be read.

    .. math:: h(x) = \langle w, \phi(x)\rangle + \sum_j \beta_j \psi_j(x)

    The psi say what is known or asked about the target; the kernel part, which alone is penalised,
    says what they leave over.  Exact for up to some 100,000 rows (Lee, 2011, chapter 4, with an
    interior-point method on working sets); with landmarks for millions.

    Parameters
    ----------
    basis : str, callable, or list of them, default="1"
        The functions psi: ``"1"`` (the constant), a column by its name (``x0``, ``x1``, ... where
        columns have none), powers (``"temp^2"``), products (``"temp*SO2"``), ``"sin(2*temp)"`` and
        its like, ``"spline(temp)"`` or ``"spline(temp, knots, degree)"``, ``"linear"`` for the
        constant and all columns, a name that ``thresher.register`` gave to a function, or a
        function of rows.  Several in a list, or in one text with commas.  Without ``"1"`` there is
        no intercept.
    loss : {"epsilon_insensitive", "least_squares", ...} or Loss, default="epsilon_insensitive"
        By name, the tube is a tenth of the deviation of the targets from the best combination of
        the functions; ``EpsilonInsensitive(0.05)`` says it in the units of the targets.  The exact
        kernel takes these two losses, landmarks any for regression.
    kernel : {"rbf", "exponential", "polynomial", ...} or Kernel, default="rbf"
        A name, or an object such as ``Polynomial(degree=3)`` or one of your own classes; positive
        definite.
    gamma : float, "median" or None, default=None
        Width of a kernel given by name; None and "median": one over the median squared distance.
    alpha : float or None, default=None
        Strength of the penalty, in  mean loss + alpha / 2 ||w||^2; from the c of a support vector
        machine, alpha = 1 / (c n).  None: c is three deviations as above with the tube
        (Cherkassky and Ma, 2004), and 0.1 / n with other losses.
    map : {"exact", "nystroem", "fourier", ...} or FeatureMap, default="exact"
        The kernel itself, or features that approximate it: for more than some 100,000 rows.
    n_components : int, "auto" or "sqrt", default="auto"
        Landmarks of a map.
    algorithm : {"auto", "interior", "pdsg", "multipliers"}, default="auto"
        Who solves the working sets of the exact problem with a tube: an interior-point method
        ("auto"), or the first-order methods of the literature.
    decompose : bool, default=True
        Work on sets of some hundred rows; False: on all at once, with the whole kernel matrix.
    parts : {"both", "parametric", "kernel"}, default="both"
        "parametric": the functions alone; "kernel": the kernel and a constant.
    bootstrap : int, default=0
        Fits to rows drawn with replacement, for ``beta_intervals_``; 200 are usual.
    level : float, default=0.95
        Of the intervals.
    scale : bool, default=False
        Standardise the features for the kernel; the functions see them as they are.
    memory : float, default=1e9
        Bytes for kernel columns, or for the kernel matrix of ``decompose=False`` and of the
        least-squares loss.
    max_iter : int or None, default=None
        Most working sets, or passes of a map's solver.
    tol : float or None, default=None
        Largest violation of a condition of the optimum, in deviations as above; None: 1e-3.
    n_jobs : int or None, default=None
        Threads of the bootstrap; -1 uses all cores.  The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of everything random; None: another one each time.
    verbose : int, default=0
        Print a line after each working set.
    callbacks : list of callables or None, default=None
        Each is called with a ``FitEvent`` after every working set; returning True stops the fit.

    Attributes
    ----------
    beta_ : array of shape (n_functions,)
        Coefficients of the functions.
    basis_names_ : list of str
        What they belong to.
    beta_intervals_ : array of shape (n_functions, 2)
        Percentiles of the bootstrap, if asked for.
    beta_samples_ : array of shape (bootstrap, n_functions)
        The coefficients of each fit of the bootstrap.
    gap_ : float
        Relative duality gap of the exact problem with a tube.
    function_ : SemiparametricFunction
        What was learned.
    n_features_in_, feature_names_in_ : as in scikit-learn
    n_iter_ : int
        Working sets, or passes.
    status_ : Status
        How the fit ended; its text says what to change.
    solver_, penalty_ : Solver, Penalty
        What was used, with all that was left to be found.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import SemiparametricRegressor
    >>> x = np.linspace(0.0, 10.0, 300)[:, None]
    >>> y = 2.0 * x[:, 0] + np.exp(-4.0 * (x[:, 0] - 5.0) ** 2)  # a line and a bump
    >>> model = SemiparametricRegressor("1, x0", gamma=1.0, random_state=0).fit(x, y)
    >>> model.basis_names_, model.status_.name, bool(abs(model.beta_[1] - 2.0) < 0.05)
    (['1', 'x0'], 'CONVERGED', True)
    """

    allowed = {
        "algorithm": OneOf("auto", *INNER), "decompose": FLAG, "parts": OneOf(*PARTS),
        "alpha": POSITIVE | None, "tol": POSITIVE | None, "gamma": GAMMA, "bootstrap": whole(0),
        "level": OPEN_SHARE,
    }  # fmt: skip
    optional_record = (
        *Learner.optional_record, "gap_", "beta_intervals_", "beta_samples_", "column_names_",
    )  # fmt: skip
    beta_ = view("beta", "Coefficients of the functions.")

    def __init__(
        self,
        basis: Any = "1",
        *,
        loss: Any = "epsilon_insensitive",
        kernel: Any = "rbf",
        gamma: Any = None,
        alpha: float | None = None,
        map: Any = "exact",
        n_components: Any = "auto",
        algorithm: str = "auto",
        decompose: bool = True,
        parts: str = "both",
        bootstrap: int = 0,
        level: float = 0.95,
        scale: Any = False,
        memory: float = 1e9,
        max_iter: int | None = None,
        tol: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        self.basis = basis
        self.loss = loss
        self.kernel = kernel
        self.gamma = gamma
        self.alpha = alpha
        self.map = map
        self.n_components = n_components
        self.algorithm = algorithm
        self.decompose = decompose
        self.parts = parts
        self.bootstrap = bootstrap
        self.level = level
        self.scale = scale
        self.memory = memory
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    # ------------------------------------------------------------ checks

    def check_options(self) -> None:
        super().check_options()
        if isinstance(self.map, str) and self.map != "exact":
            resolve(self.map, FeatureMap, "map")
        loss = resolve(self.loss, Loss, "loss")
        exact = self.map == "exact" and self.parts != "parametric"
        if self.task not in loss.tasks or (exact and not self._is_exact(loss)):
            able = [
                name for name, cls in LOSSES.items()
                if self.task in cls.tasks and (not exact or self._is_exact(cls))
            ]  # fmt: skip
            hint = "; with map='nystroem' others do" if exact else ""
            raise ValueError(
                f"loss {type(loss).__name__} is not for this model: use one of "
                f"{', '.join(able)}{hint}"
            )

    @staticmethod
    def _is_exact(loss: Any) -> bool:
        return bool({"tube", "square"} & _traits(loss))

    def _can_stream(self) -> bool:
        raise AttributeError(
            "a semiparametric model needs all rows at once and has no partial_fit: give it a "
            "sample, or use KernelRegressor"
        )

    def without_stream(self) -> tuple[str, str]:
        return "a semiparametric model", "a sample of the rows"

    # ------------------------------------------------------------ from rows to a problem

    def name_features(self, names: list[str] | None) -> None:
        if names is not None:
            self.column_names_ = np.array(names, dtype=object)

    def _columns(self) -> list[str]:
        own = vars(self).get("feature_names_in_", vars(self).get("column_names_"))
        return column_names(own, self.n_features_in_)

    def learn_front(
        self, rows: Rows, targets: np.ndarray, weight: np.ndarray | None, moments: Any = None
    ) -> Any:
        """Units, the functions, and what they leave of the targets."""
        X, y = input.matrix_of(rows), targets.astype(np.float64)
        kept = np.arange(X.shape[0]) if weight is None else np.flatnonzero(weight)
        share = np.ones(kept.size) if weight is None else weight[kept]
        if kept.size < X.shape[0]:
            X, y = X[kept], y[kept]
        input.refuse_far_targets(y)
        self.n_features_in_ = X.shape[1]
        columns = self._columns()
        terms = basis_terms("1" if self.parts == "kernel" else self.basis, columns, X)
        names = [name for term in terms for name in term.names(columns)]
        with np.errstate(all="ignore"):  # what is not finite is refused by its name
            table = tabulated(terms, X)
        refuse_useless(table, names, kept)
        alone = self.parts == "parametric"
        if alone and not names:
            raise ValueError("parts='parametric' needs a basis: there are no functions")
        units = None if alone else self.learn_units(rows, targets, weight, moments)
        made = None
        if not alone and self.map != "exact":
            X = X if units is None else units.matrix(X)
            input.refuse_far_rows(X)
            made = self._new_map().learn(X, y)
        return BasisFront(
            units, made, terms, rows.shape[1], len(names), *_combined(table, y, share), alone
        )

    def _new_map(self) -> FeatureMap:
        if isinstance(self.map, FeatureMap):
            return clone(self.map)
        return resolve(
            self.map, FeatureMap, "map", n_components=self.n_components, kernel=self.kernel,
            gamma=self.gamma, random_state=seed_from(self.random_state),
        )  # fmt: skip

    def set_up(self, front: Any, rows: Rows, chunk: Chunk, outputs: int, facts: Facts) -> Setup:
        loss, n = self._scaled_loss(front.spread), float(facts.mass or chunk.order.size)
        tube = "tube" in _traits(loss)
        alpha = self.alpha or (1.0 / (_BOUND * front.spread * n) if tube else 0.1 / n)
        d, seed = rows.shape[1], seed_from(self.random_state)
        problem = Problem(loss, L2(alpha), d, False, rows.dtype, seed, self.tol)
        if front.map is None and not front.alone:
            X = input.matrix_of(rows)[:, : d - front.width]
            X = X if chunk.order.size == chunk.size else X[chunk.order]
            solver = self._exact_solver(front, resolve_kernel(self.kernel, self.gamma, X, seed))
            tol: float | None = self.tol or 1e-3
        else:
            weights = np.concatenate([np.ones(d - front.width), np.zeros(front.width)])
            problem = Problem(loss, WeightedL2(weights, alpha), d, False, rows.dtype, seed)
            solver = _linear_solver(problem, front.spread)
            tol = self.tol or default_tolerance(solver, loss, (chunk.order.size, d))
        problem = Problem(loss, problem.penalty, d, False, rows.dtype, seed, tol)
        passes = self.max_iter or solver.planned_passes((chunk.order.size, d))
        return Setup(problem, solver, driver.Plan(passes, "sequential"))

    def _scaled_loss(self, spread: float) -> Loss:
        loss = resolve(self.loss, Loss, "loss")
        by_name = isinstance(self.loss, str) and "tube" in _traits(loss)
        return resolve(self.loss, Loss, "loss", epsilon=_TUBE * spread) if by_name else loss

    def _exact_solver(self, front: BasisFront, kernel: Any) -> Solver:
        if "positive" not in kernel.traits:
            raise ValueError(
                f"the kernel {type(kernel).__name__} is not positive definite, so that the problem "
                "has no single optimum: use another, 'rbf' for example, or map='nystroem'"
            )
        if "square" in _traits(resolve(self.loss, Loss, "loss")):
            return SemiparametricLeastSquares(kernel, front.width, self.memory)
        inner = "interior" if self.algorithm == "auto" else self.algorithm
        return SemiparametricDual(
            kernel, front.width, inner, self.decompose, working=max(512, 8 * front.width),
            unit=front.spread, memory=self.memory,
        )  # fmt: skip

    def dimensions(self, X: Any = None, y: Any = None) -> dict[str, Any]:
        found = {"alpha": strength(X), **kernel_dimensions(self, X), **term_dimensions(self)}
        return {} if self.parts == "parametric" else found

    # ------------------------------------------------------------ the fit

    def solves_problems(self) -> bool:
        """Where working sets are solved one after the other."""
        loss = resolve(self.loss, Loss, "loss")
        return bool(self.map == "exact" and self.parts != "parametric" and "tube" in _traits(loss))

    def _learn_by_passes(
        self, setup: Setup, chunk: Any, near: Any, monitor: driver.Monitor | None
    ) -> Result:
        solver = setup.solver
        if isinstance(solver, SemiparametricDual):
            noted = NotedFit.wanted()
            if noted is not None:
                return noted.learn(setup, solver.free, chunk, near, monitor)
        return super()._learn_by_passes(setup, chunk, near, monitor)

    def mind_units(self, kernel: Any, judges: Chunk, front: Any) -> None:
        """By what the functions leave of the targets: they see the columns as they are."""
        if front.units is None and kernel is not None:
            super().mind_units(kernel, front.left_over(judges), UnitsFront(None))

    def _fit_whole(self, front: Any, entered: Any, targets: np.ndarray, *rest: Any) -> list[Result]:
        """From what the best combination of the functions leaves of the targets."""
        results = super()._fit_whole(front, entered, targets - front.explained(entered), *rest)
        for result in results:  # the functions may explain the targets without a remainder
            if result.status is Status.ALL_ZERO and front.best.any():
                result.status = Status.CONVERGED
        if self.bootstrap:
            self.beta_samples_ += front.best
            self.beta_intervals_ += front.best[:, None]
        return results

    # ------------------------------------------------------------ what else a fit leaves

    def _forget(self) -> None:
        super()._forget()
        for name in ("gap_", "beta_intervals_", "beta_samples_"):
            self.__dict__.pop(name, None)

    def _learned(self, setup: Setup, result: Result, chunk: Chunk) -> None:
        gap = getattr(result.state, "gap", None)
        if gap is not None:
            self.gap_ = float(gap)
        if self.bootstrap:
            self._resample(setup, result, chunk)

    def _resample(self, setup: Setup, result: Result, chunk: Chunk) -> None:
        """Fits to rows drawn with replacement, each started from the fit to all of them."""
        near = Near.of(setup.problem, result)
        shares = chunk.weight[chunk.order] / float(np.sum(chunk.weight[chunk.order]))
        width, count = result.function.coef.size, chunk.order.size
        free = width - _penalised(setup.problem, width)

        def draw(number: int) -> np.ndarray:
            times = generator(setup.problem.seed, 31, number).multinomial(count, shares)
            weight = np.zeros(chunk.size)
            weight[chunk.order] = times
            try:
                part = driver.whole(chunk.rows, chunk.y, weight)
                found = driver.learn(setup.solver, setup.problem, part, setup.plan, near)
            except ValueError:  # a function that none of the drawn rows tells from the others
                return np.full(free, np.nan)
            if self.verbose and number % 10 == 9:
                print(f"[thresher] bootstrap {number + 1} of {self.bootstrap}", flush=True)
            return np.ravel(found.function.coef)[width - free :].astype(np.float64)

        jobs = threads(self.n_jobs)
        with threadpool_limits(1 if jobs > 1 else None, "blas"), ThreadPoolExecutor(jobs) as pool:
            drawn = np.array(list(pool.map(passed_on(draw), range(self.bootstrap))))
        sound = drawn[np.all(np.isfinite(drawn), axis=1)]
        if sound.shape[0] < 0.5 * self.bootstrap:
            raise ValueError(
                f"{self.bootstrap - sound.shape[0]} of {self.bootstrap} draws of the bootstrap "
                "leave basis functions that depend on each other: use fewer functions"
            )
        tail = 50.0 * (1.0 - self.level)
        self.beta_samples_ = drawn
        self.beta_intervals_ = np.percentile(sound, [tail, 100.0 - tail], axis=0).T

    # ------------------------------------------------------------ use

    @property
    def basis_names_(self) -> list[str]:
        """What the coefficients belong to."""
        if "function_" not in vars(self):
            raise AttributeError(f"{type(self).__name__} is not fitted: it has no names yet")
        return self.function_.names(self._columns())

    @clean_interrupts()
    def predict_parts(self, X: Any) -> Parts:
        """What the kernel and what each function adds to the predictions.

        Parameters
        ----------
        X : array, frame or sparse matrix of shape (rows, features)
        """
        check_is_fitted(self)
        return Parts(*self.function_.parts(input.checked_X(self, X)))

    def compare(self, X: Any, y: Any, folds: int = 5) -> dict[str, float]:
        """Mean squared error on unseen rows of the functions alone, the kernel alone, and both.

        Parameters
        ----------
        X : array, frame or sparse matrix of shape (rows, features)
        y : numbers
        folds : int, default=5
            Of the cross-validation, the same for all three.
        """
        from sklearn.model_selection import KFold  # slow to import

        y = np.asarray(y, dtype=np.float64)
        splits = KFold(folds, shuffle=True, random_state=seed_from(self.random_state) % 2**32)
        found = {}
        for parts in ("parametric", "kernel", "both"):
            model = clone(self).set_params(parts=parts, bootstrap=0)
            wrong = np.empty(y.size)
            for train, test in splits.split(np.empty((y.size, 1))):
                model.fit(_taken(X, train), y[train])
                wrong[test] = (y[test] - model.predict(_taken(X, test))) ** 2
            found[parts] = float(np.mean(wrong))
        return found

    def check_targets(self) -> None:
        super().check_targets()
        columns = vars(self).get("column_names_")
        strings = isinstance(columns, np.ndarray) and columns.shape == (self.n_features_in_,)
        input_ok = columns is None or (strings and columns.dtype.kind in "OU")
        if not input_ok:
            raise ValueError("column_names_ must be one string for each feature")


def _traits(loss: Any) -> frozenset[str]:
    """Of a loss, or of a class of losses."""
    return getattr(loss, "traits", frozenset())


def _penalised(problem: Problem, width: int) -> int:
    """How many of the coefficients are not those of free functions."""
    weights = getattr(problem.penalty, "weights", None)
    return 0 if weights is None else int(np.count_nonzero(weights))


def _taken(X: Any, rows: np.ndarray) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def _combined(table: np.ndarray, y: np.ndarray, weight: np.ndarray) -> tuple[float, np.ndarray]:
    """The deviation of the targets from the best combination of the functions; its coefficients."""
    root = np.sqrt(weight / weight.sum())
    beta = np.linalg.lstsq(table * root[:, None], y * root, rcond=None)[0]
    left = float(np.linalg.norm(root * (y - table @ beta)))
    size = float(np.linalg.norm(root * y))
    return max(left, _ROUNDING * size) or 1.0, beta


def _linear_solver(problem: Problem, spread: float) -> Solver:
    """The optimum for features that are there, some of them not penalised."""
    rounded = SmoothedNewton(width=0.3 * spread)
    for solver in (DirectLeastSquares(), Newton(), rounded):
        if takes(solver, problem):
            return solver
    raise ValueError(
        f"loss {type(problem.loss).__name__} has neither curvature nor a smoothed form, which "
        "free functions need"
    )
