"""Make the page of scenarios: `--measure` (needs the data) writes a record; pictures and text are drawn from it.

    python docs/make_scenarios.py                            # docs/pictures/scenarios/*.svg and docs/scenarios.md
    python docs/make_scenarios.py --measure --data-dir DIR   # docs/pictures/scenarios/record.json before that

No figure on the page is typed: every number comes from the record, and the record from the experiments below.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tomli_w
from matplotlib.figure import Figure

from potluck.config import experiment
from potluck.data.places import Places
from potluck.skew.advice import advise
from potluck.skew.draw import classes, inputs, sizes
from potluck.skew.feature import Features
from potluck.skew.measure import Skew, describe, from_histogram
from potluck.skew.page import save
from potluck.skew.picture import svg_file
from potluck.skew.record import record, summary

HERE = Path(__file__).resolve().parent
PICTURES = HERE / "pictures" / "scenarios"
RECORD = PICTURES / "record.json"
PAGE = HERE / "scenarios.md"
SEED = 0

Json = Mapping[str, object]


class Scenario(NamedTuple):
    """One scenario: its number in the catalogue, what it is, which pictures show it, and its experiment."""

    number: str
    title: str
    about: str
    pictures: tuple[str, ...]
    table: Mapping[str, object]


def _table(data: str | Json, partition: Json, *shifts: Json) -> Mapping[str, object]:
    named = {"name": data} if isinstance(data, str) else data
    return {"data": named, "partition": partition, **({"shifts": list(shifts)} if shifts else {})}


NOISE = {"name": "noise", "variance": 0.1}
MIXED_GROUPS = [{"clients": 2, "beta": 50.0}, {"clients": 8, "beta": 0.5}]
SCENARIOS = (
    Scenario(
        "SC-1", "IID", "A random permutation cut into even parts: clients differ by chance only.",
        ("classes",), _table("mnist", {"name": "iid", "clients": 30}),
    ),
    Scenario(
        "SC-2", "Label skew", "Every class is dealt in shares from a Dirichlet distribution.",
        ("classes",), _table("cifar10", {"name": "dirichlet", "clients": 30, "beta": 0.5}),
    ),
    Scenario(
        "SC-3", "Quantity skew", "Sizes from a Dirichlet distribution, rows at random.",
        ("sizes",), _table("cifar10", {"name": "quantity", "clients": 30, "beta": 0.5}),
    ),
    Scenario(
        "SC-4", "Feature skew", "An IID split; client i of N adds noise of variance 0.1 i / N to its images.",
        ("inputs",), _table("cifar10", {"name": "iid", "clients": 30}, NOISE),
    ),
    Scenario(
        "SC-5", "Mixed skew", "The rows of SC-2 with the noise of SC-4.",
        ("classes", "inputs"), _table("cifar10", {"name": "dirichlet", "clients": 30, "beta": 0.5}, NOISE),
    ),
    Scenario(
        "SC-6", "Strong label skew", "The FedEP thesis' pure setting with ten clients; alpha is another name for beta.",
        ("classes",), _table("mnist", {"name": "dirichlet", "clients": 10, "alpha": 0.1}),
    ),
    Scenario(
        "SC-7", "Groups of different skew", "Two nearly even clients and eight skewed ones.",
        ("classes",), _table("mnist", {"name": "grouped", "groups": MIXED_GROUPS}),
    ),
    Scenario(
        "SC-8", "NIID-1", "FedDisco's first setting: ten clients, Dirichlet 0.5.",
        ("classes",), _table("mnist", {"name": "niid1"}),
    ),
    Scenario(
        "SC-9", "NIID-2", "FedDisco's second setting: one unbiased client, five with two classes each.",
        ("classes",), _table("mnist", {"name": "niid2"}),
    ),
    Scenario(
        "SC-10", "Shards", "Each class cut into shards of 300 rows, two random shards a client.",
        ("classes",), _table("mnist", {"name": "shards", "clients": 100, "size": 300}),
    ),
    Scenario(
        "SC-11", "Two sources", "85 clients hold MNIST and 15 hold CIFAR-10 made grey and small; nobody holds both.",
        ("inputs",),
        _table("mnist-cifar", {"name": "shards", "clients": 100, "size": 350, "within": "source"}),
    ),
    Scenario(
        "SC-12", "Noise in steps", "FedDisk's setting: client k of 100 adds noise of variance 0.3 k / 100 and clips.",
        ("inputs",),
        _table(
            "mnist",
            {"name": "iid", "clients": 100},
            {"name": "noise", "variance": 0.3, "reading": "feddisk"},
        ),
    ),
    Scenario(
        "SC-13", "By writer", "The hundred complete writers of a FEMNIST subset with the most images, one client each.",
        ("inputs",),
        _table({"name": "femnist", "writers": 100, "test": "none"}, {"name": "by_group", "column": "writer"}),
    ),
    Scenario(
        "SC-14", "By source", "Chest X-rays of three sources (NIH stands in for Shenzhen), one source a client.",
        ("inputs",), _table("xray", {"name": "blocks", "column": "source", "size": 325}),
    ),
    Scenario(
        "SC-15", "Degenerate", "Four normal clients, then one class, one row, two rows, duplicates, and nothing.",
        ("classes",), _table("mnist", {"name": "degenerate", "size": 200}),
    ),
    Scenario(
        "SC-16", "Two populations", "The second half of the clients means label y + 5 where the first means y.",
        ("inputs",), _table("mnist", {"name": "iid", "clients": 10}, {"name": "relabel", "by": 5}),
    ),
)  # fmt: skip


def measure(places: Places) -> None:
    """Build every federation, measure it, and write the record."""
    found = {}
    for scenario in SCENARIOS:
        federation = experiment({"name": scenario.number, **scenario.table}).federation(SEED, places)
        measured = describe(federation)
        written = {
            key: value for key, value in record(measured, advise(measured)).items() if key != "methods"
        }
        found[scenario.number] = _rounded(written)
        print(scenario.number, advise(measured).verdict)
    PICTURES.mkdir(parents=True, exist_ok=True)
    save(RECORD, (json.dumps({"seed": SEED, "scenarios": found}, separators=(",", ":")) + "\n").encode())


def draw() -> None:
    """Draw every scenario's picture and write the page."""
    stored = json.loads(RECORD.read_text())["scenarios"]
    for scenario in SCENARIOS:
        for picture in scenario.pictures:
            drawn = svg_file(_figure(picture, restored(stored[scenario.number])), picture)
            save(PICTURES / _file(scenario, picture), drawn.encode())
    save(PAGE, page(stored).encode())


