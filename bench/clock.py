"""How long something takes."""

from __future__ import annotations

import time
from collections.abc import Callable


def seconds(work: Callable[[], object]) -> float:
    """Return how many seconds of the processor one call takes, whatever else runs beside it."""
    begin = time.process_time()
    work()
    return time.process_time() - begin
