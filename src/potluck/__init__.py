"""Potluck: federated learning when clients differ."""

from __future__ import annotations

__version__ = "0.1.0"
