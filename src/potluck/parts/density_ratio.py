"""One weight per row, alpha = p(x) / q_k(x), computed where the rows are: FedDisk's phase 1c.

Nguyen, Wu and Chang, "Federated learning for distribution skewed data using sample weights", IEEE TAI 2024.
Every client is shown the pooled density, and asks an estimator (`ratio.py`) how much likelier each of its rows is
under it than under the client's own density (`own_density.py`). The weights stay in its memory, in place of its
density; nothing is sent. The judge draws the same numbers everywhere, so that a client's weights depend on its
rows and not on its number.
Log: a histogram of ln(alpha), the positions of the most and least wanted rows, the share of rows that the
weights amount to, and the bound on what the pooled density tells of the client (`privacy_bound.py`): finite
for rows on a grid of bytes only. A client that misses this stage trains with all weights one ("unweighted").
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from potluck.average import Global
from potluck.core import Client, Inbox, Merged, Reply, Site, Stage, Value
from potluck.errors import BadInputError
from potluck.model import Model
from potluck.models.density import Density
from potluck.parts.density_model import Made
from potluck.parts.own_density import OWN
from potluck.parts.privacy_bound import row_entropy
from potluck.parts.ratio import Paper, Ratio, RowWeights
from potluck.parts.row_pool import Pool
from potluck.roles import Architecture
from potluck.tree import Params

BINS = 20
SHOWN = 8
ROW_WEIGHTS = "row_weights"


class Pooled(NamedTuple):
    """What a site knows, and shows: the pooled density (or pooled rows), and the number of all training rows."""

    density: Params
    rows: Tensor | None
    total: int


@dataclass(frozen=True)
class DensityRatio(Stage[Pooled, Pooled, None]):
    """Ask all clients to weigh their rows."""

    ratio: Ratio = field(default_factory=Paper)
    density: Architecture = field(default_factory=Made)
    rounds: int = 1
    stream: str = "ratio"

    everyone: ClassVar[bool] = True
    messages: ClassVar[tuple[type, ...]] = (Pooled,)

    @property
    def partial(self) -> bool:
        """Hear stragglers: weights are never half done."""
        return True

    def network(self, given: Model) -> Model:
        """Return the density, or the experiment's model where raw rows are compared."""
        return given if self.ratio.leaks else self.density.model(given)

    def init(self, site: Site, past: Global | Pool) -> Merged[Pooled]:
        """Take over the best pooled density, or the pooled rows."""
        if isinstance(past, Pool):
            return Merged(Pooled({}, past.rows, sum(past.sizes.values())))
        total = sum(past.watch.rows.values()) if past.watch is not None else 0
        log: dict[str, Value] = {} if past.watch is None else {"density/loss": past.watch.loss}
        return Merged(Pooled(past.best, None, total), log)

    def view(self, state: Pooled, client: int) -> Pooled:
        """Show the pooled density."""
        return state

    def local(self, view: Pooled, client: Client) -> Reply[None]:
        """Weigh every row."""
        weights, log = self._weighed(view, client)
        log |= described(weights.alpha, self.ratio.clip) if len(client.train) else {}
        log |= {"reason": weights.note} if weights.note else {}
        log |= leaked(client.train.x, view.total)
        keep: dict[str, Tensor | Params] = {ROW_WEIGHTS: weights.alpha}
        if OWN in client.memory:
            keep[OWN] = {}
        return Reply(None, keep=keep, log=log)

    def _weighed(self, view: Pooled, client: Client) -> tuple[RowWeights, dict[str, Value]]:
        x, model, own = client.train.x, client.model, client.memory.get(OWN)
        if len(x) < 2:
            return self.ratio(x, None, None, None, client.birth), {}
        if self.ratio.leaks:
            if view.rows is None or not len(view.rows):
                return RowWeights(torch.ones(len(x)), "no_pooled_rows"), {}
            return self.ratio(x, None, None, view.rows, client.birth), {}
        if not own:
            return RowWeights(torch.ones(len(x)), "no_own_density"), {}
        loss = float(model.rows(view.density, client.val).double().mean())
        everyone = copy.deepcopy(model.load(view.density).eval())
        mine = model.load(own).eval()
        weights = self.ratio(x, _density(mine), _density(everyone), None, client.birth)
        return weights, {"density/pooled_loss": loss}

    def merge(self, state: Pooled, inbox: Inbox[None]) -> Merged[Pooled]:
        """Note who has no weights; the state stays as it is."""
        heard = {sent.client for sent in inbox.stream()}
        missing = {client: "unweighted" for client in inbox.population if client not in heard}
        return Merged(state, {"weighted": len(heard)}, missing)


def described(alpha: Tensor, clip: float) -> Mapping[str, Value]:
    """Return a histogram over [1/clip, clip] (equal widths of the logarithm, ends open), extremes, effective share."""
    reach = math.log(clip)
    places = ((alpha.double().log() + reach) / (2 * reach) * BINS).floor().clamp(0, BINS - 1)
    order = alpha.argsort(stable=True)
    return {
        "row_weights/histogram": torch.bincount(places.long(), minlength=BINS),
        "row_weights/clip": clip,
        "row_weights/effective": float(alpha.sum() ** 2 / alpha.square().sum() / len(alpha)),
        "row_weights/lowest": order[:SHOWN],
        "row_weights/highest": order.flip(0)[:SHOWN],
    }


def leaked(rows: Tensor, total: int) -> Mapping[str, Value]:
    """Return the bound kappa_k H(Z_k) in nats: infinite unless all values are whole 255ths or whole numbers."""
    if not len(rows) or not total:
        return {}
    scaled = rows * 255 if float(rows.abs().max()) <= 1 else rows
    whole = scaled.round()
    if float((scaled - whole).abs().max()) > 1e-3:
        return {"privacy/bound": math.inf}
    return {"privacy/bound": len(rows) / total * row_entropy(whole.to(torch.int32).numpy())}


def _density(module: nn.Module) -> Density:
    if not isinstance(module, Density):
        raise BadInputError(f"algorithm.density: must be a density, not a {type(module).__name__}")
    return module
