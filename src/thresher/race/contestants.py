"""Who takes part in a race: what learners and feature maps say of themselves in the registry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from thresher.race.runner import WIDE_ROWS
from thresher.registry import LEARNERS, MAPS, Contestant

__all__ = ["contestants"]


def contestants(
    task: str, sparse: bool, features: int, seed: int | None = 0, jobs: int | None = None,
    rows: int = WIDE_ROWS,
) -> dict[str, Any]:  # fmt: skip
    """The learners that race, with defaults that suit dense or sparse rows.

    ``jobs``: threads of those that can use several well; of few ``rows``, fits side by side keep
    the cores busier.
    """
    jobs = jobs if rows >= WIDE_ROWS else None
    return {
        entry.name: _estimator(learner, entry, task, sparse, seed, jobs)
        for learner, entry in _entries()
        if task in LEARNERS[learner].estimators and _suits(entry, task, sparse, features)
    }


def _entries() -> Iterator[tuple[str, Contestant]]:
    """Maps first: what wins most often and compiles fastest, where there is no time for all."""
    for cls in MAPS.values():
        for entry in cls.contestants:
            yield "kernel", entry
    for name, learner in LEARNERS.items():
        for entry in learner.contestants:
            yield name, entry


def _suits(entry: Contestant, task: str, sparse: bool, features: int) -> bool:
    few = entry.most_features is None or features <= entry.most_features
    return few and (entry.rows == "any" or sparse) and entry.task in (None, task)


def _estimator(
    learner: str, entry: Contestant, task: str, sparse: bool, seed: int | None, jobs: int | None
) -> Any:
    cls = LEARNERS.estimator(learner, task)
    given = entry.parameters | entry.by_task.get(task, {}) | {"random_state": seed}
    if entry.scales:
        return cls(**given, scale=not sparse)
    # The map as an object, so that its own parameters can be searched.
    own = {name: given.pop(name) for name in list(given) if name.startswith("map__")}
    few = MAPS[given["map"]].few
    made = cls(**given, n_jobs=jobs, **({} if few is None else {"n_components": few})).make_map()
    return cls(**given | {"map": made}).set_params(**own)
