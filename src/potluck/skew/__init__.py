"""Skew: how much clients differ, in numbers, in pictures and in advice."""

from __future__ import annotations

from potluck.skew.advice import Advice, advise
from potluck.skew.measure import Skew, describe, from_histogram

__all__ = ["Advice", "Skew", "advise", "describe", "from_histogram"]
