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
variance of its energies is right, so that energies may have any unit; half of the steps (``pull``)
start from the best chain's point instead of the chain's own; of several steps that a chain might
take (``candidates``), it takes the one that the trials so far let look most promising
(``acquisition.py``); steps over the edge of the cube end on it, since the ends of a range (the pure
l1 penalty, say) are often best; and the first steps are wider, T_gen0 = 0.3 for their 0.1.  Which
of several steps is taken changes the proposals only, not the rule by which they are accepted.

Nothing is stored but the trials.  Trial t is the move number t // q of chain t % q; the chains are
replayed from the study's trials, with random numbers that are a function of the seed, the number of
the trial and the name of the parameter.  A generation is proposed as a whole, from earlier
generations only.  So a resumed study, q workers in parallel and one worker all propose the same
points.
"""

from __future__ import annotations

import math
import threading
import weakref
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from optuna import Study
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from thresher.search.acquisition import Known
from thresher.search.unit_interval import from_unit, is_numeric, to_unit

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


class Step(NamedTuple):
    """What a trial is to try: values for the parameters of the point where the step starts."""

    space: dict[str, BaseDistribution]
    params: dict[str, Any]


class KeyedRandomSampler(BaseSampler):
    """Uniform sampling in which every draw is a function of seed, trial number and name.

    Unlike ``optuna.samplers.RandomSampler`` a resumed study goes on where it stopped instead of
    repeating its first draws.

    Parameters
    ----------
    seed : int or None, default=None
        None: drawn once and kept in the study's attribute ``csa_seed``.

    Examples
    --------
    >>> import optuna
    >>> from thresher.search import KeyedRandomSampler
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> def drawn(trials):
    ...     study = optuna.create_study(sampler=KeyedRandomSampler(seed=0))
    ...     study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=trials)
    ...     return [trial.params["x"] for trial in study.trials]
    >>> drawn(3) == drawn(5)[:3]
    True
    """

    def __init__(self, seed: int | None = None):
        self.seed = seed
        self._lock = threading.Lock()
        self._cache: tuple[Any, list[Step]] | None = None

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
    candidates : int, default=16
        Steps that are drawn for each that is taken, the most promising; 1 is CSA as published.

    Examples
    --------
    >>> import optuna
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> from thresher.search import CSASampler
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
        candidates: int = 16,
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
        if candidates < 1:
            raise ValueError(f"candidates must be at least 1, got {candidates}")
        self.chains = chains
        self.pull = pull
        self.candidates = candidates
        self.T_gen0 = T_gen0
        self.T_ac0 = T_ac0
        self.alpha = alpha

    def width(self, generation: int) -> float:
        """Width of the steps into a generation (the first, 0, is drawn at random)."""
        return self.T_gen0 / max(generation, 1)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return self._step(study, trial.number).space

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self._step(study, trial.number).params

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """For the first generation, and for what the point where the step starts has not."""
        generation, chain = divmod(trial.number, self.chains)
        rng = self._rng(study, trial.number, param_name)
        u = rng.random() if generation else self._stratum(study, param_name, chain, rng)
        return from_unit(param_distribution, u)

    def _stratum(self, study: Study, name: str, chain: int, rng: np.random.Generator) -> float:
        """Latin hypercube: each chain starts in a cell of its own along every parameter."""
        order = np.random.default_rng((self._seed(study), 1, zlib.crc32(name.encode()), 0))
        return (float(order.permutation(self.chains)[chain]) + rng.random()) / self.chains

    # ------------------------------------------------------------ steps

    def _step(self, study: Study, number: int) -> Step:
        generation, chain = divmod(number, self.chains)
        if len(study.directions) != 1:
            raise ValueError("CSASampler minimises one objective; this study has several")
        if generation == 0:
            return Step({}, {})
        trials = study.get_trials(deepcopy=False)[: generation * self.chains]
        key = (weakref.ref(study), generation, sum(t.state.is_finished() for t in trials))
        with self._lock:
            if self._cache is not None and self._cache[0] == key:
                return self._cache[1][chain]
        steps = self._steps(study, trials, generation)
        with self._lock:
            self._cache = key, steps
        return steps[chain]

    def _steps(self, study: Study, trials: Sequence[FrozenTrial], generation: int) -> list[Step]:
        """All steps of a generation; each keeps away from those before it."""
        chains = self.replay(study, trials)
        ended = [t for t in trials if t.state.is_finished()]
        found = [_energy(t, _sign(study)) for t in ended]
        known = Known(ended, np.array([math.inf if e is None else e for e in found]))
        steps = []
        for chain, own in enumerate(chains.points):
            number = generation * self.chains + chain
            pulled = self._rng(study, number, "pull?").random() < self.pull
            start = chains.best if pulled else own
            if start is None:
                steps.append(Step({}, {}))
                continue
            candidates = self._candidates(study, number, start)
            params = candidates[known.most_promising(candidates)]
            steps.append(Step(start.distributions, params))
        return steps

    def _candidates(self, study: Study, number: int, start: FrozenTrial) -> list[dict[str, Any]]:
        width = self.width(number // self.chains)
        moved = {
            name: self._moves(d, start.params[name], width, self._rng(study, number, name))
            for name, d in start.distributions.items()
        }
        return [{name: moved[name][k] for name in moved} for k in range(self.candidates)]

    def _moves(
        self, distribution: BaseDistribution, current: Any, width: float, rng: np.random.Generator
    ) -> list[Any]:
        """Where steps of this width lead from the current value."""
        m = self.candidates
        if is_numeric(distribution):
            ends = to_unit(distribution, current) + width * rng.standard_cauchy(m)
            return [from_unit(distribution, u) for u in ends]
        assert isinstance(distribution, CategoricalDistribution)
        others = [c for c in distribution.choices if c != current]
        if not others:
            return [current] * m
        leaves = rng.random(m) < width / (width + 0.5)
        picks = rng.integers(len(others), size=m)
        return [others[k] if left else current for left, k in zip(leaves, picks, strict=True)]

    # ------------------------------------------------------------ replay

    def replay(self, study: Study, trials: Sequence[FrozenTrial]) -> Chains:
        """Go through whole generations of trials, accepting and rejecting them again."""
        q = self.chains
        sign = _sign(study)
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


def _sign(study: Study) -> float:
    return -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0


def _energy(trial: FrozenTrial, sign: float) -> float | None:
    if trial.state != TrialState.COMPLETE or trial.value is None or not math.isfinite(trial.value):
        return None
    return sign * trial.value
