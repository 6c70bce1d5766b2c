"""A census of latent codes: every client encodes its rows once and tells how far they lie from N(0, I).

What FedDisco with a beta-VAE (TU Delft poster and code, 2024) weighs by. With the global encoder,
    d_k = mean over latent dimensions j of W1( {z_ij : i a training row of client k}, N(0, 1) ),
z drawn from the posterior (`sample`, as in the authors' code) or its mean. With means even an unbiased
client is a little away from N(0, 1), because the posterior's own spread is missing.
Wire: the encoder down, one number up (two where weights are relative to all clients' rows). The codes, the
distance of each dimension, and the divergence of each dimension from the prior (near zero: that dimension
has collapsed) are only written into the client's own log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from potluck.average import Global
from potluck.core import Client, Inbox, Merged, Reply, Site, Stage, Value
from potluck.errors import BadInputError
from potluck.key import Key
from potluck.model import Model
from potluck.models.vae import VAE, Code
from potluck.parts.autoencoder import Autoencoder, autoencoder, encoder_leaves
from potluck.parts.latent_codes import described, distances, encode
from potluck.roles import Architecture
from potluck.tree import Params

Source = Literal["sample", "mean"]
Norm = Literal["raw", "sum1"]


class Latents(NamedTuple):
    """What a site knows: the encoder until it was used, and the distances (and rows) of who answered."""

    encoder: Params
    distances: Mapping[int, float]
    rows: Mapping[int, int]


class Encoder(NamedTuple):
    """What a client is shown: the leaves of the global encoder."""

    params: Params


class Distance(NamedTuple):
    """What a client tells: its distance from the prior, and its number of rows if that is asked for."""

    distance: float
    rows: int | None


@dataclass(frozen=True)
class LatentCensus(Stage[Latents, Encoder, Distance]):
    """Ask all clients how far their latent codes lie from the prior; `rows_too` asks for their rows as well."""

    vae: Architecture = field(default_factory=Autoencoder)
    z_source: Source = "sample"
    rows_too: bool = False
    rounds: int = 1
    stream: str = "latent"

    everyone: ClassVar[bool] = True
    messages: ClassVar[tuple[type, ...]] = (Latents, Encoder, Distance)

    @property
    def partial(self) -> bool:
        """Hear stragglers: a distance is never half done."""
        return True

    def network(self, given: Model) -> Model:
        """Return the autoencoder that the stage before has trained."""
        return self.vae.model(given)

    def init(self, site: Site, past: Global) -> Merged[Latents]:
        """Take the encoder out of what the stage before has trained."""
        if site.name.startswith("site/"):
            raise BadInputError(
                "topology.name: distances of latent codes need one encoder for all, and in a mesh every peer "
                "has its own; choose a star"
            )
        autoencoder(site.model.module)
        return Merged(Latents({name: past.params[name] for name in encoder_leaves(site.model)}, {}, {}))

    def view(self, state: Latents, client: int) -> Encoder:
        """Show the encoder."""
        return Encoder(state.encoder)

    def local(self, view: Encoder, client: Client) -> Reply[Distance]:
        """Encode the training rows and measure how far they lie from the prior."""
        rows = len(client.train) if self.rows_too else None
        model = client.model
        filled = {name: view.params.get(name, slot.detach()) for name, slot in model.slots.items()}
        vae = autoencoder(model.load(filled).eval())
        code = encode(vae, client.train)
        z = self.latents(vae, code, client.key)
        far = distances(z)
        return Reply(Distance(float(far.mean()), rows), log=described(z, code, far))

    def latents(self, vae: VAE, code: Code, key: Key) -> Tensor:
        """Return one latent code a row."""
        return code.mean if self.z_source == "mean" else vae.reparameterise(code, (key / "latent").torch())

    def merge(self, state: Latents, inbox: Inbox[Distance]) -> Merged[Latents]:
        """Collect the distances; an answer without one is left out."""
        heard, rows, notes = dict(state.distances), dict(state.rows), dict[int, str]()
        for client, message in inbox.stream():
            held = message.rows if self.rows_too else 0
            if not message.distance >= 0 or held is None or held < 0:
                notes[client] = "bad_message"
                continue
            heard[client] = message.distance
            rows |= {client: held} if self.rows_too else {}
        log: dict[str, Value] = {f"client/{client}/discrepancy": found for client, found in heard.items()}
        return Merged(Latents({}, heard, rows), {**log, "told": len(heard)}, notes)


def compared(told: Sequence[float], norm: Norm, center: bool) -> Tensor:
    """Return distances as they enter weights: less the smallest if `center`, over their sum if "sum1".

    What is infinite or missing stays so.
    """
    found = torch.tensor(told, dtype=torch.float64)
    known = found.isfinite()
    if center and known.any():
        found = found - found[known].min()
    total = found[known].sum()
    return found / total if norm == "sum1" and total > 0 else found
