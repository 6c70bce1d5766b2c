"""The first run: your own rows, your own model, three lines to compare.

Here the rows are scikit-learn's digits, dealt so that every client holds few of the ten classes.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import nn

import potluck as pl


class Net(nn.Module):
    """Any module will do; `body` and `head` let methods with personal heads use it."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 32), nn.ReLU())
        self.head = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return class scores."""
        out: torch.Tensor = self.head(self.body(x))
        return out


def main() -> None:
    """Compare federated averaging with training alone."""
    digits = load_digits()
    x = (digits.data / 16).astype("float32")
    owners = (digits.target * 3 + digits.target // 5) % 8  # eight clients with one or two classes each
    data = pl.from_arrays(x, digits.target, clients=owners)
    fit = pl.Fit(lr=0.1, batch=16)
    methods = {"together": pl.fedavg(rounds=10, fit=fit), "alone": pl.alone(rounds=10, fit=fit)}
    result = pl.compare(data=data, model=Net, algorithms=methods, seeds=[0, 1])
    result.show()
    print("report:", result.page)


if __name__ == "__main__":
    main()
