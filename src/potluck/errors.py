"""The errors that a user can mend: one clear sentence each, printed without a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class BadInputError(ValueError):
    """Something the user gave is wrong; the message says what, where, and what to do (exit code 2)."""


class RunError(RuntimeError):
    """A run failed although its input was fine (exit code 1)."""


def unknown(kind: str, name: object, known: Iterable[str]) -> BadInputError:
    """Return the error for a name that no table has, with the near ones."""
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names) or 'none'}"
    return BadInputError(f"unknown {kind} {name!r}; {hint}")
