"""Every client trains a density of its own rows: FedDisk's phase 1a. Nothing travels, down or up.

Nguyen, Wu and Chang, "Federated learning for distribution skewed data using sample weights", IEEE TAI 2024. The
density starts alike at all clients and they draw the same batches, so that it depends on a client's rows and not on
its number. It lies in the client's memory until the rows are weighed. It is a stage of its own, so that the estimators
of a comparison share it. A client that misses it, or has no validation rows to stop by, trains
with all weights one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from pydantic import Field

from potluck.core import Client, Inbox, Merged, Reply, Site, Stage
from potluck.errors import BadInputError
from potluck.learn import Fit
from potluck.model import Model
from potluck.models.density import Density
from potluck.parts.density_model import Made
from potluck.parts.likelihood import refuse_rows
from potluck.parts.local_density import fitted
from potluck.roles import Architecture

OWN = "own_density"


@dataclass(frozen=True)
class OwnDensity(Stage[None, None, None]):
    """Ask all clients for a density; `fit.epochs` is how long to train between two looks at the validation rows."""

    density: Architecture = field(default_factory=Made)
    fit: Fit = field(default_factory=lambda: Fit("adam", lr=1e-3, epochs=5))
    chunks: Annotated[int, Field(ge=1)] = 100
    patience: Annotated[int, Field(ge=1)] = 3
    rounds: int = 1
    stream: str = "own_density"

    everyone: ClassVar[bool] = True

    @property
    def partial(self) -> bool:
        """Hear stragglers: early stopping sets the length."""
        return True

    def network(self, given: Model) -> Model:
        """Return the density."""
        return self.density.model(given)

    def init(self, site: Site, past: Any) -> Merged[None]:
        """Start with nothing, once it is sure that there is a density to train."""
        if not isinstance(site.model.module, Density):
            raise BadInputError("algorithm.density: must be a density (made, gaussian_mixture, flow)")
        return Merged(None)

    def view(self, state: None, client: int) -> None:
        """Show nothing."""
        return None

    def local(self, view: None, client: Client) -> Reply[None]:
        """Train the own density and remember it, if it is of use."""
        if len(client.train) < 2:
            return Reply(None)
        refuse_rows(client.model.module, client)
        own = fitted(
            client.model,
            client.first(),
            self.fit,
            client.train,
            client.val,
            client.birth / "fit",
            chunks=self.chunks,
            patience=self.patience,
        )
        if own.note:
            return Reply(None, log={"reason": own.note})
        log = {"density/loss": own.loss, "density/epochs": own.chunks * self.fit.epochs}
        return Reply(None, keep={OWN: own.params}, log=log)

    def merge(self, state: None, inbox: Inbox[None]) -> Merged[None]:
        """Count who has a density."""
        return Merged(None, {"heard": sum(1 for _ in inbox.stream())})
