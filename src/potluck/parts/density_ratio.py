"""One weight per row, alpha = p(x) / q_k(x), computed where the rows are: FedDisk's phases 1a and 1c.

Nguyen, Wu and Chang, "Federated learning for distribution skewed data using sample weights", IEEE TAI 2024.
Every client is shown the pooled density, trains a density of its own, and asks an estimator (`ratio.py`) how
much likelier each of its rows is under the pooled one. The weights stay in its memory; nothing is sent.
Both densities start alike at all clients, and the judge draws the same numbers everywhere, so that a client's
weights depend on its rows and not on its number.
Log: a histogram of ln(alpha), the positions of the most and least wanted rows, the share of rows that the
weights amount to, and the bound on what the pooled density tells of the client (`privacy_bound.py`): finite
for rows on a grid of bytes only. A client that misses this stage trains with all weights one ("unweighted").
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from potluck.average import Global
from potluck.core import Client, Inbox, Merged, Reply, Site, Stage, Value
from potluck.errors import BadInputError
from potluck.learn import Fit
from potluck.model import Model
from potluck.models.density import Density
from potluck.parts.density_model import Made
from potluck.parts.likelihood import refuse_rows
from potluck.parts.local_density import fitted
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
    """Ask all clients to weigh their rows; `fit.epochs` is how long to train between two looks at validation rows."""

    ratio: Ratio = field(default_factory=Paper)
    density: Architecture = field(default_factory=Made)
    fit: Fit = field(default_factory=lambda: Fit("adam", lr=1e-3, epochs=5))
    chunks: Annotated[int, Field(ge=1)] = 100
    patience: Annotated[int, Field(ge=1)] = 3
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
        """Train the own density, and weigh every row."""
        if len(client.train) < 2:
            weights, log = self.ratio(client.train.x, None, None, None, client.birth), dict[str, Value]()
        else:
            weights, log = self._weighed(view, client)
        log |= described(weights.alpha, self.ratio.clip) if len(client.train) else {}
        log |= {"reason": weights.note} if weights.note else {}
        log |= leaked(client.train.x, view.total)
        return Reply(None, keep={ROW_WEIGHTS: weights.alpha}, log=log)

    def _weighed(self, view: Pooled, client: Client) -> tuple[RowWeights, dict[str, Value]]:
        if self.ratio.leaks:
            if view.rows is None or not len(view.rows):
                return RowWeights(torch.ones(len(client.train)), "no_pooled_rows"), {}
            return self.ratio(client.train.x, None, None, view.rows, client.birth), {}
        model = client.model
        refuse_rows(model.module, client)
        own = fitted(
            model,
            client.first(),
            self.fit,
            client.train,
            client.val,
            client.key / "density",
            chunks=self.chunks,
            patience=self.patience,
        )
        log: dict[str, Value] = {"density/loss": own.loss, "density/epochs": own.chunks * self.fit.epochs}
        if own.note:
            return RowWeights(torch.ones(len(client.train)), own.note), log
        log["density/pooled_loss"] = float(model.rows(view.density, client.val).double().mean())
        everyone = copy.deepcopy(model.load(view.density).eval())
        mine = model.load(own.params).eval()
        found = self.ratio(client.train.x, _density(mine), _density(everyone), None, client.birth)
        return found, log

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
