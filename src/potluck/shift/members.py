"""Which clients a shift touches: a list of them, or the last share of them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from potluck.errors import BadInputError

Share = Annotated[float, Field(ge=0, le=1, description="share of the clients, counted from the last")]
Chosen = Annotated[
    tuple[Annotated[int, Field(ge=0)], ...], Field(description="these clients instead of a share")
]


def touched(client: int, clients: int, share: float, only: tuple[int, ...]) -> bool:
    """Tell whether a client is among `only`, or, if that is empty, among the last round(share K)."""
    if not 0 <= share <= 1:
        raise BadInputError(f"shifts.share: must be between 0 and 1, not {share}")
    wrong = [number for number in only if not 0 <= number < clients]
    if wrong:
        raise BadInputError(f"shifts.only: there is no client {wrong[0]}; clients are 0 to {clients - 1}")
    return client in only if only else client >= clients - int(share * clients + 0.5)
