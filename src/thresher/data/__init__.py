"""Data of any size: sources, a schema, and chunks of rows.

Names are imported when first used: the estimators need a small part of this package, not PyArrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thresher.data.batch import Batch
    from thresher.data.dataset import DataSet
    from thresher.data.errors import DataError
    from thresher.data.moments import Moments
    from thresher.data.open import open_data
    from thresher.data.schema import Column, Schema, Target

_HOME = {
    "Batch": "batch", "DataSet": "dataset", "DataError": "errors", "Moments": "moments",
    "open_data": "open", "Column": "schema", "Schema": "schema", "Target": "schema",
}  # fmt: skip

__all__ = ["Batch", "Column", "DataError", "DataSet", "Moments", "Schema", "Target", "open_data"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"thresher.data.{_HOME[name]}"), name)
    raise AttributeError(f"module 'thresher.data' has no attribute {name!r}")
