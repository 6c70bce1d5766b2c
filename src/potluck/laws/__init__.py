"""The laws that every algorithm obeys, as a public suite: `potluck.laws.check(my_algorithm)`.

In the spirit of scikit-learn's `check_estimator`: one list of checks, applied to the built-in methods and
to yours. Each runs on an awkward federation (unequal, empty and single-class clients), a network with batch
norm and dropout, and partial participation.
"""

from __future__ import annotations

import dataclasses
import random
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from potluck.core import Algorithm, Stage
from potluck.laws import toy
from potluck.laws.engines import Bench, play, through_codec, without_log
from potluck.learn import Fit
from potluck.rounds import Fact
from potluck.topologies import TOPOLOGIES
from potluck.transport import Inline, Processes
from potluck.transport.codec import Codec
from potluck.tree import digest
from potluck.visit import Answer, Call, visit
from potluck.world import Faults, World


class LawBrokenError(AssertionError):
    """An algorithm breaks a law; the message says which, and how."""


def require(holds: bool, text: str) -> None:
    """Raise if a law does not hold."""
    if not holds:
        raise LawBrokenError(text)


def same_bits_on_every_engine(algorithm: Algorithm) -> None:
    """Inline, shuffled, through the codec and on one to three processes, a run gives the same bits."""
    world = toy.world(algorithm)
    reference = play(world, Inline(world))
    engines: dict[str, Any] = {
        "shuffled answers": Bench(world, shuffle=True),
        "the codec": Bench(world, around=through_codec),
        **{f"{n} processes": Processes(world, n) for n in (1, 2, 3)},
    }
    for name, engine in engines.items():
        other = play(world, engine)
        require(other.fingerprint == reference.fingerprint, f"with {name} the run ends with other bits")
        require(told(other.facts) == told(reference.facts), f"with {name} the records differ")


def resuming_changes_nothing(algorithm: Algorithm) -> None:
    """Going on after any round gives the same bits and records, and plays no committed round again."""
    world = toy.world(algorithm)
    whole = play(world)
    codec = Codec(algorithm.messages)
    for position, step in enumerate(whole.steps):
        stored = step._replace(states=codec.decode(codec.encode(dict(step.states))), facts=[])
        bench = Bench(world)
        rest = play(world, bench, after=(stored, whole.snapshots[position]))
        where = f"after round {step.round} of stage {step.stage!r}"
        require(rest.fingerprint == whole.fingerprint, f"a run resumed {where} ends with other bits")
        later = [fact for later in whole.steps[position + 1 :] for fact in later.facts]
        require(told(rest.facts) == told(later), f"a run resumed {where} writes other records")
        again = [visit for visit in bench.visits if visit[:2] <= (step.position, step.round)]
        require(not again, f"a run resumed {where} visits {again} again")


def randomness_is_named(algorithm: Algorithm) -> None:
    """Global random streams are left as they were; a seed repeats; another seed differs."""
    before = _global_streams()
    one = play(toy.world(algorithm))
    for name, state in _global_streams().items():
        require(state == before[name], f"the global random stream of {name} has moved")
    require(play(toy.world(algorithm)).fingerprint == one.fingerprint, "the same seed gives other bits")
    require(
        play(toy.world(algorithm, seed=1)).fingerprint != one.fingerprint, "another seed gives the same bits"
    )


def nothing_given_is_written(algorithm: Algorithm) -> None:
    """`local` and `merge` write into nothing that they were given: views, memories, rows, states, answers."""
    sent: list[tuple[str, Any, str]] = []

    def watched(world: World, call: Call) -> Answer:
        given = (call.view, dict(call.memory))
        before = digest(given)
        answer = visit(world, call)
        stream = world.stage(call.stage).stream
        require(digest(given) == before, f"stage {stream!r}: `local` changes its view or its client's memory")
        sent.append((stream, answer.send, digest(answer.send)))
        return answer

    world = toy.world(algorithm)
    tables = _tables(world)
    played = play(world, Bench(world, around=watched))
    require(_tables(world) == tables, "a visit changes its client's rows")
    for stream, message, before in sent:
        require(digest(message) == before, f"stage {stream!r}: `merge` changes an answer")
    for step, before in zip(played.steps, played.digests, strict=True):
        require(
            digest(dict(step.states)) == before,
            f"stage {step.stage!r}: `merge` changes the state it was given",
        )


