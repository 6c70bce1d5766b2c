"""Reading histograms, drawing, the page and the command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure

from potluck.cli.skew import skew as command
from potluck.data.dataset import Dataset
from potluck.errors import BadInputError
from potluck.federation import Split, build
from potluck.key import Key
from potluck.partition import Degenerate, Dirichlet, Iid
from potluck.shift import Relabel
from potluck.skew.advice import advise
from potluck.skew.draw import figures
from potluck.skew.histogram import read_histogram
from potluck.skew.measure import Skew, describe, from_histogram
from potluck.skew.page import page, save, write
from potluck.skew.picture import png, svg, svg_file
from potluck.skew.record import record

COUNTS = [[10, 0, 3], [0, 7, 1]]


@pytest.mark.parametrize(
    ("name", "text", "names"),
    [
        ("a.csv", "10,0,3\n0,7,1\n", ()),
        ("b.csv", "cat,dog,bird\n10,0,3\n\n0,7,1\n", ("cat", "dog", "bird")),
        ("c.csv", "client,cat,dog,bird\nberlin,10,0,3\nparis,0,7,1\n", ("cat", "dog", "bird")),
        ("d.csv", "client,0,1,2\n0,10,0,3\n1,0,7,1\n", ("0", "1", "2")),
        ("e.csv", "berlin,10,0,3\nparis,0,7,1\n", ()),
        ("f.json", "[[10,0,3],[0,7,1]]", ()),
        ("g.json", '{"counts": [[10,0,3],[0,7,1]], "classes": ["cat","dog","bird"]}', ("cat", "dog", "bird")),
        (
            "h.json",
            '{"berlin": {"cat": 10, "bird": 3, "dog": 0}, "paris": {"dog": 7, "bird": 1}}',
            ("cat", "bird", "dog"),
        ),
    ],
)
def test_histograms_are_read(tmp_path: Path, name: str, text: str, names: tuple[str, ...]) -> None:
    file = tmp_path / name
    file.write_text(text)
    found = read_histogram(file)
    order = [0, 2, 1] if name == "h.json" else [0, 1, 2]
    assert found.counts.tolist() == np.array(COUNTS)[:, order].tolist()
    assert found.class_names == names
    assert found.name == name[0]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "", "holds no counts"),
        ("a.csv", "1,2\n3\n", "client 1 has 1 classes, but client 0 has 2"),
        ("a.csv", "1,2\n3,x\n", "client 1: 'x' is not a count"),
        ("a.csv", "1,-2\n3,4\n", "client 0 has -2"),
        ("a.json", "{", "is not valid JSON"),
        ("a.json", "3", "or a list of lists"),
        ("a.json", '{"a": 3}', 'give {"client": {"class": count}}'),
        ("a.json", "[[1, null]]", "None is not a count"),
        ("a.json", "[[0, 0]]", "no client has any rows"),
    ],
)
def test_bad_histogram_files_are_refused(tmp_path: Path, name: str, text: str, words: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(BadInputError, match=re.escape(words)) as raised:
        read_histogram(file)
    assert str(raised.value).startswith(str(file))
    with pytest.raises(BadInputError, match="cannot be read"):
        read_histogram(tmp_path / "none.csv")


def many(clients: int, classes: int = 10) -> Skew:
    draw = np.random.default_rng(0)
    return from_histogram(draw.multinomial(50, np.full(classes, 1 / classes), size=clients))


@pytest.mark.parametrize("clients", [1, 10, 100, 300])
def test_pictures_are_drawn_for_few_and_many(clients: int) -> None:
    again = figures(many(clients))
    for name, figure in figures(many(clients)).items():
        assert isinstance(figure, Figure)
        text = svg(figure, name)
        assert text.startswith("<svg")
        assert text == svg(again[name], name)
        assert png(figure).startswith(b"\x89PNG")
        assert "currentColor" in text
        assert "prefers-color-scheme" in svg_file(figure, name)


def test_the_page_holds_everything_and_needs_no_network(tmp_path: Path, blobs: Dataset) -> None:
    federation = build(
        blobs, Dirichlet(clients=8, beta=0.5), [Relabel(classes=4, by=2)], Split(), Key.root(0)
    )
    measured = describe(federation)
    advice = advise(measured)
    drawn = figures(measured, federation)
    assert set(drawn) == {"classes", "divergence", "sizes", "inputs", "samples"}
    written = write(tmp_path / "out", measured, advice, drawn)
    text = written.read_text()
    assert advice.verdict in text
    assert all(method.title in text and method.reference in text for method in advice.methods)
    assert text.count("<figure>") == 5
    addresses = set(re.findall(r'(?:src|href)="([^#"][^"]{0,12})', text))
    assert all(address.startswith("data:") for address in addresses)
    assert "<script" not in text
    left = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert left == sorted(
        ["skew.html", *(f"skew-{name}.{kind}" for name in drawn for kind in ("svg", "png"))]
    )


@pytest.mark.parametrize(
    ("shape", "clients"), [((6, 6), 4), ((2, 6, 6), 4), ((5,), 4), ((5,), 210), ((1, 4, 4), 201)]
)
def test_every_shape_of_inputs_and_number_of_clients_has_pictures(
    shape: tuple[int, ...], clients: int
) -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(3 * clients, *shape)).astype(np.float32)
    data = Dataset("noise", x, draw.integers(0, 3, 3 * clients), 3)
    federation = build(data, Iid(clients=clients), [], Split(), Key.root(0))
    measured = describe(federation)
    assert measured.features is not None
    drawn = figures(measured, federation)
    assert ("samples" in drawn) == (len(shape) > 1)
    assert "<svg" in page(measured, advise(measured), drawn)


def test_names_from_outside_are_escaped() -> None:
    measured = from_histogram(COUNTS, "<b>&", ("<i>", "b", "c"))
    text = page(measured, advise(measured), figures(measured))
    assert "<b>&" not in text
    assert "&lt;b&gt;&amp;" in text
    assert "<i>" not in text


def test_awkward_federations_have_a_page(blobs: Dataset) -> None:
    federation = build(blobs, Degenerate(), [], Split(), Key.root(0))
    measured = describe(federation)
    text = page(measured, advise(measured), figures(measured, federation))
    assert ">nan<" not in text
    json.dumps(record(measured, advise(measured)), allow_nan=False)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    file = save(tmp_path / "a.html", b"old")
    with pytest.raises(TypeError):
        save(file, None)  # type: ignore[arg-type]
    assert file.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


def experiment(folder: Path, partition: str) -> Path:
    file = folder / "try.toml"
    file.write_text(f'name = "try"\ndata = {{ name = "digits" }}\npartition = {{ {partition} }}\n')
    return file


def test_the_command_measures_an_experiment(tmp_path: Path) -> None:
    file = experiment(tmp_path, 'name = "dirichlet", alpha = 0.5, clients = 5')
    result = CliRunner().invoke(command, [str(file), "--out", str(tmp_path / "out")], catch_exceptions=False)
    assert result.exit_code == 0
    assert "strong label skew" in result.output
    assert "FedDisco" in result.output
    assert (tmp_path / "out" / "skew.html").exists()
    changed = [str(file), "--set", "partition.alpha=1000.0", "--json"]
    other = json.loads(CliRunner().invoke(command, changed, catch_exceptions=False).stdout)
    assert other["clients"] == 5
    assert other["kinds"] == []
    assert other["verdict"].startswith("no skew worth acting on")
    assert np.array(other["histogram"]).sum() == sum(other["rows"])


def test_the_command_takes_every_form_of_configuration(tmp_path: Path) -> None:
    for partition in (
        'name = "grouped", groups = [{ clients = 2, beta = 50 }, { clients = 3, alpha = 0.5 }]',
        'name = "niid1", variant = "delft"',
        'name = "niid2"',
        'name = "shards", clients = 5, cut = "sorted"',
        'name = "quantity", beta = 0.5, clients = 5',
        'name = "degenerate"',
    ):
        result = CliRunner().invoke(
            command, [str(experiment(tmp_path, partition)), "--json"], catch_exceptions=False
        )
        assert json.loads(result.stdout)["clients"] >= 5


@pytest.mark.parametrize(
    ("partition", "words"),
    [
        ('name = "dirichlet", clients = 0, beta = 1', "partition.clients"),
        ('name = "dirichlet", clients = 5, beta = 1, alpha = 1', "partition.beta"),
        ('name = "dirichlet", clients = 5, beta = -1', "partition.beta"),
        ('name = "grouped", groups = [{ clients = 2, gamma = 1 }]', "gamma"),
        ('name = "by_group", column = "writer"', "no group column 'writer'"),
    ],
)
def test_the_command_refuses_bad_configurations(tmp_path: Path, partition: str, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        CliRunner().invoke(command, [str(experiment(tmp_path, partition))], catch_exceptions=False)


def test_the_command_measures_histograms(tmp_path: Path) -> None:
    file = tmp_path / "hist.csv"
    file.write_text("10,0\n0,10\n5,5\n")
    result = CliRunner().invoke(command, [str(file)], catch_exceptions=False)
    assert "label skew" in result.output
    with pytest.raises(BadInputError, match="holds histograms"):
        CliRunner().invoke(command, [str(file), "--set", "a=1"], catch_exceptions=False)
