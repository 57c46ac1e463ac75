"""Starts boxes from a process of its own, on the system's Python: an ordinary user's, which root's own is not."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
NOBODY = 65534

PROGRAM = """
import asyncio, json, sys
from pathlib import Path
job = json.loads(sys.argv[1])
sys.path.insert(0, job["root"])
from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.domain.policy import BoxLimits, CommandLimits, SandboxPolicy
from kagura_kernel.sandbox.backend import BoxSpec, ShownPath
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.sandbox.python_view import find_view

def spec_of(asked):
    return BoxSpec(
        workspace=Path(asked["workspace"]) if "workspace" in asked else None,
        policy=SandboxPolicy(network_access=asked.get("network", False)),
        limits=BoxLimits(scratch_bytes=asked.get("scratch", 2**30)),
        extra_read_only=tuple((Path(source), target) for source, target in asked.get("extra", ())),
        shown=tuple(ShownPath(Path(source), *more) for source, *more in asked.get("shown", ())),
        writable_root=asked.get("writable_root", False),
    )

async def main():
    env, found = job["env"], []
    view = find_view(python=env + "/bin/python", prefixes=[env, "/usr"]) if env else None
    backend = BubblewrapBackend(view=view)
    try:
        for asked in job["boxes"]:
            box = await backend.start(spec_of(asked))
            answers = []
            for line in asked["lines"]:
                result = await box.run(shell_command(line, limits=CommandLimits(total=120, idle=120)))
                answers.append([result.exit_code, result.stdout.text, result.stderr.text])
            changes = [[change.status, change.path] for change in await box.changes()]
            found.append({"answers": answers, "changes": changes, "notes": box.notes})
    except SandboxUnavailable as error:
        found.append({"refused": str(error)})
    finally:
        await backend.close()
    print(json.dumps(found))

asyncio.run(main())
"""


def boxes_of(*asked: dict[str, Any], uid: int = NOBODY, env: str = "", through: Sequence[str] = ()) -> list[Any]:
    """What came of boxes that are there side by side: `answers` (exit code, output, errors), `changes` and `notes`.

    Skips the test where this is no root, which runs everything as an ordinary user anyway, and where there is no Python
    that every user may run, or no checkout that every user may read.

    Args:
        asked: `lines` for each box, and what its spec shall be.
        uid: Who starts them.
        env: The environment that boxes see; the system's Python where it is empty.
        through: A command line that starts the process.
    """
    python = next((path for path in ("/usr/bin/python3", "/usr/local/bin/python3") if os.access(path, os.X_OK)), None)
    if os.geteuid() != 0:
        pytest.skip("this user is an ordinary one: the other tests say the same")
    if python is None:
        pytest.skip("needs a Python that every user may run: apt install python3")
    if any(not folder.stat().st_mode & 0o001 for folder in (ROOT, *ROOT.parents)):
        pytest.skip(f"needs a checkout that every user may read, and {ROOT} lies in a folder of root's")
    job = {"root": str(ROOT), "env": env, "boxes": asked}
    result = subprocess.run(
        [*through, python, "-I", "-S", "-B", "-c", PROGRAM, json.dumps(job)],
        user=uid,
        group=uid,
        extra_groups=[],
        cwd="/",
        env={"HOME": "/nonexistent", "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)
