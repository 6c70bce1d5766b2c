"""Where data are looked for: the folders given, $POTLUCK_DATA, the user's cache; nowhere else."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from potluck.data.cache import cache_root
from potluck.errors import BadInputError

HOW = "`potluck data get {name}` fetches them, or put them into one of these folders by hand"


@dataclass(frozen=True)
class Places:
    """Folders that may hold data, in the order in which they are searched."""

    folders: tuple[Path, ...]

    @classmethod
    def usual(cls, given: Sequence[str | Path] = ()) -> Places:
        """Return the folders given, then those of $POTLUCK_DATA, then the user's cache."""
        named = [part for part in os.environ.get("POTLUCK_DATA", "").split(os.pathsep) if part]
        folders = [Path(folder).expanduser() for folder in (*given, *named)]
        return cls(tuple(dict.fromkeys([*folders, cache_root() / "data"])))

    def look(self, name: str, files: Sequence[str]) -> Mapping[str, Path] | None:
        """Return where each file lies, packed (.gz) or not; None unless one folder has all of them."""
        for folder in self.candidates(name):
            found = {file: _packed_or_not(folder / file) for file in files}
            complete = {file: path for file, path in found.items() if path is not None}
            if len(complete) == len(files):
                return complete
        return None

    def find(self, name: str, files: Sequence[str], how: str = HOW) -> Mapping[str, Path]:
        """Return where each file lies, or refuse with the files, the folders and what to do."""
        found = self.look(name, files)
        if found is None:
            raise self.missing(name, files, how)
        return found

    def missing(self, name: str, files: Sequence[str], how: str = HOW) -> BadInputError:
        """Return the error for data that lie nowhere; `how` says what to do about it."""
        searched = ", ".join(str(folder) for folder in self.folders)
        advice = how.format(name=name)
        return BadInputError(
            f"data {name!r} not found: looked for {', '.join(files)} (packed as .gz or not)"
            f" in {name}/ and directly under {searched}; {advice}"
        )

    def resolve(self, path: str) -> Path:
        """Return a file or folder of the user's own: as it stands, or below one of the folders."""
        asked = Path(path).expanduser()
        for candidate in (asked, *(folder / asked for folder in self.folders)):
            if candidate.exists():
                return candidate
        searched = ", ".join(str(folder) for folder in (Path.cwd(), *self.folders))
        raise BadInputError(
            f"data path {path!r} not found: looked in {searched}; correct the path or give --data-dir"
        )

    def candidates(self, name: str) -> list[Path]:
        """Return the folders in which the files of a data set may lie: each folder's own, then the folder."""
        return [candidate for folder in self.folders for candidate in (folder / name, folder)]


def _packed_or_not(path: Path) -> Path | None:
    for candidate in (path, path.with_name(path.name + ".gz")):
        if candidate.is_file():
            return candidate
    return None
