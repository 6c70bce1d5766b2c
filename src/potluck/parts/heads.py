"""Bodies and heads: taking a network apart, a second head of a client's own, and the balanced softmax.

The two-headed network and its losses are those of FedRoD: Chen and Chao, "On bridging generic and personalized
federated learning for image classification", ICLR 2022. The personal part starts at zero, so that it says
nothing before it is trained, and it is drawn after body and head, whose initial bits it leaves alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from potluck.errors import BadInputError
from potluck.model import Model

Head = Literal["linear", "hypernetwork"]
Coupling = Literal["pfllib", "flbench"]


class Halves(NamedTuple):
    """A network's feature extractor, its scoring head, and how many features lie between."""

    body: nn.Module
    head: nn.Module
    width: int


class HeadOn(Protocol):
    """A personal head: class scores from features, and from what is known of the client's classes."""

    def __call__(self, z: Tensor, counts: Tensor) -> Tensor:
        """Return one row of class scores per row of features."""
        ...


def refuse_headless(model: Model, method: str) -> None:
    """Refuse a model that has no `body` and `head`, or does not tell classes apart."""
    module = model.module
    parts = [getattr(module, name, None) for name in ("body", "head")]
    if not all(isinstance(part, nn.Module) for part in parts):
        raise BadInputError(
            f"model: {method} needs a network with a module `body` (rows to features) and a module `head` "
            f"(features to class scores), but {type(module).__name__} lacks one of them"
        )
    if not model.classes:
        raise BadInputError(f"data: {method} needs classes, but the targets are real numbers")


def halves(module: nn.Module, shape: tuple[int, ...]) -> Halves:
    """Return body and head of a network that has them, and the width of its features."""
    body, head = cast(nn.Module, module.body), cast(nn.Module, module.head)
    training = body.training
    parameter = next(module.parameters(), torch.zeros(0))
    with torch.no_grad():
        out: Tensor = body.eval()(torch.zeros(1, *shape, dtype=parameter.dtype))
    body.train(training)
    if out.dim() != 2:
        raise BadInputError(
            f"model: its body returns {tuple(out.shape[1:])} for a row; it must return one flat row of features"
        )
    return Halves(body, head, int(out.shape[1]))


class LinearHead(nn.Module):
    """Scores linear in the features, zero at first; all its numbers stay with the client."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.scores = silent(nn.Linear(width, classes))

    def forward(self, z: Tensor, counts: Tensor) -> Tensor:
        """Return the scores; the client's classes play no part."""
        out: Tensor = self.scores(z)
        return out


class HyperHead(nn.Module):
    """A linear head whose numbers a small shared network computes from the client's class distribution."""

    def __init__(self, width: int, classes: int, hidden: int = 16) -> None:
        super().__init__()
        self.width, self.classes = width, classes
        made = silent(nn.Linear(hidden, (width + 1) * classes))
        self.maker = nn.Sequential(nn.Linear(classes, hidden), nn.ReLU(), made)

    def forward(self, z: Tensor, counts: Tensor) -> Tensor:
        """Return the scores of the head that this class distribution deserves."""
        share = (counts / counts.sum().clamp(min=1)).to(z.dtype)
        numbers: Tensor = self.maker(share)
        table = numbers.reshape(self.classes, self.width + 1)
        return functional.linear(z, table[:, :-1], table[:, -1])


def silent(layer: nn.Linear) -> nn.Linear:
    """Set a layer to zero."""
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


HEADS: dict[Head, type[LinearHead] | type[HyperHead]] = {"linear": LinearHead, "hypernetwork": HyperHead}


class TwoHeads(nn.Module):
    """A network with a generic head, and a personal one that knows how many rows of each class its client has."""

    counts: Tensor

    def __init__(
        self, network: nn.Module, shape: tuple[int, ...], classes: int, head: Head, add: bool
    ) -> None:
        super().__init__()
        self.body, self.head, width = halves(network, shape)
        self.personal = HEADS[head](width, classes)
        self.add = add
        self.register_buffer("counts", torch.zeros(classes, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        """Return personalised scores; before the client has trained, those of the generic head."""
        z: Tensor = self.body(x)
        generic: Tensor = self.head(z)
        if not self.counts.any():
            return generic
        own: Tensor = self.personal(z, self.counts)
        return generic + own if self.add else own


def balanced_softmax(scores: Tensor, y: Tensor, counts: Tensor, gamma: float = 1.0) -> Tensor:
    """Return -log( n_y^gamma e^{s_y} / sum_c n_c^gamma e^{s_c} ) of every row; classes without rows are masked out.

    With gamma = 0 it is plain cross-entropy, bit for bit.
    """
    if not gamma:
        return functional.cross_entropy(scores, y, reduction="none")
    lift = gamma * counts.clamp(min=1).to(scores.dtype).log()
    return functional.cross_entropy((scores + lift).masked_fill(counts == 0, -math.inf), y, reduction="none")


def balanced(counts: Tensor, gamma: float) -> Callable[[nn.Module, Tensor, Tensor], Tensor]:
    """Return the balanced softmax of a plain network as a loss per row."""
    return lambda module, x, y: balanced_softmax(module(x), y, counts, gamma)


def decoupled(
    counts: Tensor, gamma: float, coupling: Coupling
) -> Callable[[nn.Module, Tensor, Tensor], Tensor]:
    """Return the sum of both heads' losses as a loss per row.

    `pfllib`: the personal head learns cross-entropy on top of the generic scores, and neither of these nor the
    features feel it. `flbench`: both losses train the body, and the personal scores stand alone.
    """

    def loss(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        assert isinstance(module, TwoHeads)
        z: Tensor = module.body(x)
        generic: Tensor = module.head(z)
        if coupling == "pfllib":
            own = generic.detach() + module.personal(z.detach(), counts)
        else:
            own = module.personal(z, counts)
        return balanced_softmax(generic, y, counts, gamma) + functional.cross_entropy(
            own, y, reduction="none"
        )

    return loss
