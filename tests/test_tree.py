"""Trees: named leaves, bytes, hashes that see one flipped bit, and combining under the contract."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from potluck.tree import clone, digest, finite, leaves, map_tensors, nbytes, raw, same

KINDS = [torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool]


class Pair(NamedTuple):
    one: Any
    two: Any


def test_leaves_have_names_in_a_fixed_order() -> None:
    tree = {"b": Pair(torch.zeros(2), [1, "x"]), "a": (None, 2.5)}
    assert [path for path, _ in leaves(tree)] == ["b/one", "b/two/0", "b/two/1", "a/0", "a/1"]
    assert nbytes(tree) == 8 + 8 + 1 + 0 + 8


def test_what_is_no_leaf_is_named() -> None:
    with pytest.raises(TypeError, match="a/1 holds a set"):
        list(leaves({"a": [1, {2}]}))


@given(st.sampled_from(KINDS), st.lists(st.integers(0, 3), max_size=3), st.integers(0, 10**6))
def test_one_flipped_bit_changes_the_digest(kind: torch.dtype, shape: list[int], bit: int) -> None:
    tensor = torch.zeros(shape, dtype=kind)
    before = digest({"w": tensor})
    assert len(raw(tensor)) == tensor.nbytes
    assert same({"w": tensor}, {"w": tensor.clone()})
    if tensor.nbytes and kind != torch.bool:
        data = tensor.reshape(-1).view(torch.uint8)
        at = bit // 8 % len(data)
        data[at] ^= 1 << bit % 8
        assert digest({"w": tensor}) != before


def test_the_digest_sees_names_shapes_and_types() -> None:
    zeros = torch.zeros(4)
    trees: list[Any] = [{"w": zeros}, {"v": zeros}, {"w": zeros.reshape(2, 2)}, {"w": zeros.int()}]
    trees += [{"w": 0}, {"w": 0.0}, {"w": "0"}, {"w": False}, {"w": None}, {"w": -0.0}]
    assert len({digest(tree) for tree in trees}) == len(trees)
    strided = torch.arange(6.0).reshape(2, 3).t()
    assert same(strided, strided.contiguous())


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_finite_finds_every_bad_number(bad: float) -> None:
    assert finite({"w": torch.full((3,), 3e38), "n": torch.tensor([2**62]), "e": torch.zeros(0), "t": "nan"})
    assert not finite({"w": torch.tensor([1.0, bad])})
    assert not finite({"w": torch.tensor([bad, -bad])})
    assert not finite({"log": (1.0, bad)})


def test_a_clone_shares_no_memory_and_keeps_its_types() -> None:
    tree = Pair([torch.ones(2)], {"k": (torch.ones(1), "text")})
    copy = clone(tree)
    assert isinstance(copy, Pair)
    assert isinstance(copy.one, list)
    assert isinstance(copy.two["k"], tuple)
    copy.one[0].zero_()
    assert tree.one[0].sum() == 2
    doubled = map_tensors(tree, lambda leaf: leaf * 2)
    assert doubled.two["k"][0] == 2
    assert doubled.two["k"][1] == "text"
