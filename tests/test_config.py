"""Experiment files: a configuration is a call, complaints carry their path, and nothing is lost on the way back."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from potluck.algorithms import ALGORITHMS, RATIOS
from potluck.average import Average
from potluck.config import Experiment, experiment, load
from potluck.errors import BadInputError
from potluck.partition import PARTITIONS

EVERYTHING = """
name = "all keys"
seeds = [3, 1]
participation = 0.5
on_error = "skip"
data = { name = "digits" }
split = { val = 0.2, test = 0.1 }
partition = { name = "dirichlet", beta = 0.3, clients = 4 }
shifts = [{ name = "noise", variance = 0.1 }]
model = { name = "mlp", hidden = [8] }
topology = { name = "ring" }
evaluate = { every = 2, who = "none", tests = ["global"] }
stragglers = { share = 0.1 }
faults = { lost = 0.1, late = 0.1, crash = 0.1, hostile = 0.25 }
checkpoint = { every = 2 }

[algorithm]
name = "fedprox"
rounds = 3
mu = 0.1
weigh = { name = "uniform" }
fit = { optimizer = "adam", lr = 0.001, batch = "all" }
"""


def made(**changes: Any) -> Experiment:
    return experiment({"name": "t", **changes})


def test_an_experiment_needs_a_name_only() -> None:
    defaults = made()
    assert defaults.seeds == [0]
    assert defaults.resolved()["algorithm"]["fit"]["lr"] == 0.01
    assert len(defaults.world(0).federation) > 1


def test_the_resolved_configuration_says_everything_and_reads_back(tmp_path: Path) -> None:
    file = tmp_path / "all.toml"
    file.write_text(EVERYTHING)
    first = load(file)
    file.write_text(first.toml())
    again = load(file)
    assert again.resolved() == first.resolved()
    assert again.digest() == first.digest()
    assert again.build_algorithm() == first.build_algorithm()
    stage = first.build_algorithm().stages[-1]
    assert isinstance(stage, Average)
    assert (stage.rounds, stage.fit.batch, stage.fit.optimizer) == (3, "all", "adam")
    assert type(stage.weigh).__name__ == "Uniform"


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_algorithm_reads_back_from_its_resolved_form(name: str) -> None:
    first = made(algorithm={"name": name})
    again = experiment(tomllib.loads(first.toml()))
    assert again.build_algorithm() == first.build_algorithm()
    assert again.digest() == first.digest()


@pytest.mark.parametrize("name", sorted(RATIOS))
def test_every_density_ratio_reads_back_from_its_resolved_form(name: str) -> None:
    first = made(algorithm={"name": "feddisk", "ratio": {"name": name}})
    again = experiment(tomllib.loads(first.toml()))
    assert again.build_algorithm() == first.build_algorithm()
    assert again.digest() == first.digest()


def test_the_digest_sees_what_decides_a_number_and_only_that() -> None:
    digest = made().digest()
    assert made(seeds=[4], checkpoint={"every": 9}).digest() == digest
    assert made(algorithm={"name": "fedavg", "rounds": 10}).digest() == digest
    for change in (
        {"participation": 0.9},
        {"algorithm": {"name": "fedavg", "fit": {"lr": 0.02}}},
        {"partition": {"name": "iid", "clients": 3}},
        {"faults": {"lost": 0.1}},
        {"split": {"val": 0.0}},
    ):
        assert made(**change).digest() != digest


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"algorithm": {"name": "fedavg", "fit": {"lr": -1}}}, r"^algorithm\.fit\.lr: must be > 0, got -1$"),
    (
        {"algorithm": {"name": "fedavg", "fit": {"lr": "fast"}}},
        r"^algorithm\.fit\.lr: must be a number, got 'fast'$",
    ),
    (
        {"algorithm": {"name": "fedavgg"}},
        r"^algorithm\.name: unknown algorithm 'fedavgg'; did you mean fedavg",
    ),
    ({"algorithm": {"name": "fedavg", "lr": 0.1}}, r"^algorithm\.lr: no such key; did you mean fit\.lr\?$"),
    ({"algorithm": {"name": "fedavg", "fit": {"epoch": 1}}}, r"^algorithm\.fit\.epoch: no such key.*epochs"),
    ({"algorithm": {"name": "fedavg", "rounds": 0}}, r"^algorithm\.rounds: must be >= 1, got 0$"),
    (
        {"algorithm": {"name": "fedavg", "weigh": {"name": "row"}}},
        r"^algorithm\.weigh\.name: unknown weigh 'row'",
    ),
    (
        {"algorithm": {"name": "fedavg", "fit": {"batch": 0}}},
        r"^algorithm\.fit\.batch: must be >= 1 or 'all', got 0$",
    ),
    (
        {"algorithm": {"name": "fedavg", "rounds": 2.5}},
        r"^algorithm\.rounds: must be a whole number, got 2\.5$",
    ),
    ({"algorithm": "fedavg"}, r"^algorithm: must be a table such as \{ name = \"\.\.\.\" \}, got 'fedavg'$"),
    ({"data": list(range(99))}, r"^data: must be a table such as .{80,90} \.\.\.$"),
    ({"name": "a/b"}, r"^name: must be letters, digits, .*, got 'a/b'$"),
    ({"faults": {"lots": 1}}, r"^faults\.lots: no such key$"),
    ({"faults": 3}, r"^faults: must be a table, got 3$"),
    ({"algorithm": {"rounds": 3}}, r"^algorithm: must be a table with a name"),
    ({"model": {"name": "mpl"}}, r"^model\.name: unknown model 'mpl'; did you mean mlp\?$"),
    ({"model": {"name": "mlp", "hidden": [0]}}, r"^model\.hidden"),
    ({"data": {"name": "mnits"}}, r"^data\.name: unknown data 'mnits'; did you mean mnist"),
    ({"partition": {"name": "dirichlet", "beta": 0, "clients": 3}}, r"^partition\.beta: must be > 0, got 0"),
    ({"partition": {"name": "iid", "clients": 0}}, r"^partition\.clients: must be >= 1, got 0$"),
    ({"shifts": [{"name": "noise", "variance": -1}]}, r"^shifts\.0\.variance"),
    ({"topology": {"name": "rign"}}, r"^topology\.name: unknown topology 'rign'; did you mean ring"),
    ({"split": {"val": 0.9, "test": 0.9}}, r"^split: val 0\.9 and test 0\.9 must leave rows to train on$"),
    ({"split": {"vla": 0.1}}, r"^split\.vla: no such key"),
    ({"participation": 0}, r"^participation: must be > 0, got 0$"),
    ({"participation": 1.5}, r"^participation: must be <= 1, got 1\.5$"),
    ({"seeds": []}, r"^seeds: must be a list that is not empty, got \[\]$"),
    ({"seeds": [1, 1]}, r"^seeds: must be different numbers, got \[1, 1\]$"),
    ({"seeds": [-1]}, r"^seeds\.0: must be >= 0, got -1$"),
    ({"evaluate": {"every": 0}}, r"^evaluate\.every: must be >= 1, got 0$"),
    ({"evaluate": {"evry": 2}}, r"^evaluate\.evry: "),
    ({"faults": {"lost": 2}}, r"^faults\.lost: must be <= 1, got 2$"),
    (
        {"partitoin": {"name": "iid"}},
        r"^partitoin: unknown key 'partitoin'; did you mean partition or participation\?$",
    ),
    ({"name": "../up"}, r"^name: "),
    ({"on_error": "go on"}, r"^on_error: must be 'stop' or 'skip', got 'go on'$"),
]


@pytest.mark.parametrize(("change", "complaint"), WRONG)
def test_complaints_are_one_sentence_with_a_path(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(BadInputError, match=complaint) as caught:
        made(**change)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("key", "value"), [("name", "t")])
def test_a_name_is_needed(key: str, value: str) -> None:
    with pytest.raises(BadInputError, match=r"^name: "):
        experiment({})
    assert experiment({key: value}).name == value


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name = ", r"bad\.toml: is not valid TOML"),
        ('name = "a"\nparticipation = 2', r"bad\.toml: participation: must be <= 1, got 2"),
        (b"\xff\xfe", r"bad\.toml: is not a TOML file"),
        (None, r"bad\.toml: no such file"),
    ],
)
def test_the_file_is_named(tmp_path: Path, text: str | bytes | None, complaint: str) -> None:
    file = tmp_path / "bad.toml"
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(BadInputError, match=complaint):
        load(file)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="is not a TOML file"):
        load(tmp_path)


def test_overrides_reach_every_depth(tmp_path: Path) -> None:
    file = tmp_path / "all.toml"
    file.write_text(EVERYTHING)
    overrides = ["algorithm.fit.lr=0.5", "seeds=[7]", "shifts.0.variance=0.3", "algorithm.name=fedprox"]
    changed = load(file, [*overrides, "data.name=digits", "stragglers.share=0"])
    resolved = changed.resolved()
    assert resolved["algorithm"]["fit"]["lr"] == 0.5
    assert changed.seeds == [7]
    assert resolved["shifts"][0]["variance"] == 0.3
    assert resolved["stragglers"]["share"] == 0


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("participation", "must be path=value"),
        ("=3", "must be path=value"),
        ("name.deep=3", "'name' is not a table"),
        ("shifts.4.variance=3", "the list has 1 entries|'4' is not a table"),
        ("algorithm.fit.lr=-1", r"algorithm\.fit\.lr: must be > 0, got -1"),
    ],
)
def test_a_wrong_override_is_named(tmp_path: Path, override: str, complaint: str) -> None:
    file = tmp_path / "all.toml"
    file.write_text(EVERYTHING)
    with pytest.raises(BadInputError, match=complaint):
        load(file, [override])


def test_variants_share_what_they_can() -> None:
    base = made(
        algorithm={"name": "fedavg", "rounds": 7, "fit": {"lr": 0.3, "batch": 5}},
        compare=[{"name": "fedprox", "mu": 0.1, "fit": {"lr": 0.2}}, {"name": "alone", "label": "by itself"}],
    )
    variants = base.variants()
    assert list(variants) == ["fedprox", "by itself"]
    assert variants["fedprox"].resolved()["algorithm"]["rounds"] == 7
    assert variants["fedprox"].resolved()["algorithm"]["fit"]["lr"] == 0.2
    assert variants["fedprox"].resolved()["algorithm"]["fit"]["batch"] == 5
    assert list(base.variants(["fedavg", "pooled"])) == ["fedavg", "pooled"]
    assert list(made().variants()) == ["fedavg"]


@pytest.mark.parametrize(
    ("entries", "complaint"),
    [
        (["fedavg", "fedavg"], "two entries are called 'fedavg'; give one a label"),
        ([{"name": "fedavg", "label": "../up"}], "names a folder"),
        ([{"name": "fedavg", "label": "a/b"}], "names a folder"),
        (["fedavgg"], "unknown algorithm 'fedavgg'"),
        ([{"label": "x"}], "algorithm: must be a table with a name"),
    ],
)
def test_wrong_variants_are_named(entries: list[Any], complaint: str) -> None:
    with pytest.raises(BadInputError, match=complaint):
        made(compare=entries).variants()


def test_tests_that_the_data_lack_are_named() -> None:
    with pytest.raises(
        BadInputError, match=r"^evaluate\.tests: unknown test 'globul'; did you mean global\?$"
    ):
        made(evaluate={"tests": ["globul"]}).world(0)


def test_initial_weights_come_from_a_file_that_fits(tmp_path: Path) -> None:
    settings = {"model": {"name": "softmax"}}
    model = made(**settings).world(0).model
    params = {name: torch.full_like(slot.detach(), 0.5) for name, slot in model.slots.items()}
    file = tmp_path / "init.safetensors"
    save_file(params, file)
    given = made(**settings, init=str(file))
    world = given.world(0)
    first = world.site(0, "server").first()
    assert all(torch.equal(first[name], leaf) for name, leaf in params.items())
    digest = given.digest()
    save_file({name: leaf + 1 for name, leaf in params.items()}, file)
    assert given.digest() != digest
    save_file({name: leaf[..., :1].contiguous() for name, leaf in params.items()}, file)
    with pytest.raises(BadInputError, match=r"init\.safetensors does not fit the model in head"):
        given.world(0)
    file.write_bytes(b"nothing of the kind")
    with pytest.raises(BadInputError, match="is not a readable safetensors file"):
        given.world(0)


@pytest.mark.parametrize("name", sorted(PARTITIONS))
def test_partitions_are_refused_with_a_path(name: str) -> None:
    with pytest.raises(BadInputError, match=r"partition\.nothing: no such key"):
        made(partition={"name": name, "nothing": 1})
