"""One download over HTTP: into a `.part` file, resumed where it broke off, checked, then renamed."""

from __future__ import annotations

import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

TIMEOUT = 5.0  # seconds to connect, and to wait for the next piece
PIECE = 1 << 16
TRIES = 4

Tick = Callable[[str, int, int | None], None]


class UnreachableError(Exception):
    """A way of getting a file that does not work here; the message says why."""


def download(address: str, target: Path, genuine: Callable[[Path], bool], tick: Tick) -> None:
    """Download a file and put it in place if it is genuine; a broken part is kept for the next attempt.

    `genuine` checks the part before it gets its name. `tick` is told name, bytes so far and all bytes.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    reason = "broke off"
    for _ in range(TRIES):
        before = part.stat().st_size if part.exists() else 0
        try:
            complete = _attempt(address, part, before, lambda done, size: tick(target.name, done, size))
        except (OSError, http.client.HTTPException) as error:
            reason = str(getattr(error, "reason", error)) or type(error).__name__
            if part.exists() and part.stat().st_size > before:
                continue
            break
        if not complete:
            continue
        if genuine(part):
            os.replace(part, target)
            return
        part.unlink()
        reason = "has another checksum"
        if before == 0:
            break
    raise UnreachableError(f"{address}: {reason}")


def _attempt(address: str, part: Path, before: int, tick: Callable[[int, int | None], None]) -> bool:
    """Append what is missing; return whether all of it came."""
    if not address.startswith(("http://", "https://")):
        raise OSError("not an HTTP address")
    headers = {"User-Agent": "potluck"} | ({"Range": f"bytes={before}-"} if before else {})
    request = urllib.request.Request(address, headers=headers)
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and before:
            part.unlink()  # the part is longer than the file: start again
            return False
        raise
    with answer:
        begins = answer.headers.get("Content-Range", "").startswith(f"bytes {before}-")
        resumed = answer.status == http.client.PARTIAL_CONTENT and begins
        done = before if resumed else 0
        length = answer.headers.get("Content-Length")
        size = None if length is None else done + int(length)
        with part.open("ab" if resumed else "wb") as file:
            while piece := answer.read(PIECE):
                file.write(piece)
                done += len(piece)
                tick(done, size)
    return size is None or done == size
