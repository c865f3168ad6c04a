"""Imported first by the process that local workers are forks of, so that it loads less."""

from thresher import _lean

_lean.install()