def page(stored: Mapping[str, Mapping[str, object]]) -> str:
    """Return the page's text from the record."""
    lines = [
        "# Scenarios",
        "",
        "Sixteen ways in which clients can differ. Each is a few lines of an experiment file; `potluck skew FILE`",
        "measures any of them (or your own), draws it, and names the methods made for it. Save the lines under the",
        "name in the command to make the same measures and pictures; the command writes more than is shown here.",
        f"This page is made by `python docs/make_scenarios.py` from a stored record of seed {SEED}.",
        "",
        "KL is the divergence of a client's class shares from those of all rows, in nats; in brackets what chance",
        "alone gives for clients of these sizes.",
        "",
        "| scenario | clients | mean KL (chance) | size CV | label overlap | verdict |",
        "|---|---|---|---|---|---|",
    ]
    for scenario in SCENARIOS:
        skew, verdict = restored(stored[scenario.number]), str(stored[scenario.number]["verdict"])
        link = f"[{scenario.number} {scenario.title}](#{_anchor(scenario)})"
        lines.append(
            f"| {link} | {skew.clients} | {skew.mean_kl:.3f} ({skew.mean_floor:.3f}) | {skew.size_cv:.2f} "
            f"| {skew.overlap:.2f} | {verdict.split(':')[0]} |"
        )
    for scenario in SCENARIOS:
        lines += _section(scenario, stored[scenario.number])
    return "\n".join(lines) + "\n"


def _section(scenario: Scenario, stored: Mapping[str, object]) -> list[str]:
    """Return one scenario's part of the page."""
    skew = restored(stored)
    findings = stored["findings"]
    assert isinstance(findings, Sequence)
    name = scenario.number.lower()
    toml = tomli_w.dumps({"name": name, **scenario.table}).strip()
    return [
        "",
        f"## {scenario.number} {scenario.title}",
        "",
        scenario.about,
        "",
        "```toml",
        toml,
        "```",
        "",
        "```console",
        f"$ potluck skew {name}.toml --out {name}    # {_written(scenario)}",
        "```",
        "",
        *(
            f"![{scenario.title}: {picture} by client](pictures/scenarios/{_file(scenario, picture)})\n"
            for picture in scenario.pictures
        ),
        "| measure | value |",
        "|---|---|",
        *(f"| {measure_} | {value} |" for measure_, value in summary(skew).items()),
        "",
        *(f"* {finding['sentence']}" for finding in findings),
        f"* **{stored['verdict']}**",
    ]


def restored(stored: Mapping[str, object]) -> Skew:
    """Return the measures that a record holds."""
    features = None
    if stored["noise"] is not None:
        features = Features(
            noise=_floats(stored["noise"]),
            shift=_floats(stored["shift"]),
            groups=_floats(stored["groups"]).astype(np.int64),
            spread=float(str(stored["input_spread"])),
            chance=float(str(stored["shift_by_chance"])),
            jitter=float(str(stored["noise_by_chance"])),
        )
    counts = np.asarray(stored["histogram"], dtype=np.int64)
    names = stored["class_names"]
    assert isinstance(names, list)
    return from_histogram(counts, str(stored["name"]), tuple(names), features)


def _floats(values: object) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    assert isinstance(values, list)
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _figure(picture: str, skew: Skew) -> Figure:
    if picture == "inputs" and skew.features is not None:
        return inputs(skew.features)
    return sizes(skew) if picture == "sizes" else classes(skew)


def _file(scenario: Scenario, picture: str) -> str:
    """Name one picture of a scenario."""
    return f"{scenario.number.lower()}-{picture}.svg"


def _written(scenario: Scenario) -> str:
    """Name the files of the command that are shown."""
    return " ".join(f"{scenario.number.lower()}/skew-{picture}.svg" for picture in scenario.pictures)


def _anchor(scenario: Scenario) -> str:
    return f"{scenario.number} {scenario.title}".lower().replace(" ", "-")


def _rounded(value: object) -> object:
    """Round floats to six significant digits, which is more than the pictures and tables show."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value


def main() -> None:
    """Measure if asked to, and draw the page; what other makers are told is not for this one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--data-dir", action="append", default=[])
    given, _ = parser.parse_known_args()
    if given.measure:
        measure(Places.usual(given.data_dir))
    draw()


if __name__ == "__main__":
    main()
