"""From the name of a search to its phases: who proposes, how often, and what refines the best.

=================  =============================================================================
``search``         what happens
=================  =============================================================================
"csa+simplex"      coupled simulated annealing, then Nelder and Mead from the best (the theses')
"csa"              coupled simulated annealing alone
"random"           uniform on each parameter's scale
"grid"             a grid of about ``n_trials`` points
"directional"      a few spread points, then compass search from the best
"random+simplex"   and so on: a sampler and a local search
an Optuna sampler  its proposals
=================  =============================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from optuna.samplers import BaseSampler

from thresher.search.csa import CSASampler, KeyedRandomSampler
from thresher.search.directional import compass
from thresher.search.driver import Search
from thresher.search.simplex import Proposals, nelder_mead

__all__ = ["Strategy", "make_strategy"]

_SAMPLED = 0.7  # of the trials, where a local search follows
_LOCAL: dict[str, Callable[[np.ndarray, float], Proposals]] = {
    "simplex": nelder_mead,
    "directional": compass,
}
SEARCHES = ("csa", "csa+simplex", "csa+directional", "random", "random+simplex",
            "random+directional", "directional", "grid")  # fmt: skip


class Strategy(NamedTuple):
    name: str
    sampler: BaseSampler
    batch: int  # trials asked for together
    local: str | None

    def run(self, search: Search, n_trials: int) -> None:
        search.planned = n_trials
        if self.name == "grid":
            points = search.space.grid(n_trials, search.context)
            search.planned = len(points)
            for step in search.evaluation.steps(points):
                search.given(step, "grid")
            return
        search.sample(self._sampled(n_trials))
        if self.local is not None:
            done = sum(not r.phase and r.state != "infeasible" for r in search.records)
            if not search.refine(_LOCAL[self.local], max(n_trials - done, 0), self.local):
                search.sample(n_trials)

    def _sampled(self, n_trials: int) -> int:
        if self.local is None:
            return n_trials
        if self.name == "directional":
            return min(n_trials, max(self.batch, n_trials // 4))
        whole = round(_SAMPLED * n_trials / self.batch) * self.batch
        return min(n_trials, max(self.batch, whole))


def make_strategy(search: Any, seed: int, n_jobs: int, chains: int = 5) -> Strategy:
    """The strategy that ``search`` names."""
    if isinstance(search, BaseSampler):
        batch = search.chains if isinstance(search, CSASampler) else n_jobs
        return Strategy(type(search).__name__, search, batch, None)
    if not isinstance(search, str) or search not in SEARCHES:
        raise ValueError(
            f"search={search!r} is unknown: use one of {', '.join(SEARCHES)} or an Optuna sampler"
        )
    first, _, local = search.partition("+")
    if search == "directional":
        local = "directional"
    sampler: BaseSampler = KeyedRandomSampler(seed)
    if first in ("csa", "directional"):  # a first generation of chains covers the space evenly
        sampler = CSASampler(chains, seed=seed)
    return Strategy(search, sampler, chains, local or None)
