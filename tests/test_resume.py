"""A run that is killed at any moment and resumed ends with the same bits, and plays no committed round again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from potluck import seed as seeds
from potluck.config import Experiment, experiment
from potluck.errors import BadInputError
from potluck.run import Interrupted, Options, run
from potluck.transport import Inline
from potluck.visit import Answer, Call

SETTINGS: dict[str, Any] = {
    "name": "resumed",
    "seeds": [0, 1],
    "partition": {"name": "dirichlet", "beta": 0.5, "clients": 5},
    "model": {"name": "mlp", "hidden": [8]},
    "algorithm": {"name": "scaffold", "rounds": 3, "fit": {"lr": 0.1, "steps": 3}},
    "participation": 0.6,
}
TOML = """
name = "resumed"
seeds = [0, 1]
partition = { name = "dirichlet", beta = 0.5, clients = 5 }
model = { name = "mlp", hidden = [8] }
algorithm = { name = "scaffold", rounds = 3, fit = { lr = 0.1, steps = 3 } }
participation = 0.6
"""


def made(**changes: Any) -> Experiment:
    return experiment({**SETTINGS, **changes})


def told(out: Path) -> list[dict[str, Any]]:
    """Return the records without times."""
    rows = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    return [row for row in rows if not row["what"].endswith("seconds")]


def figures(out: Path) -> dict[str, Any]:
    """Return the figures of all seeds without times."""
    result = json.loads((out / "result.json").read_text())
    return {
        seed: {name: value for name, value in each.items() if name != "seconds"}
        for seed, each in result["seeds"].items()
    }


def debris(out: Path) -> list[Path]:
    return list(out.rglob("*.part"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the run that nothing happened to."""
    out = tmp_path_factory.mktemp("whole") / "run"
    run(made(), out)
    return out


def in_child(work: Callable[[], object]) -> int:
    """Do something in a forked process and return how that ended."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def dying(out: Path, at: int, *, after: bool, workers: int = 0) -> Callable[[], object]:
    """Return a run that kills itself at its n-th rename: just before it, or just after."""
    rename = os.replace
    count = 0

    def replaced(source: Any, target: Any) -> None:
        nonlocal count
        count += 1
        if count == at and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        rename(source, target)
        if count == at:
            os.kill(os.getpid(), signal.SIGKILL)

    def work() -> None:
        vars(os)["replace"] = replaced
        run(made(), out, Options(resume=out.exists(), workers=workers))

    return work


def test_a_run_may_die_again_and_again(tmp_path: Path, whole: Path) -> None:
    """Each attempt commits one round, then dies at its eighth write."""
    out = tmp_path / "run"
    deaths = 0
    while in_child(dying(out, 8, after=deaths % 2 == 0)) != 0:
        deaths += 1
        assert deaths < 20
    assert deaths > 3
    assert figures(out) == figures(whole)
    assert told(out) == told(whole)
    assert not debris(out)


@pytest.mark.parametrize("at", [1, 2, 3, 4, 6, 9, 14, 19])
def test_one_death_at_each_write(tmp_path: Path, whole: Path, at: int) -> None:
    out = tmp_path / "run"
    assert in_child(dying(out, at, after=at % 2 == 0)) == -signal.SIGKILL
    run(made(), out, Options(resume=True))
    assert figures(out) == figures(whole)
    assert told(out) == told(whole)
    assert not debris(out)


@pytest.mark.parametrize("stop_after", [1, 2, 3])
def test_no_committed_round_is_played_again(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch, stop_after: int
) -> None:
    visits: list[tuple[int, int]] = []

    class Counting(Inline):
        def send(self, calls: Any) -> Any:
            visits.extend((call.round, call.client) for call in calls if call.kind == "local")
            return super().send(calls)

    monkeypatch.setattr(seeds, "open_transport", lambda world, workers: Counting(world))
    run(made(), tmp_path / "unbroken")
    unbroken, visits[:] = list(visits), []
    options = Options(stop_after=stop_after)
    for _ in range(20):
        try:
            run(made(), tmp_path / "run", options)
            break
        except Interrupted:
            options = replace(options, resume=True)
    assert visits == unbroken
    assert figures(tmp_path / "run") == figures(whole)
    assert told(tmp_path / "run") == told(whole)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_workers_change_no_bit(tmp_path: Path, whole: Path, workers: int) -> None:
    run(made(), tmp_path / "run", Options(workers=workers))
    assert figures(tmp_path / "run") == figures(whole)
    assert told(tmp_path / "run") == told(whole)


def test_checkpoints_far_apart_change_no_bit(tmp_path: Path, whole: Path) -> None:
    sparse = made(checkpoint={"every": 2})
    with pytest.raises(Interrupted):
        run(sparse, tmp_path / "run", Options(stop_after=1))
    run(sparse, tmp_path / "run", Options(resume=True))
    assert figures(tmp_path / "run") == figures(whole)
    assert told(tmp_path / "run") == told(whole)


def test_a_finished_run_is_not_played_again(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(made(), tmp_path / "run")
    before = (tmp_path / "run" / "records.jsonl").read_bytes()

    def refuse(*_: object) -> None:
        raise AssertionError("a finished run was opened")

    monkeypatch.setattr(seeds, "open_transport", refuse)
    run(made(), tmp_path / "run", Options(resume=True))
    assert (tmp_path / "run" / "records.jsonl").read_bytes() == before
    assert figures(tmp_path / "run") == figures(whole)


def test_seeds_may_be_added_behind_but_not_taken_away(tmp_path: Path, whole: Path) -> None:
    out = tmp_path / "run"
    run(made(seeds=[0]), out)
    run(made(seeds=[0, 1]), out, Options(resume=True))
    assert figures(out) == figures(whole)
    assert told(out) == told(whole)
    for others in ([1], [1, 0], [2, 0, 1]):
        with pytest.raises(BadInputError, match="holds the seeds 0, 1; go on with the same"):
            run(made(seeds=others), out, Options(resume=True))
    assert told(out) == told(whole)


def command(file: Path, out: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "potluck", "run", str(file), "--out", str(out), "--quiet", *more]


def children(pid: int) -> list[int]:
    """Return the ids of a process's children."""
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in listed.read_text().split()] if listed.exists() else []