def messages_are_declared(algorithm: Algorithm) -> None:
    """States and messages are trees of declared types, and encoding them is loss-free."""
    codec = Codec(algorithm.messages)

    def checked(world: World, call: Call) -> Answer:
        answer = visit(world, call)
        for name, tree in (("view", call.view), ("message", answer.send), ("memory", dict(answer.keep))):
            require(
                digest(codec.decode(codec.encode(tree))) == digest(tree), f"a {name} is changed by the codec"
            )
        return answer

    world = toy.world(algorithm)
    for step in play(world, Bench(world, around=checked)).steps:
        for state in step.states.values():
            require(
                digest(codec.decode(codec.encode(state))) == digest(state), "a state is changed by the codec"
            )


def logs_decide_nothing(algorithm: Algorithm) -> None:
    """Dropping every client's log changes no bit."""
    world = toy.world(algorithm)
    quiet = play(world, Bench(world, around=without_log))
    require(
        quiet.fingerprint == play(world).fingerprint, "without the clients' logs the run ends with other bits"
    )


def lost_answers_are_survived(algorithm: Algorithm) -> None:
    """With half of the answers lost a run ends with finite figures; with all lost nobody remembers anything."""
    world = dataclasses.replace(toy.world(algorithm), faults=Faults(lost=0.4, crash=0.1))
    played = play(world)
    for tally in played.scores.clients.values():
        require(
            all(np.isfinite(v) for v in tally.figures().values()), "with lost answers a figure is not finite"
        )
    deaf = play(dataclasses.replace(world, faults=Faults(lost=1.0)))
    require(not any(deaf.snapshots[-1].values()), "a client whose answers were all lost remembers something")


def numbers_are_only_names(algorithm: Algorithm) -> None:
    """With all clients, full batches and no dropout, renumbering the clients renumbers the results."""
    order = [3, 0, 6, 2, 5, 1, 4]
    full = _full_batches(algorithm)
    one = play(toy.world(full, participation=1.0, dropout=0.0))
    moved = toy.renumbered(toy.federation(), order)
    other = play(toy.world(full, participation=1.0, dropout=0.0, given=moved))
    for position, client in enumerate(order):
        mine, same = one.scores.clients[client].figures(), other.scores.clients[position].figures()
        close = all(abs(mine[name] - same[name]) < 1e-3 for name in mine if name == "loss")
        require(mine.keys() == same.keys() and close, f"renumbered, client {client} has other figures")


def newcomers_are_served_or_not(algorithm: Algorithm) -> None:
    """A newcomer is predicted for where the last stage says so, else its score is null; accuracy beats a guess."""
    world = toy.world(algorithm, participation=1.0, dropout=0.0)
    played = play(world)
    newcomer = algorithm.stages[-1].newcomer
    for tally in played.scores.sites.values():
        require((tally is not None) == newcomer, "the score of a newcomer contradicts `newcomer`")
    counted = [tally.confusion for tally in played.scores.clients.values() if tally.confusion is not None]
    if counted:
        confusion = torch.stack(counted).sum(dim=0)
        accuracy = float(confusion.diagonal().sum() / confusion.sum())
        guess = float(confusion.sum(dim=1).max() / confusion.sum())
        require(
            accuracy > max(guess, 1.2 / toy.CLASSES),
            f"on the easy toy its accuracy is {accuracy:.2f}; to say the commonest class is {guess:.2f}",
        )


def stages_hold_hyperparameters_only(algorithm: Algorithm) -> None:
    """Stages are frozen dataclasses without subclasses, and the file that defines the method cites its source."""
    for stage in algorithm.stages:
        kind = type(stage)
        settings = getattr(kind, "__dataclass_params__", None)
        require(settings is not None and settings.frozen, f"{kind.__name__} is not a frozen dataclass")
        require(not kind.__subclasses__(), f"{kind.__name__} is final but has subclasses")
        tensors = [name for name in _fields(stage) if isinstance(getattr(stage, name), Tensor)]
        require(
            not tensors, f"{kind.__name__} holds tensors ({', '.join(tensors)}), not hyper-parameters only"
        )
        text = f"{kind.__doc__} {sys.modules[kind.__module__].__doc__}"
        require(bool(re.search(r"\b(19|20)\d\d\b", text)), f"{kind.__name__} cites no source with a year")


