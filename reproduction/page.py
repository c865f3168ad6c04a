"""The page of results: a head, and a section for every experiment that has been run.

A section's results stay as the run wrote them; what is missing is written anew every time, since it
costs no experiment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from reproduction.report import Absent, absences

MISSING = "### Published rows missing here"


def sections(page: str) -> dict[str, str]:
    """Title to results of the sections that earlier runs have written."""
    _, *parts = re.split(r"^## ", page, flags=re.MULTILINE)
    pairs = (part.split("\n", 1) for part in parts)
    return {title: text.partition(MISSING)[0].strip() for title, text in pairs}


def compose(head: str, results: Mapping[str, str], absent: Mapping[str, Sequence[Absent]]) -> str:
    """The page, its sections in the order of ``absent``, which knows what each of them lacks."""
    parts = [head]
    for title, rows in absent.items():
        if title in results:
            parts.append(f"## {title}\n\n{results[title]}\n\n{MISSING}\n\n{absences(rows)}")
    return "\n\n".join(parts) + "\n"
