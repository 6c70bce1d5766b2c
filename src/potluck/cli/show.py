"""`potluck list` and `potluck describe`: what there is, and what it takes."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_type_hints

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from potluck.algorithms import ALGORITHMS, ARCHITECTURES, OBJECTIVES, RATIOS, SERVERS, SHARES, WEIGHS
from potluck.call import extended
from potluck.data import DATASETS
from potluck.errors import unknown
from potluck.models import MODELS
from potluck.partition import PARTITIONS
from potluck.shift import SHIFTS
from potluck.topologies import TOPOLOGIES

Entries = Mapping[str, Callable[..., Any]]
TABLES: Mapping[str, tuple[str, Entries, int]] = {
    "algorithms": ("algorithm", ALGORITHMS, 0),
    "weighs": ("weigh", WEIGHS, 0),
    "objectives": ("objective", OBJECTIVES, 0),
    "servers": ("server", SERVERS, 0),
    "shares": ("share", SHARES, 0),
    "architectures": ("architecture", ARCHITECTURES, 0),
    "ratios": ("ratio", RATIOS, 0),
    "datasets": ("data", DATASETS, 1),
    "partitions": ("partition", PARTITIONS, 0),
    "shifts": ("shift", SHIFTS, 0),
    "models": ("model", MODELS, 2),
    "topologies": ("topology", TOPOLOGIES, 2),
}


@click.command("list")
@click.argument("kind", required=False)
def list_tables(kind: str | None) -> None:
    """List what a configuration may name: all tables, or one KIND (algorithms, partitions, models, ...)."""
    if kind is not None and kind not in TABLES:
        raise unknown("table", kind, TABLES)
    console = Console()
    for name in [kind] if kind else TABLES:
        singular, table, _ = TABLES[name]
        grid = Table(title=name, title_justify="left", show_header=False, box=None, padding=(0, 2))
        for entry, function in sorted(extended(singular, table).items()):
            grid.add_row(Text(entry, style="bold"), Text(_first_line(function)))
        console.print(grid)


@click.command()
@click.argument("name")
def describe(name: str) -> None:
    """Explain one entry: what it does, its parameters with types and defaults, the paper."""
    console = Console()
    hits = [
        (kind, extended(singular, table)[name], skip)
        for kind, (singular, table, skip) in TABLES.items()
        if name in extended(singular, table)
    ]
    if not hits:
        raise unknown("entry", name, {entry for _, table, _ in TABLES.values() for entry in table})
    for kind, function, skip in hits:
        console.print(Text(f"{name}  ({kind})", style="bold"))
        console.print(Text(_story(function)))
        console.print(_parameters(function, skip))


def _first_line(function: Callable[..., Any]) -> str:
    return (inspect.getdoc(function) or "").partition("\n")[0]


def _story(function: Callable[..., Any]) -> str:
    """Return the docstring of the entry, and of its file if it is the file's one idea."""
    own = inspect.getdoc(function) or ""
    module = inspect.getdoc(sys.modules[function.__module__]) or ""
    return _flowing(f"{own}\n\n{module}" if module and module != own else own)


def _flowing(text: str) -> str:
    """Join the lines of every paragraph, so that it fits any width; formulas (indented) and headings stay."""
    blocks = text.split("\n\n")
    inner = r"\n(?!(?:Choices|Deviations|Wire|State):)"
    return "\n\n".join(block if "\n  " in f"\n{block}" else re.sub(inner, " ", block) for block in blocks)


def _parameters(function: Callable[..., Any], skip: int) -> Table:
    grid = Table("key", "type", "default", title_justify="left", box=None, padding=(0, 2))
    hints = get_type_hints(function.__init__ if inspect.isclass(function) else function, include_extras=True)
    for parameter in list(inspect.signature(function).parameters.values())[skip:]:
        _add(grid, parameter.name, hints.get(parameter.name, Any), parameter.default)
    return grid


def _add(grid: Table, name: str, hint: Any, default: Any) -> None:
    """Add a parameter; a dataclass without a table of its own is shown field by field."""
    if dataclasses.is_dataclass(hint) and dataclasses.is_dataclass(default):
        for field in dataclasses.fields(hint):
            inner = get_type_hints(hint, include_extras=True)[field.name]
            _add(grid, f"{name}.{field.name}", inner, getattr(default, field.name))
        return
    missing = default is inspect.Parameter.empty
    grid.add_row(Text(name, style="bold"), Text(_type(hint)), Text("required" if missing else _show(default)))


def _type(hint: Any) -> str:
    """Return a type in the words of a configuration: its choices, or what kind of value it takes."""
    kind, inner = typing.get_origin(hint), typing.get_args(hint)
    if kind is typing.Annotated:
        bounds = [text for part in hint.__metadata__ for text in _bounds(part)]
        return " ".join([_type(inner[0]), ", ".join(bounds)]).rstrip()
    if kind is typing.Literal:
        return " | ".join(map(str, inner))
    if kind in (typing.Union, types.UnionType):
        return " | ".join(map(_type, inner))
    if kind in (list, tuple, Sequence):
        return f"list of {_type(inner[0])}"
    if hint is type(None):
        return "none"
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")


def _bounds(part: Any) -> list[str]:
    """Return the limits that an annotation sets."""
    signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    limits = getattr(part, "metadata", ())
    return [f"{sign} {getattr(x, name)}" for x in limits for name, sign in signs.items() if hasattr(x, name)]


def _show(value: Any) -> str:
    if value is None:
        return "none"
    return type(value).__name__ if dataclasses.is_dataclass(value) else str(value)
