# ruff: noqa: T201 - a program, whose output is its answer
"""Runs in a box: looks for texts in everything that a program there can read, and prints where it found which.

    python3 search.py BEGAN BACKWARDS...

A file that has not changed since BEGAN (seconds since 1970) is older than what is looked for, and not read. The texts
are given backwards, so that neither this program's arguments nor its output hold one. Its own memory does, and is left
out.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

MOST = 512 * 2**20


def look(place: str, data: bytes, wanted: dict[str, bytes]) -> None:
    """Into some bytes."""
    for name, text in wanted.items():
        if text in data or text.decode().encode("utf-16-le") in data:
            print(place, name)


def memory(process: Path) -> bytes:
    """All of a process's memory that it may write to, in pieces that are there."""
    found = bytearray()
    with (process / "maps").open() as maps, (process / "mem").open("rb", 0) as mem:
        for line in maps:
            borders, rights = line.split()[:2]
            start, end = (int(border, 16) for border in borders.split("-"))
            if not rights.startswith("rw") or end - start > MOST:
                continue
            try:
                mem.seek(start)
                found += mem.read(end - start)
            except OSError:
                continue
    return bytes(found)


def processes(wanted: dict[str, bytes]) -> None:
    """Every other process."""
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        for part in ("environ", "cmdline", "mem"):
            try:
                data = memory(process) if part == "mem" else (process / part).read_bytes()
            except OSError:
                continue
            look(part, data, wanted)


def files(wanted: dict[str, bytes], began: float) -> None:
    """Every file that has changed since then."""
    for top, folders, names in os.walk("/"):
        if top == "/":
            folders[:] = [name for name in folders if name not in {"proc", "sys"}]
        for path in (Path(top, name) for name in names):
            try:
                found = path.lstat()
                if path.is_file() and not path.is_symlink() and found.st_ctime >= began and found.st_size <= MOST:
                    look("file", path.read_bytes(), wanted)
            except OSError:
                continue  # it may not be read


def main() -> None:
    """Look, and say that it was done."""
    wanted = {text: text[::-1].encode() for text in sys.argv[2:]}
    planted = Path("/tmp/planted")
    planted.write_bytes(next(reversed(wanted.values())))
    processes(wanted)
    files(wanted, float(sys.argv[1]))
    print("SEARCHED")


main()
