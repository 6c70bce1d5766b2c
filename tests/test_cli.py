"""The command line: every command with a right and a wrong input, and the exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from potluck import report
from potluck.cli import main
from potluck.cli.show import TABLES
from potluck.learn import Fit
from potluck.version import __version__

TOML = """
name = "small"
partition = { name = "dirichlet", beta = 0.5, clients = 4 }
model = { name = "mlp", hidden = [8] }
algorithm = { name = "fedavg", rounds = 2, fit = { lr = 0.1, steps = 2 } }
"""


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def potluck(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Said]:
    """Call the command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str) -> Said:
        with pytest.raises(SystemExit) as left:
            main(arguments)
        said = capsys.readouterr()
        code = left.value.code
        assert isinstance(code, int)
        return Said(code, said.out, said.err)

    return call


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "small.toml"
    path.write_text(TOML)
    return str(path)


@pytest.fixture
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the figures and the page, which take longer than the run."""
    monkeypatch.setattr(report, "write", lambda out, runs, title=None: out / "report.html")


def test_a_run_shows_its_progress_its_table_and_its_report(
    potluck: Callable[..., Said], file: str, tmp_path: Path
) -> None:
    said = potluck("run", file, "--workers", "2")
    assert said.code == 0
    assert "fedavg seed 0: train 2/2, 4 clients" in said.out
    assert "Report: runs/small/report.html" in said.out
    assert said.err == ""
    assert (tmp_path / "runs" / "small" / "report.html").exists()


@pytest.mark.usefixtures("no_page")
def test_json_is_json_and_nothing_else(potluck: Callable[..., Said], file: str, tmp_path: Path) -> None:
    said = potluck("run", file, "--json", "--workers", "0", "--seeds", "3,1", "--set", "algorithm.rounds=1")
    assert (said.code, said.err) == (0, "")
    result = json.loads(said.out)
    assert list(result["seeds"]) == ["3", "1"]
    assert result["seeds"]["3"]["rounds"] == 1
    assert result == json.loads((tmp_path / "runs" / "small" / "result.json").read_text())
    assert json.loads((tmp_path / "runs" / "small" / "manifest.json").read_text())["seeds"] == [3, 1]


@pytest.mark.usefixtures("no_page")
def test_quiet_says_nothing(potluck: Callable[..., Said], file: str) -> None:
    assert potluck("run", file, "--quiet", "--workers", "0", "--out", "here") == (0, "", "")


@pytest.mark.usefixtures("no_page")
def test_resume_and_overwrite(potluck: Callable[..., Said], file: str) -> None:
    first = potluck("run", file, "--json", "--workers", "0")
    again = potluck("run", file, "--json", "--workers", "0")
    assert (again.code, again.out) == (2, "")
    assert "already holds this run; --resume to go on with it, or --overwrite" in again.err
    assert potluck("run", file, "--json", "--resume").out == first.out
    anew = json.loads(potluck("run", file, "--json", "--overwrite", "--workers", "1").out)
    assert anew["seeds"]["0"]["fingerprint"] == json.loads(first.out)["seeds"]["0"]["fingerprint"]


def test_compare_and_report(potluck: Callable[..., Said], file: str, tmp_path: Path) -> None:
    said = potluck("compare", file, "--algorithms", "fedavg, alone", "--out", "both", "--workers", "0")
    assert said.code == 0
    assert "alone" in said.out
    (tmp_path / "both" / "report.html").unlink()
    rebuilt = potluck("report", "both")
    assert rebuilt.code == 0
    assert (tmp_path / "both" / "report.html").exists()
    assert potluck("report", "both", "--quiet") == (0, "", "")
    wrong = potluck("report", str(tmp_path / "nothing"))
    assert wrong.code == 2
    assert "nothing" in wrong.err


@pytest.mark.usefixtures("no_page")
def test_compare_files(potluck: Callable[..., Said], file: str, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text(TOML.replace("small", "other"))
    said = potluck("compare", file, str(other), "--json", "--workers", "0", "--out", "both")
    assert list(json.loads(said.out)) == ["small", "other"]
    twice = potluck("compare", file, file)
    assert twice.code == 2
    assert "another file has the name 'small' too" in twice.err
    mixed = potluck("compare", file, str(other), "--algorithms", "fedavg")
    assert mixed.code == 2
    assert "--algorithms goes with one file" in mixed.err


def table(
    rows: int = 30, bad: float = 0.0, label: int = 0
) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(rows, 4)).astype(np.float32)
    y = draw.integers(3, size=rows)
    x[7, 2] += bad
    y[9] += label
    return {"x": x, "y": y}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--set", "algorithm.fit.lr=-1"], "algorithm.fit.lr: must be > 0, got -1"),
        (["--set", "algorithm.name=fedavgg"], "unknown algorithm 'fedavgg'; did you mean fedavg"),
        (["--set", "partition.clients=0"], "partition.clients: must be >= 1, got 0"),
        (["--set", "partition.clients=4000"], "4000"),
        (["--set", "model.name=lenet", "--set", "model.hidden=[1]"], "model.hidden: no such key"),
        (["--set", 'data={name="npz", path="gone.npz"}'], "gone.npz"),
        (["--set", 'data={name="mnist"}', "--data-dir", "."], "mnist"),
        (["--set", 'data={name="npz", path="nan.npz"}'], "row 7"),
        (["--set", 'data={name="npz", path="label.npz", classes=3}'], "the label of row 9 is"),
        (["--set", "algorithm.rounds"], "--set algorithm.rounds: must be path=value"),
        (["--seeds", "a"], "--seeds: must be whole numbers such as 0,1,2"),
        (["--seeds", "1,1"], "--seeds: must be different whole numbers"),
        (["--seeds", ""], "--seeds: must be different whole numbers"),
        (["--workers", "-1"], "--workers"),
        (["--data-dir", "gone"], "--data-dir: gone is not a folder"),
        (["--no-such"], "--no-such"),
    ],
)
def test_bad_input_is_one_sentence_exit_code_2_and_nothing_left_behind(
    potluck: Callable[..., Said],
    file: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    complaint: str,
) -> None:
    monkeypatch.delenv("POTLUCK_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path.with_name("cache")))
    np.savez(tmp_path / "nan.npz", **table(bad=np.nan))  # type: ignore[arg-type]
    np.savez(tmp_path / "label.npz", **table(label=90))  # type: ignore[arg-type]
    before = sorted(tmp_path.iterdir())
    said = potluck("run", file, "--out", "fresh", "--workers", "0", *arguments)
    assert said.code == 2
    assert complaint in said.err
    assert "Traceback" not in said.err
    assert said.out == ""
    assert sorted(tmp_path.iterdir()) == before


def test_a_file_that_is_not_there(potluck: Callable[..., Said]) -> None:
    assert potluck("run", "gone.toml") == (2, "", "potluck: gone.toml: no such file\n")
    assert potluck("compare", "gone.toml").code == 2


def test_a_failure_names_the_client_and_exits_with_1(
    potluck: Callable[..., Said], file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(self: Fit, *given: object, **named: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(Fit, "__call__", failing)
    said = potluck("run", file, "--workers", "0", "--quiet")
    assert said.code == 1
    assert said.err.startswith(
        "potluck: stage 'train', round 1, client 0 failed: ZeroDivisionError: by nothing"
    )


def test_an_interruption_exits_with_130(
    potluck: Callable[..., Said], file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Fit, *given: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Fit, "__call__", interrupted)
    said = potluck("run", file, "--workers", "0", "--quiet")
    assert said.code == 130
    assert said.err.strip() == "potluck: interrupted; a run goes on with --resume"
    monkeypatch.undo()


def test_a_file_system_that_refuses_is_a_failure(
    potluck: Callable[..., Said], file: str, tmp_path: Path
) -> None:
    said = potluck("run", file, "--out", str(tmp_path / "small.toml" / "deep"), "--workers", "0")
    assert said.code == 1
    assert "Not a directory" in said.err


ENTRIES = sorted({entry for _, entries, _ in TABLES.values() for entry in entries})


@pytest.mark.parametrize("name", ENTRIES)
def test_every_entry_is_described(potluck: Callable[..., Said], name: str) -> None:
    said = potluck("describe", name)
    assert said.code == 0
    assert said.out.startswith(f"{name}  (")
    for _, entries, _ in TABLES.values():
        if name in entries:
            first = (entries[name].__doc__ or "").strip().splitlines()[0]
            assert " ".join(first.split()[:4]) in " ".join(said.out.split())


@pytest.mark.parametrize("kind", sorted(TABLES))
def test_every_table_is_listed(potluck: Callable[..., Said], kind: str) -> None:
    said = potluck("list", kind)
    assert said.code == 0
    lines = [line.split() for line in said.out.splitlines()]
    listed = {line[0] for line in lines[1:] if line}
    assert set(TABLES[kind][1]) <= listed
    assert all(len(line) > 2 for line in lines[1:] if line), "every entry says what it is"


def test_all_tables_are_listed_and_unknown_names_refused(potluck: Callable[..., Said]) -> None:
    everything = potluck("list").out
    assert all(kind in everything for kind in TABLES)
    assert (
        potluck("list", "algorithm").err == "potluck: unknown table 'algorithm'; did you mean algorithms?\n"
    )
    assert "unknown entry 'fedavgg'; did you mean fedavg" in potluck("describe", "fedavgg").err
    assert potluck("describe", "fedavgg").code == 2


def test_help_and_version(potluck: Callable[..., Said]) -> None:
    assert __version__ in potluck("--version").out
    said = potluck("--help")
    assert said.code == 0
    assert all(command in said.out for command in ("run", "compare", "report", "list", "describe", "data"))
    assert potluck("rnu").code == 2
    assert potluck().code in (0, 2)
