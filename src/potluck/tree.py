"""Trees: nested dicts, tuples and named tuples whose leaves are tensors, numbers, text or None.

Site states, messages and memories are trees. Everything that the engine does to them (count bytes, hash,
compare, check) is one walk over named leaves.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

Params = dict[str, Tensor]
Tree = Any
Leaf = Tensor | float | int | str | bool | None


def leaves(tree: Tree, path: str = "") -> Iterator[tuple[str, Leaf]]:
    """Yield every leaf with its path, in a fixed order (dicts as they were filled, fields as declared)."""
    if isinstance(tree, Mapping):
        for name, branch in tree.items():
            yield from leaves(branch, f"{path}/{name}" if path else str(name))
    elif isinstance(tree, tuple | list):
        names = getattr(tree, "_fields", range(len(tree)))
        for name, branch in zip(names, tree, strict=True):
            yield from leaves(branch, f"{path}/{name}" if path else str(name))
    elif tree is None or isinstance(tree, Tensor | float | int | str | bool):
        yield path, tree
    else:
        raise TypeError(
            f"{path or 'the tree'} holds a {type(tree).__name__}; trees hold tensors, numbers and text"
        )


def map_tensors(tree: Tree, change: Callable[[Tensor], Tensor]) -> Tree:
    """Return the same tree with every tensor changed."""
    if isinstance(tree, Tensor):
        return change(tree)
    if isinstance(tree, Mapping):
        return {name: map_tensors(branch, change) for name, branch in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(map_tensors(branch, change) for branch in tree))
    if isinstance(tree, tuple | list):
        return type(tree)(map_tensors(branch, change) for branch in tree)
    return tree


def clone(tree: Tree) -> Tree:
    """Copy every tensor, so that the copy shares no memory with the original."""
    return map_tensors(tree, lambda tensor: tensor.clone())


def leaf_bytes(leaf: Leaf) -> int:
    """Count what one leaf costs on the wire: raw tensor bytes, 8 for a number, the letters of a text."""
    if isinstance(leaf, Tensor):
        return leaf.numel() * leaf.element_size()
    if isinstance(leaf, str):
        return len(leaf.encode())
    return 0 if leaf is None else 8


def nbytes(tree: Tree) -> int:
    """Count what a tree costs on the wire, without framing."""
    return sum(leaf_bytes(leaf) for _, leaf in leaves(tree))


def finite(tree: Tree) -> bool:
    """Tell whether every number in the tree is finite.

    A finite sum proves it in one fast pass; only a sum that is not (it may have overflowed) needs the slow
    look.
    """
    for _, leaf in leaves(tree):
        if isinstance(leaf, Tensor):
            if not leaf.is_floating_point() or math.isfinite(leaf.sum()):
                continue
            if not torch.isfinite(leaf).all():
                return False
        elif isinstance(leaf, float) and not math.isfinite(leaf):
            return False
    return True


def raw(tensor: Tensor) -> bytes:
    """Return the bytes of a tensor in row-major order."""
    if not tensor.numel():
        return b""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def digest(tree: Tree) -> str:
    """Hash names, shapes, types and raw bytes of all leaves (sha256); one flipped bit changes it."""
    hashed = hashlib.sha256()
    for path, leaf in leaves(tree):
        if isinstance(leaf, Tensor):
            hashed.update(f"{path}|{leaf.dtype}|{tuple(leaf.shape)}|".encode())
            hashed.update(raw(leaf))
        else:
            hashed.update(f"{path}|{type(leaf).__name__}|{leaf!r}|".encode())
    return hashed.hexdigest()


def same(one: Tree, other: Tree) -> bool:
    """Tell whether two trees are equal bit for bit."""
    return digest(one) == digest(other)
