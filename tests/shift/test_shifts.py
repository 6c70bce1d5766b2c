"""Shifts: SC-4, SC-5, SC-12, and the two populations of SC-16."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from potluck.data.dataset import Dataset
from potluck.errors import BadInputError
from potluck.federation import Federation, Shift, Split, build
from potluck.key import Key
from potluck.partition import Dirichlet, Iid
from potluck.shift import SHIFTS, Intensity, LabelNoise, Noise, Relabel, Rotate
from potluck.table import Table


def grey(rows: int = 300, side: int = 16, seed: int = 0) -> Table:
    draw = np.random.default_rng(seed)
    x = torch.from_numpy(draw.uniform(0.3, 0.7, (rows, 1, side, side)).astype(np.float32))
    return Table(x, torch.from_numpy(draw.integers(0, 10, rows)))


def measured_variance(shift: Noise, client: int, clients: int) -> float:
    table = grey()
    shifted = shift(table, client, clients, Key.root(1) / "client" / client)
    return float((shifted.x - table.x).double().var())


def test_sc4_variance_of_client_i_is_sigma_i_over_n() -> None:
    found = [measured_variance(Noise(variance=0.1), client, 10) for client in range(10)]
    assert found == pytest.approx([0.1 * i / 10 for i in range(1, 11)], rel=0.03)
    assert found == sorted(found)


def test_sc4_the_reading_of_the_published_code() -> None:
    noise = Noise(variance=0.1, reading="niid_code")
    found = [measured_variance(noise, client, 6) for client in range(6)]
    assert found[0] == 0
    assert found == pytest.approx([(0.1 * i / 5) ** 2 for i in range(6)], rel=0.03)
    assert measured_variance(noise, 0, 1) == 0


def test_sc12_feddisk() -> None:
    noise = Noise(variance=0.3, reading="feddisk")
    for client in (1, 50, 99):
        assert noise.deviation(client, 100) ** 2 == pytest.approx(client * 0.3 / 100)
    clear = Noise(variance=0.3, reading="feddisk", clip=False)
    assert measured_variance(clear, 50, 100) == pytest.approx(0.15, rel=0.03)
    table = grey()
    shifted = [noise(table, client, 100, Key.root(0) / client) for client in (0, 10, 40, 99)]
    assert torch.equal(shifted[0].x, table.x)
    share = [float(((part.x == 0) | (part.x == 1)).double().mean()) for part in shifted]
    assert share == sorted(share)
    assert share[0] == 0
    assert share[-1] > 0.2
    assert all(float(part.x.min()) >= 0 and float(part.x.max()) <= 1 for part in shifted)


def test_sc12_the_other_word_for_it_and_the_split() -> None:
    for client in (0, 7, 99):
        assert (
            Noise(variance=0.3, reading="feddisk", noise_is="std").deviation(client, 100)
            == 0.3 * client / 100
        )
    assert Noise(variance=0.1, noise_is="std").deviation(4, 10) == pytest.approx(0.05)
    draw = np.random.default_rng(2)
    images = draw.uniform(0.3, 0.7, (1200, 1, 8, 8)).astype(np.float32)
    data = Dataset("toy", images, draw.integers(0, 10, 1200), 10)
    split, key = Split(val=0, test=0.15), Key.root(0)
    clean, noisy = (
        build(data, Iid(clients=2), shifts, split, key)
        for shifts in ([], [Noise(variance=0.3, reading="feddisk")])
    )
    for holder in noisy.holders:
        assert (len(holder.train), len(holder.val), len(holder.test)) == (510, 0, 90)
    assert torch.equal(clean.holders[0].test.x, noisy.holders[0].test.x)
    added = (noisy.holders[1].test.x - clean.holders[1].test.x).double().var()
    assert float(added) == pytest.approx(0.003, rel=0.05)


def test_noise_leaves_labels_and_order_and_repeats() -> None:
    table, key = grey(), Key.root(3)
    one, two = (Noise()(table, 2, 5, key) for _ in range(2))
    assert torch.equal(one.x, two.x)
    assert torch.equal(one.y, table.y)
    assert not torch.equal(one.x, Noise()(table, 2, 5, key / "other").x)
    assert torch.equal(table.x, grey().x)


def test_clip_refuses_normalised_inputs() -> None:
    table = Table(grey().x * 4 - 2, grey().y)
    with pytest.raises(BadInputError, match=r"shifts\.noise\.clip: inputs of client 3 lie outside \[0, 1\]"):
        Noise(clip=True)(table, 3, 5, Key.root(0))
    with pytest.raises(BadInputError, match="variance: must be a number from 0"):
        Noise(variance=-1)


def pool() -> Dataset:
    draw = np.random.default_rng(5)
    return Dataset(
        "toy", draw.integers(0, 256, (600, 1, 8, 8)).astype(np.uint8), draw.integers(0, 10, 600), 10
    )


def test_sc5_mixed_is_the_composition() -> None:
    data, scheme, key = pool(), Dirichlet(clients=5, beta=0.5), Key.root(4)
    plain = build(data, scheme, [], Split(), key)
    noisy = build(data, scheme, [Noise(variance=0.1)], Split(), key)
    iid = build(data, Iid(clients=5), [Noise(variance=0.1)], Split(), key)
    assert np.array_equal(plain.histogram(), noisy.histogram())
    assert plain.digest() == noisy.digest() != iid.digest()
    for client in range(5):
        for part in ("train", "val", "test"):
            clean, shifted = (getattr(f.holders[client], part) for f in (plain, noisy))
            if len(clean) > 20:
                difference = (shifted.x - clean.x).double().var()
                assert float(difference) == pytest.approx(0.1 * (client + 1) / 5, rel=0.15)


def test_two_populations_rename_the_labels_of_the_second_half() -> None:
    table = grey()
    first, second = (Relabel()(table, client, 10, Key.root(0)) for client in (4, 5))
    assert torch.equal(first.y, table.y)
    assert torch.equal(second.y, (table.y + 5) % 10)
    assert torch.equal(second.x, table.x)
    only = Relabel(only=(1,), by=1)
    assert [torch.equal(only(table, client, 3, Key.root(0)).y, table.y) for client in range(3)] == [
        True,
        False,
        True,
    ]


def test_label_noise_hits_its_rate_with_another_class() -> None:
    table = Table(torch.zeros(20_000, 1), torch.arange(20_000) % 10)
    noisy = LabelNoise(rate=0.3)(table, 0, 1, Key.root(0))
    changed = noisy.y != table.y
    assert float(changed.double().mean()) == pytest.approx(0.3, rel=0.05)
    moved = torch.bincount((noisy.y - table.y)[changed] % 10, minlength=10)
    assert int(moved[0]) == 0
    assert float(moved[1:].double().std() / moved[1:].double().mean()) < 0.1
    assert torch.equal(LabelNoise(share=0.5)(table, 0, 2, Key.root(0)).y, table.y)


def test_rotation_and_intensity() -> None:
    table = grey(10)
    turned = Rotate()(table, 1, 4, Key.root(0))
    assert torch.equal(turned.x[3, 0], torch.rot90(table.x[3, 0]))
    assert torch.equal(Rotate(turns=2)(table, 2, 4, Key.root(0)).x, table.x)
    bright = Intensity()(table, 0, 2, Key.root(1)).x
    slope = (bright.max() - bright.min()) / (table.x.max() - table.x.min())
    assert 0.5 <= float(slope) <= 1.5
    corners = np.corrcoef(bright.flatten().numpy(), table.x.flatten().numpy())
    assert corners[0, 1] == pytest.approx(1)


@pytest.mark.parametrize(
    ("shift", "table", "words"),
    [
        (Rotate(), Table(torch.zeros(3, 4), torch.zeros(3)), "only images can be turned"),
        (Rotate(), Table(torch.zeros(3, 1, 4, 5), torch.zeros(3)), "only square images"),
        (Relabel(classes=4), grey(), "set it to the number of classes"),
        (Relabel(), Table(torch.zeros(3, 4), torch.zeros(3)), "no classes to rename"),
        (Relabel(only=(9,)), grey(), "there is no client 9; clients are 0 to 1"),
        (Relabel(share=2), grey(), "share: must be between 0 and 1"),
        (LabelNoise(), Table(torch.zeros(3, 4), torch.zeros(3)), "no classes to exchange"),
    ],
)
def test_bad_input_is_refused(shift: Shift, table: Table, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        shift(table, 1, 2, Key.root(0))


@given(rows=st.integers(0, 5), client=st.integers(0, 6), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_every_shift_keeps_rows_shapes_and_types(rows: int, client: int, seed: int) -> None:
    table = grey(rows, 4, seed)
    for factory in SHIFTS.values():
        shifted = factory()(table, client, 7, Key.root(seed))
        again = factory()(table, client, 7, Key.root(seed))
        assert shifted.x.shape == table.x.shape
        assert (shifted.x.dtype, shifted.y.dtype) == (torch.float32, torch.int64)
        assert torch.equal(shifted.x, again.x)
        assert torch.equal(shifted.y, again.y)


def test_global_streams_are_left_alone() -> None:
    before = torch.get_rng_state()
    federation: Federation = build(
        pool(), Iid(clients=3), [factory() for factory in SHIFTS.values()], Split(), Key.root(0)
    )
    assert len(federation) == 3
    assert torch.equal(before, torch.get_rng_state())
