"""FedEx's first stage: one round of averaging with everybody, whose answers are sorted into clusters.

Miles et al., "FedEx: an exploration of clustering clients in federated learning", University of Michigan, 2024. All
clients train from the same w0; the cosines between their updates w_k - w0 go to spectral clustering. The published
code compares whole weights (`similarity_on = "weights"`), whose cosines are all close to 1, and warms up on IID
loaders, so that its clusters carry no information; here the warm-up sees the rows that training sees.
Ours: `similarity_on = "first_layer"` compares the updates of the first layer alone. Later layers learn which classes a
client holds; the first one learns what its inputs look like.
A client without an update (no rows) belongs to no cluster. One that was not heard is sorted by its first answer in
training, for which w0 and each cluster's mean update are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from potluck.average import Average, Down, Global, Update
from potluck.combine import Fold
from potluck.core import REJECTIONS, Client, Inbox, Merged, Reply, Sent, Site, Stage, Value
from potluck.errors import BadInputError
from potluck.model import Model
from potluck.parts.clusters import Assign, Clusters, EmptyPolicy, clusters
from potluck.parts.double_softmax import LossHead, with_head
from potluck.parts.similarity import AffinityMap, Floats, affinity, cosines, gram
from potluck.tree import Params

Count = Annotated[int, Field(ge=1)] | Literal["auto"]
SimilarityOn = Literal["delta", "first_layer", "weights"]
NOBODY = -1


class Sorted(NamedTuple):
    """Who belongs where: w0, the warm mean, a cluster by client (-1: none), each cluster's mean update.

    `compared` names the leaves that tell clients apart.
    """

    start: Params
    mean: Params
    labels: Mapping[int, int]
    centres: tuple[Params, ...]
    compared: tuple[str, ...]
    past: Any

    @property
    def many(self) -> int:
        """Return the number of clusters, at least one."""
        return max(1, len(self.centres), 1 + max(self.labels.values(), default=NOBODY))

    def members(self, cluster: int) -> list[int]:
        """Return the clients of a cluster."""
        return sorted(client for client, label in self.labels.items() if label == cluster)

    def unheard(self, clients: Sequence[int]) -> list[int]:
        """Return the clients that are still to be sorted."""
        return [client for client in clients if client not in self.labels]


@dataclass(frozen=True)
class Sorting:
    """How clients are sorted: what is compared, how cosines become affinities, how the spectrum is cut."""

    clusters: Count = 3
    similarity_on: SimilarityOn = "delta"
    affinity_map: AffinityMap = "relu"
    assign: Assign = "kmeans"
    empty_policy: EmptyPolicy = "reduce"


@dataclass(frozen=True)
class WarmUp(Stage[Sorted, Down, Update]):
    """One round of plain averaging with all clients, whose merge is a clustering."""

    average: Average = field(default_factory=lambda: Average(1, stream="warmup"))
    sorting: Sorting = field(default_factory=Sorting)
    loss_head: LossHead = "logits"
    rounds: int = 1
    stream: str = "warmup"

    everyone: ClassVar[bool] = True
    messages: ClassVar[tuple[type, ...]] = (Sorted, Down, Update)

    def network(self, given: Model) -> Model:
        """Return the model under the loss head."""
        return with_head(given, self.loss_head)

    def init(self, site: Site, past: Any) -> Merged[Sorted]:
        """Draw w0, and refuse fewer clients than clusters, or targets without classes."""
        wanted = self.sorting.clusters
        if wanted != "auto" and wanted > len(site.clients):
            raise BadInputError(
                f"algorithm.clusters: {wanted} clusters need at least as many clients, got {len(site.clients)}"
            )
        if not site.classes:
            raise BadInputError("algorithm: FedEx combines class shares, but the data have no classes")
        start = self.average.init(site, None).state.params
        names = site.model.learnable
        compared = first_layer(names) if self.sorting.similarity_on == "first_layer" else names
        return Merged(Sorted(start, {}, {}, (), compared, past))

    def view(self, state: Sorted, client: int) -> Down:
        """Show a client w0."""
        return Down(state.start, {})

    def local(self, view: Down, client: Client) -> Reply[Update]:
        """Train from w0 on the own rows."""
        return self.average.local(view, client)

    def merge(self, state: Sorted, inbox: Inbox[Update]) -> Merged[Sorted]:
        """Average the answers, and sort the clients by their updates."""
        answers = inbox.answers
        mean = self.average.merge(Global(state.start, {}, {}, None), inbox)
        sound = [sent for sent in answers if mean.notes.get(sent.client) not in REJECTIONS]
        products = gram([sent.message.params for sent in sound], state.start, state.compared)
        moved = [sent for sent, square in zip(sound, np.diag(products), strict=True) if square > 0]
        labels = {sent.client: NOBODY for sent in sound}
        log: dict[str, Value] = dict(mean.log)
        centres: tuple[Params, ...] = ()
        if moved:
            kept = np.flatnonzero(np.diag(products) > 0)
            found = self._sorted(state, moved, products[np.ix_(kept, kept)], inbox.key.integer())
            labels |= {s.client: int(label) for s, label in zip(moved, found.labels, strict=True)}
            centres = _centres(moved, found, state)
            for sent, label, point in zip(moved, found.labels, found.plane, strict=True):
                log[f"client/{sent.client}/cluster"] = int(label)
                log[f"client/{sent.client}/coordinates"] = [float(value) for value in point]
        log["clusters"] = len(centres)
        return Merged(state._replace(mean=mean.state.params, labels=labels, centres=centres), log, mean.notes)

    def _sorted(self, state: Sorted, moved: Sequence[Sent[Update]], products: Floats, seed: int) -> Clusters:
        how = self.sorting
        if how.similarity_on == "weights":
            products = gram([sent.message.params for sent in moved], None, state.compared)
        likeness = affinity(cosines(products), how.affinity_map)
        return clusters(likeness, how.clusters, how.assign, how.empty_policy, seed)


def first_layer(names: Sequence[str]) -> tuple[str, ...]:
    """Return the leaves of the module that holds the first one: its weight and its bias."""
    module = names[0].rpartition(".")[0]
    return tuple(name for name in names if name.rpartition(".")[0] == module)


def _centres(moved: Sequence[Sent[Update]], found: Clusters, state: Sorted) -> tuple[Params, ...]:
    """Return every cluster's mean update, over the leaves that are compared."""
    folds = [Fold() for _ in range(found.many)]
    for sent, label in zip(moved, found.labels, strict=True):
        folds[int(label)].add(1.0, {name: sent.message.params[name] for name in state.compared})
    means = [fold.mean() for fold in folds]
    return tuple({name: leaf - state.start[name] for name, leaf in mean.items()} for mean in means)
