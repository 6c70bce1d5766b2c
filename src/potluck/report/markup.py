"""Writing HTML: every piece of text passes through `text`, so that no label can become markup."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from potluck.report.records import JSON


class Cell(NamedTuple):
    """One cell of a table: its markup, what it sorts by, its class."""

    markup: str
    value: str | None = None
    kind: str = ""


class Head(NamedTuple):
    """The head of a column: its title, its explanation, whether it sorts, and as what."""

    title: str
    meaning: str = ""
    kind: str = "number"
    first: str = "down"


def text(value: object) -> str:
    """Return text as HTML."""
    return html.escape(str(value), quote=True)


def section(name: str, title: str, lead: str, *parts: str) -> str:
    """Return a section of the page with its heading."""
    head = f'<h2 id="{name}-title">{text(title)}</h2>' + (f'<p class="pale">{text(lead)}</p>' if lead else "")
    return f'<section id="{name}" aria-labelledby="{name}-title">{head}{"".join(parts)}</section>'


def table(heads: Sequence[Head], rows: Iterable[Sequence[Cell]], caption: str, sortable: bool = False) -> str:
    """Return a table that scrolls inside itself; the first cell of a row is its head."""
    top = "".join(_head(head, sortable) for head in heads)
    body = "".join(
        f"<tr>{''.join(_cell(cell, place) for place, cell in enumerate(row))}</tr>" for row in rows
    )
    mark = " data-sortable" if sortable else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(caption)}">'
        f'<table class="data"{mark}><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _head(head: Head, sortable: bool) -> str:
    title = f' title="{text(head.meaning)}"' if head.meaning else ""
    kind = ' class="words"' if head.kind == "words" else ""
    inner = f'<button type="button">{text(head.title)}</button>' if sortable else text(head.title)
    return f'<th scope="col"{kind}{title} data-kind="{head.kind}" data-first="{head.first}">{inner}</th>'


def _cell(cell: Cell, place: int) -> str:
    kind = f' class="{cell.kind}"' if cell.kind else ""
    value = f' data-value="{text(cell.value)}"' if cell.value is not None else ""
    return (
        f'<th scope="row"{kind}{value}>{cell.markup}</th>'
        if place == 0
        else f"<td{kind}{value}>{cell.markup}</td>"
    )


def definitions(pairs: Iterable[tuple[str, str]]) -> str:
    """Return a list of names and values."""
    return f"<dl>{''.join(f'<dt>{text(name)}</dt><dd>{text(value)}</dd>' for name, value in pairs)}</dl>"


def flat(value: JSON, name: str = "") -> list[tuple[str, str]]:
    """Return nested JSON as names with dots and values."""
    if isinstance(value, Mapping):
        return [
            pair for key in sorted(value) for pair in flat(value[key], f"{name}.{key}" if name else str(key))
        ]
    if isinstance(value, list):
        return [(name, ", ".join(str(one) for one in value))]
    return [] if value is None else [(name, str(value))]


def details(title: str, *parts: str) -> str:
    """Return something that opens on a click."""
    return f"<details><summary>{text(title)}</summary>{''.join(parts)}</details>"


def bar(place: int, title: str, note: str, share: float) -> str:
    """Return one bar with its name and figure; `share` is its length from 0 to 1."""
    return (
        f'<div class="bar"><div><span>{text(title)}</span><span>{text(note)}</span></div>'
        f'<i class="m{place % 8}"><b style="--w:{100 * min(max(share, 0.0), 1.0):.2f}%"></b></i></div>'
    )
