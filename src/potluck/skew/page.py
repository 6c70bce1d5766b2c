"""One page about a federation's skew: verdict, findings, methods, measures and pictures, in a single file.

The page opens without a network, follows the reader's light or dark ground, and names every threshold it used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from matplotlib.figure import Figure

from potluck.skew import advice as thresholds
from potluck.skew.advice import Advice
from potluck.skew.cluster import SILHOUETTE
from potluck.skew.measure import Floats, Skew
from potluck.skew.picture import png, svg, svg_file
from potluck.skew.record import summary

LINES = 200

STYLE = """
:root{color-scheme:light dark;--ground:#fbfbfa;--card:#fff;--ink:#20242a;--soft:#5f6670;--rule:#e3e5e8;--key:#0072b2}
@media(prefers-color-scheme:dark){:root{--ground:#14171b;--card:#1c2026;--ink:#e4e6ea;--soft:#a0a7b1;--rule:#30353d;
--key:#56b4e9}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:62rem;margin:0 auto;padding:2rem 1.2rem 4rem}
h1{font-size:1.5rem;margin:0 0 .3rem}h2{font-size:1.1rem;margin:2.2rem 0 .6rem}
.verdict{font-size:1.15rem;border-left:4px solid var(--key);padding:.4rem 0 .4rem .9rem;margin:1rem 0}
figure{margin:0 0 1rem;background:var(--card);border:1px solid var(--rule);border-radius:8px;padding:.6rem}
figure svg{width:100%;height:auto;display:block}
table{border-collapse:collapse;width:100%;font-size:.92rem}
th,td{text-align:left;padding:.35rem .6rem;border-bottom:1px solid var(--rule);vertical-align:top}
th{color:var(--soft);font-weight:600}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
.soft{color:var(--soft);font-size:.9rem}.scroll{overflow-x:auto}
code{font-size:.9em}
"""


def page(skew: Skew, advice: Advice, drawn: Mapping[str, Figure]) -> str:
    """Return the page as HTML."""
    pictures = "".join(f"<figure>{svg(figure, name)}</figure>\n" for name, figure in drawn.items())
    body = [
        f"<h1>Skew of {escape(skew.name)}</h1>",
        f'<p class="verdict">{escape(advice.verdict)}</p>',
        _list([finding.sentence for finding in advice.findings]),
        "<h2>Methods made for this</h2>",
        _table(
            ("method", "why", "reference"),
            [(m.title, m.reason, m.reference) for m in advice.methods],
            numbers=False,
        ),
        '<p class="soft">A method that is made for a skew need not win on it: compare it with FedAvg on your data.</p>',
        "<h2>Pictures</h2>",
        pictures,
        "<h2>Measures</h2>",
        _table(("measure", "value"), list(summary(skew).items()), numbers=False),
        "<h2>Clients</h2>",
        _clients(skew),
        "<h2>Thresholds</h2>",
        f'<p class="soft">{escape(_thresholds())}</p>',
    ]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    title = f"<title>Skew of {escape(skew.name)}</title>"
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}{title}<style>{STYLE}</style></head>\n'
        f"<body><main>\n{chr(10).join(body)}\n</main></body></html>\n"
    )


def write(folder: Path, skew: Skew, advice: Advice, drawn: Mapping[str, Figure]) -> Path:
    """Write the page, every picture as SVG and PNG; return where the page is."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in drawn.items():
        save(folder / f"skew-{name}.svg", svg_file(figure, name).encode())
        save(folder / f"skew-{name}.png", png(figure))
    return save(folder / "skew.html", page(skew, advice, drawn).encode())


def save(file: Path, body: bytes) -> Path:
    """Write a file whole or not at all: under a temporary name beside it, then renamed."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        temporary.write_bytes(body)
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)
    return file


def _clients(skew: Skew) -> str:
    """Return the table of clients, at most the first two hundred."""
    titles = ["client", "rows", "classes", "KL", "by chance", "Jensen-Shannon", "earth mover"]
    columns: list[Floats] = [skew.kl, skew.floor, skew.js, skew.emd]
    if skew.features is not None:
        titles += ["noise", "shift", "group"]
        columns += [skew.features.noise, skew.features.shift]
    lines = []
    for client in range(min(LINES, skew.clients)):
        line = [str(client), str(int(skew.rows[client])), str(int(skew.classes_held[client]))]
        line += [f"{column[client]:.3f}" for column in columns]
        if skew.features is not None:
            line.append(str(int(skew.features.groups[client]) or "-"))
        lines.append([cell.replace("nan", "-") for cell in line])
    more = skew.clients - len(lines)
    note = f'<p class="soft">and {more} more clients</p>' if more else ""
    return f'<div class="scroll">{_table(titles, lines, numbers=True)}</div>{note}'


def _table(titles: Sequence[str], lines: Sequence[Sequence[str]], numbers: bool) -> str:
    kind = ' class="n"' if numbers else ""
    head = "".join(f"<th{kind}>{escape(title)}</th>" for title in titles)
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{escape(cell)}</td>" for cell in line) + "</tr>\n" for line in lines
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"


def _list(sentences: Sequence[str]) -> str:
    return (
        "<ul>" + "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences) + "</ul>"
        if sentences
        else ""
    )


def _thresholds() -> str:
    return (
        f"Label skew: mean KL at least {thresholds.LABEL_KL} nats above and {thresholds.FLOORS:g} times the level of "
        f"chance; strong from {thresholds.STRONG_KL}. Quantity skew: size CV from {thresholds.SIZE_CV}. Feature skew: "
        f"noise that differs by more than {thresholds.NOISE} of the inputs' deviation and {thresholds.JITTER:g} of its "
        f"standard errors, or class means shifted by more than {thresholds.SHIFT} of the variance within a class and "
        f"{thresholds.CHANCE:g} times chance. Groups: silhouette from {SILHOUETTE}."
    )
