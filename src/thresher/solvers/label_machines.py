"""The machines for few labels: how each bends the kernel, and what it learns from the labels.

A machine is a frozen dataclass of its hyper-parameters.  ``bend`` does all that needs every row,
for one strength of the rows without labels; ``learn`` does the rest, on the labels alone, and so
costs next to nothing: other C, and folds that hide labels, share what ``bend`` gave.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from thresher.losses import Hinge, LeastSquares, SquaredHinge
from thresher.solvers.base import Solver
from thresher.solvers.deformed import FeatureSpace, GramSpace, Sections
from thresher.solvers.few_labels import (
    Coupling,
    LabelFit,
    coupled_ridge,
    hinge,
    ridge,
    squared_hinge,
)
from thresher.solvers.machines import KernelDual

__all__ = ["METHODS", "Bent", "BiSemiKSC", "LabelMachine", "LapSVM", "LapSVMPrimal", "SemiKSC"]

BIASES = ("free", "published", "none")


class Bent(NamedTuple):
    """What a machine makes of all rows: kernels on the labelled ones, and their sections.

    ``corners`` are what a bias costs, one for each output, None: there is no bias.
    """

    sections: list[Sections]
    corners: np.ndarray | None
    coupling: Coupling | None = None

    def scores(self, rows: np.ndarray, fit: LabelFit, of: np.ndarray) -> np.ndarray:
        """(of, outputs): what a fit to some labelled rows says of others."""
        parts = zip(self.sections, fit.coef, strict=True)
        return sum(s.values[np.ix_(of, rows)] @ c for s, c in parts) + fit.intercept

    def weights(self, fit: LabelFit) -> np.ndarray:
        """(coefficients or weights, outputs) of a fit to all labelled rows."""
        return sum(s.weights @ c for s, c in zip(self.sections, fit.coef, strict=True))


@dataclass(frozen=True)
class LabelMachine(Solver):
    """Base of the machines.

    Parameters
    ----------
    C : float, default=10.0
        Weight of a label's loss beside half the squared norm of the function.
    unlabelled : float, default=0.9
        How much the rows without labels have to say.
    """

    C: float = 10.0
    unlabelled: float = 0.9
    streaming = False
    linear = False
    #: also of two classes each has a function of its own
    by_codes: ClassVar[bool] = False
    uses_graph: ClassVar[bool] = False
    #: where none is given
    usual_strength: ClassVar[float] = 0.9
    #: to choose among
    strengths: ClassVar[tuple[float, ...]] = (0.0, 0.5, 0.9, 0.99)
    loss: ClassVar[Any] = LeastSquares

    @property
    def centres(self) -> bool:
        """Whether features are taken from their mean."""
        return False

    def check_options(self) -> None:
        """ValueError for numbers that cannot work."""
        if not (self.C > 0.0 and math.isfinite(self.C)):
            raise ValueError(f"C must be a positive number, got {self.C}")
        if not (self.unlabelled >= 0.0 and math.isfinite(self.unlabelled)):
            raise ValueError(f"unlabelled must be a number of at least 0, got {self.unlabelled}")

    def bend(self, space: GramSpace | FeatureSpace, outputs: int, laplacian: Any) -> Bent:
        """All that needs every row."""
        raise NotImplementedError

    def learn(self, bent: Bent, rows: np.ndarray, y: np.ndarray, weight: np.ndarray) -> LabelFit:
        """From the labels -1 and +1 (rows, outputs) of some of the labelled rows."""
        raise NotImplementedError


@dataclass(frozen=True)
class SemiKSC(LabelMachine):
    r"""Kernel spectral clustering that is told some labels (Alzate and Suykens, 2012).

    .. math:: \tfrac12\|w\|^2 + \tfrac C2 \sum_{i \le l} (e_i - y_i)^2
              - \tfrac\gamma2 \sum_i e_i^2 / d_i, \qquad e = \Phi w + b

    Parameters
    ----------
    C : float, default=10.0
        Weight of a label's loss.
    unlabelled : float, default=0.9
        gamma, in units of the largest for which the problem is convex.
    bias : {"free", "published", "none"}, default="free"
        b: outside of the sum over all rows, which then measures the spread of e around its mean, so
        that the problem stays convex; within it, as published; or none.

    Examples
    --------
    >>> from thresher.solvers.label_machines import SemiKSC
    >>> SemiKSC(unlabelled=0.5).bias
    'free'
    """

    bias: str = "free"

    @property
    def centres(self) -> bool:
        return self.bias != "none"

    def check_options(self) -> None:
        super().check_options()
        if self.bias not in BIASES:
            known = ", ".join(map(repr, BIASES))
            raise ValueError(f"bias must be one of {known}, got {self.bias!r}")

    def bend(self, space: GramSpace | FeatureSpace, outputs: int, laplacian: Any) -> Bent:
        gamma = self.unlabelled * space.limit()
        return Bent([space.by_degrees(gamma)], self._corners(np.full(outputs, gamma), space.mass))

    def learn(self, bent: Bent, rows: np.ndarray, y: np.ndarray, weight: np.ndarray) -> LabelFit:
        corner = None if bent.corners is None else float(bent.corners[0])
        return ridge(bent.sections[0].values[np.ix_(rows, rows)], y, self.C * weight, corner)

    def _corners(self, gammas: np.ndarray, mass: float) -> np.ndarray | None:
        if self.bias == "none":
            return None
        return gammas * mass if self.bias == "published" else np.zeros(gammas.size)


@dataclass(frozen=True)
class BiSemiKSC(SemiKSC):
    """A function for each class, which repel each other: a row that none claims is of no class.

    The objective is in ``thresher.solvers.few_labels``, for any number of classes.

    Parameters
    ----------
    C : float, default=10.0
        Weight of a label's loss: gamma_2 is C (repulsion - 1).
    unlabelled : float, default=0.9
        Scale of the weights of the sums over all rows: 1 is where the problem ceases to be convex.
    bias : {"free", "published", "none"}, default="free"
        As in ``SemiKSC``; "none" is the published machine.
    repulsion : float, default=2.0
        gamma_1, more than 1: the closer to 1, the more the functions repel each other.
    tilt : float, default=0.5
        gamma_4 / gamma_3: the weight of the first class's sum over all rows beside that of the
        last, with those between in equal ratios.  1: all functions are those of ``SemiKSC``.

    Examples
    --------
    >>> from thresher.solvers.label_machines import BiSemiKSC
    >>> machine = BiSemiKSC(unlabelled=0.5, tilt=1.0)
    >>> [round(g, 6) for g in machine.gammas(2, 1.0)]  # gamma_4 and gamma_3
    [0.5, 0.5]
    """

    repulsion: float = 2.0
    tilt: float = 0.5
    by_codes = True

    def check_options(self) -> None:
        super().check_options()
        if not (self.repulsion > 1.0 and math.isfinite(self.repulsion)):
            raise ValueError(f"repulsion must be more than 1, got {self.repulsion}")
        if not (self.tilt > 0.0 and math.isfinite(self.tilt)):
            raise ValueError(f"tilt must be a positive number, got {self.tilt}")

    def gammas(self, outputs: int, limit: float) -> list[float]:
        """The weights of the sums over all rows, by class, where one function has this limit."""
        shares = self.tilt ** np.linspace(1.0, 0.0, outputs)
        largest = Coupling.of(self.repulsion, shares.tolist()).gammas[-1]
        return (shares * (self.unlabelled * limit / largest)).tolist()

    def bend(self, space: GramSpace | FeatureSpace, outputs: int, laplacian: Any) -> Bent:
        gammas = self.gammas(outputs, space.limit())
        coupling = Coupling.of(self.repulsion, gammas)
        made: dict[float, Sections] = {}  # of classes with the same weight, most gammas are one
        for gamma in coupling.gammas:
            key = float(f"{gamma:.9e}")
            made[key] = made[key] if key in made else space.by_degrees(float(gamma))
        sections = [made[float(f"{gamma:.9e}")] for gamma in coupling.gammas]
        return Bent(sections, self._corners(np.array(gammas), space.mass), coupling)

    def learn(self, bent: Bent, rows: np.ndarray, y: np.ndarray, weight: np.ndarray) -> LabelFit:
        assert bent.coupling is not None
        kernels = [s.values[np.ix_(rows, rows)] for s in bent.sections]
        bounds = self.C * (self.repulsion - 1.0) * weight
        return coupled_ridge(bent.coupling, kernels, y, bounds, bent.corners)


@dataclass(frozen=True)
class LapSVM(LabelMachine):
    r"""Laplacian support vector machine, by its dual (Belkin, Niyogi and Sindhwani, 2006).

    .. math:: \tfrac12\|w\|^2 + C \sum_{i \le l} (1 - y_i f_i)_+ + \tfrac c2 f'Lf / v

    with the Laplacian L of a graph of neighbours and the sum v of its weights.

    Parameters
    ----------
    C : float, default=10.0
        Weight of a label's loss.
    unlabelled : float, default=0.9
        c: how much neighbours must agree, on the average.
    tol : float, default=1e-4
        By how much the KKT conditions of the dual may be violated.
    max_steps : int or None, default=None
        Most renewals of the working set.

    Examples
    --------
    >>> from thresher.solvers.label_machines import LapSVM
    >>> LapSVM(C=1.0).uses_graph
    True
    """

    tol: float = 1e-4
    max_steps: int | None = None
    uses_graph = True
    usual_strength = 100.0
    strengths = (0.0, 10.0, 100.0, 1e3, 1e4, 1e5)
    loss: ClassVar[Any] = Hinge

    def check_options(self) -> None:
        super().check_options()
        if not (self.tol > 0.0 and math.isfinite(self.tol)):
            raise ValueError(f"tol must be a positive number, got {self.tol}")

    def bend(self, space: GramSpace | FeatureSpace, outputs: int, laplacian: Any) -> Bent:
        if laplacian is None:
            return Bent([space.by_own_graph(self.unlabelled)], np.zeros(outputs))
        return Bent([space.by_graph(laplacian, self.unlabelled)], np.zeros(outputs))

    def learn(self, bent: Bent, rows: np.ndarray, y: np.ndarray, weight: np.ndarray) -> LabelFit:
        K = bent.sections[0].values[np.ix_(rows, rows)]
        return hinge(KernelDual(self.tol, max_steps=self.max_steps), K, y, self.C * weight)


@dataclass(frozen=True)
class LapSVMPrimal(LapSVM):
    r"""Laplacian support vector machine with squared losses, in the primal (Melacci and Belkin).

    .. math:: \tfrac12\|w\|^2 + \tfrac C2 \sum_{i \le l} (1 - y_i f_i)_+^2
              + \tfrac c2 f'Lf / v

    Parameters
    ----------
    C, unlabelled, tol, max_steps : as in ``LapSVM``; Newton's method ends at the optimum, whatever
        tol is

    Examples
    --------
    >>> from thresher.solvers.label_machines import LapSVMPrimal
    >>> LapSVMPrimal().loss.__name__
    'SquaredHinge'
    """

    loss: ClassVar[Any] = SquaredHinge

    def learn(self, bent: Bent, rows: np.ndarray, y: np.ndarray, weight: np.ndarray) -> LabelFit:
        K = bent.sections[0].values[np.ix_(rows, rows)]
        return squared_hinge(K, y, self.C * weight, self.max_steps)


METHODS: dict[str, type[LabelMachine]] = {
    "semi_ksc": SemiKSC,
    "bi_semi_ksc": BiSemiKSC,
    "lap_svm": LapSVM,
    "lap_svm_primal": LapSVMPrimal,
}
