r"""Coupled simulated annealing as an Optuna sampler.

``q`` annealing chains walk the space side by side.  Chain :math:`i` at energy :math:`E_i` always
takes a better point; a worse one it takes with a probability that looks at all chains,

.. math::
    A_i = \frac{\exp((E_i - \max_j E_j) / T_{ac})}{\sum_j \exp((E_j - \max_k E_k) / T_{ac})},

so that the worst chains wander and the best ones stay.  The acceptance temperature needs no
schedule: after each generation it is multiplied by :math:`1 - \alpha` if the variance of the
probabilities, :math:`\frac1q \sum A_i^2 - \frac1{q^2}`, is below 0.99 of its largest possible value
:math:`(q-1)/q^2`, and by :math:`1 + \alpha` if above.  Steps are Cauchy distributed, per coordinate
of the unit cube, with a width that falls with the generation.

Reference: Xavier-de-Souza, Suykens, Vandewalle and Bolle, Coupled Simulated Annealing, IEEE
Transactions on Systems, Man and Cybernetics B 40 (2010).  Ours, not theirs, for runs of tens of
trials instead of thousands: the first generation is a Latin hypercube; T_ac starts where the
variance of its energies is right, so that energies may have any unit; and half of the steps
(``pull``) start from the best chain's point instead of the chain's own.  The last was chosen
among a dozen variants on five test functions at 40 trials.  They would have T_gen0 = 0.1; on real
data steps that narrow so fast leave a first wrong choice (not to scale the features) too seldom,
hence 0.3.

Nothing is stored but the trials.  Trial t is the move number t // q of chain t % q; the chains are
replayed from the study's trials, with random numbers that are a function of the seed, the number of
the trial and the name of the parameter.  A generation depends on earlier generations only.  So a
resumed study, q workers in parallel and one worker all propose the same points.
"""

from __future__ import annotations

import math
import threading
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from optuna import Study
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from thresher.tune.cube import from_unit, is_numeric, reflect, to_unit

__all__ = ["CSASampler", "KeyedRandomSampler", "acceptance", "balanced_temperature", "controlled"]

_TARGET = 0.99  # of the largest variance of the acceptance probabilities


def acceptance(energies: np.ndarray, temperature: float) -> np.ndarray:
    """Probabilities with which the chains accept a worse point; they sum to one."""
    weights = np.exp((energies - np.max(energies)) / temperature)
    return weights / weights.sum()


def variance(probabilities: np.ndarray) -> float:
    q = probabilities.size
    return float(np.sum(probabilities**2) / q - 1.0 / q**2)


def controlled(probabilities: np.ndarray, temperature: float, alpha: float) -> float:
    """The acceptance temperature of the next generation."""
    q = probabilities.size
    low = variance(probabilities) < _TARGET * (q - 1) / q**2
    return temperature * (1.0 - alpha if low else 1.0 + alpha)


def balanced_temperature(energies: np.ndarray) -> float:
    """The temperature at which the acceptance probabilities have the wanted variance."""
    spread = float(np.ptp(energies))
    if not spread > 0.0:
        return 1.0
    low, high = 1e-9 * spread, 1e3 * spread
    goal = _TARGET * (energies.size - 1) / energies.size**2
    for _ in range(60):
        middle = math.sqrt(low * high)
        if variance(acceptance(energies, middle)) < goal:
            high = middle
        else:
            low = middle
    return high


class Chains(NamedTuple):
    """Where the chains stand before a generation."""

    points: list[FrozenTrial | None]
    best: FrozenTrial | None  # the point of lowest energy
    temperature: float | None


class KeyedRandomSampler(BaseSampler):
    """Uniform sampling in which every draw is a function of seed, trial number and name.

    Unlike ``optuna.samplers.RandomSampler`` a resumed study goes on where it stopped instead of
    repeating its first draws.
    """

    def __init__(self, seed: int | None = None):
        self.seed = seed
        self._lock = threading.Lock()
        self._cache: tuple[Any, Chains] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: v for name, v in self.__dict__.items() if name not in ("_lock", "_cache")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock(), _cache=None)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return {}

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        rng = self._rng(study, trial.number, param_name)
        return from_unit(param_distribution, rng.random())

    def _rng(self, study: Study, number: int, name: str) -> np.random.Generator:
        key = zlib.crc32(name.encode())
        return np.random.default_rng((self._seed(study), number, key))

    def _seed(self, study: Study) -> int:
        """The seed; one that was not given is drawn once for the study and kept with it."""
        with self._lock:
            if self.seed is None:
                kept = study.user_attrs.get("csa_seed")
                if kept is None:
                    kept = int(np.random.SeedSequence().generate_state(1)[0])
                    study.set_user_attr("csa_seed", kept)
                self.seed = int(kept)
            return self.seed


