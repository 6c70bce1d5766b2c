"""A normalising flow as a density of real-valued rows, from the optional package zuko.

G. Papamakarios, T. Pavlakou and I. Murray, "Masked autoregressive flow for density estimation", NeurIPS
2017. Install it with the extra `flow`. What the package keeps as buffers (masks, the base distribution)
follows from the arguments alone, so it is kept out of the state dict: flows of one configuration may be
averaged.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from potluck.errors import BadInputError

Width = Annotated[int, Field(ge=1)]


class Flow(nn.Module):
    """A masked autoregressive flow over flat rows."""

    def __init__(self, transform: nn.Module) -> None:
        super().__init__()
        self.body = nn.Flatten()
        self.head = transform
        for part in transform.modules():
            for name, value in list(part.named_buffers(recurse=False)):
                part.register_buffer(name, value, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the log-density of each row."""
        out: Tensor = self.head().log_prob(self.body(x))
        return out

    def log_prob(self, x: Tensor) -> Tensor:
        """Return the log-density of each row."""
        return self.forward(x)

    @torch.no_grad()
    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Draw n flat rows; the global stream is put back afterwards."""
        seed = int(torch.randint(2**62, (), generator=generator))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            out: Tensor = self.head().sample((n,))
        return out


def flow(
    shape: tuple[int, ...],
    classes: int | None = None,
    *,
    transforms: Width = 3,
    hidden: tuple[Width, ...] = (64, 64),
) -> Flow:
    """Build a masked autoregressive flow over the flattened input (needs the extra `flow`)."""
    package = _zuko()
    return Flow(
        package.flows.MAF(features=int(np.prod(shape)), transforms=transforms, hidden_features=hidden)
    )


def _zuko() -> ModuleType:
    try:
        return importlib.import_module("zuko")
    except ImportError:
        raise BadInputError(
            'model "flow" needs the package zuko; install potluck with the extra "flow"'
        ) from None
