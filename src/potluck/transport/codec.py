"""Trees to bytes and back, loss-free, without pickle.

A tree becomes a JSON skeleton and a list of tensors. Only named tuples that were declared are rebuilt; no
name that comes from outside is ever imported. On disk the tensors go into a safetensors file with the
skeleton as metadata; in memory they are laid out raw, little-endian, each aligned to 64 bytes.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import save_file
from torch import Tensor

from potluck.errors import BadInputError
from potluck.tree import Tree

ALIGN = 64
KINDS = {
    str(kind).removeprefix("torch."): kind
    for kind in (
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
    )
}


class CodecError(ValueError):
    """A tree or a message that may not cross."""


class Codec:
    """Encodes trees of tensors, numbers, text, dicts, tuples and the declared named tuples."""

    def __init__(self, declared: Iterable[type] = ()) -> None:
        self._declared: dict[str, type] = {kind.__name__: kind for kind in declared}

    def flatten(self, tree: Tree, put: Callable[[Tensor], Any]) -> Any:
        """Return the JSON skeleton of a tree; `put` stores a tensor and returns where it went."""
        if isinstance(tree, Tensor):
            return {"t": put(tree)}
        if tree is None or isinstance(tree, bool | int | str):
            return tree
        if isinstance(tree, float):
            return tree if math.isfinite(tree) else {"f": repr(tree)}
        if isinstance(tree, Mapping):
            return {"d": [[self._name(name), self.flatten(branch, put)] for name, branch in tree.items()]}
        if isinstance(tree, tuple) and hasattr(tree, "_fields"):
            kind = type(tree).__name__
            if self._declared.get(kind) is not type(tree):
                raise CodecError(
                    f"{kind} is not among the declared messages; add it to the stage's `messages`"
                )
            return {"n": kind, "v": [self.flatten(branch, put) for branch in tree]}
        if isinstance(tree, tuple | list):
            return {"l" if isinstance(tree, list) else "u": [self.flatten(branch, put) for branch in tree]}
        raise CodecError(f"a {type(tree).__name__} may not cross; messages hold tensors, numbers and text")

    def build(self, skeleton: Any, get: Callable[[Any], Tensor]) -> Tree:
        """Return the tree of a skeleton; `get` fetches a tensor from where `put` said that it went."""
        if not isinstance(skeleton, dict):
            return skeleton
        if "t" in skeleton:
            return get(skeleton["t"])
        if "f" in skeleton:
            return float(skeleton["f"])
        if "d" in skeleton:
            return {name: self.build(branch, get) for name, branch in skeleton["d"]}
        if "n" in skeleton:
            kind = self._declared.get(skeleton["n"])
            if kind is None:
                raise CodecError(f"{skeleton['n']!r} is not among the declared messages")
            return kind(*(self.build(branch, get) for branch in skeleton["v"]))
        if "l" in skeleton:
            return [self.build(branch, get) for branch in skeleton["l"]]
        if "u" in skeleton:
            return tuple(self.build(branch, get) for branch in skeleton["u"])
        raise CodecError("a skeleton of unknown shape")

    def _name(self, name: object) -> str | int:
        if isinstance(name, str | int) and not isinstance(name, bool):
            return name
        raise CodecError(f"keys of a message must be text or whole numbers, not {type(name).__name__}")

    def encode(self, tree: Tree) -> bytearray:
        """Return a tree as bytes: header length, header, aligned tensors."""
        placed: list[Tensor] = []
        size = 0

        def put(tensor: Tensor) -> list[Any]:
            nonlocal size
            begin, size = size, size + aligned(tensor.nbytes)
            placed.append(tensor)
            return [begin, kind_name(tensor), list(tensor.shape)]

        header = json.dumps(self.flatten(tree, put), separators=(",", ":")).encode()
        start = aligned(8 + len(header))
        out = bytearray(start + size)
        out[:8] = len(header).to_bytes(8, "little")
        out[8 : 8 + len(header)] = header
        at = start
        for tensor in placed:
            write_raw(memoryview(out), at, tensor)
            at += aligned(tensor.nbytes)
        return out

    def decode(self, data: bytes | bytearray | memoryview) -> Tree:
        """Return the tree in bytes; tensors own their memory."""
        view = memoryview(data if isinstance(data, bytearray) else bytearray(data))
        length = int.from_bytes(view[:8], "little")
        body = view[aligned(8 + length) :]
        try:
            header = json.loads(bytes(view[8 : 8 + length]))
            return self.build(header, lambda place: read_raw(body, place[0], place[1], place[2]).clone())
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise CodecError(f"a message of {len(view)} bytes cannot be read: {error}") from error


def aligned(size: int) -> int:
    """Round up to the alignment of tensors."""
    return -(-size // ALIGN) * ALIGN


def kind_name(tensor: Tensor) -> str:
    """Return the wire name of a tensor's type."""
    return str(tensor.dtype).removeprefix("torch.")


def write_raw(buffer: memoryview, at: int, tensor: Tensor) -> None:
    """Copy a tensor's bytes into a buffer."""
    if tensor.numel():
        target = torch.frombuffer(buffer, dtype=torch.uint8, count=tensor.nbytes, offset=at)
        target.copy_(tensor.detach().contiguous().reshape(-1).view(torch.uint8))


def read_raw(buffer: memoryview, at: int, kind: str, shape: list[int]) -> Tensor:
    """Return a tensor that looks at a buffer's bytes, without a copy."""
    if kind not in KINDS:
        raise CodecError(f"tensors of type {kind!r} may not cross")
    count = math.prod(shape)
    if min(shape, default=1) < 0 or at < 0 or at + count * KINDS[kind].itemsize > len(buffer):
        raise CodecError(f"a tensor of shape {shape} at {at} does not lie within {len(buffer)} bytes")
    if count == 0:
        return torch.zeros(shape, dtype=KINDS[kind])
    return torch.frombuffer(buffer, dtype=KINDS[kind], count=count, offset=at).reshape(shape)


def write_tree(file: Path, tree: Tree, codec: Codec, extra: Mapping[str, Any] | None = None) -> None:
    """Write a tree (and JSON beside it) into one safetensors file: first under another name, then renamed."""
    tensors: dict[str, Tensor] = {}

    def put(tensor: Tensor) -> str:
        name = str(len(tensors))
        tensors[name] = tensor.detach().clone(memory_format=torch.contiguous_format)
        return name

    skeleton = codec.flatten(tree, put)
    metadata = {"tree": json.dumps(skeleton), "extra": json.dumps(dict(extra or {}))}
    partial = file.with_name(f".{file.name}.{os.getpid()}.part")
    save_file(tensors, partial, metadata=metadata)
    os.replace(partial, file)


def read_tree(file: Path, codec: Codec) -> tuple[Tree, dict[str, Any]]:
    """Read a tree and the JSON beside it."""
    try:
        with safetensors.safe_open(file, framework="pt") as opened:
            metadata = opened.metadata() or {}
            tree = codec.build(json.loads(metadata["tree"]), opened.get_tensor)
            extra: dict[str, Any] = json.loads(metadata["extra"])
    except (safetensors.SafetensorError, KeyError, json.JSONDecodeError) as error:
        raise BadInputError(
            f"{file}: not a checkpoint of this program ({error}); delete it and start anew"
        ) from error
    return tree, extra
