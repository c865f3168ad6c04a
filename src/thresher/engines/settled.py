"""Imported last by the process that local workers are forks of: what each of them would do first is
done once, and memory that all share stays shared.

Numba reads its tables of types when something compiled is called for the first time: that takes
longer than most tasks.  Python's collector would visit, and so copy, what was there before.
"""

from __future__ import annotations

import gc

from numba.core.registry import cpu_target

cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
gc.collect()
gc.freeze()
