"""What an autoencoder's pictures are drawn from: rows of a test, the same rows decoded again, and decoded noise.

Rows are decoded from their posterior means; samples are decoded from draws of N(0, I), which looks like data as far
as the codes of the data follow N(0, I). All three are grey levels 0 to 255 on one scale, so that a decoder that cannot
reach its inputs (a sigmoid on standardised rows) is seen to fall short.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from potluck.key import Key
from potluck.models.vae import VAE
from potluck.table import Table

COLUMNS = 10


def pictures(vae: VAE, table: Table, key: Key) -> dict[str, Any]:
    """Return ten rows, one of each class while there are any, with reconstructions and samples; images only."""
    if table.x.dim() != 4 or table.x.shape[1] not in (1, 3) or not len(table):
        return {}
    original = table.x[torch.from_numpy(chosen(table.y))]
    latent = vae.encode(original[:1]).mean.shape[1]
    with torch.no_grad():
        again = vae(original)
        sample = vae.decode(torch.randn(len(original), latent, generator=(key / "samples").torch()))
    low = float(torch.stack([original.min(), again.min(), sample.min()]).min())
    high = float(torch.stack([original.max(), again.max(), sample.max()]).max())
    shown = {"original": original, "reconstruction": again, "sample": sample}
    out = {f"picture/{name}": levels(images, low, high) for name, images in shown.items()}
    return {"picture/shape": list(original.shape), "picture/range": [low, high], **out}


def chosen(y: Tensor) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the first row of each of the first ten classes, filled up with the first other rows."""
    places = np.arange(len(y))
    first = places[:0] if y.is_floating_point() else np.sort(np.unique(y.numpy(), return_index=True)[1])
    rest = np.setdiff1d(places, first)
    return np.concatenate([first, rest])[:COLUMNS].astype(np.int64)


def levels(images: Tensor, low: float, high: float) -> list[int]:
    """Return grey levels 0 to 255, flat."""
    scaled = (images.double() - low) / max(high - low, 1e-12)
    out: list[int] = (255 * scaled.nan_to_num(0.0).clamp(0, 1)).round().to(torch.int64).flatten().tolist()
    return out
