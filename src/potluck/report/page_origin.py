"""The page's last section: how to repeat every run, and what it ran on."""

from __future__ import annotations

from collections.abc import Sequence

from potluck.report.markup import definitions, details, flat, section, text
from potluck.report.read import Run


def origin(runs: Sequence[Run]) -> str:
    """Return commands, versions, data, digests, fingerprints and configurations of all runs."""
    lead = "Same configuration, same versions and same kind of processor give the same bits."
    commands = {run.text("command") for run in runs}
    shared = _command(commands.pop(), "all runs") if len(commands) == 1 else ""
    return section("repeat", "How to repeat this", lead, shared, *(_run(run, not shared) for run in runs))


def _command(command: str, whose: str) -> str:
    if not command:
        return ""
    button = f'<button type="button" aria-label="Copy the command of {text(whose)}">Copy</button>'
    return f'<div class="command"><pre>{text(command)}</pre>{button}</div>'


def _run(run: Run, own_command: bool) -> str:
    title = f"<h3>{text(run.label)}</h3>" if own_command else ""
    command = _command(run.text("command"), run.label) if own_command else ""
    facts = [("run", run.text("name")), ("created", run.text("created")), ("directory", run.path.name)]
    facts += [
        pair
        for key in ("parameters", "blas", "threads_per_visit")
        for pair in flat(run.manifest.get(key), key)
    ]
    facts += flat(run.manifest.get("cpu"), "cpu")
    parts = [
        definitions(pair for pair in facts if pair[1]),
        _table("Versions", flat(dict(run.mapping("versions")))),
        _table("Data", flat(dict(run.mapping("datasets")))),
        _table("Digest of the partition, by seed", flat(dict(run.mapping("partition_digest")))),
        _table("Fingerprint, by seed", _fingerprints(run)),
    ]
    config = f"<h3>Configuration</h3><pre>{text(run.config)}</pre>" if run.config else ""
    return title + command + details(f"Provenance and configuration of {run.label}", *parts, config)


def _table(title: str, pairs: Sequence[tuple[str, str]]) -> str:
    return f"<h3>{text(title)}</h3>{definitions(pairs)}" if pairs else ""


def _fingerprints(run: Run) -> list[tuple[str, str]]:
    seeds = run.result.get("seeds")
    if not isinstance(seeds, dict):
        return []
    pairs = [(seed, entry.get("fingerprint")) for seed, entry in seeds.items() if isinstance(entry, dict)]
    return [(seed, str(mark)) for seed, mark in pairs if mark]
