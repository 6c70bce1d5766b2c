"""Every law on every algorithm of the table, and every law on an algorithm that breaks it."""

from __future__ import annotations

import gc
import inspect
import os
import pickle
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from potluck import laws
from potluck.algorithms import ALGORITHMS
from potluck.core import Algorithm, Client, Inbox, Merged, Reply, Sent, Site, Stage
from potluck.laws import LAWS, Law, LawBrokenError, check
from potluck.learn import Fit
from potluck.transport.codec import CodecError
from potluck.tree import Params
from potluck.visit import Answer, Call, visit
from potluck.world import World

SMALL: Mapping[str, Any] = {
    "rounds": 4,
    "fit": Fit(lr=0.2, batch=8, epochs=2),
    "vae_rounds": 2,
    "vae_fit": Fit(lr=0.05, batch=8),
    "density_rounds": 2,
    "density_fit": Fit(lr=0.05, batch=8),
    "local_fit": Fit(lr=0.05, batch=8),
    "local_chunks": 2,
    "gate_rounds": 2,
    "gate_fit": Fit(lr=0.05, batch=8),
    "clusters": 2,
    "n_init": 1,
    "orders": 2,
}
"""Settings for seconds instead of hours, for every entry that has a parameter of that name."""


def built(name: str) -> Algorithm:
    """Return an algorithm of the table with small settings; what it does not know it is not given."""
    taken = inspect.signature(ALGORITHMS[name]).parameters
    return ALGORITHMS[name](**{key: value for key, value in SMALL.items() if key in taken})


NOISY = ("fedvae", "feddisco-vae")
"""Their networks draw noise as they train, and every client draws its own: renumbered clients are not the same."""
CASES = [
    (name, law)
    for name in sorted(ALGORITHMS)
    for law in LAWS
    if not (name in NOISY and law.__name__ == "numbers_are_only_names")
]


@pytest.mark.parametrize(("name", "law"), CASES, ids=lambda part: getattr(part, "__name__", part))
def test_every_algorithm_obeys_every_law(name: str, law: Law) -> None:
    law(built(name))


class Down(NamedTuple):
    params: Params


class Up(NamedTuple):
    params: Params
    rows: int


class Undeclared(NamedTuple):
    params: Params


@dataclass(frozen=True)
class Tiny(Stage[Down, Down, Up]):
    """Plain averaging (McMahan et al., 2017) with at most one flaw."""

    flaw: str = ""
    rounds: int = 4
    fit: Fit = Fit(lr=0.2, batch=8, epochs=2)
    held: Tensor | None = None
    hidden: list[int] = field(default_factory=list)
    messages: ClassVar[tuple[type, ...]] = (Down, Up)

    @property
    def newcomer(self) -> bool:
        return self.flaw != "serves whom it cannot"

    def serves(self, model: Any) -> bool:
        return True

    def init(self, site: Site, past: Any) -> Merged[Down]:
        return Merged(Down(site.first()))

    def view(self, state: Down, client: int) -> Down:
        return state

    def local(self, view: Down, client: Client) -> Reply[Up]:
        if self.flaw == "writes into its view":
            view.params["head.bias"].add_(1)
        if self.flaw == "writes into its memory" and client.memory:
            client.memory["seen"].add_(1)
        if self.flaw == "writes into its rows" and len(client.train):
            client.train.x.add_(1e-3)
        trained = self.fit(client.model, view.params, client.train, client.key).params
        if self.flaw == "looks at its process":
            trained["head.bias"] += 1e-3 * (os.getpid() % 1009)
        if self.flaw == "looks at the clock":
            trained["head.bias"] += 1e-3 * (time.perf_counter_ns() % 1009)
        send: Any = Up(trained, len(client.train))
        if self.flaw == "sends what it did not declare":
            send = Undeclared(trained)
        return Reply(send, {"seen": torch.ones(1)})

    def merge(self, state: Down, inbox: Inbox[Up]) -> Merged[Down]:
        answers = inbox.answers
        self._misbehave(state, answers)
        weights = [float(sent.message.rows) for sent in answers]
        if self.flaw == "prefers small numbers":
            weights = [weight / (1 + sent.client) ** 2 for weight, sent in zip(weights, answers, strict=True)]
        if not sum(weights):
            return Merged(state)
        params = dict(state.params)
        for name, leaf in state.params.items():
            if leaf.is_floating_point():
                pairs = zip(weights, answers, strict=True)
                summed = torch.stack([weight * sent.message.params[name] for weight, sent in pairs]).sum(0)
                params[name] = self._scale(len(answers)) * summed / sum(weights)
        return Merged(Down(params))

    def _misbehave(self, state: Down, answers: Sequence[Sent[Up]]) -> None:
        if self.flaw == "draws from numpy":
            np.random.random()
        if self.flaw == "draws from Python":
            random.random()
        if self.flaw == "draws from torch":
            torch.rand(1)
        if self.flaw == "writes into its state":
            state.params["head.bias"].add_(1)
        if self.flaw == "writes into an answer":
            answers[0].message.params["head.bias"].add_(1)
        if self.flaw == "pickles":
            pickle.dumps(state.params)

    def _scale(self, answers: int) -> float:
        self.hidden.append(answers)
        if self.flaw == "remembers by itself":
            return 1 + 0.001 * len(self.hidden)
        return float("nan") if self.flaw == "needs three answers" and answers < 3 else 1.0

    def predict(self, view: Down, client: Client, x: Tensor) -> Tensor:
        out = client.model(view.params, x)
        return torch.zeros_like(out) if self.flaw == "has learnt nothing" else out


