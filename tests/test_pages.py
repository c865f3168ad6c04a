"""The examples of pages of the documentation run, block after block as a reader would."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("page", ["many_kernels", "cuts", "clustering", "few_labels"])
@pytest.mark.filterwarnings("ignore")
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / f"{page}.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert blocks
    names = {"__name__": f"page_{page}"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{page}.md, block {number}", "exec"), names)
