"""A process that serves until somebody kills it, and other commands to their end: for tests that start many.

Run as a program by `Lives("tests.support.served_life")`; an order names what `ServedLife` takes::

    {"environ": {…}, "folder": "/dir", "log": "/file"}

or what `Commands` takes, with a file for each stream::

    {"environ": {…}, "folder": "/dir", "words": ["runs", "--json"], "streams": ["/in", "/out", "/err"]}

What the command needs is imported once, which is most of the time that it takes to start; then each life is a fork that
carries out the very command.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading
import traceback
from importlib import import_module
from typing import Any, NoReturn

from tests.support.credential_life import serve
from tests.support.redactors import shared_redactor

COMMAND = "kagura_kernel.cli.main"
"""What `python -m` is given by a shell."""

_FRESH = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
_NEEDED = (
    "slack_bolt.adapter.socket_mode.aiohttp",
    "kagura_kernel.assembly.chat_server",
    "kagura_kernel.brain.pydantic_ai_talk",
    "kagura_kernel.cli.run",
    "kagura_kernel.cli.serve",
    "kagura_kernel.cockpit.chat_server",
    "kagura_kernel.cockpit.transports.conversations",
    "kagura_kernel.cockpit.transports.slack",
    "kagura_kernel.journal.sqlite",
    "kagura_kernel.membrane.credentials.injection.injector",
    "kagura_kernel.membrane.credentials.providers.cloudflare",
    "kagura_kernel.membrane.run_leases",
    "kagura_kernel.memory.location",
    "kagura_kernel.runs.run",
    "kagura_kernel.sandbox.bubblewrap",
)


def live(order: dict[str, Any]) -> None:
    """`kagura-kernel serve` in that environment."""
    os.environ.clear()
    os.environ.update(order["environ"])
    os.chdir(order["folder"])
    if words := order.get("words"):
        _command(words, *order["streams"])
    told = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(told, 1)
    os.dup2(told, 2)
    sys.argv = ["kagura-kernel", "serve"]
    runpy.run_module(COMMAND, run_name="__main__")


def _command(words: list[str], given: str, out: str, err: str) -> NoReturn:
    for number, (path, flags) in enumerate([(given, os.O_RDONLY), (out, _FRESH), (err, _FRESH)]):
        os.dup2(os.open(path, flags, 0o600), number)
    sys.argv = ["kagura-kernel", *words]
    code: object = 1
    try:
        runpy.run_module(COMMAND, run_name="__main__")
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # noqa: BLE001 - as an interpreter tells it
        traceback.print_exc()
    # What an interpreter does at its end, for the threads of a command.
    vars(threading)["_shutdown"]()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    for name in _NEEDED:
        import_module(name)
    shared_redactor().wait()
    serve(sys.stdin, sys.stdout, live)
