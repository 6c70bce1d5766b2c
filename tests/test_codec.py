"""The codec: loss-free, without pickle, and deaf to what was not declared."""

from __future__ import annotations

import json
import math
import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from potluck.errors import BadInputError
from potluck.transport.codec import KINDS, Codec, CodecError, read_tree, write_tree
from potluck.tree import digest


class Note(NamedTuple):
    left: Any
    right: Any


class Stranger(NamedTuple):
    left: Any


CODEC = Codec([Note])


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    kind = draw(st.sampled_from(sorted(KINDS)))
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    count = math.prod(shape) * KINDS[kind].itemsize
    data = draw(st.binary(min_size=count, max_size=count))
    if kind == "bool":
        data = bytes(byte % 2 for byte in data)
    if not count:
        return torch.zeros(shape, dtype=KINDS[kind])
    return torch.frombuffer(bytearray(data), dtype=KINDS[kind]).reshape(shape)


LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), tensors())
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.text(max_size=4), st.integers(0, 9)), inner, max_size=3),
        st.tuples(inner, inner).map(lambda pair: Note(*pair)),
    ),
    max_leaves=8,
)


def form(tree: Any) -> Any:
    """Return the containers of a tree, which the digest does not look at."""
    if isinstance(tree, dict):
        return {name: form(branch) for name, branch in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree).__name__, [form(branch) for branch in tree]
    return type(tree).__name__


@given(TREES)
def test_decoding_undoes_encoding_bit_for_bit(tree: Any) -> None:
    back = CODEC.decode(CODEC.encode(tree))
    assert digest(back) == digest(tree)
    assert form(back) == form(tree)


@given(tree=TREES)
def test_files_keep_trees_bit_for_bit(tmp_path_factory: pytest.TempPathFactory, tree: Any) -> None:
    file = tmp_path_factory.mktemp("codec") / "tree.safetensors"
    write_tree(file, tree, CODEC, {"offset": 3})
    back, extra = read_tree(file, CODEC)
    assert digest(back) == digest(tree)
    assert form(back) == form(tree)
    assert extra == {"offset": 3}
    assert [each.name for each in file.parent.iterdir()] == [file.name]


@given(st.binary(max_size=80))
def test_noise_is_refused_and_never_obeyed(data: bytes) -> None:
    with pytest.raises(CodecError):
        CODEC.decode(len(data).to_bytes(8, "little") + b"{" + data)


@given(TREES, st.integers(0, 10**6), st.integers(1, 255))
def test_a_damaged_message_is_read_or_refused(tree: Any, at: int, flip: int) -> None:
    data = CODEC.encode(tree)
    data[at % len(data)] ^= flip
    with suppress(CodecError):
        digest(CODEC.decode(data))


@pytest.mark.parametrize(
    "place",
    [[0, "float32", [10**9]], [-64, "float32", [2]], [0, "float32", [-1]], [0, "object", [1]], [0], 5],
)
def test_a_tensor_must_lie_within_its_message(place: Any) -> None:
    header = json.dumps({"t": place}).encode()
    with pytest.raises(CodecError):
        CODEC.decode(len(header).to_bytes(8, "little") + header + bytes(256))


def test_only_declared_messages_cross() -> None:
    with pytest.raises(CodecError, match="Stranger is not among the declared messages"):
        CODEC.encode(Stranger(1))
    foreign = Codec([Stranger]).encode(Stranger(1))
    with pytest.raises(CodecError, match="'Stranger' is not among"):
        CODEC.decode(foreign)
    namesake: Any = type("Note", (Note,), {})
    with pytest.raises(CodecError):
        CODEC.encode(namesake(1, 2))


@pytest.mark.parametrize(
    "odd", [{1, 2}, object(), b"bytes", {True: 1}, {1.5: 1}, 1j, torch.zeros(1, dtype=torch.complex64)]
)
def test_what_may_not_cross_is_named(odd: Any) -> None:
    with pytest.raises(CodecError):
        CODEC.decode(CODEC.encode({"x": odd}))


def test_decoded_tensors_own_their_memory() -> None:
    data = CODEC.encode({"w": torch.ones(3)})
    back = CODEC.decode(data)
    data[-64:] = bytes(64)
    assert back["w"].sum() == 3


def test_a_file_of_something_else_is_named(tmp_path: Path) -> None:
    file = tmp_path / "checkpoint.safetensors"
    file.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(BadInputError, match=r"checkpoint\.safetensors: not a checkpoint of this program"):
        read_tree(file, CODEC)
