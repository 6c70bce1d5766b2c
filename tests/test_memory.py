"""What clients keep: versions that count when they are accepted and are forgotten when they were not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from potluck.memory import Memories
from potluck.transport.codec import Codec
from potluck.tree import digest

CODEC = Codec()


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


@pytest.fixture(params=["here", "on disk"])
def memories(request: pytest.FixtureRequest, tmp_path: Path) -> Memories:
    return Memories(CODEC, None if request.param == "here" else tmp_path / "kept")


def test_what_is_kept_is_merged_by_name(memories: Memories) -> None:
    assert dict(memories.read(3)) == {}
    memories.accept(3, "train-1", {"a": torch.ones(2), "n": 1})
    memories.accept(3, "train-2", {"n": 2, "late": "x"})
    memories.accept(3, "train-3", {})
    assert digest(dict(memories.read(3))) == digest({"a": torch.ones(2), "n": 2, "late": "x"})
    assert len(memories.read(3)) == 3
    assert "late" in memories.read(3)
    assert memories.read(3)["n"] == 2
    assert dict(memories.read(4)) == {}
    assert list(memories.tree()) == ["3"]


def test_both_kinds_have_one_fingerprint(tmp_path: Path) -> None:
    kinds = [Memories(CODEC), Memories(CODEC, tmp_path / "kept")]
    for held in kinds:
        for client in (11, 2):
            held.accept(client, "train-1", {"w": torch.full((3,), float(client))})
    assert digest(kinds[0].tree()) == digest(kinds[1].tree())
    assert list(kinds[1].tree()) == ["2", "11"]


def test_a_version_is_kept_until_the_next_one_is_committed(tmp_path: Path) -> None:
    memories = Memories(CODEC, tmp_path)
    memories.accept(0, "train-1", {"n": 1})
    memories.sweep()
    committed = dict(memories.versions)
    memories.accept(0, "train-2", {"n": 2})
    memories.accept(0, "train-3", {"n": 3})
    memories.accept(1, "train-3", {"n": 9})
    assert len(names(tmp_path)) == 4
    (tmp_path / ".0-train-4.safetensors.77.part").write_bytes(b"half")
    again = Memories(CODEC, tmp_path)
    again.restore(committed)
    assert names(tmp_path) == ["0-train-1.safetensors"]
    assert dict(again.read(0)) == {"n": 1}
    assert dict(again.read(1)) == {}


def test_sweeping_deletes_what_the_checkpoint_no_longer_needs(tmp_path: Path) -> None:
    memories = Memories(CODEC, tmp_path)
    for number in (1, 2, 3):
        memories.accept(0, f"train-{number}", {"n": number})
    memories.sweep()
    assert names(tmp_path) == ["0-train-3.safetensors"]
    assert dict(memories.read(0)) == {"n": 3}


def test_memories_on_disk_are_not_held(tmp_path: Path) -> None:
    """Reading gives a tensor of its own each time, so that a thousand clients cost no more than one."""
    memories = Memories(CODEC, tmp_path)
    memories.accept(0, "train-1", {"w": torch.ones(2)})
    seen: Any = memories.read(0)["w"]
    seen.zero_()
    assert memories.read(0)["w"].sum() == 2
    assert not memories._held
