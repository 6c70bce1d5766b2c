"""Feature skew: white noise whose strength grows with the client's number (spec SC-4, SC-12; A-2.7, A-4.6).

Three readings of "noise for client i of N". `variance` (default; FedLoss thesis, Tagarakis, NTUA 2023,
after NIID-Bench's text): variance * i / N for i = 1..N. `niid_code` (what NIID-Bench's code does; Li et
al., ICDE 2022): the standard deviation is variance * i / (N - 1) for i = 0..N-1, so that client 0 is clean.
`feddisk` (FedDisk, Nguyen, Wu, Chang, IEEE TAI): variance * k / 100 for k = 0, 1, ..., clipped to [0, 1].
The sources call the same figure now variance, now deviation; `noise_is = "std"` takes the second word for it.

The noise belongs to a row: it is drawn once, from the client's own stream, and train, validation and test
rows carry it alike. NIID-Bench draws it anew in every epoch; a shift is applied once, so that this is not
offered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field

from potluck.errors import BadInputError
from potluck.key import Key
from potluck.table import Table


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Add Gaussian noise to a client's inputs, stronger from client to client; labels stay.

    `clip` cuts the noisy inputs to [0, 1] (by default only in the reading `feddisk`) and needs inputs in
    [0, 1]. `noise_is`: what the figure means; `niid_code` is a deviation in either case.
    """

    variance: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    reading: Literal["variance", "niid_code", "feddisk"] = "variance"
    noise_is: Literal["variance", "std"] = "variance"
    clip: bool | None = None

    def __post_init__(self) -> None:
        if not (np.isfinite(self.variance) and self.variance >= 0):
            raise BadInputError(f"shifts.noise.variance: must be a number from 0, not {self.variance}")

    def deviation(self, client: int, clients: int) -> float:
        """Return the standard deviation of one client's noise."""
        if self.reading == "niid_code":
            return self.variance * client / max(clients - 1, 1)
        share = client / 100 if self.reading == "feddisk" else (client + 1) / clients
        strength = self.variance * share
        return strength if self.noise_is == "std" else float(np.sqrt(strength))

    def __call__(self, table: Table, client: int, clients: int, key: Key) -> Table:
        """Return x + deviation * N(0, 1), clipped where asked."""
        clip = self.reading == "feddisk" if self.clip is None else self.clip
        if clip and len(table) and (float(table.x.min()) < 0 or float(table.x.max()) > 1):
            raise BadInputError(
                f"shifts.noise.clip: inputs of client {client} lie outside [0, 1]; "
                "load the data without normalisation, or set clip = false"
            )
        deviation = self.deviation(client, clients)
        if deviation == 0:
            return table
        drawn = torch.from_numpy(key.numpy().standard_normal(tuple(table.x.shape), dtype=np.float32))
        x = table.x + deviation * drawn
        return Table(x.clamp_(0, 1) if clip else x, table.y)