def gone(pids: list[int]) -> bool:
    """Wait a little until processes are gone."""
    for _ in range(100):
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.05)
    return False


def after_records(process: subprocess.Popen[bytes], out: Path, rows: int) -> None:
    """Wait until a run has written so many bytes of records."""
    file = out / "records.jsonl"
    while process.poll() is None and not (file.exists() and file.stat().st_size > rows):
        time.sleep(0.002)


def test_a_killed_command_goes_on_and_leaves_no_orphans(tmp_path: Path, whole: Path) -> None:
    """Kill -9 the real command at a seeded moment, then resume the run."""
    file, out = tmp_path / "resumed.toml", tmp_path / "run"
    file.write_text(TOML)
    size = (whole / "records.jsonl").stat().st_size
    process = subprocess.Popen(command(file, out, "--workers", "2"))
    after_records(process, out, random.Random(1).randrange(size // 2))
    workers = children(process.pid)
    process.kill()
    assert process.wait(60) == -signal.SIGKILL
    assert not (out / "result.json").exists()
    assert workers
    assert gone(workers)
    run(made(), out, Options(resume=True, workers=1))
    assert figures(out) == figures(whole)
    assert told(out) == told(whole)


def test_ctrl_c_stops_with_130_and_leaves_a_run_to_resume(tmp_path: Path, whole: Path) -> None:
    file, out = tmp_path / "resumed.toml", tmp_path / "run"
    file.write_text(TOML)
    process = subprocess.Popen(
        command(file, out, "--workers", "2"),
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=partial(
            signal.signal, signal.SIGINT, signal.SIG_DFL
        ),  # a script's background jobs ignore it
    )
    after_records(process, out, 1500)
    workers = children(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == 130
    assert " ".join(complaint.decode().split()) == "potluck: interrupted; a run goes on with --resume"
    assert gone(workers)
    run(made(), out, Options(resume=True))
    assert figures(out) == figures(whole)
    assert told(out) == told(whole)


def test_a_flipped_bit_and_another_seed_give_other_fingerprints(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prints = {seed: each["fingerprint"] for seed, each in figures(whole).items()}
    assert prints["0"] != prints["1"]

    class Flipping(Inline):
        def send(self, calls: Any) -> Any:
            for position, answer in super().send(calls):
                yield position, flipped(calls[position], answer)

    def flipped(call: Call, answer: Answer) -> Answer:
        if call.kind == "local" and call.round == 3:
            leaf = answer.send.params["head.bias"].view(-1)
            leaf[0:1].view(dtype=torch.int32).bitwise_xor_(1 << 20)
        return answer

    monkeypatch.setattr(seeds, "open_transport", lambda world, workers: Flipping(world))
    run(made(), tmp_path / "run")
    assert figures(tmp_path / "run")["0"]["fingerprint"] != prints["0"]
