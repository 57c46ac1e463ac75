"""A process that changes a directory while somebody walks it, as fast as it can. For tests of path jails.

The directory has `a/b/secret.txt`, and `outside` beside it has a `secret.txt`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SWAPPER = """
import os, sys
os.chdir(sys.argv[1])
print("swapping", flush=True)
while True:
    for name in ("a/b", "a"):
        os.rename(name, "aside")
        os.symlink("../outside" if name == "a" else "../../outside", name)
        os.unlink(name)
        os.rename("aside", name)
    for make in (lambda: os.symlink("../../../outside/secret.txt", "a/b/new"),
                 lambda: os.link("../outside/secret.txt", "a/b/new"),
                 lambda: os.mkfifo("a/b/new")):
        make()
        os.replace("a/b/new", "a/b/secret.txt")
        with open("a/b/new", "w") as file:
            file.write("inside")
        os.replace("a/b/new", "a/b/secret.txt")
"""


@contextmanager
def swapping(base: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that swaps directories and the file for links, hard links and FIFOs, as fast as it can."""
    argv = [sys.executable, "-I", "-c", _SWAPPER, str(base)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE)
    try:
        begun = process.stdout.readline() if process.stdout else b""
        if begun != b"swapping\n":
            raise RuntimeError("the process that swaps did not begin")
        yield process
    finally:
        process.kill()
        process.communicate()
