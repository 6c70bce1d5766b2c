"""What clients keep between rounds, versioned: a visit sees the newest version whose answer was accepted.

In simulation the memories lie beside the run. Each accepted answer writes one immutable file; a checkpoint
names the versions that count, so that a killed run forgets exactly what its last committed round did not
know.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping
from pathlib import Path
from typing import Any

from potluck.transport.codec import Codec, read_tree, write_tree


class Recalled(Mapping[str, Any]):
    """A memory on disk: read whenever it is looked at and never held, so that a round of many needs no room."""

    def __init__(self, file: Path, codec: Codec) -> None:
        self._file, self._codec = file, codec

    def items(self) -> ItemsView[str, Any]:
        """Read the file once and return all of it."""
        memory: dict[str, Any] = read_tree(self._file, self._codec)[0]
        return memory.items()

    def __getitem__(self, name: str) -> Any:
        return dict(self.items())[name]

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _ in self.items()])

    def __len__(self) -> int:
        return len(self.items())


class Memories:
    """All clients' memories; on disk if a folder is given, else in this process."""

    def __init__(self, codec: Codec, folder: Path | None = None) -> None:
        self.codec, self.folder = codec, folder
        self.versions: dict[int, str] = {}
        self._held: dict[int, Mapping[str, Any]] = {}
        self._stale: list[Path] = []

    def read(self, client: int) -> Mapping[str, Any]:
        """Return what a client remembers."""
        if client in self.versions:
            return Recalled(self._file(self.versions[client]), self.codec)
        return self._held.get(client, {})

    def accept(self, client: int, version: str, keep: Mapping[str, Any]) -> None:
        """Merge what an accepted answer keeps into its client's memory, by name."""
        if not keep:
            return
        memory = {**dict(self.read(client).items()), **keep}
        if self.folder is None:
            self._held[client] = memory
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"{client}-{version}.safetensors"
        write_tree(self._file(name), memory, self.codec)
        if client in self.versions:
            self._stale.append(self._file(self.versions[client]))
        self.versions[client] = name

    def restore(self, versions: Mapping[int, str]) -> None:
        """Go back to the versions that a checkpoint names, and forget files that it does not know."""
        self.versions, self._held = dict(versions), {}
        if self.folder is not None and self.folder.exists():
            known = set(self.versions.values())
            for file in self.folder.iterdir():
                if file.name not in known:
                    file.unlink()

    def sweep(self) -> None:
        """Delete the files that the last committed checkpoint no longer needs."""
        for file in self._stale:
            file.unlink(missing_ok=True)
        self._stale.clear()

    def tree(self) -> dict[str, Any]:
        """Return all memories, by client; those on disk are read one by one as the tree is walked."""
        known = sorted({*self._held, *self.versions})
        return {str(client): self.read(client) for client in known}

    def _file(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / name
