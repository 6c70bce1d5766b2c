"""The tables and pictures of `docs/fedex-results.md`, and the figures in `docs/algorithms/fedex.md`.

    python docs/make_fedex.py

Everything is read from docs/records: fedex-sc10-reduced, fedex-sc11-reduced and replication-mnist are stored runs,
fedex/gates.json, sources.json and memory.json come from `docs/fedex_measure.py`. Where one is missing, the page says
how to make it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from blocks import HERE, RECORDS, fill, markdown, picture
from fedex_paper import FLOOR, PUBLISHED, Published

from potluck.report import Run, open_runs
from potluck.report.series import curve

PAGE = HERE / "fedex-results.md"
METHOD = HERE / "algorithms" / "fedex.md"
GATES = ("online", "frozen", "mean", "learned", "oracle")
TESTS = {"sc10": ("global",), "sc11": ("global", "mnist", "cifar")}
FEDAVG = "fedavg"


def main() -> None:
    """Fill both pages."""
    for name, tests in TESTS.items():
        runs = stored(f"fedex-{name}-reduced")
        fill(PAGE, name, scenario(name, runs, tests) if runs else absent(f"fedex-{name}-reduced"))
    runs = stored("replication-mnist")
    fill(PAGE, "replication", replication(runs) if runs else absent("replication-mnist"))
    found = measured("sources")
    fill(PAGE, "sources", sources(found) if found else unmeasured("sources DATA_DIR"))
    found = measured("memory")
    fill(METHOD, "memory", memory(found) if found else unmeasured("memory DATA_DIR"))
    found = measured("gates")
    fill(METHOD, "gates", gates(found) if found else unmeasured("gates"))


def stored(name: str) -> Sequence[Run]:
    """Return the stored runs that are finished, in the order of the comparison; none where nothing was stored."""
    folder = RECORDS / name
    return open_runs([folder]) if folder.is_dir() and any(folder.iterdir()) else ()


def measured(name: str) -> dict[str, Any]:
    """Return a record of `fedex_measure.py`; empty where it was not made."""
    file = RECORDS / "fedex" / f"{name}.json"
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else {}


def absent(run: str) -> str:
    """Say how a stored run is made."""
    return (
        f"No record is stored yet. It is made with `potluck compare experiments/{run}.toml`, then "
        f"`python docs/store.py runs/{run} {run}`, then `make docs`."
    )


def unmeasured(what: str) -> str:
    """Say how a measured record is made."""
    return (
        f"No record is stored yet. It is made with `python docs/fedex_measure.py {what}`, then `make docs`."
    )


def last(run: Run, what: str, stage: str = "train") -> float | None:
    """Return a figure's mean over seeds at the end of a stage, or None where it was not recorded."""
    records = run.records
    found = []
    for seed in run.seeds:
        mask = records.what.equals(what) & records.stage.equals(stage) & records.merging()
        places = np.flatnonzero(mask & (records.seed == seed) & np.isfinite(records.number))
        if len(places):
            found.append(float(records.number[places[-1]]))
    return float(np.mean(found)) if found else None


def percent(value: float | None) -> str:
    """Return a share in %, or a dash."""
    return "-" if value is None else f"{100 * value:.2f}"


def scenario(name: str, runs: Sequence[Run], tests: Sequence[str]) -> str:
    """Return the table beside the paper's, what it says, and the pictures."""
    rows: list[list[str]] = []
    for run in runs:
        rows += lines(run, PUBLISHED[name], tests)
    heads = ["run", "what", "published (%)", "its loss says (%)", *(f"{test} (%)" for test in tests)]
    experts = [run for run in runs if run.label != FEDAVG]
    drawn = []
    for what, words in (
        (
            "clusters",
            "Clients in the spectral plane by cluster and by truth, and the classes of each cluster",
        ),
        ("experts", "Weights of the online gate, and accuracy of every expert and gate"),
    ):
        drawn.append(
            f"![{words}]({picture([run.path for run in experts], what, f'fedex-{name}-{what}.png')})"
        )
    return "\n\n".join([scale(runs), markdown(heads, rows), verdict(runs), *(drawn if experts else [])])


def scale(runs: Sequence[Run]) -> str:
    """Return the command and the seeds."""
    seeds = ", ".join(map(str, runs[0].seeds))
    missing = (
        ""
        if all(run.finished for run in runs)
        else " Some runs are not finished; their last scores stand here."
    )
    return f"`{runs[0].text('command')}`; seed {seeds}.{missing}"


def lines(run: Run, published: Published, tests: Sequence[str]) -> list[list[str]]:
    """Return the rows of one run: FedAvg's, or one for each expert and each gate."""
    if run.label == FEDAVG:
        told = [percent(last(run, f"{test}/accuracy")) for test in tests]
        return [["FedAvg", "one model", *cells(published.fedavg), *told]]
    many = sum(f"{tests[0]}/expert/{place}/accuracy" in run.records.what.names for place in range(64))
    rows = []
    for place in range(many):
        told = [percent(last(run, f"{test}/expert/{place}/accuracy")) for test in tests]
        rows.append([name_of(run), f"expert {place}", *cells(published.expert(many, place)), *told])
    for gate in GATES:
        stage = "gate" if gate == "learned" else "train"
        told = [percent(last(run, f"{test}/gate/{gate}/accuracy", stage)) for test in tests]
        if gate == "online":
            told = [
                f"{figure} ± {percent(order(run, test))}" for figure, test in zip(told, tests, strict=True)
            ]
        total = published.total.get(many) if gate == "online" else None
        rows.append([name_of(run), f"all, {gate}", "-" if total is None else f"{total:.2f}", "-", *told])
    return rows


