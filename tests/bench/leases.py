"""What leases cost: to have one, to use it through its loopback URL, and to hide it in what a box prints."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from statistics import median
from time import perf_counter
from urllib.parse import urlsplit

from kagura_kernel.domain.commands import Command
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.membrane.credentials.broker import CredentialBroker
from kagura_kernel.membrane.credentials.lease import Budget, Holder, parse_grant
from kagura_kernel.sandbox.backend import Box
from tests.bench.contenders import serving
from tests.bench.harness import Bench, Bound, Line, Measure, interleaved, milliseconds
from tests.bench.membrane_boxes import NO_LIMITS, Ask, bubblewrap, inside, membranes, opened, outside

LEASES = 5
IN_A_ROW = 20
PIECE = 64 * 2**20
GRANTS = tuple(f"key{number}:default" for number in range(LEASES))
SECRETS = {f"SECRET{number}": os.urandom(20).hex() for number in range(LEASES)}


def providers(port: int) -> str:
    """Keys that exist already, each lent for one upstream."""
    tables = [
        f'[providers.key{number}]\nkind = "static"\nsecret_env = "SECRET{number}"\n'
        f'inject = {{ upstream = "http://127.0.0.1:{port}", addresses = ["127.0.0.1"] }}\n'
        for number in range(LEASES)
    ]
    return "\n".join(tables)


async def lease_acquired_and_released(bench: Bench) -> list[Line]:
    """With the provider that asks nobody, so that only the book is left: every step of it on disk."""
    async with membranes(bench, providers(1), SECRETS) as made:
        holder = Holder("run-bench", "ses-bench", process_owner())
        grants = frozenset([parse_grant(GRANTS[0])])
        broker = CredentialBroker(made.ledger, made.registry.providers, grants, holder)

        async def once() -> float:
            began = perf_counter()
            lease = await broker.acquire("key0", "default", budget=Budget())
            await broker.release(lease.id)
            return perf_counter() - began

        try:
            with closing(_table(bench.folder / "floor.db")) as floor:
                samples = bench.samples * 5
                figures = await interleaved(samples, lease=once, row=_row_on_disk(floor))
        finally:
            await broker.close()
    what = "lease acquired and released, every step in the journal"
    wanted = Bound("≤ 5 ms", 5)
    lease, row = milliseconds(figures["lease"]), milliseconds(figures["row"])
    return [
        Line(what, figure=lease, bound=wanted, samples=samples),
        Line(what, "one row in SQLite that waits for the disk", lease, row, samples=samples),
    ]


def _table(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, isolation_level=None)
    for words in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "CREATE TABLE rows (text TEXT)"):
        connection.execute(words)
    return connection


def _row_on_disk(connection: sqlite3.Connection) -> Measure:
    async def once() -> float:
        began = perf_counter()
        connection.execute("INSERT INTO rows VALUES (?)", ("x" * 400,))
        return perf_counter() - began

    return once


async def request_through_a_lease(bench: Bench) -> list[Line]:
    """A small HTTP request on a connection of its own, the credential added on the way out."""
    async with (
        serving("server.py") as server,
        membranes(bench, providers(server), SECRETS) as made,
        bubblewrap(bench) as start,
    ):
        membrane = made.make(credentials=GRANTS[:1])
        async with opened(membrane, await start()) as box:
            url = urlsplit((await box.run(Command(("printenv", "KAGURA_KEY0_DEFAULT_URL")))).stdout.text.strip())
            if url.hostname is None or url.port is None:
                raise RuntimeError(f"the lease has no URL in the box: {url}")
            samples = max(3, bench.samples // 2)
            leased, direct = inside(box, url.port, proxy=0, host=url.hostname), outside(server)
            figures = await interleaved(samples, leased=_request(leased), direct=_request(direct))
    return [
        Line(
            "request through a lease's loopback URL, from a box",
            "direct, from the host",
            milliseconds(figures["leased"]),
            milliseconds(figures["direct"]),
            samples=samples,
        )
    ]


def _request(ask: Ask) -> Measure:
    async def once() -> float:
        return float(median(await ask("request", IN_A_ROW)))

    return once


async def scrubbed_output(bench: Bench) -> list[Line]:
    """`cat` of a log in the workspace, while the run holds leases and while it holds none."""
    async with membranes(bench, providers(1), SECRETS) as made, bubblewrap(bench) as start:
        figures = {}
        for name, text in (("text", _log()), ("random bytes", os.urandom(2**20))):
            (bench.folder / "crossing" / "large").write_bytes(text * (PIECE // len(text)))
            async with (
                opened(made.make(credentials=GRANTS), await start()) as leased,
                opened(made.make(), await start()) as plain,
            ):
                samples = max(3, bench.samples // 4)
                figures[name] = await interleaved(samples, warm_up=1, scrubbed=_cat(leased), plain=_cat(plain))
    return [
        Line(
            f"output of a box ({name}), scrubbed of {LEASES} leases",
            "the same without leases",
            found["scrubbed"],
            found["plain"],
            "MB/s",
            samples=samples,
        )
        for name, found in figures.items()
    ]


def _log() -> bytes:
    lines = (
        f"{number:08d} INFO worker-{number % 7}: fetched {number * 7919} in {number % 97} ms"
        for number in range(30_000)
    )
    return "\n".join(lines).encode("ascii")[: 2**20]


def _cat(box: Box) -> Measure:
    async def once() -> float:
        began = perf_counter()
        result = await box.run(Command(("cat", "large"), limits=NO_LIMITS))
        took = perf_counter() - began
        if not result.ok:
            raise RuntimeError(f"cat failed: {result.stderr.text}")
        return result.stdout.total / 1e6 / took

    return once
