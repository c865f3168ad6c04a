"""Timing, peak memory, and tables."""

from __future__ import annotations

import gc
import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Timed(NamedTuple):
    first: float  # wall seconds of the first call: includes compilation or loading the cache
    warm: float  # CPU seconds of the process, best of the repeats
    wall: float  # wall seconds, best of the repeats
    result: Any


def timed(call: Callable[[], Any], repeats: int = 3) -> Timed:
    """Time ``call`` once and then ``repeats`` times.

    One-thread comparisons use CPU seconds, which other work on the machine disturbs least; wall
    seconds are for several threads.  A call of over ten seconds is not repeated: compiling never
    takes that long here.
    """
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    result = call()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if wall > 10.0:
        return Timed(wall, cpu, wall, result)
    first, walls, cpus = wall, [], []
    for _ in range(max(1, repeats)):
        wall, cpu = time.perf_counter(), time.process_time()
        result = call()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return Timed(first, min(cpus), min(walls), result)


def timed_in_turn(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, Timed]:
    """Time short calls ``rounds`` times, in turn: slow moments of the machine meet them all."""
    gc.collect()
    first, cpu, wall = {}, dict.fromkeys(calls, math.inf), dict.fromkeys(calls, math.inf)
    for name, call in calls.items():
        start = time.perf_counter()
        call()
        first[name] = time.perf_counter() - start
    for _ in range(rounds):
        for name, call in calls.items():
            start, used = time.perf_counter(), time.process_time()
            call()
            cpu[name] = min(cpu[name], time.process_time() - used)
            wall[name] = min(wall[name], time.perf_counter() - start)
    return {name: Timed(first[name], cpu[name], wall[name], None) for name in calls}


def crowding() -> float:
    """How many processes want a core, at least one: what a time limit is to be stretched by."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def busy() -> str:
    """A remark where others are using the machine: wall seconds mean little then."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load < 0.5 * cores:
        return "The machine had nothing else to do."
    return (
        f"**A busy machine**: {load:.0f} processes wanted its {cores} cores when this began. Wall "
        "seconds are longer than they would be alone; CPU seconds are a little longer."
    )


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def seconds(value: float) -> str:
    return f"{value * 1e3:.1f} ms" if value < 1.0 else f"{value:.2f} s"


def verdict(good: bool) -> str:
    return "yes" if good else "**no**"
