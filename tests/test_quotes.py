"""A quote that is never closed is reported with its line, whatever follows it."""

import numpy as np
import pytest

from thresher import DataError, open_data

ROWS = 12_000  # more than 128 KB: Python's csv module gives up on longer fields


def lines(rows=ROWS):
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(rows, 3)), 3)
    return [f"{a},{b},{c},{'yes' if a > 0 else 'no'}" for a, b, c in X.tolist()]


def written(tmp_path, rows, head="a,b,c,y"):
    path = tmp_path / "d.csv"
    path.write_text(head + "\n" + "\n".join(rows) + "\n")
    return path


def read(path, policy, **options):
    data = open_data(path, target="y", on_bad_rows=policy, **options)
    rows = sum(batch.size for batch in data.chunks())
    return rows, data


@pytest.mark.parametrize("at", [5, 600, ROWS - 2000, ROWS - 3, ROWS - 1])
@pytest.mark.parametrize("column", ["first", "target"])
@pytest.mark.parametrize("block", [1 << 12, 1 << 22])
def test_an_open_quote(tmp_path, at, column, block):
    rows = lines()
    cut = 0 if column == "first" else rows[at].rindex(",") + 1
    rows[at] = rows[at][:cut] + '"' + rows[at][cut:]
    path = written(tmp_path, rows)
    line = at + 2  # after the header, from 1
    with pytest.raises(DataError, match=f"line {line}: a quote opens here that is never closed"):
        read(path, "error", block_bytes=block)
    found, data = read(path, "skip", block_bytes=block)
    assert (found, data.bad.count) == (at, 1)
    assert data.schema.target.classes == ("no", "yes")
    tail = "" if at == ROWS - 1 else f"lines {line} to {ROWS + 1} cannot"
    assert tail in str(data.bad.first[0])


def test_the_line_is_that_of_the_quote(tmp_path):
    """Not that of its record, which may begin in an earlier line."""
    rows = lines(20)
    rows[3] = '"1\n2","3,4,yes'
    with pytest.raises(DataError, match="line 6: a quote opens here"):
        read(written(tmp_path, rows), "error")


def test_an_open_quote_in_the_header(tmp_path):
    with pytest.raises(DataError, match="line 1: a quote opens here"):
        read(written(tmp_path, lines(), head='a,"b,c,y'), "skip")


def test_quotes_that_are_closed(tmp_path):
    rows = lines(40)
    rows[5], rows[7] = '"1.5","2",3,"yes"', '"1.5",2,3,no'
    rows[39] = '1,2,"3","no"'  # the last line
    found, data = read(written(tmp_path, rows), "error")
    assert (found, data.bad.count) == (40, 0)


def test_blank_lines_take_no_memory(tmp_path):
    """A row needs room by its bytes, not by the number of newlines after an open quote."""
    names = [f"c{k}" for k in range(300)]
    good = [",".join(["1.5"] * 299 + [word]) for word in ("yes", "no") * 10]
    path = tmp_path / "d.csv"
    tail = b"\n" * (8 << 20)
    path.write_bytes("\n".join([",".join([*names[:-1], "y"]), *good, ""]).encode() + tail)
    assert read(path, "error")[0] == 20
    with open(path, "ab") as file:
        file.write(b'"' + tail)
    found, data = read(path, "skip")
    assert (found, data.bad.count) == (20, 1)
