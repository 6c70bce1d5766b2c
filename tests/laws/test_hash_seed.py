"""The order in which a process walks its sets decides nothing: two interpreters with other hash seeds agree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from potluck.algorithms import ALGORITHMS

PROGRAM = """
import json, sys
from potluck.algorithms.fedavg import fedavg
from potluck.algorithms.fedbn import Norms
from potluck.laws import told, toy
from potluck.laws.engines import play
from tests.laws.test_laws import built

cases = {name: built(name) for name in sys.argv[1:]}
cases["norms that stay"] = fedavg(rounds=2, share=Norms())
cases["statistics that stay"] = fedavg(rounds=2, bn_buffers="local")
cases["statistics that are pooled"] = fedavg(rounds=2, bn_buffers="pooled")
out = {}
for name, algorithm in cases.items():
    played = play(toy.world(algorithm))
    out[name] = [played.fingerprint, told(played.facts)]
json.dump(out, sys.stdout)
"""


def played(hash_seed: int) -> dict[str, Any]:
    """Return fingerprints and facts of every algorithm, from a process with the given hash seed."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *sorted(ALGORITHMS)],
        cwd=Path(__file__).parents[2],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    out: dict[str, Any] = json.loads(done.stdout)
    return out


def test_other_hash_seeds_give_the_same_bits_and_records() -> None:
    one, other = played(1), played(3)
    for name, expected in one.items():
        assert other[name] == expected, name
