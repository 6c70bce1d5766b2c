"""Maximum likelihood of a density, and the proof that all who average it have the same masks.

FedDisk (Nguyen, Wu and Chang, IEEE TAI 2024) averages MADEs. Weights under different masks have nothing to do
with each other, and in the authors' code every client draws masks of its own. Here masks follow from a seed;
what travels down is the seed and a digest of the masks (24 bytes), never the masks, and a client whose own
masks have another digest refuses to train.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from potluck.core import Client
from potluck.errors import BadInputError
from potluck.learn import Fit, Plan
from potluck.model import Model
from potluck.models.density import Density
from potluck.models.made import MADE
from potluck.parts.density_model import Made
from potluck.roles import Architecture, Objective
from potluck.tree import Params


@dataclass(frozen=True)
class Likelihood(Objective):
    """Minimise -log p of the density that `architecture` describes."""

    architecture: Architecture

    def refuse(self, model: Model, fit: Fit) -> str | None:
        """Refuse what is no density."""
        if isinstance(model.module, Density):
            return None
        return "algorithm.density: must be a density (made, gaussian_mixture, flow)"

    def start(self, model: Model, params: Params) -> Params:
        """Return the seed of the masks and their digest; nothing for densities without masks."""
        if not isinstance(model.module, MADE) or not isinstance(self.architecture, Made):
            return {}
        return {
            "mask_seed": torch.tensor([self.architecture.mask_seed]),
            "mask_digest": digest(model.module),
        }

    def plan(self, extra: Params, given: Params, client: Client) -> Plan:
        """Train plainly, once masks and rows are what the density needs."""
        module = client.model.module
        if isinstance(module, MADE):
            if "mask_digest" not in extra or not torch.equal(extra["mask_digest"], digest(module)):
                raise BadInputError(
                    f"client {client.id}: its masks are not those of the shared MADE; give all the same "
                    f"density.hidden, density.order and density.mask_seed"
                )
            refuse_rows(module, client)
        return Plan()


def digest(module: MADE) -> Tensor:
    """Return the digest of the masks as sixteen bytes."""
    return torch.frombuffer(bytearray.fromhex(module.mask_digest()), dtype=torch.uint8).clone()


def refuse_rows(module: nn.Module, client: Client) -> None:
    """Refuse rows that are no shades from 0 to 1, if the density is one of coin flips."""
    if not isinstance(module, MADE) or module.binarize:
        return
    for part in (client.train.x, client.val.x):
        if part.numel() and not (float(part.min()) >= 0 and float(part.max()) <= 1):
            raise BadInputError(
                f"client {client.id}: rows from {float(part.min()):.3g} to {float(part.max()):.3g} have no "
                f'Bernoulli density; scale them to [0, 1] (data.normalise = "unit"), or choose density = '
                f'{{ name = "flow" }} or {{ name = "gaussian_mixture" }} with ratio = {{ name = "log_ratio" }}'
            )
