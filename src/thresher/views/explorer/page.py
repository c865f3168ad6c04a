"""The page: one file of HTML, CSS and JavaScript, that asks a server or has its data in itself."""

from __future__ import annotations

import base64
import json
import zlib
from importlib.resources import files
from pathlib import Path

import numpy as np

from thresher._files import atomic_file
from thresher.views.explorer.colours import colour_tables
from thresher.views.explorer.session import Session
from thresher.views.explorer.window import Window

__all__ = ["MOST_BYTES", "framed_page", "live_page", "policy", "write_page"]

MOST_BYTES = 20_000_000  # of the cells in a page without a server
_MOST_NUMBERS = 1_000_000  # of rows, in such a page
_MOST_CLUSTERS = 12
_CODES, _MOST_CUTS = 254, 500_000  # of numbers; of very many columns only some quantiles are told


def policy(nonce: str) -> str:
    """What the page may do: run its own script, and talk to its own server."""
    return (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


def live_page(nonce: str) -> str:
    """The page that asks a server."""
    return _filled(nonce, "null")


def framed_page() -> str:
    """The page in a frame of another, through which it asks; nothing of it may be fetched."""
    safe = policy("page").replace("connect-src 'self'; ", "").replace("frame-ancestors 'none'", "")
    meta = f'<meta http-equiv="Content-Security-Policy" content="{safe}">'
    return _filled("page", '"parent"').replace("<head>", f"<head>{meta}", 1)


def write_page(session: Session, path: str | Path, most_bytes: int = MOST_BYTES) -> int:
    """A page that needs no server; returns the rows that share its finest cell."""
    level = _finest_level(session, most_bytes)
    depth = session.pyramid.depth
    cells = {
        "first_level": level,
        "means": [_packed(_level_cells(session, k)) for k in range(level, depth)],
        "sides": [
            [_packed(session.side(s, k, 0, session.pyramid.rows(k))) for k in range(level, depth)]
            for s in range(len(session.sides))
        ],
        "order": _packed(_numbers(session)),
        "clusters": {k: session.cuts(k) for k in range(2, _MOST_CLUSTERS + 1)},
        "ranks_per_cut": (every := -(-_CODES * len(session.columns) // _MOST_CUTS)),
        "cuts": [
            [] if c.is_category else [float(f"{v:.4g}") for v in np.nan_to_num(c.cuts[::every])]
            for c in (session.columns[j] for j in session.column_order)
        ],
    }
    data = json.dumps({**session.describe(), "cells": cells}, allow_nan=False)
    # Inside a script element nothing may look like its end.
    page = _filled("page", data.replace("<", "\\u003c"))
    with atomic_file(path) as file:
        file.write(page.encode())
    return int(2**level)


def _numbers(session: Session) -> bytes:
    """The rows' numbers in the file, from 1, in their order; nothing where they are too many."""
    if session.order.size > _MOST_NUMBERS:
        return b""
    return (session.order * session.stride + 1).astype("<u4").tobytes()


def _level_cells(session: Session, level: int) -> bytes:
    rows = session.pyramid.rows(level)
    width = len(session.columns)
    window = (Window(level, 0, rows, j, j + 1) for j in range(width))
    return b"".join(map(session.window, window))


def _finest_level(session: Session, most_bytes: int) -> int:
    """The finest level that fits, with all that are coarser: they are as large together."""
    return session.pyramid.level_of(most_bytes // (2 * len(session.pyramid.columns)))


def _packed(cells: bytes) -> str:
    return base64.b64encode(zlib.compress(cells, 6)).decode()


def _filled(nonce: str, data: str) -> str:
    here = files("thresher.views.explorer")
    page = here.joinpath("page.html").read_text("utf-8")
    page = page.replace("{{nonce}}", nonce)
    page = page.replace("{{css}}", here.joinpath("page.css").read_text("utf-8"))
    script = "".join(
        here.joinpath(name).read_text("utf-8") for name in ("source.js", "colours.js", "page.js")
    )
    tables = {kind: table.tolist() for kind, table in colour_tables().items()}
    script = script.replace("{{colours}}", json.dumps(tables))
    return page.replace("{{js}}", script).replace("{{data}}", data)
