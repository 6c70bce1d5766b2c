"""Store finished runs as the records behind a page: `python docs/store.py [--lean] RUN... NAME`.

The result and configuration are copied whole, the manifest but for folders in its command (`--out`, `--data-dir`).
Of the records, rows about single clients and peers are kept for the last evaluated round of each stage only (its last
round if nothing is evaluated), but for what curves are drawn from and for reason codes, and images and latent codes of
the first seed only, so that a page of records stays small enough for the repository. `--lean` is for many runs: it
keeps accuracy, agreement, bytes, weights and reason codes alone.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from potluck.report import find

RECORDS = Path(__file__).parent / "records"
WHOLE = ("config.toml", "result.json")
FOLDERS = ("--out", "--data-dir")
Keep = Callable[[Iterable[dict[str, Any]]], Iterator[dict[str, Any]]]
LEAN = ("global/accuracy", "consensus", "bytes/up", "bytes/down", "bytes/flood", "bytes/handover", "seconds")


def slim(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows to keep."""
    held = list(rows)
    last: dict[tuple[int, str], int] = {}
    ends: dict[tuple[int, str], int] = {}
    for row in held:
        place = (row["seed"], row["stage"])
        ends[place] = max(ends.get(place, 0), row["round"])
        if row["what"].startswith(("test/", "global/")):
            last[place] = max(last.get(place, 0), row["round"])
    last = {**ends, **last}
    first = min((row["seed"] for row in held), default=0)
    for row in held:
        if row["what"].startswith(("picture/", "latent/")) and row["seed"] != first:
            continue
        if row["round"] == last[row["seed"], row["stage"]] or drawn(row):
            yield row


def lean(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows to keep where there are many runs."""
    for row in slim(rows):
        if row["who"].startswith("client/"):
            kept = row["what"] in ("alpha", "weight", "reason")
        elif row["who"].startswith("site/"):
            kept = row["what"] == "global/accuracy"
        else:
            kept = row["what"] in LEAN
        if kept or row["stage"] == "topology":
            yield row


def drawn(row: dict[str, Any]) -> bool:
    """Tell whether a row belongs to a curve that pages draw, or says that an answer did not count as it should."""
    if row["who"].startswith("client/"):
        return bool(row["what"] == "reason")
    if row["who"].startswith("site/"):
        return bool(row["what"] == "global/accuracy")
    if row["what"].startswith("local/"):
        return bool(row["what"] in ("local/weighted/accuracy", "local/mean/accuracy", "local/min/accuracy"))
    if row["what"] == "bytes/up/params":  # how large a stage's model is, and how often it crossed
        return True
    return not (row["what"].startswith("bytes/") and row["what"].count("/") > 1)


def anywhere(command: str) -> str:
    """Return a command without the folders of the machine on which it ran."""
    words = shlex.split(command)
    gone = {place + extra for place, word in enumerate(words) if word in FOLDERS for extra in (0, 1)}
    return shlex.join(word for place, word in enumerate(words) if place not in gone)


def store(run: Path, target: Path, keep: Keep = slim) -> None:
    """Copy one run."""
    target.mkdir(parents=True, exist_ok=True)
    for name in WHOLE:
        shutil.copyfile(run / name, target / name)
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    manifest["command"] = anywhere(manifest["command"])
    (target / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    with (run / "records.jsonl").open(encoding="utf-8") as lines:
        kept = [json.dumps(row) for row in keep(json.loads(line) for line in lines)]
    (target / "records.jsonl").write_text("\n".join(kept) + "\n", encoding="utf-8")


def main() -> None:
    """Store the runs of a directory (or one run) under a name."""
    *runs, name = [word for word in sys.argv[1:] if word != "--lean"]
    for run in map(Path, runs):
        for one in find(run):
            store(one, RECORDS / name / one.relative_to(run), lean if "--lean" in sys.argv[1:] else slim)
        if (run / "comparison.json").exists():
            shutil.copyfile(run / "comparison.json", RECORDS / name / "comparison.json")


if __name__ == "__main__":
    main()
