"""What every solver shares: the problem, the state protocol, results and their status."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import njit

from thresher._rows import Rows
from thresher.losses import Loss
from thresher.penalties import Penalty
from thresher.solvers._states import check_arrays, copied
from thresher.solvers.compatible import check_compatible

__all__ = [
    "Chunk",
    "Near",
    "Problem",
    "Record",
    "Result",
    "Solver",
    "State",
    "Status",
    "check_compatible",
    "precisions",
]

_OF_TASKS = ("matrix", "pairs")

State = Any  # a NamedTuple of arrays and counters, one type per solver


class Status(enum.Enum):
    """How a fit ended; the value says what to do about it.

    No fit is silently useless: a model that is no better than a constant on its own training rows
    (``thresher.solvers.verdict``), or whose weights lie on a bound that the solver chose, says so,
    however its passes ended.

    Examples
    --------
    >>> from thresher import Status
    >>> print(Status.MAX_ITER)
    reached max_iter before the tolerance: raise max_iter or loosen tol
    """

    CONVERGED = "converged to the requested tolerance"
    COMPLETED = "completed the planned passes"
    MAX_ITER = "reached max_iter before the tolerance: raise max_iter or loosen tol"
    STALLED = (
        "stopped where rounding hides what is left to gain, before the tolerance: kernel values "
        "are kept in single precision; scale the features (scale=True), lower C or loosen tol"
    )
    EARLY_STOPPED = "stopped early: the held-out score no longer improved"
    INTERRUPTED = "stopped on request; the model is usable"
    OUT_OF_TIME = "the time was over before the passes were; the model is usable: raise the budget"
    DIVERGED = (
        "diverged: a weight overflowed or became NaN, the last finite model was kept; scale the "
        "features, lower the step size (theta) or raise alpha"
    )
    ALL_ZERO = (
        "converged to an all-zero model (an intercept at most): the penalty outweighs every "
        "gradient; lower alpha (and for the reweighted solvers keep strength / epsilon below the "
        "largest mean gradient)"
    )
    NO_BETTER = (
        "no better than a constant on its own training rows: scale the features (scale=True), use "
        "another solver, allow more passes (max_iter), weigh a rare class (class_weight), change "
        "alpha or the epsilon of the loss (all targets may be within it), unless the features say "
        "nothing about the target"
    )
    AT_BOUND = (
        "ended on the bound that the solver keeps its weights within, so that it has not "
        "converged: scale the features (scale=True), raise alpha or use another solver"
    )

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Problem:
    """Minimise  sum_i s_i loss(y_i, w.x_i + b) / sum_i s_i  +  penalty(w)  over w and a free b.

    Parameters
    ----------
    loss : Loss
    penalty : Penalty
    n_features : int
    fit_intercept : bool, default=True
        Learn b; otherwise it is zero.
    dtype : dtype, default=float64
        Of the rows.
    seed : int, default=0
        Of everything random.
    tol : float or None, default=None
        Accuracy asked for, in the solver's own measure (``Solver.residual``); None: as good as the
        planned passes get.
    outputs : int, default=1
        Functions to learn.
    targets : {"classes", "matrix", "pairs", "none"}, default="classes"
        "classes": of one output, real numbers (-1 and +1 for two classes); of several, class
        numbers, and one model is learned for each class against the rest.  "matrix": real numbers,
        (rows, outputs), and one function for each column, a *task*; NaN: the task has none for this
        row.  "pairs": (rows, 2), the task of each row and its number; losses are then summed over
        *rounds* of as many rows as there are tasks.  "none": nobody looks at targets; the rows are
        grouped into ``outputs`` clusters.
    task_weight : array of shape (outputs,) or None, default=None
        Factors of the losses of each task, of a matrix or of pairs; None: one.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher._rows import as_rows
    >>> from thresher.losses import LeastSquares
    >>> from thresher.penalties import L2
    >>> from thresher.solvers import Newton, Problem, driver
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> problem = Problem(LeastSquares(), L2(1e-9), n_features=1, tol=1e-8)
    >>> chunk = driver.whole(as_rows(X), 3.0 * X[:, 0] + 1.0)
    >>> result = driver.learn(Newton(), problem, chunk, driver.Plan())
    >>> result.function.scores(X).round(4).tolist()
    [[1.0], [4.0], [7.0]]
    """

    loss: Loss
    penalty: Penalty
    n_features: int
    fit_intercept: bool = True
    dtype: Any = np.float64
    seed: int = 0
    tol: float | None = None
    outputs: int = 1
    targets: str = "classes"
    task_weight: Any = None

    @property
    def has_tasks(self) -> bool:
        """Whether each output has targets of its own."""
        return self.targets in _OF_TASKS

    @property
    def ridge(self) -> float:
        return float(self.penalty.ridge)


class Chunk(NamedTuple):
    """Examples, and the order in which to visit them.

    Parameters
    ----------
    rows : Rows
        What ``thresher._rows.as_rows`` makes of an array or a CSR matrix.
    y : array of shape (rows,), of a matrix of targets (rows, outputs)
        Targets, in the precision of the rows.
    weight : array of shape (rows,)
        Factors of the rows' losses; ``driver.whole`` makes their mean one, so that steps keep their
        meaning.
    order : array of uint32
        Numbers of the rows to visit, one after the other; a row of weight zero is not among them.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher._rows import as_rows
    >>> from thresher.solvers import driver
    >>> chunk = driver.whole(as_rows(np.eye(3)), np.ones(3), np.array([1.0, 0.0, 3.0]))
    >>> chunk.order.tolist(), chunk.weight.tolist(), chunk.size
    ([0, 2], [0.5, 0.0, 1.5], 3)
    """

    rows: Rows
    y: np.ndarray
    weight: np.ndarray
    order: np.ndarray

    @property
    def size(self) -> int:
        return self.y.shape[0]


class Record(NamedTuple):
    """One line of a trace, taken after ``step`` updates.

    ``regret`` is the loss paid online so far, each row's just before its update, less what the
    current model would pay for as many rows; NaN for solvers that keep no such account (averaged
    SGD, for its speed, and the batch solvers).  ``stability`` is the share of the non-zero weights,
    of this and the last record together, that kept their sign.
    """

    passes: int
    step: int
    objective: float
    mean_loss: float
    regret: float
    nonzeros: int
    stability: float


@dataclass
class Result:
    """A function that was learned, and how it was reached.

    Parameters
    ----------
    function : thresher.functions.Function
        Of rows as the solver saw them.
    status : Status
    passes : int
        Over the data.
    stream : thresher.solvers.stream.Stream
        Problem, solver and state, with which to go on.
    residual : float, default=inf
        Distance from convergence after the last pass, in the solver's own measure.
    trace : list of Record
        If the plan asked for one.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher._rows import as_rows
    >>> from thresher.losses import LeastSquares
    >>> from thresher.penalties import L2
    >>> from thresher.solvers import Newton, Problem, driver
    >>> problem = Problem(LeastSquares(), L2(1.0), n_features=3, tol=1e-8)
    >>> chunk = driver.whole(as_rows(np.eye(3)), np.arange(3.0))
    >>> result = driver.learn(Newton(), problem, chunk, driver.Plan())
    >>> result.status.name, result.coef.shape
    ('CONVERGED', (3,))
    """

    function: Any
    status: Status
    passes: int
    stream: Any
    residual: float = math.inf
    trace: list[Record] = field(default_factory=list)

    @property
    def coef(self) -> Any:
        return self.function.coef

    @property
    def intercept(self) -> Any:
        return self.function.intercept

    @property
    def state(self) -> State:
        return self.stream.state


class Near(NamedTuple):
    """The solution of a neighbouring problem on the same rows: the stuff of a warm start."""

    problem: Problem
    coef: np.ndarray
    intercept: float
    dual: np.ndarray | None  # one number per row, from solvers that have them

    @classmethod
    def of(cls, problem: Problem, result: Result) -> Near:
        dual = getattr(result.state, "dual", None)
        return cls(problem, result.coef, float(result.intercept), dual)

    @property
    def bytes(self) -> int:
        return self.coef.nbytes + (0 if self.dual is None else self.dual.nbytes)


#: adds up what a function finds in the chunks of all rows; sums have a method ``plus``
AddUp = Callable[[Callable[[Chunk], Any]], Any]


class Solver:
    """A frozen dataclass of hyper-parameters, and the algorithm as a state and an update.

    ``init`` makes the state, ``update`` consumes it with one chunk (and may reuse its arrays),
    ``finish`` reads a model off it without changing it, ``merge`` makes one state of several that
    saw different rows.  Everything random is a function of ``problem.seed`` and the state's
    counters.

    A state is a NamedTuple of arrays and counters, one of them ``step``.  What ``finish`` gives is
    a function (``thresher.functions``), linear or not, in memory of its own.

    Examples
    --------
    Learns nothing but the mean target, and that in one pass:

    >>> from dataclasses import dataclass
    >>> from typing import NamedTuple
    >>> import numpy as np
    >>> from thresher._rows import as_rows
    >>> from thresher.functions import LinearFunction
    >>> from thresher.losses import LeastSquares
    >>> from thresher.penalties import L2
    >>> from thresher.solvers import Problem, Solver, driver
    >>> class Sums(NamedTuple):
    ...     total: float
    ...     step: int
    >>> @dataclass(frozen=True)
    ... class Mean(Solver):
    ...     default_passes = 1
    ...     sum_fields = frozenset({"total", "step"})
    ...     def init(self, problem, chunk=None):
    ...         return Sums(0.0, 0)
    ...     def update(self, problem, state, chunk):
    ...         y = chunk.y[chunk.order]
    ...         return Sums(state.total + float(y.sum()), state.step + y.size)
    ...     def finish(self, problem, state):
    ...         mean = state.total / max(state.step, 1)
    ...         return LinearFunction(np.zeros(problem.n_features, problem.dtype), mean)
    >>> chunk = driver.whole(as_rows(np.eye(4)), np.array([1.0, 2.0, 3.0, 6.0]))
    >>> problem = Problem(LeastSquares(), L2(1.0), n_features=4)
    >>> driver.learn(Mean(), problem, chunk, driver.Plan(passes=1)).intercept
    3.0
    """

    #: capabilities asked of the loss and of the penalty: each name is a method or a trait
    loss_needs: ClassVar[frozenset[str]] = frozenset()
    penalty_needs: ClassVar[frozenset[str]] = frozenset()
    #: penalty that the name of the solver stands for when the user gives none
    default_penalty: ClassVar[str] = "l2"
    #: fields that a search may try, and where (``thresher.dimensions``)
    space: ClassVar[dict[str, Any]] = {}
    #: can take rows once, in a stream; otherwise every update must see the same rows again
    streaming: ClassVar[bool] = True
    #: learns between passes only: of no use to ``partial_fit``, which knows no end of one
    by_passes: ClassVar[bool] = False
    default_passes: ClassVar[int] = 10
    #: whether it knows when it is done even if nobody asks for a tolerance
    has_goal: ClassVar[bool] = False
    #: fields of the state that hold positions of features: a state from a file is checked by them
    index_fields: ClassVar[frozenset[str]] = frozenset()
    #: fields of the state that are divided by: positive and finite in a state from a file
    positive_fields: ClassVar[frozenset[str]] = frozenset()
    #: fields of the state that are sums over rows or steps: merging adds what each shard added.
    #: Where ``step`` is none of them it is the clock of the steps, and merging averages iterates
    sum_fields: ClassVar[frozenset[str]] = frozenset()
    #: merged states give, to rounding, the model of one stream over all rows
    merges_exactly: ClassVar[bool] = False
    #: what targets it learns: see ``Problem.targets``
    target_kinds: ClassVar[frozenset[str]] = frozenset({"classes"})
    #: it minimises the loss of x . coef + intercept and the penalty of the coef
    linear: ClassVar[bool] = True
    #: learns all classes in one pass over the rows when the problem has several outputs
    joint: ClassVar[bool] = False
    #: learns all classes in one pass where the penalty joins their weights into blocks
    joins_blocks: ClassVar[bool] = False
    #: targets are class numbers, also of two classes (which are -1 and +1 for the others)
    by_codes: ClassVar[bool] = False
    #: its function is looked at after every pass, for the residual and to keep the last sound one
    asks_function: ClassVar[bool] = True
    #: adds rows up by matrix products: where a stream is cut shows in the last digits
    by_blocks: ClassVar[bool] = False
    batch: int = 1

    def learns_jointly(self, problem: Problem) -> bool:
        """Whether one state learns all outputs, rather than one for each class against the rest."""
        return problem.outputs == 1 or self.joint or problem.penalty.shared or problem.has_tasks

    @property
    def no_merger(self) -> str:
        """Why states of different rows make no one state; empty where they do."""
        says = type(self).merge is not Solver.merge
        return "" if says else "it does not say how models of different rows are merged"

    @property
    def by_rows(self) -> bool:
        """Whether the order of the rows matters; otherwise an update is a whole pass."""
        return self.streaming

    @property
    def seam(self) -> int:
        """Every so many rows a planned pass can be cut without a trace."""
        return self.batch

    def planned_passes(self, shape: tuple[int, int]) -> int:
        """Most passes over (rows, features) when the user gives no number."""
        return self.default_passes

    def feature_space(self, features: int) -> dict[str, Any]:
        """Dimensions of fields with a number for each feature: ``"field__3"`` is that of the
        fourth."""
        return {}

    def check(self, problem: Problem) -> None:
        """Refuse what the hyper-parameters cannot do; called once before any work."""

    def prepare(self, problem: Problem, chunk: Chunk) -> tuple[Solver, Problem]:
        """Fill in the hyper-parameters that are to be chosen from the data."""
        return self, problem

    def planned(self, visits: int) -> Solver:
        """Make use of knowing how many rows will be visited in all."""
        return self

    def surveyed(self, add_up: AddUp) -> Solver:
        """Make use of sums over all rows, where they can be asked for before the first step."""
        return self

    def for_stream(self, problem: Problem) -> Solver:
        """Fix what must not depend on how a stream is cut into chunks."""
        return self

    def init(self, problem: Problem, chunk: Chunk | None = None) -> State:
        raise NotImplementedError

    def start_from(self, problem: Problem, chunk: Chunk, near: Near) -> State | None:
        """A state to start from in place of ``init``'s; None: the solver has no use for ``near``.

        Only for solvers that end at the optimum, to the tolerance, wherever they start.
        """
        return None

    def update(self, problem: Problem, state: State, chunk: Chunk) -> State:
        raise NotImplementedError

    def finish(self, problem: Problem, state: State) -> Any:
        """The function that was learned so far; it shares no memory with the state."""
        raise NotImplementedError

    def copy(self, state: State) -> State:
        """The state in memory of its own: who wants to keep one copies it before an update."""
        return copied(state)

    def merge(
        self, problem: Problem, states: Sequence[State], base: State, weights: Sequence[float]
    ) -> State:
        """One state of several shards' that started as copies of ``base`` and saw other rows each.

        ``weights`` are the masses of these rows (the sums of their weights); a shard of mass zero
        might as well not be there.  What the base had learned is counted once.  The arguments stay
        as they are, and the result shares no memory with them.
        """
        name = type(self).__name__
        if not self.streaming:
            raise NotImplementedError(
                f"{name} is a batch solver, whose updates need all rows at once: states that saw "
                "different rows cannot be merged; use a streaming solver such as AveragedSGD"
            )
        raise NotImplementedError(f"{name} does not say how its states are merged")

    def polish(self, problem: Problem, state: State, chunk: Chunk) -> State:
        """A last look at the whole data after the passes; most solvers need none."""
        return state

    def between(
        self, problem: Problem, state: State, chunk: Chunk | None, done: int, planned: int | None
    ) -> State:
        """What happens before a pass, after ``done`` of ``planned``; most solvers do nothing.

        ``chunk`` is all rows, None where nobody has them together.
        """
        return state

    def passed(self, problem: Problem, state: State, done: int, planned: int | None) -> State:
        """What happens right after a pass, the last one too, before anybody looks at the function;
        most solvers do nothing."""
        return state

    def residual(self, problem: Problem, state: State, before: Any, after: Any) -> float:
        """Distance from convergence after a pass: the relative change of the weights."""
        with np.errstate(over="ignore", invalid="ignore"):
            change, size = np.linalg.norm(after.coef - before.coef), np.linalg.norm(after.coef)
            return float(change / max(1.0, float(size)))

    def is_sound(self, problem: Problem, state: State) -> bool:
        """Whether a state is finite, of solvers whose functions are not looked at."""
        return True

    def is_at_bound(self, problem: Problem, state: State) -> bool:
        """Whether weights or bias lie on a bound that the solver, not the user, has set them."""
        return False

    def is_done(self, problem: Problem, state: State, residual: float) -> bool:
        """Whether there is no point in another pass."""
        return problem.tol is not None and residual <= problem.tol

    def check_state(self, problem: Problem, state: State) -> None:
        """ValueError for a state that a file must not bring: compiled loops trust a state."""
        if not self.streaming:
            raise ValueError(f"{type(self).__name__} does not learn from streams")
        check_arrays(state, self.init(problem))
        for name in self.index_fields:
            places = getattr(state, name)
            if not np.all((places >= -1) & (places < places.size)):
                raise ValueError(f"the state's {name} points beyond the features")
        for name in self.positive_fields:
            if not 0.0 < getattr(state, name) < math.inf:
                raise ValueError(f"the state's {name} is not positive")


def check_batch(solver: Solver) -> None:
    limit = "at least 1" if solver.batch < 1 else "below 2^31"
    if not 1 <= solver.batch < 2**31:
        raise ValueError(f"{type(solver).__name__}: batch must be {limit}, got {solver.batch}")


@njit(cache=True, nogil=True)
def _fill_precisions(penalty, out):
    for j in range(out.size):
        out[j] = penalty.precision(j)


def precisions(problem: Problem) -> np.ndarray:
    """lambda_j of a quadratic penalty, for every feature."""
    out = np.empty(problem.n_features)
    _fill_precisions(problem.penalty, out)
    return out
