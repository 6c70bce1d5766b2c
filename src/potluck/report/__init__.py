"""Reports: tables, statistics, figures and one self-contained page, made from stored records only."""

from __future__ import annotations

from potluck.report.page import write
from potluck.report.plots import PLOTS, plot, save
from potluck.report.read import Run, find, open_runs
from potluck.report.tables import Line, render, table

__all__ = ["PLOTS", "Line", "Run", "find", "open_runs", "plot", "render", "save", "table", "write"]
