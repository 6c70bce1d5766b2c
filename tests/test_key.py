"""Randomness as a path: streams depend on their names and on nothing else."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from potluck.key import Key

PARTS = st.lists(st.one_of(st.text(max_size=6), st.integers(-3, 2**40)), max_size=4)


def made(parts: list[str | int]) -> Key:
    key = Key.root(0)
    for part in parts:
        key = key / part
    return key


@given(PARTS, PARTS)
def test_paths_that_differ_have_streams_that_differ(one: list[str | int], other: list[str | int]) -> None:
    assert (made(one).digest() == made(other).digest()) == (one == other)


def test_text_and_numbers_are_told_apart_and_parts_do_not_run_together() -> None:
    root = Key.root(0)
    digests = {
        (root / "1").digest(),
        (root / 1).digest(),
        (root / "1" / "2").digest(),
        (root / "12").digest(),
    }
    assert len(digests) == 4
    assert Key.root(0).digest() != Key.root(1).digest()


@pytest.mark.parametrize(
    "take", [lambda key: key.numpy().random(3), lambda key: torch.rand(3, generator=key.torch())]
)
def test_a_stream_starts_anew_whenever_it_is_asked_for(take: object) -> None:
    assert callable(take)
    key = Key.root(5) / "batches" / 2
    first = np.asarray(take(key))
    np.asarray(take(Key.root(5) / "other"))
    assert np.array_equal(first, np.asarray(take(key)))


def test_streams_keep_their_values_over_releases() -> None:
    """A changed hash would silently change every published number."""
    key = Key.root(7) / "train" / "local" / 3 / "client" / 12
    assert str(key) == "7/train/local/3/client/12"
    assert key.digest().hex() == "c3ee66f656a0aeb8d66b3ba0065d5e5b"
    assert int(key.numpy().integers(1 << 32)) == 3257196747
    assert 0 <= key.integer() < 2**63


def test_the_ambient_stream_is_seeded_and_put_back_even_after_an_error() -> None:
    key = Key.root(1)
    before = torch.get_rng_state()
    with key.ambient():
        one = torch.rand(4)
    with suppress(ZeroDivisionError), key.ambient():
        assert torch.equal(torch.rand(4), one)
        _ = 1 / 0
    assert torch.equal(torch.get_rng_state(), before)
