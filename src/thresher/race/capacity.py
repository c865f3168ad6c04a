"""What more time can buy: larger models of the same kind, and what they cost."""

from __future__ import annotations

from typing import Any

from thresher.dimensions import Int

__all__ = [
    "capacity", "components", "grows", "larger", "map_of", "modest", "rescaled", "smaller", "work",
]  # fmt: skip

_LEAST = 50
_MANY_ROWS = 20_000  # from which on more of them do more for a forest than more trees


class _Plain:
    """An estimator that is not ours: of one size, and its time grows with the rows."""

    def capacity(self, rows: int) -> dict[str, Int]:
        return {}

    def components(self, params: dict[str, Any], rows: int) -> int:
        return 1

    def work(self, params: dict[str, Any], rows: int) -> float:
        return float(rows)


_PLAIN = _Plain()


def _asked(estimator: Any) -> Any:
    return estimator if hasattr(estimator, "capacity") else _PLAIN


def map_of(estimator: Any) -> Any:
    """An unfitted map of the estimator's, if it has one."""
    return estimator.planned_map() if hasattr(estimator, "planned_map") else None


def capacity(estimator: Any, rows: int) -> dict[str, Int]:
    """The number that sets the size of the model, in the range that so many rows can fill."""
    return _asked(estimator).capacity(rows)


def components(estimator: Any, params: dict[str, Any], rows: int) -> int:
    """How large a model of so many rows is with these settings."""
    return int(_asked(estimator).components(params, rows))


def work(estimator: Any, params: dict[str, Any], rows: int) -> float:
    """What a fit costs, up to a factor of the learner's own."""
    return _asked(estimator).work(params, rows)


def grows(estimator: Any) -> bool:
    """Whether more components only add to what was learned, as trees do."""
    made = map_of(estimator)
    return made is not None and made.additive


def larger(
    estimator: Any, params: dict[str, Any], rows: int, factor: float = 2.0
) -> dict[str, Any]:
    """The same settings with a model of twice the size, as far as so many rows can fill it."""
    more = round(factor * components(estimator, params, rows))
    return params | {n: min(more, d.high) for n, d in capacity(estimator, rows).items()}


def smaller(estimator: Any, params: dict[str, Any], rows: int) -> dict[str, Any] | None:
    """The same settings with a model of half the size; None where it is the smallest already."""
    made = map_of(estimator)
    least = _LEAST if made is None else made.least
    for name in capacity(estimator, rows):
        half = components(estimator, params, rows) // 2
        return {**params, name: half} if half >= least else None
    return None


def modest(estimator: Any, params: dict[str, Any], rows: int) -> dict[str, Any]:
    """The same settings with the trees that it takes to judge a forest; more rows come first."""
    made = map_of(estimator)
    if made is None or made.few is None:
        return params
    few = made.few if rows <= _MANY_ROWS else made.few // 4
    return params | dict.fromkeys(capacity(estimator, rows), few)


def rescaled(params: dict[str, Any], before: int, after: int) -> dict[str, Any]:
    """Settings for another number of rows: alpha n is what carries over."""
    if params.get("alpha") is None:
        return params
    return {**params, "alpha": params["alpha"] * before / after}
