"""Shifts: what is done to a client's rows. `SHIFTS` is the table of names that a configuration may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from potluck.federation import Shift
from potluck.shift.intensity import Intensity
from potluck.shift.label_noise import LabelNoise
from potluck.shift.noise import Noise
from potluck.shift.relabel import Relabel
from potluck.shift.rotate import Rotate

SHIFTS: Mapping[str, Callable[..., Shift]] = MappingProxyType(
    {
        "intensity": Intensity,
        "label_noise": LabelNoise,
        "noise": Noise,
        "relabel": Relabel,
        "rotate": Rotate,
    }
)

__all__ = ["SHIFTS", "Intensity", "LabelNoise", "Noise", "Relabel", "Rotate"]
