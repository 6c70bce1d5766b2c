"""Measures and advice as a dictionary that JSON can hold; what is not a number is null."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from potluck.skew.advice import Advice
from potluck.skew.measure import Skew

Json = Mapping[str, object]


def record(skew: Skew, advice: Advice) -> Json:
    """Return every measure, the findings and the methods."""
    inputs = skew.features
    return {
        "name": skew.name,
        "clients": skew.clients,
        "classes": skew.classes,
        "class_names": list(skew.class_names),
        "real_targets": skew.real,
        "rows": skew.rows.tolist(),
        "histogram": skew.counts.tolist(),
        "classes_held": skew.classes_held.tolist(),
        "kl": _list(skew.kl),
        "js": _list(skew.js),
        "emd": _list(skew.emd),
        "mean_kl": _number(skew.mean_kl),
        "mean_js": _number(skew.mean_js),
        "mean_emd": _number(skew.mean_emd),
        "kl_by_chance": _number(skew.mean_floor),
        "size_cv": skew.size_cv,
        "max_over_mean": skew.max_over_mean,
        "label_overlap": skew.overlap,
        "noise": None if inputs is None else _list(inputs.noise),
        "shift": None if inputs is None else _list(inputs.shift),
        "input_spread": None if inputs is None else inputs.spread,
        "shift_by_chance": None if inputs is None else inputs.chance,
        "noise_by_chance": None if inputs is None else _number(inputs.jitter),
        "groups": None if inputs is None else inputs.groups.tolist(),
        "kinds": list(advice.kinds),
        "findings": [finding._asdict() for finding in advice.findings],
        "methods": [method._asdict() for method in advice.methods],
        "verdict": advice.verdict,
    }


def summary(skew: Skew) -> Mapping[str, str]:
    """Return the measures of the whole federation, in words and figures."""
    out = {
        "clients": str(skew.clients),
        "rows": f"{int(skew.rows.sum())} ({int(skew.rows.min())} to {int(skew.rows.max())} a client)",
        "size CV, largest / mean": f"{skew.size_cv:.2f}, {skew.max_over_mean:.2f}",
        f"{skew.unit} a client holds": f"{int(skew.classes_held.min())} to {int(skew.classes_held.max())} "
        f"of {skew.classes}",
        "mean KL to the whole (by chance)": f"{skew.mean_kl:.3f} ({skew.mean_floor:.3f}) nats",
        "mean Jensen-Shannon": f"{skew.mean_js:.3f} nats",
        "mean earth mover's distance": f"{skew.mean_emd:.3f}",
        "label overlap of two clients": f"{skew.overlap:.3f}",
    }
    if skew.features is not None:
        low, high = np.nanmin(skew.features.noise), np.nanmax(skew.features.noise)
        out["noise of the inputs"] = f"{low:.3f} to {high:.3f} (inputs deviate by {skew.features.spread:.3f})"
        out["mean shift of class means"] = f"{np.nanmean(skew.features.shift):.3f}"
        out["groups by inputs"] = (
            str(int(skew.features.groups.max())) if skew.features.groups.any() else "none"
        )
    return out


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _list(values: npt.NDArray[np.float64]) -> list[float | None]:
    return [_number(float(value)) for value in values]
