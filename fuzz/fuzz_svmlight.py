"""Atheris on the svmlight parser: ``python fuzz/fuzz_svmlight.py -max_total_time=60 [CORPUS]``.

The compiled loop cannot be traced; the careful reader beside it can, and both must agree.
"""

import sys

import atheris
import numpy as np

from thresher.data import _svmlight_text as text_reader

SEEDS = (
    b"+1 1:0.5 3:-2e-3 7:1 # note\n-1 2:1\n\n1 qid:4 1:.5 2:1e5\r\n0 5:123456789.123456789\n",
    b"1 2147483647:1 \t\n1 2147483648:1\n1,2 1:1\n# only a comment\n1",
)
careful_line = atheris.instrument_func(text_reader._careful_line)
for name in ("_number", "_integer", "_label"):
    setattr(text_reader, name, atheris.instrument_func(getattr(text_reader, name)))


def test_one(data: bytes) -> None:
    block = text_reader.parse_svmlight(data)
    labels: list[float] = []
    indices: list[int] = []
    values: list[float] = []
    lines: list[int] = []
    bad: list[int] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        try:
            row = careful_line(line)
        except text_reader._Bad:
            bad.append(number)
            continue
        if row is not None:
            lines.append(number)
            labels.append(row[0])
            indices += row[2]
            values += row[3]
    assert block.lines.tolist() == lines
    assert [line.line for line in block.bad] == bad
    assert block.labels.tolist() == labels
    assert block.indices.tolist() == indices
    assert block.values.tolist() == values
    assert block.indptr[-1] == len(values)
    assert np.all(np.diff(block.indptr) >= 0)


def main() -> None:
    for seed in SEEDS:  # compiles the parser before the clock of an example runs
        test_one(seed)
    atheris.Setup(sys.argv, test_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