def name_of(run: Run) -> str:
    """Return a run's name without its gate: every gate is scored on the same experts."""
    return run.label.removesuffix(", learned gate")


def order(run: Run, test: str) -> float | None:
    """Return the standard deviation of the online gate's accuracy over orders of the test rows."""
    return last(run, f"{test}/accuracy_order_std")


def cells(one: tuple[float | None, float | None]) -> list[str]:
    """Return a published accuracy, and the accuracy that the published loss stands for (A-3.6)."""
    accuracy, loss = one
    return [
        "-" if accuracy is None else f"{accuracy:.2f}",
        "-" if loss is None else f"{100 * (1 - (loss - FLOOR)):.1f}",
    ]


def verdict(runs: Sequence[Run]) -> str:
    """Say which gates pass FedAvg, and whether the online gate falls below the worst expert."""
    base = next((last(run, "global/accuracy") for run in runs if run.label == FEDAVG), None)
    out = []
    for run in runs:
        if run.label == FEDAVG or base is None:
            continue
        scored = {
            gate: last(run, f"global/gate/{gate}/accuracy", "gate" if gate == "learned" else "train")
            for gate in GATES
        }
        fair = {gate: value for gate, value in scored.items() if value is not None and gate != "oracle"}
        better = [
            f"{gate} ({100 * (value - base):+.1f} points)" for gate, value in fair.items() if value > base
        ]
        said = f"above FedAvg: {', '.join(better)}" if better else "no gate passes FedAvg (the oracle aside)"
        worst = min(
            (v for place in range(64) if (v := last(run, f"global/expert/{place}/accuracy")) is not None),
            default=None,
        )
        online = scored["online"]
        if worst is not None and online is not None:
            kept = "not below" if online >= worst - 0.01 else "BELOW"
            said += f"; the online gate is {kept} its worst expert less one point"
        out.append(f"- {name_of(run)}: {said}.")
    return "\n".join(out)


def replication(runs: Sequence[Run]) -> str:
    """Return a table of the grid, and the curves on IID rows and on shards."""
    rows, parts = [], [scale(runs)]
    for run in runs:
        found = curve(run, "global/accuracy")
        if found is None:
            continue
        values, rounds = found.mean(), found.rounds
        first = [
            f"{int(rounds[values >= goal][0])}" if (values >= goal).any() else "-" for goal in (0.95, 0.97)
        ]
        rows.append([run.label, str(int(rounds[-1])), percent(values[-1]), percent(values.max()), *first])
    heads = ["run", "rounds", "last (%)", "best (%)", "first round at 95 %", "at 97 %"]
    parts.append(markdown(heads, rows))
    for start, words in (("IID", "IID rows"), ("shards", "two shards each")):
        chosen = [run.path for run in runs if run.label.startswith(start)]
        if chosen:
            drawn = picture(chosen, "accuracy", f"replication-{start.lower()}.png")
            parts.append(f"![Accuracy over the rounds, {words}]({drawn})")
    return "\n\n".join(parts)


def sources(found: dict[str, Any]) -> str:
    """Return how well clusters agree with the sources, and where they are exact."""
    rows, exact = [], []
    for deal, one in found.items():
        if not isinstance(one, dict):
            continue
        many = one["clients"]["cifar"]
        for similarity, counts in one["found"].items():
            for wanted, said in counts.items():
                cut = f"auto: {said['clusters']}" if wanted == "auto" else wanted
                home = f"{said['homes']} with {said['strangers']} others"
                agree = [f"{said['ari_source']:.2f}", f"{said['ari_class']:.2f}"]
                rows.append([f"{deal}, {many} of 100", f'`"{similarity}"`', cut, *agree, home])
                if said["homes"] == 1 and not said["strangers"]:
                    exact.append(f'{deal} with `"{similarity}"` and {cut} clusters')
    heads = [
        "CIFAR clients",
        "`similarity_on`",
        "clusters",
        "ARI, source",
        "ARI, main class",
        "their clusters",
    ]
    words = "The CIFAR clients have one cluster to themselves under:\n\n" + "\n".join(
        f"- {one}" for one in exact
    )
    words = words if exact else "Nowhere do the CIFAR clients have one cluster to themselves."
    command = f"`python docs/fedex_measure.py sources DATA_DIR`, seed {found['seed']}, one local epoch."
    return "\n\n".join([command, markdown(heads, rows), words])


def memory(found: dict[str, Any]) -> str:
    """Say what the warm-up's server and clients need together."""
    return (
        f"The server holds all warm-up answers at once. With 100 clients of the 1.66-million-parameter CNN a process "
        f"that plays both sides peaks at {found['peak_gb']} GB, of which {found['before_gb']} GB are there before the "
        "warm-up: libraries and data (`python docs/fedex_measure.py memory DATA_DIR`)."
    )


def gates(found: dict[str, Any]) -> str:
    """Return the table of gates on small digits."""
    kinds = found["accuracy"]
    names = list(next(iter(kinds.values())))
    rows = [
        [name, *(", ".join(f"{100 * value:.1f}" for value in kinds[kind][name]) for kind in kinds)]
        for name in names
    ]
    return markdown(["gate", *kinds], rows)


if __name__ == "__main__":
    main()
