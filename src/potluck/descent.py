"""Optimiser steps on the leaves of a scratch module: plain or momentum descent, and torch's Adam.

Plain descent is written with multi-tensor operations on the gradients of `torch.autograd.grad`: for the
small networks of this field that is a fifth faster than `torch.optim.SGD`.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor


class Pull(NamedTuple):
    """What is added to every gradient: weight decay, the proximal pull mu (w - start), a constant shift, clipping."""

    weight_decay: float
    proximal: float
    start: list[Tensor]
    shift: list[Tensor] | None
    clip: float | None

    def apply(self, leaves: list[Tensor], grads: list[Tensor]) -> None:
        """Change the gradients in place; terms that are off cost nothing and change no bit."""
        if self.clip is not None:
            norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
            torch._foreach_mul_(grads, (self.clip / (norm + 1e-6)).clamp(max=1.0))
        if self.weight_decay:
            torch._foreach_add_(grads, leaves, alpha=self.weight_decay)
        if self.proximal:
            torch._foreach_add_(grads, torch._foreach_sub(leaves, self.start), alpha=self.proximal)
        if self.shift is not None:
            torch._foreach_add_(grads, self.shift)


class Descent(Protocol):
    """One step down a loss."""

    def __call__(self, loss: Tensor) -> None:
        """Move the leaves."""
        ...


def gradients(loss: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    """Return the gradients of a loss; leaves it does not depend on get zeros."""
    return list(torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True))


class Momentum:
    """Descent with heavy-ball momentum v <- m v + g, w <- w - lr v (m = 0: plain)."""

    def __init__(self, leaves: list[Tensor], pull: Pull, lr: float, momentum: float) -> None:
        self.leaves, self.pull, self.lr, self.momentum = leaves, pull, lr, momentum
        self.velocity: list[Tensor] = []

    def __call__(self, loss: Tensor) -> None:
        """Move the leaves."""
        grads = gradients(loss, self.leaves)
        with torch.no_grad():
            self.pull.apply(self.leaves, grads)
            if self.momentum and self.velocity:
                torch._foreach_mul_(self.velocity, self.momentum)
                torch._foreach_add_(self.velocity, grads)
                grads = self.velocity
            elif self.momentum:
                self.velocity = grads
            torch._foreach_add_(self.leaves, grads, alpha=-self.lr)


class Adam:
    """Torch's Adam; its moments live for one visit and are never sent."""

    def __init__(self, leaves: list[Tensor], pull: Pull, lr: float) -> None:
        self.leaves, self.pull = leaves, pull
        self.adam = torch.optim.Adam(leaves, lr=lr, fused=True)

    def __call__(self, loss: Tensor) -> None:
        """Move the leaves."""
        grads = gradients(loss, self.leaves)
        with torch.no_grad():
            self.pull.apply(self.leaves, grads)
        for leaf, grad in zip(self.leaves, grads, strict=True):
            leaf.grad = grad
        self.adam.step()
        self.adam.zero_grad()
