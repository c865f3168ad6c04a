"""Who carries out pieces of work: this process, or workers on one machine or many."""

from __future__ import annotations

from thresher.engines.base import Engine, EngineError, Serial, in_order
from thresher.engines.choice import engine_for, expect

__all__ = ["Engine", "EngineError", "Serial", "engine_for", "expect", "in_order"]
