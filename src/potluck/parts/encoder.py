"""Encoders: rows to unit features, with a body that is trained, or one that is frozen behind a projection.

The frozen one is that of FedPCL (Tan et al., NeurIPS 2022), which starts from a pre-trained model.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from potluck.errors import BadInputError
from potluck.model import Model
from potluck.parts.heads import halves
from potluck.tree import Params


class Encoder(nn.Module):
    """Rows to unit features: a network's body, or a frozen body with a trainable projection behind it."""

    def __init__(
        self, network: nn.Module, shape: tuple[int, ...], frozen: Params | None, projection: int
    ) -> None:
        super().__init__()
        self.body, head, width = halves(network, shape)
        self.head = head if frozen is None else None
        self.projection = None if frozen is None else nn.Linear(width, projection)
        self.width = width if frozen is None else projection
        if frozen is not None:
            self.body.load_state_dict(frozen)
            self.body.requires_grad_(False)

    def train(self, mode: bool = True) -> Encoder:
        """Switch to training; a frozen body keeps its batch-norm statistics and drops nothing out."""
        super().train(mode)
        if self.projection is not None:
            self.body.eval()
        return self

    def unit(self, features: Tensor) -> Tensor:
        """Project and normalise features."""
        return functional.normalize(features if self.projection is None else self.projection(features), dim=1)

    def forward(self, x: Tensor) -> Tensor:
        """Return one unit feature vector per row."""
        return self.unit(self.body(x))

    @property
    def own(self) -> list[str]:
        """Return the names of the leaves that a client keeps: all, or without a frozen body."""
        return [
            name for name in self.state_dict() if self.projection is None or name.startswith("projection.")
        ]


def body_of(state: Mapping[str, Tensor], network: nn.Module, source: str) -> Params:
    """Return the body's leaves out of a stored model; other parts of it may be there and are left out."""
    body = network.get_submodule("body").state_dict()
    found = {name.removeprefix("body."): leaf for name, leaf in state.items() if name.startswith("body.")}
    for name, leaf in body.items():
        if name not in found:
            raise BadInputError(
                f"algorithm.backbone: {source} has no leaf 'body.{name}', which the model has"
            )
        if found[name].shape != leaf.shape:
            raise BadInputError(
                f"algorithm.backbone: in {source} 'body.{name}' is {tuple(found[name].shape)}, "
                f"but the model's is {tuple(leaf.shape)}"
            )
    return {name: found[name] for name in body}


def encoder_of(model: Model) -> Encoder:
    """Return the scratch encoder of a model made by this stage."""
    assert isinstance(model.module, Encoder)
    return model.module


def stored(file: Path) -> Mapping[str, Tensor]:
    """Read a stored model."""
    try:
        return dict(load_file(file))
    except (OSError, SafetensorError) as error:
        raise BadInputError(
            f"algorithm.backbone: {file} is not a readable safetensors file ({error})"
        ) from error
