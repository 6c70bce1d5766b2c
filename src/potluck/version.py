"""The version, read from the installed package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("potluck")
except PackageNotFoundError:  # a source tree that is not installed
    __version__ = "0+unknown"
