"""The Python interface: the same experiments as on the command line, with your own data, model or algorithm.

import potluck as pl

result = pl.run(data=pl.from_arrays(x, y, clients=owners), model=MyNet, algorithm=pl.fedavg(rounds=20))
result.table()
"""

from __future__ import annotations

import copy
import json
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.console import Console
from torch import nn

from potluck import report
from potluck.config import Experiment, Given, experiment, load
from potluck.core import Algorithm
from potluck.data.dataset import Dataset
from potluck.data.places import Places
from potluck.errors import BadInputError
from potluck.progress import watching
from potluck.run import Options, compare_all, total_rounds
from potluck.run import run as play

Setting = Any


@dataclass(frozen=True)
class Result:
    """One or several finished runs: figures by label, tables, plots, records, and the report on disk."""

    out: Path
    figures: Mapping[str, Mapping[str, Any]]
    runs: Sequence[Path]

    def __getitem__(self, label: str) -> Mapping[str, Any]:
        """Return the result of one algorithm, by its label."""
        return self.figures[label]

    def table(self) -> list[report.Line]:
        """Return the comparison table as rows."""
        return report.table(self.runs)

    def plot(self, what: str = "accuracy") -> Figure:
        """Return a figure: accuracy, loss, clients, partition, weights, costs, or anything recorded by round."""
        return report.plot(self.runs, what)

    @property
    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the tidy rows of all runs."""
        for run in self.runs:
            with (run / "records.jsonl").open(encoding="utf-8") as lines:
                yield from map(json.loads, lines)

    @property
    def page(self) -> Path:
        """Return the report, a page that works without a network."""
        return self.out / "report.html"

    def show(self) -> None:
        """Print the comparison table."""
        report.render(self.runs, Console())


def run(source: str | Path | None = None, **settings: Setting) -> Result:
    """Run one experiment: a TOML file, or settings by name (`data`, `partition`, `model`, `algorithm`, ...).

    `data` may be a `Dataset` (see `from_arrays`), `model` a module, a class or a function without arguments, and
    `algorithm` an `Algorithm`; everything may also be a name or a table as in a file. Options: `out` (a directory;
    else a temporary one that lives as long as the result), `workers`, `resume`, `overwrite`, `data_dir`, `progress`.
    """
    options, given, progress = _options(settings)
    made = _experiment(source, settings)
    label = str(made.algorithm["name"])
    with _folder(given) as out:
        with watching(Console(), quiet=not progress, total=total_rounds(made)) as watch:
            result = play(made, out, replace(options, watch=watch), label=label)
        report.write(out, [out])
    return _result(out, {label: result}, [out], given is None)


def compare(
    source: str | Path | None = None,
    *,
    algorithms: Sequence[str | Algorithm] | Mapping[str, Algorithm | Mapping[str, Any] | str] = (),
    **settings: Setting,
) -> Result:
    """Run several algorithms on the same rows, initial weights and participants; settings and options as for `run`."""
    options, given, progress = _options(settings)
    made = _experiment(source, settings)
    variants = _variants(made, algorithms)
    total = sum(total_rounds(variant) for variant in variants.values())
    with _folder(given) as out:
        with watching(Console(), quiet=not progress, total=total) as watch:
            results = compare_all(variants, out, replace(options, watch=watch))
        runs = [out / label for label in results]
        report.write(out, runs, title=made.name)
    return _result(out, results, runs, given is None)


def _variants(
    made: Experiment,
    algorithms: Sequence[str | Algorithm] | Mapping[str, Algorithm | Mapping[str, Any] | str],
) -> dict[str, Experiment]:
    """Return one experiment per algorithm, by label; algorithms in a list are called by their names."""
    if isinstance(algorithms, Mapping):
        return {label: made.with_algorithm(entry) for label, entry in algorithms.items()}
    names = [entry.name if isinstance(entry, Algorithm) else entry for entry in algorithms]
    if all(isinstance(entry, str) for entry in algorithms):
        return made.variants(names)
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        raise BadInputError(
            f"algorithms: two are called {twice[0]!r}; give labels, {{label: algorithm, ...}}"
        )
    return {name: made.with_algorithm(entry) for name, entry in zip(names, algorithms, strict=True)}


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    """Yield the directory to write to; a temporary one does not outlive a failure."""
    if given is not None:
        yield given
        return
    made = Path(tempfile.mkdtemp(prefix="potluck-"))
    try:
        yield made
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _result(
    out: Path, figures: Mapping[str, Mapping[str, Any]], runs: Sequence[Path], passing: bool
) -> Result:
    """Return the result; a temporary directory goes when the result does."""
    result = Result(out, figures, runs)
    if passing:
        weakref.finalize(result, shutil.rmtree, out, ignore_errors=True)
    return result


def _options(settings: dict[str, Setting]) -> tuple[Options, Path | None, bool]:
    """Take what says how to run out of the settings."""
    out = settings.pop("out", None)
    folders = settings.pop("data_dir", ())
    folders = (folders,) if isinstance(folders, str | Path) else tuple(folders)
    options = Options(
        workers=settings.pop("workers", 0),
        resume=settings.pop("resume", False),
        overwrite=settings.pop("overwrite", False),
        places=Places.usual(folders),
        command=settings.pop("command", "called from Python"),
    )
    return options, None if out is None else Path(out), settings.pop("progress", False)


def _experiment(source: str | Path | None, settings: dict[str, Setting]) -> Experiment:
    """Return the experiment of a file or of settings, with the objects that were given in place of names."""
    given = Given(
        dataset=_taken(settings, "data", Dataset),
        model=_factory(settings),
        algorithm=_taken(settings, "algorithm", Algorithm),
    )
    table = {
        key: {"name": value} if key in NAMED and isinstance(value, str) else value
        for key, value in settings.items()
    }
    if given.dataset is not None and "client" in given.dataset.groups:
        table.setdefault("partition", {"name": "natural", "column": "client"})
    if source is not None:
        return load(Path(source), given=given, changes=table)
    return experiment({"name": "experiment", **table}, given=given)


NAMED = frozenset({"data", "partition", "model", "algorithm", "topology"})


def _taken(settings: dict[str, Setting], key: str, kind: type) -> Any:
    return settings.pop(key) if isinstance(settings.get(key), kind) else None


def _factory(settings: dict[str, Setting]) -> Callable[[], nn.Module] | None:
    """Return a function that makes the model, if the setting is a module, a class or a function."""
    model = settings.get("model")
    if isinstance(model, nn.Module):
        settings.pop("model")
        return lambda: copy.deepcopy(model)
    if callable(model):
        settings.pop("model")
        made: Callable[[], nn.Module] = model
        return made
    return None
