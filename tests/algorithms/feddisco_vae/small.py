"""A small FedDisco with a beta-VAE on the toy federation, and what tests read off a play."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from potluck.algorithms.feddisco_vae import feddisco_vae
from potluck.core import Algorithm
from potluck.federation import Federation, Holder
from potluck.laws import toy
from potluck.laws.engines import Played
from potluck.learn import Fit
from potluck.parts.autoencoder import Autoencoder
from potluck.world import World

SMALL = Autoencoder(hidden=(12,), latent=2, beta=0.1)

FIT = Fit(optimizer="adam", lr=3e-3, batch=16)

NIID2: dict[str, Any] = {
    "name": "niid2",
    "data": {"name": "digits"},
    "partition": {"name": "niid2"},
    "split": {"val": 0.0, "test": 0.0},
}

LEARNT = {
    "name": "feddisco-vae",
    "a": 0.9,
    "rounds": 1,
    "vae_rounds": 5,
    "fit": {"optimizer": "adam", "lr": 3e-3, "batch": 16, "epochs": 5},
    "vae": {"name": "vae", "hidden": [64, 32], "beta": 0.1},
}


def system(**options: Any) -> Algorithm:
    """Return a small system; the neutral rest is that of the poster."""
    given: dict[str, Any] = {"rounds": 1, "fit": FIT, "vae": SMALL, "a": 0.1}
    return feddisco_vae(**{**given, **options})


def world(algorithm: Algorithm, *, participation: float = 1.0, given: Federation | None = None) -> World:
    return toy.world(algorithm, participation=participation, dropout=0.0, given=given)


def changed(tables: Mapping[str, Any], only: int | None = None) -> Federation:
    """Return the toy federation with parts of its holders (or of one of them) exchanged."""
    known = toy.federation()
    holders: list[Holder] = []
    for k, holder in enumerate(known.holders):
        new = {part: make(getattr(holder, part)) for part, make in tables.items()}
        holders.append(replace(holder, **new))
        if only is not None and k != only:
            holders[-1] = holder
    return replace(known, holders=holders)


def facts(played: Played, stage: str, what: str) -> dict[int, Any]:
    """Return the last thing of that name that was written about each client."""
    return {
        int(fact.who.removeprefix("client/")): fact.value
        for fact in played.facts
        if (fact.stage, fact.what) == (stage, what) and fact.who.startswith("client/")
    }


def distances(played: Played) -> dict[int, float]:
    return {client: float(value) for client, value in facts(played, "latent", "discrepancy").items()}


def trained(played: Played, stage: str) -> Any:
    """Return the state in which a stage ended."""
    return [step for step in played.steps if step.stage == stage][-1].states["server"]
