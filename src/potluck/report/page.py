"""One self-contained page: `report.html` opens from a file, without a network, beside its `figures/`.

The same records give the same bytes: nothing on the page depends on when or where it was written.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path

from potluck.report import page_results
from potluck.report.markup import text
from potluck.report.notes import notes
from potluck.report.page_autoencoder import autoencoders
from potluck.report.page_clusters import clustering
from potluck.report.page_cost import effective_costs
from potluck.report.page_data import payload
from potluck.report.page_origin import origin
from potluck.report.page_weights import row_weights
from potluck.report.palette import DARK, LIGHT
from potluck.report.plot_rows import Extremes
from potluck.report.plots import save
from potluck.report.read import Run, open_runs

SCRIPTS = ("base.js", "lines.js", "clients.js", "start.js")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def write(
    out: Path, runs: Sequence[Run | Path | str], *, title: str | None = None, rows: Sequence[Extremes] = ()
) -> Path:
    """Write figures and page of a comparison into a folder, and return the page; `rows` are drawn as they are."""
    opened = open_runs(runs)
    out.mkdir(parents=True, exist_ok=True)
    drawn = save(opened, out / "figures")
    page = out / "report.html"
    temporary = out / ".report.html.part"
    temporary.write_text(_page(opened, title or _title(opened), drawn, rows), encoding="utf-8", newline="\n")
    os.replace(temporary, page)
    return page


def _title(runs: Sequence[Run]) -> str:
    names = list(dict.fromkeys(run.text("name") for run in runs if run.text("name")))
    return names[0] if len(names) == 1 else "Comparison of methods"


def _page(runs: Sequence[Run], title: str, drawn: Iterable[Path], rows: Sequence[Extremes]) -> str:
    body = "\n".join(
        part
        for part in (
            _notes(runs),
            page_results.curves(runs),
            page_results.comparison(runs),
            page_results.clients(runs),
            page_results.dynamics(runs),
            clustering(runs),
            autoencoders(runs),
            page_results.costs(runs),
            effective_costs(runs),
            row_weights(runs, rows),
            page_results.reason_codes(runs),
            origin(runs),
        )
        if part
    )
    return f"""{_head(title)}
<body>
<header>
<p class="eyebrow">Potluck report</p>
<h1>{text(title)}</h1>
<p class="lead">{text(_lead(runs))}</p>
{page_results.cards(runs)}
</header>
<main>
<noscript><p>The charts need JavaScript; the folder figures holds them as pictures.</p></noscript>
{body}
</main>
<footer><p>{text(_foot(drawn))}</p></footer>
<script type="application/json" id="data">{payload(runs)}</script>
<script>
{_script()}</script>
</body>
</html>
"""


def _head(title: str) -> str:
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="color-scheme" content="light dark">
<title>{text(title)} · Potluck</title>
<style>
{_style()}</style>
</head>"""


def _lead(runs: Sequence[Run]) -> str:
    data = sorted({name for run in runs for name in run.mapping("datasets")})
    methods = " · ".join(run.label for run in runs)
    return methods + (f" on {', '.join(data)}" if data else "")


def _notes(runs: Sequence[Run]) -> str:
    found = notes(runs)
    items = "".join(f"<li>{text(note)}</li>" for note in found)
    head = '<h2 id="notes-title">Read this first</h2>'
    opening = '<section id="notes" class="notes" aria-labelledby="notes-title">'
    return f"{opening}{head}<ul>{items}</ul></section>" if found else ""


def _foot(drawn: Iterable[Path]) -> str:
    names = ", ".join(sorted({path.stem for path in drawn}))
    return (
        f"As PNG and SVG in the folder figures: {names}."
        if names
        else "Nothing was recorded that could be drawn."
    )


def _asset(name: str) -> str:
    return (files("potluck.report") / "assets" / name).read_text(encoding="utf-8")


def _style() -> str:
    """Return the style with the colours of the methods, for light and for dark."""
    pens = "".join(f".m{place} {{ --c: var(--m{place}); }}\n" for place in range(len(LIGHT)))
    dark = f"@media (prefers-color-scheme: dark) {{ :root {{ {_colours(DARK)} }} }}\n"
    return f"{_asset('style.css')}:root {{ {_colours(LIGHT)} }}\n{dark}{pens}"


def _colours(colours: Sequence[str]) -> str:
    return " ".join(f"--m{place}: {colour};" for place, colour in enumerate(colours))


def _script() -> str:
    """Return the script, closed in a function of its own."""
    return '(() => {\n"use strict";\n' + "\n".join(_asset(name) for name in SCRIPTS) + "})();\n"
