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
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NoReturn, Self

from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.store import Journal
from kagura_kernel.membrane.credentials.broker import CredentialBroker
from kagura_kernel.membrane.credentials.budget import Budget
from kagura_kernel.membrane.credentials.grants import Grants, parse_grant
from kagura_kernel.membrane.credentials.secret_reference import SecretReader
from kagura_kernel.membrane.credentials.terms import Holder
from kagura_kernel.testing.credential_cloudflare import PARENT
from kagura_kernel.testing.credential_rigs import SCOPE, cloudflare_provider

_BUDGET = Budget(86400.0, renewals_left=1000)


async def live(home: Path, url: str, seed: int) -> None:
    """Acquire, renew and release at random, two leases at a time, and never end."""
    chance = random.Random(seed)  # noqa: S311 - no secret hangs on it
    journal = Journal.open(home)
    provider = cloudflare_provider(url, SecretReader({"KEY": PARENT}), timeout=10.0)
    broker = CredentialBroker(
        LeaseLedger(journal),
        {"cloudflare": provider},
        Grants([parse_grant(f"cloudflare:{SCOPE}")]),
        Holder(f"run-{seed}", "ses-1", process_owner()),
    )

    async def one() -> None:
        while True:
            lease = await broker.acquire("cloudflare", SCOPE, budget=_BUDGET)
            for _ in range(chance.randrange(3)):
                await broker.renew(lease.id)
            if chance.random() < 0.8:  # noqa: PLR2004 - some are held
                await broker.release(lease.id)

    await asyncio.gather(one(), one())


class Lives:
    """Starts lives and kills them. A context manager."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        """Ready when it returns."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kagura_kernel.testing.credential_life"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing lives any more."""
        if self._process is not None:
            self._process.communicate(timeout=30)

    def start(self, home: Path, url: str, seed: int) -> int:
        """A new life; its process id."""
        return int(self._say(json.dumps({"home": str(home), "url": url, "seed": seed})))

    def kill(self, pid: int) -> None:
        """`SIGKILL`; the process is gone when it returns."""
        self._say(f"kill {pid}")

    def _say(self, line: str) -> str:
        assert self._process is not None  # noqa: S101 - for the author of a test
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None  # noqa: S101 - as above
        assert stdout is not None  # noqa: S101 - as above
        stdin.write(line + "\n")
        stdin.flush()
        return stdout.readline().strip()


def serve(lines: IO[str], answers: IO[str]) -> None:
    """Start and kill as told, until there are no more lines; then kill the rest."""
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
                _child(json.loads(line))
            alive.add(pid)
            answers.write(f"{pid}\n")
        answers.flush()
    for pid in alive:
        _kill(pid)


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _child(order: dict[str, Any]) -> NoReturn:
    try:
        asyncio.run(live(Path(order["home"]), order["url"], order["seed"]))
    finally:
        os._exit(1)


if __name__ == "__main__":
    # Imported before the first fork, so that a life begins at once.
    import httpx  # noqa: F401

    import kagura_kernel.journal.sqlite  # noqa: F401

    serve(sys.stdin, sys.stdout)