class CSASampler(KeyedRandomSampler):
    """Coupled simulated annealing for any Optuna study with one objective.

    Parameters
    ----------
    chains : int, default=5
        Number of coupled chains; as many trials may run in parallel without changing the result.
    seed : int or None, default=None
        None: drawn once and kept in the study's attribute ``csa_seed``.
    T_gen0 : float, default=0.3
        Width of the first steps, as a share of each parameter's range.
    T_ac0 : float or None, default=None
        First acceptance temperature, in units of the objective. None: where the variance of the
        first acceptance probabilities is what the control aims at.
    alpha : float, default=0.05
        Rate of the control of the acceptance temperature.
    pull : float, default=0.5
        Share of the steps that start from the best chain's point; 0 is CSA as published.

    Examples
    --------
    >>> import optuna
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> from thresher.tune import CSASampler
    >>> study = optuna.create_study(sampler=CSASampler(seed=0))
    >>> study.optimize(lambda trial: trial.suggest_float("x", -5, 5) ** 2, n_trials=60)
    >>> study.best_value < 0.01
    True
    """

    def __init__(
        self,
        chains: int = 5,
        *,
        seed: int | None = None,
        T_gen0: float = 0.3,
        T_ac0: float | None = None,
        alpha: float = 0.05,
        pull: float = 0.5,
    ):
        super().__init__(seed)
        if chains < 1:
            raise ValueError(f"chains must be at least 1, got {chains}")
        if not T_gen0 > 0.0 or (T_ac0 is not None and not T_ac0 > 0.0):
            raise ValueError(f"temperatures must be positive, got {T_gen0=}, {T_ac0=}")
        if not 0.0 < alpha < 1.0:
            raise ValueError(f"alpha must lie strictly between 0 and 1, got {alpha}")
        if not 0.0 <= pull <= 1.0:
            raise ValueError(f"pull must lie between 0 and 1, got {pull}")
        self.chains = chains
        self.pull = pull
        self.T_gen0 = T_gen0
        self.T_ac0 = T_ac0
        self.alpha = alpha

    def width(self, generation: int) -> float:
        """Width of the steps into a generation (the first, 0, is drawn at random)."""
        return self.T_gen0 / max(generation, 1)

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        generation, chain = divmod(trial.number, self.chains)
        rng = self._rng(study, trial.number, param_name)
        point = self._start(study, trial.number)
        if point is None and generation == 0:
            return from_unit(param_distribution, self._stratum(study, param_name, chain, rng))
        if point is None or param_name not in point.params:
            return from_unit(param_distribution, rng.random())
        current = point.params[param_name]
        width = self.width(generation)
        if is_numeric(param_distribution):
            step = width * math.tan(math.pi * (rng.random() - 0.5))
            return from_unit(
                param_distribution, reflect(to_unit(param_distribution, current) + step)
            )
        assert isinstance(param_distribution, CategoricalDistribution)
        others = [c for c in param_distribution.choices if c != current]
        if current not in param_distribution.choices:
            return from_unit(param_distribution, rng.random())
        if others and rng.random() < width / (width + 0.5):
            return others[int(rng.integers(len(others)))]
        return current

    def _start(self, study: Study, number: int) -> FrozenTrial | None:
        """Where the step of a trial starts: the chain's own point, or the best chain's."""
        generation, chain = divmod(number, self.chains)
        chains = self._chains(study, generation)
        if self._rng(study, number, "pull?").random() < self.pull:
            return chains.best
        return chains.points[chain]

    def _stratum(self, study: Study, name: str, chain: int, rng: np.random.Generator) -> float:
        """Latin hypercube: each chain starts in a cell of its own along every parameter."""
        order = np.random.default_rng((self._seed(study), 1, zlib.crc32(name.encode()), 0))
        return (float(order.permutation(self.chains)[chain]) + rng.random()) / self.chains

    # ------------------------------------------------------------ replay

    def _chains(self, study: Study, generation: int) -> Chains:
        """The chains before ``generation``, replayed from the trials of the earlier ones."""
        if len(study.directions) != 1:
            raise ValueError("CSASampler minimises one objective; this study has several")
        trials = study.get_trials(deepcopy=False)[: generation * self.chains]
        key = (study.study_name, generation, sum(t.state.is_finished() for t in trials))
        with self._lock:
            if self._cache is not None and self._cache[0] == key:
                return self._cache[1]
        chains = self.replay(study, trials)
        with self._lock:
            self._cache = key, chains
        return chains

    def replay(self, study: Study, trials: Sequence[FrozenTrial]) -> Chains:
        """Go through whole generations of trials, accepting and rejecting them again."""
        q = self.chains
        sign = -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0
        points: list[FrozenTrial | None] = [None] * q
        energies = np.full(q, np.nan)
        temperature = self.T_ac0
        for first in range(0, len(trials) - q + 1, q):
            placed = np.flatnonzero(~np.isnan(energies))
            chances = np.zeros(q)
            if placed.size:
                if temperature is None:
                    temperature = balanced_temperature(energies[placed])
                chances[placed] = acceptance(energies[placed], temperature)
                if placed.size > 1:
                    temperature = controlled(chances[placed], temperature, self.alpha)
            for chain, trial in enumerate(trials[first : first + q]):
                energy = _energy(trial, sign)
                if energy is None:  # pruned, failed or lost: as bad as can be, never accepted
                    continue
                better = points[chain] is None or energy <= energies[chain]
                if better or self._rng(study, trial.number, "accept?").random() < chances[chain]:
                    points[chain], energies[chain] = trial, energy
        best = None if np.all(np.isnan(energies)) else points[int(np.nanargmin(energies))]
        return Chains(points, best, temperature)


def _energy(trial: FrozenTrial, sign: float) -> float | None:
    if trial.state != TrialState.COMPLETE or trial.value is None or not math.isfinite(trial.value):
        return None
    return sign * trial.value
