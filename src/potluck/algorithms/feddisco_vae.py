"""FedDisco with a beta-VAE: clients whose latent codes lie far from the prior count less.

TU Delft poster "FedDisco with a variational autoencoder" and its code (2024), after Ye et al., "FedDisco",
ICML 2023. Three stages: (A) a federated beta-VAE, (B) every client's distance with the global encoder, once,
(C) training from scratch with these weights, of the VAE itself (`task = "vae"`, the poster's) or of the
experiment's model ("classifier").

    raw_k = max(0, n_k / n_S - a d_k + b),   d_k = mean over latent dimensions of W1(codes of k, N(0, 1))

`d_norm = "sum1"` divides d by its sum over S, `d_center` first takes off the smallest d of S; S are the round's
participants, or with `scope = "all"` all clients, whatever the round. `discrepancy = "label_kl"` is FedDisco's
own d. `encoder_by = "public"` trains stage A on the clients' validation rows, as if these could be shown
(the poster has no such part); it stays federated, so no row moves. The data's `normalise` says whether
inputs are in [0, 1] or standardised; the decoder ends in a sigmoid either way, as in the authors' code.
Deviations: W1 is exact, not against a million draws. Where all raw weights are zero n_k decides (the authors
skip such runs). A client without an answer counts with the mean d, one whose codes are not finite not at all.
Wire: FedAvg with the VAE in (A), encoder down and 8 bytes up in (B), FedAvg of the task in (C). State: none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import nan
from typing import Any, Literal

from potluck.algorithms.fedavg import Rounds
from potluck.algorithms.feddisco import LabelDiscrepancy, Pull, disco_weights
from potluck.algorithms.fedvae import FIT, STREAM, VAE
from potluck.algorithms.fedvae import wire as wire
from potluck.average import Average, averaging
from potluck.combine import NormBuffers
from potluck.core import Algorithm, Stage
from potluck.errors import BadInputError
from potluck.learn import Fit
from potluck.parts.latent_census import LatentCensus, Latents, Norm, Source, compared
from potluck.roles import Architecture, Everything, Objective, Plain, Replace, Server, Share, Told, Weigh

Scope = Literal["participants", "all"]
Trainer = Literal["federated", "public"]
STAR = "it needs one global encoder; use a star or a rotating server"


@dataclass(frozen=True)
class LatentDiscrepancy(Weigh):
    """Weigh answers by size less the distance of their latent codes from N(0, I)."""

    a: Pull = 0.5
    b: Pull = 0.0
    d_norm: Norm = "raw"
    d_center: bool = False
    scope: Scope = "participants"
    z_source: Source = "sample"
    encoder_by: Trainer = "federated"
    vae: Architecture = VAE
    vae_rounds: Rounds = 25
    vae_fit: Fit = FIT

    def before(self) -> tuple[Stage[Any, Any, Any], ...]:
        """Train the autoencoder, then ask for the distances."""
        trained = Average(
            self.vae_rounds, self.vae_fit, stream=STREAM, architecture=self.vae,
            train_on="train" if self.encoder_by == "federated" else "val",
        )  # fmt: skip
        return trained, LatentCensus(self.vae, self.z_source, rows_too=self.scope == "all")

    def raw(self, told: Sequence[Told], past: Latents, population: Sequence[int]) -> Sequence[float]:
        """Return max(0, n_k / n_S - a d_k + b)."""
        rows = {answer.client: answer.rows for answer in told}
        crowd = dict(sorted({**rows, **past.rows}.items())) if self.scope == "all" else rows
        found = compared([past.distances.get(k, nan) for k in crowd], self.d_norm, self.d_center)
        weights = disco_weights(list(crowd.values()), found, self.a, self.b) if crowd else []
        raw = dict(zip(crowd, weights, strict=True))
        return [raw[answer.client] for answer in told]


def feddisco_vae(
    rounds: Rounds = 25,
    fit: Fit = FIT,
    a: Pull = 0.5,
    b: Pull = 0.0,
    discrepancy: Literal["vae_w1", "label_kl"] = "vae_w1",
    d_norm: Norm = "raw",
    d_center: bool = False,
    scope: Scope = "participants",
    z_source: Source = "sample",
    encoder_by: Trainer = "federated",
    task: Literal["vae", "classifier"] = "vae",
    vae: Architecture = VAE,
    vae_rounds: Rounds | None = None,
    vae_fit: Fit | None = None,
    objective: Objective = Plain(),
    server: Server = Replace(),
    share: Share = Everything(),
    bn_buffers: NormBuffers = "average",
) -> Algorithm:
    """Averaging that discounts clients with odd latent codes (TU Delft poster, after Ye et al., ICML 2023).

    Stage A takes `vae_rounds` (else `rounds`) and `vae_fit` (else `fit` if the task is the VAE, else Adam, 1e-3).
    """
    weigh: Weigh = LatentDiscrepancy(
        a, b, d_norm, d_center, scope, z_source, encoder_by, vae,
        vae_rounds or rounds, vae_fit or (fit if task == "vae" else FIT),
    )  # fmt: skip
    if discrepancy == "label_kl":
        if d_center or scope == "all":
            raise BadInputError('algorithm.discrepancy: "label_kl" has neither d_center nor scope = "all"')
        weigh = LabelDiscrepancy(a, b, normalise="kl" if d_norm == "sum1" else "none")
    made = averaging(
        "feddisco-vae", rounds, fit, weigh, objective, server, share, bn_buffers,
        architecture=vae if task == "vae" else None, topologies=frozenset({"star", "rotating"}), refusal=STAR,
    )  # fmt: skip
    first, *others = made.stages
    if (
        task == "vae" and discrepancy == "vae_w1" and isinstance(first, Average)
    ):  # A is then the baseline of C
        made = replace(made, stages=(replace(first, judged=True), *others))
    return made
