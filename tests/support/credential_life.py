"""A process that lives by leases until somebody kills it: for tests of what a crash leaves behind.

Run as a program it imports everything once, and then forks a fresh life for each line it reads::

    {"home": "/dir of a journal", "url": "http://127.0.0.1:1234", "seed": 7}   →   the new process's id
    kill 1234                                                                  →   "gone", when it is

`Lives` drives it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NoReturn, Self

from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.store import Journal
from kagura_kernel.membrane.credentials.broker import CredentialBroker
from kagura_kernel.membrane.credentials.lease import Budget, Holder, parse_grant
from kagura_kernel.membrane.credentials.secret import SecretReader
from kagura_kernel.testing.credential_service import SCOPE
from tests.support.credential_cloudflare import PARENT
from tests.support.credential_rigs import cloudflare_provider

_BUDGET = Budget(86400.0, renewals_left=1000)


async def live(home: Path, url: str, seed: int) -> None:
    """Acquire, renew and release at random, two leases at a time, and never end."""
    chance = random.Random(seed)
    journal = Journal.open(home)
    provider = cloudflare_provider(url, SecretReader({"KEY": PARENT}), timeout=10.0)
    broker = CredentialBroker(
        LeaseLedger(journal),
        {"cloudflare": provider},
        frozenset([parse_grant(f"cloudflare:{SCOPE}")]),
        Holder(f"run-{seed}", "ses-1", process_owner()),
    )

    async def one() -> None:
        while True:
            lease = await broker.acquire("cloudflare", SCOPE, budget=_BUDGET)
            for _ in range(chance.randrange(3)):
                await broker.renew(lease.id)
            if chance.random() < 0.8:
                await broker.release(lease.id)

    await asyncio.gather(one(), one())


class Lives:
    """Starts lives and kills them; for any thread. A context manager.

    Args:
        module: What is run as the program; the lives of this one unless another is named.
    """

    def __init__(self, module: str = "tests.support.credential_life") -> None:
        self._module = module
        self._process: subprocess.Popen[str] | None = None
        self._turn = threading.Lock()

    def __enter__(self) -> Self:
        """Ready when it returns."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", self._module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing lives any more."""
        if self._process is not None:
            self._process.communicate(timeout=30)

    def start(self, **order: Any) -> int:
        """A new life with these arguments, as JSON has them; its process id."""
        return int(self._say(json.dumps(order)))

    def kill(self, pid: int) -> None:
        """`SIGKILL`, to one that was killed already too; the process is gone when it returns."""
        self._say(f"kill {pid}")

    def _say(self, line: str) -> str:
        assert self._process is not None
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with self._turn:
            stdin.write(line + "\n")
            stdin.flush()
            return stdout.readline().strip()


def serve(lines: IO[str], answers: IO[str], live: Callable[[dict[str, Any]], object]) -> None:
    """Start and kill as told, until there are no more lines; then kill the rest.

    Args:
        lines: Each an order, or `kill` and a process id.
        answers: A process id, or `gone`, for each.
        live: What a fresh process does with its order; it is not meant to return.
    """
    alive: set[int] = set()
    for line in lines:
        if line.startswith("kill "):
            pid = int(line.split()[1])
            _kill(pid)
            alive.discard(pid)
            answers.write("gone\n")
        else:
            pid = os.fork()
            if pid == 0:
                _child(live, json.loads(line))
            alive.add(pid)
            answers.write(f"{pid}\n")
        answers.flush()
    for pid in alive:
        _kill(pid)


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _child(live: Callable[[dict[str, Any]], object], order: dict[str, Any]) -> NoReturn:
    try:
        live(order)
    except BaseException:  # noqa: BLE001 - there is nobody to raise it to
        traceback.print_exc()
    finally:
        os._exit(1)


if __name__ == "__main__":
    # Imported before the first fork, so that a life begins at once.
    import httpx  # noqa: F401

    import kagura_kernel.journal.sqlite  # noqa: F401

    serve(sys.stdin, sys.stdout, lambda order: asyncio.run(live(Path(order["home"]), order["url"], order["seed"])))
