"""The table of `docs/algorithms/fedavg.md`: averaging methods on two skews. `measure` makes the record.

    python docs/make_averaging.py measure DATA_DIR     # docs/records/averaging/accuracy.json, some minutes
    python docs/make_averaging.py                      # the table, from the record

FashionMNIST in the manner of the FedLoss thesis: 30 clients, 5 a round, rows split 70 : 10 : 20, five seeds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from blocks import HERE, RECORDS, fill, markdown

from potluck.config import experiment
from potluck.data.places import Places
from potluck.run import Options, compare_all

RECORD = RECORDS / "averaging" / "accuracy.json"
LAST = 5
SKEWS: Mapping[str, Mapping[str, object]] = {
    "label skew": {"name": "dirichlet", "beta": 0.5, "clients": 30},
    "quantity skew": {"name": "quantity", "beta": 0.5, "clients": 30},
}
METHODS: Mapping[str, Mapping[str, object]] = {
    "FedAvg": {"name": "fedavg"},
    "FedAvgM, beta 0.9": {"name": "fedavgm"},
    "FedAvgM, beta 0.5": {"name": "fedavgm", "beta": 0.5},
    "FedMedian": {"name": "fedmedian"},
    "FedProx, mu 0.01": {"name": "fedprox"},
    "FedDisco": {"name": "feddisco"},
    "FedLoss": {"name": "fedloss"},
    "FedLoss, loss_x_size": {"name": "fedloss", "weight_rule": "loss_x_size"},
    "FedLoss, loss_shrunk": {"name": "fedloss", "weight_rule": "loss_shrunk"},
    "FedLoss, global_model_before": {"name": "fedloss", "loss_of": "global_model_before"},
}


def measure(data: Path) -> None:
    """Run everything, and write down the mean accuracy of the last rounds of every seed."""
    record = {}
    for skew, partition in SKEWS.items():
        table = {
            "name": "averaging",
            "seeds": [0, 1, 2, 3, 4],
            "data": {"name": "fashion-mnist"},
            "partition": partition,
            "participation": 1 / 6,
            "model": {"name": "mlp", "hidden": [64]},
            "algorithm": {"name": "fedavg", "rounds": 30, "fit": {"lr": 0.1, "batch": 64, "epochs": 2}},
            "evaluate": {"who": "none"},
            "compare": [{"label": label, **method} for label, method in METHODS.items()],
        }
        with TemporaryDirectory() as folder:
            options = Options(places=Places.usual([data]))
            compare_all(experiment(table).variants(), Path(folder), options)
            record[skew] = {label: accuracies(Path(folder) / label / "records.jsonl") for label in METHODS}
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def accuracies(records: Path) -> list[float]:
    """Return the mean accuracy of the last rounds of every seed."""
    found: dict[int, list[float]] = {}
    for line in records.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if (row["stage"], row["what"]) == ("train", "global/accuracy"):
            found.setdefault(row["seed"], []).append(row["value"])
    return [float(np.mean(values[-LAST:])) for _, values in sorted(found.items())]


def main() -> None:
    """Fill in the table."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    rows = [
        [
            label,
            *(
                f"{100 * np.mean(record[skew][label]):.1f} ± {100 * np.std(record[skew][label]):.1f}"
                for skew in SKEWS
            ),
        ]
        for label in METHODS
    ]
    fill(HERE / "algorithms" / "fedavg.md", "averaging", markdown(["method", *SKEWS], rows))


if __name__ == "__main__":
    measure(Path(sys.argv[2])) if sys.argv[1:2] == ["measure"] else main()
