"""What the reproduction of published results is built of; its experiments are not run here."""

import numpy as np
import pytest
from reproduction import page, report
from reproduction.report import Absent, Cell
from reproduction.tuning import Found, refined, tuned

RANGES = {"strength": (1e-4, 1.0), "width": (0.1, 100.0)}


class Bowl:
    """A function whose least value, 0, lies at a known point; it counts how often it is asked."""

    at = {"strength": 0.02, "width": 3.0}

    def __init__(self):
        self.asked = []

    def __call__(self, params):
        self.asked.append(params)
        return sum(np.log(params[name] / self.at[name]) ** 2 for name in self.at)


@pytest.mark.parametrize("simplex", [False, True])
def test_tuning_comes_near_the_least_value_with_the_evaluations_it_is_given(simplex):
    bowl = Bowl()
    found = tuned(bowl, RANGES, 60, seed=0, simplex=simplex)
    assert len(bowl.asked) == 60
    assert found.value == min(map(Bowl(), bowl.asked)) == Bowl()(found.params)
    assert all(low <= p[n] <= high for p in bowl.asked for n, (low, high) in RANGES.items())
    # the logarithmic ranges are 9.2 and 6.9 wide: within 0.1 (0.5 without a simplex) of both
    assert found.value < (0.02 if simplex else 0.5)


def test_tuning_begins_where_it_is_told_and_a_simplex_never_ends_above_its_start():
    bowl = Bowl()
    assert tuned(bowl, RANGES, 5, seed=0, first=Bowl.at).value == 0.0
    assert bowl.asked[0] == pytest.approx(Bowl.at)
    start = {"strength": 1e-4, "width": 100.0}  # a corner
    found = refined(Bowl(), RANGES, 7, Found(start, Bowl()(start)))
    assert found.value < Bowl()(start)


def test_summaries_do_not_count_cells_that_cannot_differ():
    same = Cell(np.array([100.0, 100.0]), 100.0, 0.0, fixed=True)
    other = Cell(np.array([10.0, 12.0]), 10.0, 0.5)
    text = report.reading([same, other, same])
    assert "0 of 1 cells" in text
    assert "2 cells that cannot differ are left out" in text
    assert "left out" not in report.reading([other])
    assert "none of the 2 cells can differ" in report.reading([same, same])


def test_what_was_missed_is_named_with_the_difference():
    cells = [
        Cell(np.array([10.0, 12.0]), 10.0, 0.5, name="Magic (hinge)"),  # 2 deviations above
        Cell(np.array([10.0, 12.0]), 10.0, 2.0, name="Shuttle (hinge)"),  # half a deviation
        Cell(np.array([5.0, 5.0]), 10.0, 0.5, name="Skin (hinge)"),  # below
        Cell(np.array([5.0, 5.0]), 4.0, 0.5, fixed=True, name="dense"),
    ]
    assert report.missed(cells) == "Missed by more than one standard deviation: Magic (hinge) +1.0."
    assert report.missed(cells[1:]).endswith(": none.")


def test_sections_keep_their_results_and_say_what_is_missing():
    absent = {"One": [Absent("Semeion", "Table 4.2")], "Two": []}
    first = page.compose("# Head", {"One": "### Table\n\nnumbers"}, absent)
    kept = page.sections(first)
    assert kept == {"One": "### Table\n\nnumbers"}
    again = page.compose("# Head", kept | {"Two": "more"}, absent)
    assert again.count("| Semeion | Table 4.2 | not among the data |") == 1
    assert again.index("## One") < again.index("## Two")
    assert "None: every published row is above." in again
    assert page.compose("# Head", page.sections(again), absent) == again


def test_data_that_come_to_hand_are_no_longer_called_missing():
    rows = [Absent("Iris", "Table 3.6", folder="iris"), Absent("CNAE-9", "Table 4.2")]
    lines = report.absences(rows).splitlines()
    assert "at hand" in lines[2]
    assert "not among the data" in lines[3]
