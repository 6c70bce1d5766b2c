"""Reading run directories: columns equal the rows, unfinished runs can be read, damage is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from potluck.errors import BadInputError
from potluck.report import find, open_runs
from potluck.report.read import read_run
from potluck.report.series import curve, partition

Writer = Callable[..., Path]


def rows_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (path / "records.jsonl").read_text().splitlines()]


def test_columns_hold_what_the_rows_hold(make: Writer) -> None:
    path = make()
    rows, records = rows_of(path), read_run(path).records
    assert len(records) == len(rows)
    assert records.seed.tolist() == [row["seed"] for row in rows]
    assert records.round.tolist() == [row["round"] for row in rows]
    for name, column in (("stage", records.stage), ("who", records.who), ("what", records.what)):
        assert [column.names[code] for code in column.codes.tolist()] == [row[name] for row in rows]
    for place, row in enumerate(rows):
        if isinstance(row["value"], int | float):
            assert records.number[place] == row["value"]
        elif isinstance(row["value"], str):
            assert records.texts[place] == row["value"]
        elif isinstance(row["value"], list):
            assert records.lists[place].tolist() == row["value"]


def test_a_null_is_no_number(make: Writer) -> None:
    run = read_run(make("FedBN", global_figures=False))
    assert np.isnan(run.records.number[run.records.what.equals("global/accuracy")]).all()
    assert curve(run, "global/accuracy") is None


def test_the_curve_of_a_mesh_is_the_mean_over_its_sites(make: Writer) -> None:
    path = make(mesh=True, seeds=1, rounds=2, clients=4)
    found = curve(read_run(path), "global/accuracy")
    assert found is not None
    for place, number in enumerate(found.rounds.tolist()):
        own = [r["value"] for r in rows_of(path) if r["what"] == "global/accuracy" and r["round"] == number]
        assert len(own) == 4
        assert found.values[0, place] == pytest.approx(np.mean(np.array(own, dtype=float)))


def test_rounds_of_a_later_stage_count_on(make: Writer) -> None:
    found = curve(read_run(make("FedDisk", warmup=5, rounds=3)), "global/accuracy")
    assert found is not None
    assert found.rounds.tolist() == [5, 6, 7, 8]


def test_rounds_that_already_count_on_are_left_alone(tmp_path: Path) -> None:
    rows = [("density", 1, "bytes/up"), ("density", 2, "bytes/up"), ("train", 3, "global/accuracy")]
    write_rows(tmp_path, [(stage, number, "server", what, 0.5) for stage, number, what in rows])
    found = curve(read_run(tmp_path), "global/accuracy")
    assert found is not None
    assert found.rounds.tolist() == [3]


def write_rows(path: Path, rows: list[tuple[str, int, str, str, object]], tail: str = "") -> None:
    names = ("stage", "round", "who", "what", "value")
    lines = [json.dumps({"run": "x", "seed": 0} | dict(zip(names, row, strict=True))) + "\n" for row in rows]
    (path / "records.jsonl").write_text("".join(lines) + tail)


def test_an_unfinished_run_loses_only_its_cut_off_line(make: Writer) -> None:
    path = make(finished=False)
    whole = len(read_run(path).records)
    with (path / "records.jsonl").open("a") as file:
        file.write('{"run": "x", "seed": 0, "sta')
    run = read_run(path)
    assert len(run.records) == whole
    assert not run.finished
    assert run.seeds == (0, 1, 2)


def test_a_whole_last_line_without_its_end_counts(tmp_path: Path) -> None:
    write_rows(tmp_path, [("train", 1, "server", "seconds", 1.0)])
    (tmp_path / "records.jsonl").write_text((tmp_path / "records.jsonl").read_text().rstrip("\n"))
    assert len(read_run(tmp_path).records) == 1


def test_a_run_that_has_written_no_row_yet(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"label": "FedAvg"}')
    run = read_run(tmp_path)
    assert (run.label, len(run.records), run.seeds) == ("FedAvg", 0, ())
    assert partition(run, 0) is None


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"seed": 0, "stage"', r"records\.jsonl, line 2: not a JSON row"),
        ('{"a": 1}, {"b": 2}', r"records\.jsonl, line 2: not a JSON row"),
        ("[1, 2]", r"records\.jsonl, line 2: not a JSON object"),
        ('{"seed": 0, "stage": "train", "round": 1, "who": "server"}', r"line 2: the row lacks what, value"),
        (
            '{"seed": "0", "stage": "t", "round": 1, "who": "s", "what": "w", "value": 1}',
            "line 2: seed has the wrong",
        ),
        (
            '{"seed": 0, "stage": "t", "round": 1.5, "who": "s", "what": "w", "value": 1}',
            "line 2: round has the wrong",
        ),
        (
            '{"seed": 0, "stage": "t", "round": 1, "who": 7, "what": "w", "value": 1}',
            "line 2: who has the wrong",
        ),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: str, complaint: str) -> None:
    write_rows(tmp_path, [("train", 1, "server", "seconds", 1.0)], tail=line + "\n")
    with pytest.raises(BadInputError, match=complaint):
        read_run(tmp_path)


def test_blank_lines_do_not_shift_the_line_number(tmp_path: Path) -> None:
    write_rows(tmp_path, [("train", 1, "server", "seconds", 1.0)], tail='\n\n{"seed": 1}\n')
    with pytest.raises(BadInputError, match="line 4: the row lacks stage"):
        read_run(tmp_path)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"label": \n oops}')
    with pytest.raises(BadInputError, match=r"manifest\.json, line 2: not JSON"):
        read_run(tmp_path)
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(BadInputError, match="holds no JSON object"):
        read_run(tmp_path)
    (tmp_path / "manifest.json").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInputError, match="not UTF-8"):
        read_run(tmp_path)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="is no run"):
        read_run(tmp_path)
    with pytest.raises(BadInputError, match="is no run"):
        find(tmp_path)
    for wrong in (read_run, find):
        with pytest.raises(BadInputError, match="is not a directory"):
            wrong(tmp_path / "nothing")
    with pytest.raises(BadInputError, match="no run to report"):
        open_runs([])


def test_a_folder_of_runs_is_found_in_order(comparison: list[Path]) -> None:
    assert find(comparison[0].parent) == tuple(sorted(comparison))
    assert find(comparison[0]) == (comparison[0],)
    assert {run.label for run in open_runs([comparison[0].parent])} == {"FedAvg", "FedBN", "FedEP"}


def test_equal_labels_become_distinct(comparison: list[Path]) -> None:
    labels = [run.label for run in open_runs([comparison[0], comparison[1], comparison[0]])]
    assert labels == ["FedAvg (1)", "FedEP", "FedAvg (2)"]
