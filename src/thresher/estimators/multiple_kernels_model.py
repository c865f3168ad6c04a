"""What machines of many kernels share: the bank, the search for weights, what was chosen."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from thresher._allowed import OPEN_SHARE, POSITIVE, SHARE, OneOf, number, whole
from thresher._seed import seed_from
from thresher.dimensions import Float
from thresher.estimators.base import Learner
from thresher.estimators.exact_model import ExactModel
from thresher.estimators.fronts import Front, UnitsFront
from thresher.estimators.kernel_search import KernelSearch
from thresher.estimators.support_fit import Fitted, Watch
from thresher.functions import KernelSum, LinearFunction
from thresher.functions.base import check_numbers, require
from thresher.functions.kernel_sum import are_columns
from thresher.kernels.bank import Bank, GramBank, KernelBank, Member
from thresher.kernels.functions import Kernel
from thresher.kernels.members import described, members_of
from thresher.solvers import Status
from thresher.solvers.level import PUBLISHED
from thresher.solvers.machines import KernelDual
from thresher.solvers.multiple_kernels import KernelWeights, Learned, Side, learn_kernels

__all__ = ["MultipleKernelModel"]

_METHODS = ("level", "block")
_UNIFORM = "uniform"


class MultipleKernelModel(ExactModel):
    """Options, the bank of kernels, the search for their weights, and which were chosen."""

    allowed = {
        "C": POSITIVE, "v": SHARE | _UNIFORM, "p": number(1.0) | None, "method": OneOf(*_METHODS),
        "tau": OPEN_SHARE | PUBLISHED, "gap": POSITIVE, "max_iter": whole(1), "tol": POSITIVE,
    }  # fmt: skip
    optional_record = (
        *Learner.optional_record, "violation_", "kernel_weights_", "kernels_", "bounds_",
    )  # fmt: skip
    C: Any
    v: Any
    p: float | None
    kernels: Any
    columns: Any
    method: str
    tau: Any
    gap: float
    tol: Any
    memory: float
    multiclass = "shared"
    kernel_weights_: np.ndarray
    kernels_: tuple[Any, ...]
    bounds_: tuple[float, float]

    # ------------------------------------------------------------ options

    def check_options(self) -> None:
        super().check_options()
        if self.kernels is None or (isinstance(self.kernels, str) and not self._is_named_bank):
            raise ValueError(
                f"kernels must be 'bank', 'precomputed' or a list of kernels, got {self.kernels!r}"
            )

    @property
    def _is_named_bank(self) -> bool:
        return self.kernels in ("bank", "precomputed")

    @property
    def _is_precomputed(self) -> bool:
        return isinstance(self.kernels, str) and self.kernels == "precomputed"

    def _weights_solver(self, tol: float) -> KernelWeights:
        v = None if isinstance(self.v, str) else float(self.v)
        machine = KernelDual(tol, float(self.memory), None, self._jobs)
        return KernelWeights(
            v, self.p, self.method, self.tau, float(self.gap), int(self.max_iter), machine
        )

    def dimensions(self, X: Any = None, y: Any = None) -> dict[str, Any]:
        parts: dict[str, Any] = {"C": Float(1e-2, 1e4, log=True)}
        if self.p is None and not isinstance(self.v, str):
            parts["v"] = Float(0.0, 1.0)
        return parts

    def work(self, params: dict[str, Any], rows: int) -> float:
        return 20.0 * float(rows) ** 2

    def solves_problems(self) -> bool:
        """The search notes where it stands."""
        return True

    def without_stream(self) -> tuple[str, str]:
        return "the exact machine of many kernels", (
            "learner='kernel' with map='bank' (landmarks of all kernels, of which a penalty over "
            "groups chooses)"
        )

    def learn_front(
        self, rows: Any, targets: np.ndarray, weight: np.ndarray | None, moments: Any = None
    ) -> Front:
        if self._is_precomputed:  # kernel values have no units
            return UnitsFront(None)
        return super().learn_front(rows, targets, weight, moments)

    # ------------------------------------------------------------ the fit

    def _side(self, y: np.ndarray, bounds: np.ndarray) -> Side:
        """What a machine is learned from."""
        raise NotImplementedError

    def learned_from(
        self, X: Any, y: np.ndarray, weight: np.ndarray, C: float, kept: np.ndarray, tol: float,
        outputs: int,
    ) -> tuple[Any, list[Fitted], KernelWeights]:  # fmt: skip
        bounds = C * weight
        bank, members = self._bank(X, bounds, kept)
        solver, watch = self._weights_solver(tol), Watch(self, is_kept=True)
        sides = [self._side(y, bounds)]
        if outputs > 1:
            signs = [np.where(y == c, 1.0, -1.0) for c in range(outputs)]
            sides = [self._side(own, bounds) for own in signs]
        parts = [[side] for side in sides] if self.multiclass == "own" else [sides]
        found = []
        for k, part in enumerate(parts):
            number = k if len(parts) > 1 else None
            search = KernelSearch(watch, number, len(part), bank.size, bank.count)
            found.append(
                learn_kernels(solver, bank, part, search.after_step, search.told, search.left())
            )
        weights = np.stack([one.weights for one in found])
        self.kernel_weights_ = weights[0] if len(found) == 1 else weights
        self.kernels_ = tuple((m.kernel, m.columns) for m in members)
        self.bounds_ = (sum(one.lower for one in found), sum(one.upper for one in found))
        self._tell_of_a_gap(found)
        machines = [machine for one in found for machine in one.machines]
        fitted = [_fitted(one, machine) for one in found for machine in one.machines]
        coef = np.stack([machine.coef for machine in machines])
        intercept = np.array([machine.intercept for machine in machines])
        factors = weights * bank.factors
        if self._is_precomputed:
            return _of_columns(factors, coef, intercept, kept, X.shape[1]), fitted, solver
        chosen = np.flatnonzero(factors.any(axis=0))
        used = np.flatnonzero(coef.any(axis=0))
        function = KernelSum(
            tuple(members[q].kernel for q in chosen), tuple(members[q].columns for q in chosen),
            np.ascontiguousarray(factors[:, chosen]), X[used], np.ascontiguousarray(coef[:, used]),
            intercept,
        )  # fmt: skip
        return function, fitted, solver

    def _tell_of_a_gap(self, found: list[Learned]) -> None:
        """Where rounding has ended a search before its bounds met."""
        ended = any(one.status is Status.COMPLETED for one in found)
        if ended and self.gap_ > self.gap and not any(one.negative for one in found):
            warnings.warn(
                f"{type(self).__name__}: the bounds of the objective differ by {self.gap_:.2g} of "
                f"it (gap={self.gap:g} was asked), and rounding lets them come no closer: other "
                "weights of the kernels may be better; lower C, or ask for a larger gap",
                ConvergenceWarning, stacklevel=8,
            )  # fmt: skip

    def name_features(self, names: list[str] | None) -> None:
        if names is not None:
            self.column_names_ = list(names)

    @property
    def _names(self) -> Any:
        return vars(self).get("feature_names_in_", vars(self).get("column_names_"))

    def _bank(self, X: Any, bounds: np.ndarray, kept: np.ndarray) -> tuple[Bank, list[Member]]:
        names = self._names
        if self._is_precomputed:
            matrices = _matrices(X, kept)
            bank: Bank = GramBank(matrices, bounds)
            members: list[Any] = [Member(None, (q,)) for q in range(bank.count)]  # type: ignore[arg-type]
        else:
            seed = seed_from(self.random_state)
            members = members_of(self.kernels, self.columns, X, names, seed)
            bank = KernelBank(members, X, bounds)
        zero = np.flatnonzero(bank.factors == 0.0)
        if zero.size == bank.count:
            raise ValueError(
                "every kernel is zero, or not finite, on these rows (or negative on its diagonal): "
                "none can be used"
            )
        if zero.size:
            first = int(zero[0])
            name = _named(members[first], names)
            more = f" and {zero.size - 1} more" if zero.size > 1 else ""
            warnings.warn(
                f"{name}{more} is zero, not finite, or beyond single precision, and cannot be "
                "chosen: "
                + (
                    "look at its matrix, whose diagonal must be positive"
                    if self._is_precomputed
                    else "scale the features"
                ),
                UserWarning, stacklevel=8,
            )  # fmt: skip
        return bank, members

    # ------------------------------------------------------------ what was chosen

    @property
    def selected_(self) -> np.ndarray:
        """Numbers of the kernels that were chosen, the largest weight first."""
        largest = np.atleast_2d(self.kernel_weights_).max(axis=0)
        order = np.argsort(-largest, kind="stable")
        return order[largest[order] > 0.0]

    @property
    def gap_(self) -> float:
        """What the objective misses to its optimum at most, as a share of it."""
        lower, upper = self.bounds_
        return (upper - lower) / max(abs(upper), 1e-300)

    def chosen_parts(self, names: Any = None) -> list[tuple[str, list[float]]]:
        """The chosen kernels in words with their weights, the largest first."""
        names = self._names if names is None else names
        weights = np.atleast_2d(self.kernel_weights_)
        members = [Member(*self.kernels_[q]) for q in self.selected_]
        return [
            (_named(member, names), weights[:, q].tolist())
            for q, member in zip(self.selected_, members, strict=True)
        ]

    def check_choice(self) -> None:
        """ValueError unless kernels and weights are those of a fit."""
        held = ("kernel_weights_", "kernels_", "bounds_")
        require(
            all(name in vars(self) for name in held), "its kernels must have weights and bounds"
        )
        weights, kinds, bounds = self.kernel_weights_, self.kernels_, self.bounds_
        shape = np.shape(weights)
        require(len(shape) in (1, 2) and shape[-1] > 0, "kernel_weights_ must be an array")
        own = shape if len(shape) == 1 else (self.function_.outputs, shape[1])
        check_numbers("kernel_weights_", weights, own)
        require(np.all(weights >= 0.0), "kernel_weights_ must not be negative")
        whole = isinstance(kinds, tuple) and len(kinds) == shape[-1]
        require(whole and all(self._is_member(k) for k in kinds), "kernels_ are damaged")
        pair = isinstance(bounds, tuple) and [type(b) for b in bounds] == [float, float]
        require(pair and np.all(np.isfinite(bounds)), "bounds_ must be two numbers")

    def _is_member(self, pair: Any) -> bool:
        if not (isinstance(pair, tuple) and len(pair) == 2):
            return False
        kernel, columns = pair
        kind = kernel is None if self._is_precomputed else isinstance(kernel, Kernel)
        return kind and (columns is None or are_columns(columns, self.n_features_in_))


def _named(member: Member, names: Any) -> str:
    if member.kernel is None:
        return f"kernel {member.columns[0]}" if member.columns else "kernel"
    return described(member.kernel, member.columns, names)


def _fitted(found: Learned, machine: Any) -> Fitted:
    own = Fitted.of(machine)
    status = own.status if found.status is Status.CONVERGED else found.status
    return own._replace(status=status, steps=found.steps, negative=found.negative)


def _matrices(X: Any, kept: np.ndarray) -> list[np.ndarray]:
    """Square matrices that lie side by side; of the rows that are kept."""
    n = kept.size
    if X.shape[1] % n or not X.shape[1]:
        raise ValueError(
            f"kernels='precomputed' needs one column for every row and kernel, side by side: "
            f"{n} rows have {X.shape[1]} columns"
        )
    X = X.toarray() if hasattr(X, "toarray") else X
    out = [X[:, q * n + np.flatnonzero(kept)] for q in range(X.shape[1] // n)]
    for q, K in enumerate(out):
        size = float(np.max(np.abs(K), initial=0.0))
        if not np.allclose(K, K.T, rtol=0.0, atol=1e-6 * size):
            raise ValueError(f"kernel {q} is not symmetric: at fit, rows and columns are the same")
    return out


def _of_columns(
    factors: np.ndarray, coef: np.ndarray, intercept: np.ndarray, kept: np.ndarray, width: int
) -> LinearFunction:
    """A sum of given kernel values is linear in them."""
    outputs = coef.shape[0]
    n = width // factors.shape[1]
    table = np.zeros((outputs, factors.shape[1], n))
    table[:, :, kept] = factors[:, :, None] * coef[:, None, :]
    return LinearFunction(table.reshape(outputs, width), intercept)
