"""What a kernel keeps of each cell that it has run."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from queue import Empty
from typing import Any

from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from tests.bench.harness import Bench, Bound, Line, Missing
from tests.bench.kernels import IPYKERNEL, LOAD, PATIENCE, private_kib, running

CELL = "%%sandbox --box bubblewrap\n1"
_WARM = 100
_MORE = 1000


async def cells_kept(bench: Bench) -> list[Line]:
    """Memory of its own after a thousand warm cells more, by cell."""
    backend = BubblewrapBackend()
    probe = await backend.probe()
    await backend.close()
    if not probe.ok:
        raise Missing(probe.reason)
    kept = await asyncio.to_thread(_kept, bench.folder)
    what = f"memory that a kernel keeps of a `%%sandbox` cell, of {_MORE:,}"
    return [Line(what, figure=kept, unit="KiB", bound=Bound("≤ 10 KiB", 10), samples=1)]


def _kept(folder: Path) -> float:
    project, home = folder / "grown", folder / "grown-home"
    project.mkdir()
    with running(project, IPYKERNEL, home) as (pid, client):
        client.execute(LOAD, reply=True, timeout=PATIENCE)
        _run(client, _WARM)
        before = private_kib(pid)
        _run(client, _MORE)
        return (private_kib(pid) - before) / _MORE


def _run(client: Any, cells: int) -> None:
    for _ in range(cells):
        reply = client.execute(CELL, reply=True, timeout=PATIENCE)
        if reply["content"]["status"] != "ok":
            raise RuntimeError(f"the cell failed: {reply['content'].get('evalue', '')}")
        with contextlib.suppress(Empty):
            # Unread they would pile up here, and later in the kernel.
            while True:
                client.get_iopub_msg(timeout=0)
    client.execute("import gc; gc.collect()", reply=True, silent=True, timeout=PATIENCE)
