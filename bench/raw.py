"""The raw loop: the same client updates as plain PyTorch, two processes with one thread each, and nothing else.

It imports nothing of the package. Data lie in memory and batches are cut from a permutation; there is no aggregation,
no evaluation, no bookkeeping. `MALLOC_*` is left alone unless --heap asks for what the engine does.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import time
from typing import Any

import torch
from torch import nn
from torch.nn import functional


def lenet() -> nn.Module:
    """Return LeNet for 3 x 32 x 32 images."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )


def data(clients: int, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random images and labels, one slice a client."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(clients, rows, 3, 32, 32, generator=generator)
    return x, torch.randint(0, 10, (clients, rows), generator=generator)


def client(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    x: torch.Tensor,
    y: torch.Tensor,
    epochs: int,
    batch: int,
) -> None:
    """Train on one client's rows."""
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for begin in range(0, len(x), batch):
            rows = order[begin : begin + batch]
            optimizer.zero_grad()
            torch.autograd.backward(functional.cross_entropy(model(x[rows]), y[rows]))
            optimizer.step()


def keep_heap() -> None:
    """Tell glibc to keep its memory, as the engine's workers do."""
    libc = ctypes.CDLL(None)
    for option, value in ((-3, 32 << 20), (-1, 1 << 30), (-2, 64 << 20)):
        libc.mallopt(option, value)


def work(clients: list[int], shape: tuple[int, int, int, int], heap: bool, start: Any, out: Any) -> None:
    """Train on some clients, one after the other, and report the seconds."""
    torch.set_num_threads(1)
    if heap:
        keep_heap()
    total, rows, epochs, batch = shape
    x, y = data(total, rows)
    model = lenet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    client(model, optimizer, x[0], y[0], 1, batch)
    start.wait()
    began = time.perf_counter()
    for k in clients:
        client(model, optimizer, x[k], y[k], epochs, batch)
    out.put(time.perf_counter() - began)


def samples_per_second(
    clients: int = 30,
    rows: int = 1000,
    epochs: int = 2,
    batch: int = 64,
    processes: int = 2,
    heap: bool = False,
) -> float:
    """Return how many samples a second the raw loop trains on, all clients dealt evenly to the processes."""
    context = multiprocessing.get_context("fork")
    start, out = context.Barrier(processes), context.Queue()
    children = [
        context.Process(
            target=work,
            args=(list(range(i, clients, processes)), (clients, rows, epochs, batch), heap, start, out),
        )
        for i in range(processes)
    ]
    for child in children:
        child.start()
    slowest = max(out.get() for _ in children)
    for child in children:
        child.join()
    return float(clients * rows * epochs / slowest)


if __name__ == "__main__":
    print(f"{samples_per_second():.0f} samples/s")
