# ruff: noqa: T201 - a program, whose output is its answer
"""Runs in a box: looks for secrets in everything that a program there can read, and prints where it found which.

    python3 box_search.py BEGAN URL VARIABLE

`URL` answers with the secrets, each written backwards so that neither the program's own text nor what carries the
answer holds one. What has not changed since `BEGAN` (seconds since 1970) is older than every secret and not read.
The canaries are secrets that it plants itself, one of each kind of place: they must be found.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self  # a box's Python may be older

MOST = 64 * 2**20
PARTS = ("environ", "cmdline", "comm", "status", "maps", "auxv", "stack", "syscall", "io", "mem")
IDLE = "import sys, time; said = sys.stdin.readline(); print('ready', flush=True); time.sleep(100000)"


def forms(value: str) -> set[bytes]:
    """How a secret may be written."""
    data = value.encode()
    found = {
        data,
        value.encode("utf-16-le"),
        value.encode("utf-16-be"),
        data.hex().encode(),
        data.hex().upper().encode(),
    }
    found |= {urllib.parse.quote(value, safe="").encode(), json.dumps(value)[1:-1].encode()}
    for offset in range(3):
        digits = base64.b64encode(bytes(offset) + data).rstrip(b"=")[(0, 2, 3)[offset] :]
        core = digits if (offset + len(data)) % 3 == 0 else digits[:-1]
        found |= {core, core.translate(bytes.maketrans(b"+/", b"-_"))}
    return found


def lineage() -> list[int]:
    """This process and those it descends from, up to the guest's own child."""
    found, pid = [], os.getpid()
    while pid > 1:
        found.append(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    return found


def memory(process: Path) -> bytes:
    """All of a process's memory that it may write to and that can be read."""
    found = b""
    with (process / "maps").open() as maps, (process / "mem").open("rb", 0) as mem:
        for line in maps:
            borders, rights = line.split()[:2]
            start, end = (int(border, 16) for border in borders.split("-"))
            if "rw" in rights and end - start <= MOST:
                mem.seek(start)
                try:
                    found += mem.read(end - start)
                except OSError:
                    continue  # a hole
    return found


class Canaries:
    """Secrets of the search's own, each in one kind of place; a context manager."""

    def __init__(self) -> None:
        self.values = {f"canary in {place}": secrets.token_hex(20) for place in ("environ", "cmdline", "mem", "file")}
        self.files = [Path(place, "canary") for place in ("/workspace", "/tmp", "/dev/shm", os.environ["HOME"])]
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        """All of them are there."""
        value = self.values
        self._plant(env={"X": value["canary in environ"]})
        self._plant(value["canary in cmdline"])
        self._plant(said=value["canary in mem"])
        for path in self.files:
            path.write_text(value["canary in file"])
        return self

    def __exit__(self, *_error: object) -> None:
        """None of them is."""
        for process in self.processes:
            process.kill()
            process.communicate()
        for path in self.files:
            path.unlink()

    def _plant(self, *arguments: str, env: Mapping[str, str] | None = None, said: str = "") -> None:
        argv = [sys.executable, "-c", IDLE, *arguments]
        environ = {"PATH": os.environ["PATH"], **(env or {})}
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ)
        self.processes.append(process)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{said}\n".encode())
        process.stdin.flush()
        process.stdout.readline()


class Search:
    """Looks into what it is given, and remembers which secret was where."""

    def __init__(self, wanted: Mapping[str, str]) -> None:
        self._forms = {name: forms(value) for name, value in wanted.items()}
        self.found: dict[str, set[str]] = {name: set() for name in wanted}
        self.readable: dict[str, list[str]] = {}

    def look(self, place: str, data: bytes) -> None:
        """Into some bytes."""
        for name, every in self._forms.items():
            if any(form in data for form in every):
                self.found[name].add(place)

    def process(self, who: str, process: Path) -> None:
        """Into everything of a process that can be read."""
        readable = self.readable.setdefault(f"{who} {process.name}", [])
        for part in PARTS:
            try:
                data = memory(process) if part == "mem" else (process / part).read_bytes()
            except OSError:
                continue
            readable.append(part)
            self.look(f"{who} {part}", data)
        try:
            opened = list((process / "fd").iterdir())
        except OSError:
            return
        readable.append("fd")
        for path in opened:
            self.file(f"{who} fd", path)

    def file(self, place: str, path: Path) -> None:
        """Into a plain file that can be read."""
        try:
            if path.is_file():
                with path.open("rb") as file:
                    self.look(place, file.read(MOST))
        except OSError:
            return  # it may not be read, or is gone

    def files(self, began: float) -> None:
        """Into every file that has changed since then."""
        for top, folders, names in os.walk("/"):
            if top == "/":
                folders[:] = [name for name in folders if name not in {"proc", "sys"}]
            for path in (Path(top, name) for name in names):
                if path.is_symlink() or path.lstat().st_ctime < began:
                    continue
                self.file(f"file {path}", path)


def main() -> None:
    """Plant, look, tell."""
    began, url, kept = float(sys.argv[1]), sys.argv[2], sys.argv[3]
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    told = json.load(opener.open(url + "/backwards", timeout=60))
    with Canaries() as canaries:
        search = Search({name: text[::-1] for name, text in told.items()} | canaries.values)
        who = dict.fromkeys(lineage(), "above")
        who |= {process.pid: f"planted {number}" for number, process in enumerate(canaries.processes)}
        for process in Path("/proc").iterdir():
            if process.name.isdigit() and int(process.name) != os.getpid():
                search.process(who.get(int(process.name), "other"), process)
        search.files(began)
    found = {name: sorted(places) for name, places in search.found.items()}
    print("SEARCHED" + json.dumps({"found": found, "readable": search.readable, "kept": os.environ[kept]}))


main()
