"""Sections as one HTML page that loads nothing: readable on a screen, in print and aloud."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from thresher.views.charts.shapes import Chart
from thresher.views.report.section import Section, Table

__all__ = ["page"]

_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif;
  color: #1a1a1a; background: #fff; margin: 0 auto; max-width: 980px; padding: 1.5rem 1.5rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2.4rem 0 .5rem; border-bottom: 2px solid #0072B2; }
h3 { font-size: 1rem; margin: .2rem 0; }
p { max-width: 46rem; margin: .4rem 0; overflow-wrap: anywhere; }
.summary { background: #eef5fa; border-left: 5px solid #0072B2; padding: .8rem 1.1rem; }
.summary h2 { border: 0; margin: 0 0 .2rem; } .summary p:first-of-type { font-size: 1.15rem; }
nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; padding: 0; list-style: none; }
a { color: #00598c; } a:focus-visible { outline: 3px solid #E69F00; }
table { border-collapse: collapse; margin: .8rem 0; font-size: .92rem; max-width: 100%; }
caption { text-align: left; white-space: nowrap; font-weight: 600; padding: .2rem 0; }
th, td { text-align: left; padding: .22rem .9rem .22rem 0; border-bottom: 1px solid #ddd;
  vertical-align: top; overflow-wrap: anywhere; }
th { overflow-wrap: normal; }
td { font-variant-numeric: tabular-nums; }
.plots { display: flex; flex-wrap: wrap; gap: 1.2rem; margin-top: .8rem; }
figure { margin: 0; width: 440px; max-width: 100%; } figure.wide { width: 900px; }
figure .plot { overflow-x: auto; } img.static { max-width: 100%; }
figcaption { font-size: .88rem; color: #333; }
pre { background: #f4f4f4; padding: .8rem; white-space: pre-wrap; overflow-wrap: anywhere;
  font-size: .86rem; border: 1px solid #ddd; }
details > summary { cursor: pointer; font-weight: 600; font-size: .92rem; }
footer { margin-top: 3rem; color: #555; font-size: .85rem; }
.alert { background: #fdecea; border-left: 5px solid #D55E00; padding: .5rem 1rem; }
@media print {
  @page { size: A4; margin: 12mm; }
  body { font-size: 10.5pt; max-width: none; padding: 0; } nav { display: none; }
  h2, h3, section > p { break-after: avoid; } figure, tr, pre, p, .summary { break-inside: avoid; }
  .plots { zoom: .76; } .plots figcaption { font-size: 1.1rem; } a { color: inherit; }
  .summary { border: 2px solid #0072B2; }
}
"""

# The browser itself sees to it that nothing is loaded from elsewhere.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:"
)

# Bokeh draws inside shadow roots: this counts what it has drawn, so that a test (and a reader) can
# tell a page that works from one that does not.
_WATCH = """
(function () {
  var state = document.documentElement.dataset, failed = [];
  window.addEventListener("error", function (e) { fail(e.message); });
  window.addEventListener("unhandledrejection", function (e) { fail(String(e.reason)); });
  function fail(text) {
    failed.push(text); state.errors = failed.join("; ");
    var box = document.getElementById("trouble");
    if (box) { box.hidden = false; box.textContent = "A plot could not be drawn: " + text; }
  }
  function canvases(node) {
    var n = node.querySelectorAll("canvas").length;
    node.querySelectorAll("*").forEach(function (e) {
      if (e.shadowRoot) n += canvases(e.shadowRoot);
    });
    return n;
  }
  function count() {
    var done = 0;
    document.querySelectorAll("figure .plot").forEach(function (e) {
      if (canvases(e) > 0 || e.querySelector("img")) done += 1;
    });
    state.plotsDrawn = done;
  }
  state.errors = "";
  window.addEventListener("load", function () { count(); [300, 1000, 3000].forEach(
    function (t) { setTimeout(count, t); }); });
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (d) { d.open = true; });
  });
})();
"""


def page(
    title: str, sections: Sequence[Section], script: str, plots: dict[str, str], made: str
) -> str:
    """The whole file; ``plots`` holds the HTML of each chart by its key."""
    first, *rest = sections
    links = "".join(f'<li><a href="#{s.key}">{escape(s.title)}</a></li>' for s in rest)
    parts = [
        "<!DOCTYPE html>", '<html lang="en">', "<head>", '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<link rel="icon" href="data:,">',
        f"<title>{escape(title)}</title>", f"<style>{_STYLE}</style>",
        f"<script>{_WATCH}</script>", "</head>", "<body>",
        f"<header><h1>{escape(title)}</h1></header>", "<main>",
        _section(first, plots, "summary"), f'<nav aria-label="Contents"><ul>{links}</ul></nav>',
        '<p id="trouble" class="alert" role="alert" hidden></p>',
    ]  # fmt: skip
    if script:
        parts.append("<noscript><p class=alert>The plots need JavaScript; the tables do not."
                     "</p></noscript>")  # fmt: skip
    parts += [_section(s, plots) for s in rest]
    parts += ["</main>", f"<footer>{escape(made)}</footer>", script, "</body>", "</html>", ""]
    return "\n".join(parts)


def _section(section: Section, plots: dict[str, str], kind: str = "") -> str:
    parts = [f'<section id="{section.key}" class="{kind}" aria-labelledby="{section.key}-title">']
    parts.append(f'<h2 id="{section.key}-title">{escape(section.title)}</h2>')
    parts += [f"<p>{escape(text)}</p>" for text in section.paragraphs]
    for what, text in section.codes:
        parts.append(f"<h3>{escape(what)}</h3><pre><code>{escape(text)}</code></pre>")
    tables = [_table(table) for table in section.tables]
    if section.tables_first:
        parts, tables = parts + tables, []
    if section.charts:
        figures = "".join(_figure(c, plots[c.key]) for c in section.charts if c.key in plots)
        parts.append(f'<div class="plots">{figures}</div>')
    return "\n".join([*parts, *tables, "</section>"])


def _figure(chart: Chart, plot: str) -> str:
    kind = "wide" if chart.wide else "narrow"
    return (
        f'<figure class="{kind}" id="figure-{chart.key}"><h3>{escape(chart.title)}</h3>'
        f'<div class="plot" role="img" aria-label="{escape(chart.alt, quote=True)}">{plot}</div>'
        f"<figcaption>{escape(chart.caption)}</figcaption></figure>"
    )


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(h)}</th>' for h in table.head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    top = f"<thead><tr>{head}</tr></thead>" if any(table.head) else ""
    whole = f"<table><caption>{escape(table.caption)}</caption>{top}<tbody>{body}</tbody></table>"
    if len(table.rows) <= 12:
        return whole
    return (
        f"<details><summary>{escape(table.caption)} ({len(table.rows)})</summary>{whole}</details>"
    )
