"""Imported last by the process that local workers are forks of: what each of them would do first is
done once, and memory that all share stays shared.

Numba reads its tables of types when something compiled is called for the first time: that takes
longer than most tasks, and so does PyArrow's search for pandas.  Python's collector would visit,
and so copy, what was there before.
"""

from __future__ import annotations

import gc

from numba.core.registry import cpu_target

from thresher import _lean

cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
_lean.arrow_alone()
gc.collect()
gc.freeze()