def tensors_are_never_pickled(algorithm: Algorithm) -> None:
    """A run on worker processes pickles no tensor."""

    def refuse(self: Tensor, protocol: Any) -> Any:
        raise LawBrokenError("a tensor was pickled")

    world = toy.world(algorithm)
    before = Tensor.__reduce_ex__
    Tensor.__reduce_ex__ = refuse  # type: ignore[method-assign]
    try:
        play(world, Processes(world, 2))
    finally:
        Tensor.__reduce_ex__ = before  # type: ignore[method-assign]


def declared_topologies_work(algorithm: Algorithm) -> None:
    """On a ring and on a rotating hub a run gives the same bits on every engine, or one sentence says why it cannot."""
    if algorithm.setting != "federated":
        return
    for name in ("ring", "rotating"):
        world = toy.world(algorithm)
        topology = TOPOLOGIES[name](len(world.clients), world.key / "topology")
        if topology.kind not in algorithm.topologies:
            require(bool(algorithm.refusal), f"it does not run on a {topology.kind} and does not say why")
            continue
        here = play(world, topology=topology)
        there = play(world, Processes(world, 2), topology=topology)
        require(
            here.fingerprint == there.fingerprint,
            f"on a {name}, with 2 processes the run ends with other bits",
        )


Law = Callable[[Algorithm], None]
LAWS: tuple[Law, ...] = (
    same_bits_on_every_engine,
    resuming_changes_nothing,
    randomness_is_named,
    nothing_given_is_written,
    messages_are_declared,
    logs_decide_nothing,
    lost_answers_are_survived,
    numbers_are_only_names,
    newcomers_are_served_or_not,
    stages_hold_hyperparameters_only,
    tensors_are_never_pickled,
    declared_topologies_work,
)


def check(algorithm: Algorithm, *, without: Iterable[str] = ()) -> list[str]:
    """Try every law on an algorithm: raise `LawBrokenError` at the first that is broken, or name those that hold.

    `without` leaves out laws by name, for a method that has a reason to.
    """
    chosen = [law for law in LAWS if law.__name__ not in set(without)]
    for law in chosen:
        try:
            law(algorithm)
        except LawBrokenError as error:
            raise LawBrokenError(f"{algorithm.name} breaks {law.__name__}: {error}") from error
    return [law.__name__ for law in chosen]


def told(facts: Iterable[Fact]) -> list[tuple[object, ...]]:
    """Return facts in a form that can be compared, without times."""
    return [
        (*fact[:4], fact.value.tolist() if isinstance(fact.value, Tensor) else repr(fact.value))
        for fact in facts
        if not fact.what.endswith("seconds")
    ]


def _tables(world: World) -> str:
    parts = [
        (p.x, p.y) for holder in world.federation.holders for p in (holder.train, holder.val, holder.test)
    ]
    return digest(parts)


def _full_batches(algorithm: Algorithm) -> Algorithm:
    """Return the algorithm with every training loop on full batches."""
    return dataclasses.replace(algorithm, stages=tuple(_whole(stage) for stage in algorithm.stages))


def _whole(stage: Any) -> Any:
    """Return a stage, and the stages that it is made of, with training loops on full batches."""
    changes: dict[str, Any] = {}
    for name in _fields(stage):
        part = getattr(stage, name)
        if isinstance(part, Fit):
            changes[name] = dataclasses.replace(part, batch="all")
        elif isinstance(part, Stage):
            changes[name] = _whole(part)
    return dataclasses.replace(stage, **changes)


def _fields(stage: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(stage)]


def _global_streams() -> dict[str, str]:
    numbers: Any = np.random.get_state(legacy=False)
    return {
        "torch": digest(torch.get_rng_state()),
        "numpy": repr((numbers["state"]["key"].tolist(), numbers["state"]["pos"])),
        "Python": repr(random.getstate()),
    }


__all__ = ["LAWS", "Law", "LawBrokenError", "check"]
