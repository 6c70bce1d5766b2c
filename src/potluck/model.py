"""Models: an architecture and its loss; parameters are always values.

Parameters (`Params`) are a whole state dict; the module is scratch space of this process, loaded before use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from potluck.errors import BadInputError
from potluck.key import Key
from potluck.table import Table
from potluck.tree import Params

NORMS = (
    nn.modules.batchnorm._BatchNorm,
    nn.GroupNorm,
    nn.LayerNorm,
    nn.modules.instancenorm._InstanceNorm,
)
EVALUATION_BATCH = 500
RowLoss = Callable[[nn.Module, Tensor, Tensor], Tensor]
RowFigures = Callable[[nn.Module, Tensor, Tensor], Mapping[str, Tensor]]
Show = Callable[[nn.Module, Table, Key, bool], Mapping[str, Any]]


def plain_loss(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Return each row's loss: cross-entropy for classes, squared error for real targets."""
    out = module(x)
    if y.is_floating_point():
        return functional.mse_loss(out.reshape(len(y), -1), y.reshape(len(y), -1), reduction="none").mean(
            dim=1
        )
    return functional.cross_entropy(out, y, reduction="none")


@dataclass(frozen=True, eq=False)
class Model:
    """A network architecture; a module with `body` (features) and `head` (class scores).

    `figures` scores a network that is no classifier: figures of merit by name, one number a row. `show` says what
    pictures could be drawn from at the end: of a client's rows, or, if told that the table is a test, of that.
    """

    factory: Callable[[], nn.Module]
    loss: RowLoss = plain_loss
    shape: tuple[int, ...] = ()
    classes: int = 0
    figures: RowFigures | None = None
    show: Show | None = None

    def init(self, key: Key) -> Params:
        """Draw initial parameters."""
        with key.ambient():
            module = self.factory()
        return {name: _copied(value) for name, value in module.state_dict().items()}

    @cached_property
    def module(self) -> nn.Module:
        """Return this process's scratch module; load parameters before use."""
        before = torch.get_rng_state()
        module = self.factory()
        torch.set_rng_state(before)
        return module

    @cached_property
    def slots(self) -> dict[str, Tensor]:
        """Return the scratch module's tensors by name."""
        return dict(self.module.state_dict(keep_vars=True))

    def load(self, params: Params) -> nn.Module:
        """Copy parameters into the scratch module; every name must be there, and no other."""
        if params.keys() != self.slots.keys():
            odd = sorted(params.keys() ^ self.slots.keys())
            raise ValueError(f"parameters and model differ in {', '.join(odd[:4])}")
        with torch.no_grad():
            for name, slot in self.slots.items():
                slot.copy_(params[name])
        return self.module

    def unload(self) -> Params:
        """Copy the scratch module's tensors out."""
        return {name: _copied(slot) for name, slot in self.slots.items()}

    @cached_property
    def learnable(self) -> tuple[str, ...]:
        """Return the names of the trainable leaves."""
        return tuple(name for name, _ in self.module.named_parameters())

    @cached_property
    def buffers(self) -> tuple[str, ...]:
        """Return the names of the leaves that are not trained (running statistics, counters)."""
        return tuple(name for name in self.slots if name not in set(self.learnable))

    @cached_property
    def norms(self) -> frozenset[str]:
        """Return the names of all leaves of normalisation layers, found by module type."""
        return frozenset(
            f"{prefix}.{leaf}" if prefix else leaf
            for prefix, part in self.module.named_modules()
            if isinstance(part, NORMS)
            for leaf in part.state_dict()
        )

    @cached_property
    def batch_norms(self) -> bool:
        """Tell whether a batch of one row cannot be normalised."""
        return any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in self.module.modules())

    def refuse_misfit(self) -> None:
        """Refuse a network that cannot take the data's rows or does not return one score per class."""
        name, before = type(self.module).__name__, torch.get_rng_state()
        try:
            with torch.no_grad():
                out = self.module.eval()(torch.zeros(2, *self.shape))
        except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError) as error:
            reason = str(error).partition("\n")[0]
            raise BadInputError(f"model: {name} cannot take rows of shape {self.shape}: {reason}") from error
        finally:
            torch.set_rng_state(before)
        if self.classes and tuple(out.shape) != (2, self.classes):
            raise BadInputError(
                f"model: {name} returns {tuple(out.shape[1:])} for a row; the data have {self.classes} classes, "
                "so it must return that many scores"
            )

    def count(self) -> int:
        """Count trainable numbers."""
        return sum(part.numel() for part in self.module.parameters())

    def __call__(self, params: Params, x: Tensor) -> Tensor:
        """Return the outputs for a batch, in evaluation mode and without gradients."""
        module = self.load(params).eval()
        with torch.no_grad():
            out: Tensor = module(x)
        return out

    def rows(self, params: Params, table: Table) -> Tensor:
        """Return the loss of every row, in evaluation mode and without gradients."""
        module = self.load(params).eval()
        parts = [slice(i, i + EVALUATION_BATCH) for i in range(0, len(table), EVALUATION_BATCH)]
        with torch.no_grad():
            losses = [self.loss(module, table.x[part], table.y[part]) for part in parts]
        return torch.cat(losses) if losses else torch.zeros(0)


def _copied(leaf: Tensor) -> Tensor:
    """Return a copy in row-major order, however the module stores the leaf: all engines then see the same layout."""
    return leaf.detach().clone(memory_format=torch.contiguous_format)
