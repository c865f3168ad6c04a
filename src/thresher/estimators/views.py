"""Attributes of estimators that are fields of their function."""

from __future__ import annotations

from typing import Any

__all__ = ["view"]


def view(field: str, doc: str) -> Any:
    """A property: the field of ``function_``, which can be set; absent before a fit."""

    def get(self: Any) -> Any:
        if "function_" not in vars(self):
            raise AttributeError(f"{type(self).__name__} is not fitted: it has no {field} yet")
        return getattr(self.function_, field)

    def put(self: Any, value: Any) -> None:
        self.function_ = self.function_._replace(**{field: value})

    return property(get, put, doc=doc)