def tried(law: str, stage: Stage[Any, Any, Any]) -> list[str]:
    """Try one law alone."""
    others = [other.__name__ for other in LAWS if other.__name__ != law]
    return check(Algorithm((stage,), "tiny"), without=others)


FLAWS = [
    ("same_bits_on_every_engine", "looks at its process", "with 1 processes the run ends with other bits"),
    ("same_bits_on_every_engine", "looks at the clock", "with shuffled answers the run ends with other bits"),
    (
        "same_bits_on_every_engine",
        "sends what it did not declare",
        "'Undeclared' object has no attribute 'rows'",
    ),
    ("resuming_changes_nothing", "remembers by itself", "a run resumed after round 0 of stage 'train' ends"),
    ("randomness_is_named", "draws from numpy", "the global random stream of numpy has moved"),
    ("randomness_is_named", "draws from Python", "the global random stream of Python has moved"),
    ("randomness_is_named", "draws from torch", "the global random stream of torch has moved"),
    ("randomness_is_named", "looks at the clock", "the same seed gives other bits"),
    ("nothing_given_is_written", "writes into its view", "`local` changes its view or its client's memory"),
    ("nothing_given_is_written", "writes into its memory", "`local` changes its view or its client's memory"),
    ("nothing_given_is_written", "writes into its rows", "a visit changes its client's rows"),
    ("nothing_given_is_written", "writes into its state", "`merge` changes the state it was given"),
    ("nothing_given_is_written", "writes into an answer", "`merge` changes an answer"),
    (
        "messages_are_declared",
        "sends what it did not declare",
        "Undeclared is not among the declared messages",
    ),
    ("lost_answers_are_survived", "needs three answers", "with lost answers a figure is not finite"),
    ("lost_answers_are_survived", "writes into an answer", "list index out of range"),
    ("numbers_are_only_names", "prefers small numbers", "renumbered, client . has other figures"),
    ("newcomers_are_served_or_not", "serves whom it cannot", "the score of a newcomer contradicts"),
    ("newcomers_are_served_or_not", "has learnt nothing", "to say the commonest class is"),
    ("tensors_are_never_pickled", "pickles", "a tensor was pickled"),
]


@pytest.mark.parametrize(("law", "flaw", "complaint"), FLAWS)
def test_a_law_finds_the_flaw(law: str, flaw: str, complaint: str) -> None:
    with pytest.raises((LawBrokenError, LookupError, AttributeError, CodecError), match=complaint):
        tried(law, Tiny(flaw))


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_without_a_flaw_nothing_is_found(law: Law) -> None:
    assert tried(law.__name__, Tiny()) == [law.__name__]


def test_a_log_that_reached_the_merge_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """No stage can break this law alone; a driver that handed logs on would."""

    def leaking(world: World, call: Call) -> Answer:
        answer = visit(world, call)
        return answer if call.kind == "score" else answer._replace(send=answer.send._replace(rows=1))

    monkeypatch.setattr(laws, "without_log", leaking)
    with pytest.raises(LawBrokenError, match="without the clients' logs the run ends with other bits"):
        tried("logs_decide_nothing", Tiny())


def test_a_stage_holds_hyper_parameters_only() -> None:
    law = "stages_hold_hyperparameters_only"
    with pytest.raises(LawBrokenError, match="Tiny holds tensors \\(held\\)"):
        tried(law, Tiny(held=torch.ones(1)))
    changes: list[tuple[dict[str, Any], str]] = [
        ({"__doc__": "Plain averaging."}, "cites no source with a year"),
        ({"__dataclass_params__": None}, "is not a frozen dataclass"),
    ]
    for change, complaint in changes:
        kind = type("Odd", (Tiny,), {"__module__": "builtins", **change})
        with pytest.raises(LawBrokenError, match=complaint):
            tried(law, kind())
        del kind
        gc.collect()


def test_the_law_that_is_broken_is_named() -> None:
    with pytest.raises(
        LawBrokenError, match="tiny breaks randomness_is_named: the same seed gives other bits"
    ):
        check(
            Algorithm((Tiny("looks at the clock"),), "tiny"),
            without=["same_bits_on_every_engine", "resuming_changes_nothing"],
        )
