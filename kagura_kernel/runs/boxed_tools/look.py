"""Whether a command is in this box, and of which version: `look.py COMMAND INSTALLER PACKAGE`.

Prints one object of JSON: `path` of the command (empty for none), its `version` as its installer knows it (empty where
that cannot be said), the `machine`, and the `search` path of programs here.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys

_VERSION = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"


def python_version(path: str, package: str) -> str:
    """The version of the Python package whose script this is; empty when it is no script, or of another package."""
    with open(path, "rb") as file:  # noqa: PTH123 - starts without pathlib
        line = file.readline(512)
    if not line.startswith(b"#!"):
        return ""
    words = line[2:].split()
    if not words or b"python" not in words[0].rpartition(b"/")[2]:
        return ""
    answer = subprocess.run(  # noqa: S603 - the interpreter that the command itself names
        [os.fsdecode(words[0]), "-I", "-c", _VERSION, package],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )
    return answer.stdout.decode("utf-8", "replace").strip()


def node_version(path: str, package: str) -> str:
    """The version of the npm package that this lies in; empty when it is another one."""
    folder = os.path.dirname(os.path.realpath(path))  # noqa: PTH120 - starts without pathlib
    while True:
        try:
            with open(f"{folder}/package.json", encoding="utf-8") as file:  # noqa: PTH123 - likewise
                about = json.load(file)
        except (OSError, ValueError):
            about = {}
        if isinstance(about, dict) and about.get("name") == package:
            return str(about.get("version", ""))
        if folder in ("/", ""):
            return ""
        folder = os.path.dirname(folder)  # noqa: PTH120 - likewise


def version_of(path: str, installer: str, package: str) -> str:
    """The version of a command; empty where it cannot be said."""
    read = {"pip": python_version, "npm": node_version}.get(installer)
    if read is None:
        return ""
    try:
        return read(path, package.partition("[")[0] if installer == "pip" else package)
    except (OSError, subprocess.SubprocessError):
        return ""


def main() -> None:
    """Look, and tell."""
    command, installer, package = sys.argv[1:4]
    path = shutil.which(command) or ""
    found = {
        "path": path,
        "version": version_of(path, installer, package) if path and package else "",
        "machine": platform.machine(),
        "search": os.environ.get("PATH", os.defpath),
    }
    print(json.dumps(found))  # noqa: T201 - what it is for


main()
