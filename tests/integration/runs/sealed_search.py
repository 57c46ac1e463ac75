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
PAGE = os.sysconf("SC_PAGE_SIZE")


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
            for first, last in touched(process, start, end):
                try:
                    mem.seek(first)
                    found += mem.read(last - first)
                except OSError:
                    continue
    return bytes(found)


def touched(process: Path, start: int, end: int) -> list[tuple[int, int]]:
    """Where something is in a region: a program reserves far more than it has ever written. All of it, if unknown."""
    try:
        with (process / "pagemap").open("rb", 0) as pagemap:
            pagemap.seek(start // PAGE * 8)
            words = pagemap.read((end - start) // PAGE * 8)
    except OSError:
        return [(start, end)]
    if len(words) != (end - start) // PAGE * 8:
        return [(start, end)]
    found: list[tuple[int, int]] = []
    # The last byte of a page's word says whether it is in memory, or has been moved out of it.
    for number, bits in enumerate(words[7::8]):
        if not bits & 0xC0:
            continue
        at = start + number * PAGE
        if found and found[-1][1] == at:
            found[-1] = (found[-1][0], at + PAGE)
        else:
            found.append((at, at + PAGE))
    return found


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
