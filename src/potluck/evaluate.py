"""Scoring: the site's model on the global tests, and what each client would use on its own test rows.

Scores are made by the same visit as training, on a newcomer (no rows, no memory) for global tests and with
the client's memory for its own. Scoring never changes later bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from potluck.errors import RunError
from potluck.memory import Memories
from potluck.metrics import Tally, spread, total
from potluck.rounds import Fact, Step, in_order
from potluck.topology import Topology
from potluck.transport import Transport
from potluck.visit import Call, tally_of
from potluck.world import NEWCOMER, World

CHUNK = 2_500


class Scores(NamedTuple):
    """Tallies by (site, test table), null where a newcomer cannot be served, and by client."""

    sites: Mapping[tuple[str, str], Tally | None]
    clients: Mapping[int, Tally]

    def tree(self) -> dict[str, Any]:
        """Return the scores as a tree, to be hashed."""
        return {
            "sites": {f"{site}/{test}": tally and tally.tree() for (site, test), tally in self.sites.items()},
            "clients": {str(client): tally.tree() for client, tally in self.clients.items()},
        }


def evaluate(
    world: World,
    transport: Transport,
    topology: Topology,
    memories: Memories,
    step: Step,
    *,
    clients: bool = True,
    tests: Sequence[str] | None = None,
) -> Scores:
    """Score the model of a step."""
    stage = world.stage(step.position)
    names = list(world.federation.tests) if tests is None else list(tests)
    calls: list[Call] = []
    sites: dict[tuple[str, str], Tally | None] = {}
    owners: list[tuple[str, str] | int] = []
    serves = stage.serves(world.model_of(step.position))
    for site, state in step.states.items():
        for name in names:
            sites[site, name] = Tally(0) if serves else None
            if serves:
                view = stage.deploy(state, NEWCOMER)
                parts = _parts(len(world.federation.tests[name]), stage.whole_tables)
                calls += [
                    Call("score", step.position, step.round, NEWCOMER, view, {}, name, begin, end)
                    for begin, end in parts
                ]
                owners += [(site, name)] * len(parts)
    for client in range(len(world.federation)) if clients else ():
        pooled = world.algorithm.setting == "pooled"
        home = topology.home(0 if pooled else client)
        memory = {} if pooled else memories.read(client)
        view = stage.deploy(step.states[home], client)
        calls.append(Call("score", step.position, step.round, client, view, memory))
        owners.append(client)
    return _tallied(world, transport, calls, owners, sites)


def _tallied(
    world: World,
    transport: Transport,
    calls: Sequence[Call],
    owners: Sequence[tuple[str, str] | int],
    sites: dict[tuple[str, str], Tally | None],
) -> Scores:
    clients: dict[int, Tally] = {}
    answers = in_order(calls, transport.send(calls))
    for owner, (call, answer) in zip(owners, answers, strict=True):
        if answer.failed:
            who = call.who(world.stage(call.stage).stream)
            if call.client == NEWCOMER:
                who = who.replace(f"client {NEWCOMER}", f"test {call.table!r}")
            raise RunError(f"scoring, {who} failed: {answer.failed}\n{answer.trace}".rstrip())
        tally = tally_of(answer)
        if isinstance(owner, int):
            clients[owner] = tally
        else:
            sites[owner] = total([sites[owner] or Tally(0), tally])
    return Scores(sites, clients)


def _parts(rows: int, whole: bool) -> list[tuple[int, int]]:
    if whole:
        return [(0, rows)]
    return [(begin, min(begin + CHUNK, rows)) for begin in range(0, rows, CHUNK)]


def facts(scores: Scores, stage: str, number: int) -> list[Fact]:
    """Return the scores as rows of the records."""
    out: list[Fact] = []
    for (site, test), tally in scores.sites.items():
        figures = {"accuracy": None, "loss": None} if tally is None else tally.figures()
        out += [Fact(stage, number, site, f"{test}/{name}", value) for name, value in figures.items()]
    out += _mean_over_sites(scores, stage, number)
    kept = {client: tally for client, tally in scores.clients.items() if tally.rows}
    for client, tally in kept.items():
        who = f"client/{client}"
        out.append(Fact(stage, number, who, "test/rows", tally.rows))
        for name in ("accuracy", "accuracy_macro", "loss"):
            if name in tally.figures():
                out.append(Fact(stage, number, who, f"test/{name}", tally.figures()[name]))
    for name, summary in local(kept).items():
        out += [
            Fact(stage, number, "server", f"local/{what}/{name}", value) for what, value in summary.items()
        ]
    return out


def local(tallies: Mapping[int, Tally]) -> dict[str, dict[str, float]]:
    """Summarise every metric over the clients that have test rows."""
    figures = {client: tally.figures() for client, tally in tallies.items() if tally.rows}
    rows = {client: tallies[client].rows for client in figures}
    names = dict.fromkeys(name for each in figures.values() for name in each)
    return {name: spread({k: f[name] for k, f in figures.items() if name in f}, rows) for name in names}


def _mean_over_sites(scores: Scores, stage: str, number: int) -> list[Fact]:
    """In a mesh, the figure of the whole is the mean over its sites."""
    return [
        Fact(stage, number, "server", f"{test}/{name}", value)
        for test, figures in site_means(scores).items()
        for name, value in figures.items()
        if len(scores.sites) > len({test for _, test in scores.sites})
    ]


def site_means(scores: Scores) -> dict[str, dict[str, float | None]]:
    """Average each test's figures over the sites; null if any site has none."""
    out: dict[str, dict[str, float | None]] = {}
    for test in dict.fromkeys(test for _, test in scores.sites):
        tallies = [tally for (_, name), tally in scores.sites.items() if name == test]
        if any(tally is None for tally in tallies):
            out[test] = {"accuracy": None, "loss": None}
            continue
        figures = [tally.figures() for tally in tallies if tally is not None]
        out[test] = {name: sum(each[name] for each in figures) / len(figures) for name in figures[0]}
    return out
