"""A process that serves until somebody kills it: for tests that kill it often.

Run as a program by `Lives("kagura_kernel.testing.served_life")`; an order names what `ServedLife` takes::

    {"environ": {…}, "folder": "/dir", "log": "/file"}

What the command needs is imported once, which is most of the time that it takes to start; then each life is a fork that
carries out the very command.
"""

from __future__ import annotations

import os
import runpy
import sys
from importlib import import_module
from typing import Any

from kagura_kernel.testing.credential_life import serve

COMMAND = "kagura_kernel.cli.main"
"""What `python -m` is given by a shell."""

_NEEDED = (
    "slack_bolt.adapter.socket_mode.aiohttp",
    "kagura_kernel.assembly.serving",
    "kagura_kernel.brain.pydantic_ai_talk",
    "kagura_kernel.cli.run",
    "kagura_kernel.cli.serve",
    "kagura_kernel.cockpit.serving",
    "kagura_kernel.cockpit.transports.conversations",
    "kagura_kernel.cockpit.transports.slack",
    "kagura_kernel.journal.sqlite",
    "kagura_kernel.membrane.credentials.injection.injector",
    "kagura_kernel.membrane.credentials.providers.cloudflare",
    "kagura_kernel.membrane.leasing",
    "kagura_kernel.memory.opening",
    "kagura_kernel.runs.run",
    "kagura_kernel.sandbox.bubblewrap",
)


def live(order: dict[str, Any]) -> None:
    """`kagura-kernel serve` in that environment."""
    os.environ.clear()
    os.environ.update(order["environ"])
    os.chdir(order["folder"])
    told = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(told, 1)
    os.dup2(told, 2)
    sys.argv = ["kagura-kernel", "serve"]
    runpy.run_module(COMMAND, run_name="__main__")


if __name__ == "__main__":
    for name in _NEEDED:
        import_module(name)
    serve(sys.stdin, sys.stdout, live)
