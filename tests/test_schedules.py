import itertools
import math
from dataclasses import dataclass

import pytest

from thresher import schedules
from thresher.schedules import Schedule
from thresher.testing import check_schedule

ALL = [
    schedules.Pegasos(0.01),
    schedules.InverseTime(2.0),
    schedules.InverseRoot(0.5),
    schedules.Constant(0.1),
]


@pytest.mark.parametrize("schedule", ALL, ids=repr)
def test_steps_are_positive_finite_and_never_grow(schedule):
    check_schedule(schedule)
    steps = [schedule.at(t) for t in range(1, 200)]
    assert all(a >= b for a, b in itertools.pairwise(steps))


def test_steps_worked_by_hand():
    assert schedules.Pegasos(0.01).at(4) == pytest.approx(25.0)
    assert schedules.InverseTime(2.0).at(4) == pytest.approx(0.5)
    assert schedules.InverseRoot(2.0).at(4) == pytest.approx(1.0)
    assert schedules.Constant(2.0).at(4) == 2.0


@pytest.mark.parametrize("cls", [type(s) for s in ALL])
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_impossible_steps_are_refused(cls, value):
    with pytest.raises(ValueError, match="positive and finite"):
        cls(value)


@dataclass(frozen=True)
class Falling(Schedule):
    """Reaches zero at step 1000."""

    def at(self, t):
        return 1.0 - t / 1000.0


@dataclass(frozen=True)
class FromZero(Schedule):
    """Forgets that the first step is t = 1."""

    def at(self, t):
        return 1.0 / (t - 1)


@pytest.mark.parametrize("wrong", [Falling(), FromZero()], ids=repr)
def test_check_schedule_rejects(wrong):
    with pytest.raises(AssertionError, match="at\\("):
        check_schedule(wrong)
