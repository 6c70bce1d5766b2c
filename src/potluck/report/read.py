"""Reading run directories: the JSON lines of a run become numpy columns, the rest becomes one `Run`.

An unfinished run can be read too: the result may be missing, and a last line that was cut off is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from potluck.errors import BadInputError
from potluck.report.records import JSON, Records, parse

FILES = ("manifest.json", "records.jsonl", "result.json")


@dataclass(frozen=True)
class Run:
    """One algorithm's run over its seeds, as it was stored."""

    path: Path
    label: str
    manifest: Mapping[str, JSON]
    config: str
    result: Mapping[str, JSON]
    records: Records

    @property
    def finished(self) -> bool:
        """Say whether the run wrote its result."""
        return bool(self.result)

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """Return the seeds that left records or a result, ascending."""
        stored = self.result.get("seeds")
        named = {int(seed) for seed in stored} if isinstance(stored, Mapping) else set()
        return tuple(sorted(named | {int(seed) for seed in set(self.records.seed.tolist())}))

    @cached_property
    def offsets(self) -> Mapping[str, int]:
        """Return what to add to a stage's rounds so that they count on after the stages before it."""
        shifts: dict[str, int] = {}
        reached = 0
        for stage in self.records.stage.names:
            mine = self.records.rounds_of(stage)
            trained = mine[mine > 0]
            if stage == "partition" or not len(trained):
                shifts[stage] = 0 if stage == "partition" else reached
                continue
            shifts[stage] = 0 if trained.min() > reached else reached
            reached = shifts[stage] + int(trained.max())
        return shifts

    def text(self, key: str) -> str:
        """Return one entry of the manifest as text, empty when it is missing."""
        value = self.manifest.get(key)
        if isinstance(value, list):
            return " ".join(str(part) for part in value)
        return "" if value is None else str(value)

    def mapping(self, key: str) -> Mapping[str, JSON]:
        """Return one table of the manifest, empty when it is missing."""
        value = self.manifest.get(key)
        return value if isinstance(value, dict) else {}

    def shares_partition(self, other: Run) -> bool:
        """Say whether two runs had the same partition in every common seed, as far as is known."""
        own, theirs = self.mapping("partition_digest"), other.mapping("partition_digest")
        return all(own[seed] == theirs[seed] for seed in set(own) & set(theirs))

    def notes(self) -> tuple[str, ...]:
        """Return what the manifest notes about the data."""
        value = self.manifest.get("notes")
        return tuple(str(note) for note in value) if isinstance(value, list) else ()

    def remarks(self) -> tuple[str, ...]:
        """Return what the method itself remarks in its records (what: "note"), each remark once."""
        rows = self.records.what.equals("note").nonzero()[0].tolist()
        texts = self.records.texts
        return tuple(dict.fromkeys(texts[row] for row in rows if row in texts))

    def class_names(self) -> tuple[str, ...]:
        """Return the names of the classes as the manifest lists them."""
        value = self.manifest.get("class_names")
        return tuple(str(name) for name in value) if isinstance(value, list) else ()


def is_run(path: Path) -> bool:
    """Say whether a directory holds a run."""
    return any((path / name).is_file() for name in FILES)


def find(path: Path) -> tuple[Path, ...]:
    """Return the run directories at or under a path (two levels): as compared, else sorted by name."""
    if not path.is_dir():
        raise BadInputError(f"{path} is not a directory; give a run directory or a folder of runs")
    if is_run(path):
        return (path,)
    near = (*path.glob("[!.]*"), *path.glob("[!.]*/[!.]*"))  # an unfinished comparison has hidden beginnings
    there = {child for child in near if child.is_dir() and is_run(child)}
    listed = _object(path / "comparison.json").get("runs")
    first = [path / str(label) for label in listed] if isinstance(listed, list) else []
    runs = tuple([run for run in first if run in there] + sorted(there - set(first)))
    if not runs:
        raise BadInputError(
            f"{path} is no run: it holds none of {', '.join(FILES)}; give the folder of a run"
        )
    return runs


def read_run(path: Path) -> Run:
    """Read one run directory."""
    if not path.is_dir():
        raise BadInputError(f"{path} is not a directory; give a run directory")
    if not is_run(path):
        raise BadInputError(
            f"{path} is no run: it holds none of {', '.join(FILES)}; give the folder of a run"
        )
    manifest, result = _object(path / "manifest.json"), _object(path / "result.json")
    stored, lines = path / "config.toml", path / "records.jsonl"
    label = manifest.get("label") or result.get("label") or manifest.get("name") or path.name
    return Run(
        path=path,
        label=str(label),
        manifest=manifest,
        config=_text(stored) if stored.is_file() else "",
        result=result,
        records=parse(_text(lines) if lines.is_file() else "", lines),
    )


def open_runs(runs: Iterable[Run | Path | str]) -> tuple[Run, ...]:
    """Read what is still a path, and give runs of the same label distinct labels."""
    opened = tuple(_opened(runs))
    if not opened:
        raise BadInputError("there is no run to report; give at least one run directory")
    labels = [run.label for run in opened]
    return tuple(_distinct(run, labels, place) for place, run in enumerate(opened))


def _opened(runs: Iterable[Run | Path | str]) -> Iterator[Run]:
    for run in runs:
        if isinstance(run, Run):
            yield run
        else:
            yield from (read_run(path) for path in find(Path(run)))


def _distinct(run: Run, labels: Sequence[str], place: int) -> Run:
    if labels.count(run.label) == 1:
        return run
    number = labels[: place + 1].count(run.label)
    label = f"{run.label} ({number})"
    return Run(run.path, label, run.manifest, run.config, run.result, run.records)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: byte {error.start} is not UTF-8; the file is damaged") from error


def _object(path: Path) -> dict[str, JSON]:
    if not path.is_file():
        return {}
    try:
        value: JSON = json.loads(_text(path))
    except json.JSONDecodeError as error:
        raise BadInputError(
            f"{path}, line {error.lineno}: not JSON ({error.msg}); the file is damaged"
        ) from error
    if not isinstance(value, dict):
        raise BadInputError(f"{path} holds no JSON object; the file is damaged")
    return value
