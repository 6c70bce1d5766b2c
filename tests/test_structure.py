"""The import law and the other rules of form, read from the syntax trees of the sources."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

import potluck

ROOT = Path(potluck.__file__).parent
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"key", "tree", "table", "errors", "metrics"}),
    frozenset({"model", "descent"}),
    frozenset({"learn"}),
    frozenset({"core"}),
    frozenset({"combine"}),
    frozenset({"roles"}),
    frozenset({"average"}),
    frozenset({"parts"}),
    frozenset({"algorithms"}),
)
"""From the bottom up: a layer sees the ones below it, and itself where it is a package."""
DRIVER = frozenset(
    {"world", "visit", "memory", "rounds", "tape", "evaluate", "exhibit", "consensus", "topology"}
)
OUTSIDE = frozenset({"run", "config", "api", "cli", "report", "skew", "progress", "laws"})
SERVICES = frozenset({"random", "time", "os", "transport", "data", "record"})
PURE = frozenset({"key", "tree", "table", "metrics", "descent"})


class Seen(NamedTuple):
    """One import: of which module, and whether it is made when the file is loaded."""

    module: str
    at_load: bool


@cache
def sources() -> dict[str, ast.Module]:
    """Return the syntax tree of every module, by its name below the package."""
    return {name_of(file): ast.parse(file.read_text(encoding="utf-8")) for file in ROOT.rglob("*.py")}


def name_of(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imports(name: str) -> list[Seen]:
    return list(walk(sources()[name].body, at_load=True))


def walk(nodes: list[ast.stmt] | Iterator[ast.AST], *, at_load: bool) -> Iterator[Seen]:
    """Yield every import but those for the type checker alone."""
    for node in nodes:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (Seen(alias.name, at_load) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                known = inner.removeprefix("potluck.") in sources()
                yield Seen(inner if known else str(node.module), at_load)
        else:
            inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from walk(ast.iter_child_nodes(node), at_load=at_load and not inside)


def own(name: str, *, at_load: bool = True) -> set[str]:
    """Return the modules of the package that a module imports, by their names below it."""
    seen = {
        "" if found.module == "potluck" else found.module.removeprefix("potluck.")
        for found in imports(name)
        if found.module.split(".")[0] == "potluck" and (found.at_load or not at_load)
    }
    return seen - {name}


def top(name: str) -> str:
    return name.split(".")[0]


def below(package: str) -> list[str]:
    return [name for name in sources() if top(name) == package]


METHODS = frozenset(below("algorithms"))
LAYERED = sorted(name for name in sources() if any(top(name) in layer for layer in LAYERS))


@pytest.mark.parametrize("name", LAYERED)
def test_a_layer_sees_only_what_lies_below_it(name: str) -> None:
    position = next(i for i, layer in enumerate(LAYERS) if top(name) in layer)
    allowed = frozenset().union(*LAYERS[: position + 1])
    helpers = {"models"} if top(name) in {"parts", "algorithms"} else set()
    assert {top(other) for other in own(name)} <= allowed | helpers


def test_the_bottom_sees_nothing_but_itself() -> None:
    assert {name: own(name, at_load=False) for name in PURE} == {name: set() for name in PURE}


@pytest.mark.parametrize("name", sorted(below("algorithms") + below("parts")))
def test_methods_use_no_services(name: str) -> None:
    foreign = {found.module.removeprefix("potluck.") for found in imports(name)}
    assert not {top(other) for other in foreign} & (SERVICES | DRIVER | OUTSIDE)


@pytest.mark.parametrize("name", sorted(below("report")))
def test_the_report_reads_records_only(name: str) -> None:
    assert all(top(other) in {"report", "errors"} for other in own(name, at_load=False))
    assert "torch" not in {top(found.module) for found in imports(name)}


@pytest.mark.parametrize("name", sorted(DRIVER & set(sources())))
def test_the_driver_knows_no_method_and_no_front_end(name: str) -> None:
    seen = {top(other) for other in own(name, at_load=False)}
    assert not seen & (OUTSIDE | {"algorithms", "average", "roles", "parts", "record"})


def test_transports_do_not_know_the_driver() -> None:
    seen = {top(other) for name in below("transport") for other in own(name, at_load=False)}
    assert not seen & (OUTSIDE | {"algorithms", "average", "record"})


def test_only_the_entry_point_knows_the_command_line() -> None:
    users = {name for name in sources() if "cli" in map(top, own(name, at_load=False)) and top(name) != "cli"}
    assert users == {"__main__"}


def test_modules_are_loaded_in_no_circle() -> None:
    graph = {name: {other for other in own(name) if other in sources()} for name in sources()}
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_nothing_is_pickled_and_nothing_is_called_utils() -> None:
    loaded = {(name, top(found.module)) for name in sources() for found in imports(name)}
    assert not {pair for pair in loaded if pair[1] in {"pickle", "dill", "cloudpickle", "shelve", "marshal"}}
    assert not {name for name in sources() if "utils" in name or "helpers" in name}


def test_all_other_imports_are_declared() -> None:
    """What is imported when a module is loaded is the standard library or a dependency of the core."""
    declared = {"torch", "numpy", "scipy", "sklearn", "networkx", "pydantic", "rich", "safetensors"}
    declared |= {"matplotlib", "PIL", "threadpoolctl", "click", "tomli_w", "potluck"}
    loaded = {(name, top(found.module)) for name in sources() for found in imports(name) if found.at_load}
    extras = {"flwr", "grpc"}
    assert not {
        (name, module)
        for name, module in loaded
        if module not in declared | set(sys.stdlib_module_names) and module not in extras
    }


def test_the_public_names_are_all_there_and_sorted() -> None:
    assert potluck.__all__ == sorted(potluck.__all__)
    tree = sources()[""]
    bound = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module != "__future__"
        for alias in node.names
    }
    assert bound == set(potluck.__all__)
    assert all(hasattr(potluck, name) for name in potluck.__all__)


@pytest.mark.parametrize("name", sorted(sources()))
def test_files_and_functions_are_short_and_explained(name: str) -> None:
    tree = sources()[name]
    assert ast.get_docstring(tree), "a file says what it is"
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    long = [node.name for node in functions if (node.end_lineno or 0) - node.lineno >= 60]
    assert not long, f"functions over 60 lines: {long}"
    end = max((getattr(node, "end_lineno", 0) or 0 for node in ast.walk(tree)), default=0)
    assert end <= (120 if name in METHODS else 400), "a method fits on two screens, any other file on seven"


def test_no_final_class_is_inherited_from() -> None:
    """Methods are composed: nothing in `algorithms` derives from a concrete stage or role."""
    final = {"Average", "ByRows", "Uniform", "Plain", "Replace", "Everything"}
    for name in below("algorithms") + below("parts"):
        for node in ast.walk(sources()[name]):
            if isinstance(node, ast.ClassDef):
                assert not {ast.unparse(base).split("[")[0] for base in node.bases} & final, node.name
