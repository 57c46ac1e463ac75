"""`make bench`: the table of speeds beside their floors, measured here and now. It prints; it decides nothing.

Beside each figure stands the one of `last.md`, the table that was committed last; `--keep` writes it.

python -m tests.bench [--samples N] [--only WORD] [--keep]
python -m tests.bench scale
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from kagura_kernel.testing import false_home
from tests.bench import shared_journal
from tests.bench.box_output import bytes_out_of_a_box
from tests.bench.box_starts import bubblewrap_box_ready, docker_box_ready, gvisor_box_ready
from tests.bench.chat_server import heard_by_a_busy_server, server_at_rest
from tests.bench.children import work_handed_on
from tests.bench.commands import command_in_a_warm_box, python_that_remembers
from tests.bench.connections import connections_out_of_a_box
from tests.bench.contenders import MITMDUMP
from tests.bench.first import commands_of_a_terminal, first_cell, first_run
from tests.bench.harness import Bench, Line, Missing, table, told
from tests.bench.journal import facts_stored, journal_checked
from tests.bench.kept_boxes import cell_that_goes_on
from tests.bench.kernel_growth import cells_kept
from tests.bench.kernels import idle_kernel, kernel_start
from tests.bench.kits import kit_staged
from tests.bench.lab_clicks import click_to_going_on, proposal_to_screen
from tests.bench.lab_stalls import stalls_while_a_box_prints
from tests.bench.lab_waits import answers_elsewhere, first_word, interrupting_a_run
from tests.bench.leases import lease_acquired_and_released, request_through_a_lease, scrubbed_output
from tests.bench.load_ext import loading
from tests.bench.mounts import further_directory_shown
from tests.bench.notebook_view import notebook_shown
from tests.bench.plans import run_planned
from tests.bench.plugin_calls import plugin_called_from_a_box
from tests.bench.recall import recall_in_a_large_memory, recall_of_what_was_told
from tests.bench.redaction import redaction
from tests.bench.replayed import replayed_run
from tests.bench.run_boxes import membrane_opened
from tests.bench.run_memory import memory_before_a_run
from tests.bench.shell_commands import commands_of_a_shell
from tests.support import dockerd
from tests.support.docker_images import ensure_images

OUT = Path(__file__).resolve().parents[2] / "out" / "bench.md"
LAST = Path(__file__).with_name("last.md")

ROWS: tuple[Callable[[Bench], Awaitable[list[Line]]], ...] = (
    command_in_a_warm_box,
    python_that_remembers,
    cell_that_goes_on,
    notebook_shown,
    bubblewrap_box_ready,
    docker_box_ready,
    gvisor_box_ready,
    further_directory_shown,
    membrane_opened,
    bytes_out_of_a_box,
    connections_out_of_a_box,
    lease_acquired_and_released,
    request_through_a_lease,
    scrubbed_output,
    plugin_called_from_a_box,
    redaction,
    loading,
    first_cell,
    first_run,
    commands_of_a_terminal,
    kit_staged,
    recall_of_what_was_told,
    recall_in_a_large_memory,
    memory_before_a_run,
    run_planned,
    facts_stored,
    journal_checked,
    work_handed_on,
    kernel_start,
    idle_kernel,
    cells_kept,
    replayed_run,
    commands_of_a_shell,
    heard_by_a_busy_server,
    server_at_rest,
    click_to_going_on,
    proposal_to_screen,
    answers_elsewhere,
    interrupting_a_run,
    first_word,
    stalls_while_a_box_prints,
)

PACKAGES = ("kagura-kernel", "ipykernel", "ipython", "docker", "sqlalchemy", "pydantic")
PROGRAMS = (
    ("bwrap", "--version"),
    ("docker", "--version"),
    ("runsc", "--version"),
    ("squid", "--version"),
    (str(MITMDUMP), "--version"),
    ("git", "--version"),
)


def versions() -> str:
    """What was measured with, and on what; a load well above what the rows themselves cause blurs every figure."""
    found = [
        f"Python {platform.python_version()}",
        f"{platform.system()} {platform.release()}",
        f"{os.cpu_count()} cores",
    ]
    found.append(f"load {os.getloadavg()[0]:.1f}")
    found += [f"{name} {version(name)}" for name in PACKAGES]
    for program, option in PROGRAMS:
        if where := shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin"):
            answer = subprocess.run([where, option], capture_output=True, text=True, check=False)
            found.append(answer.stdout.strip().splitlines()[0])
    return ", ".join(found)


async def measure(bench: Bench, only: str) -> list[Line]:
    """All rows; one that fails leaves its reason in its place and does not keep the others from being measured."""
    lines: list[Line] = []
    for row in ROWS:
        name = row.__name__.replace("_", " ")
        if only not in name:
            continue
        print(f"measuring: {name}", file=sys.stderr, flush=True)
        try:
            lines += await row(bench)
        except Missing as missing:
            lines.append(Line(name, missing=str(missing)))
        # A part that is broken must not take the figures of the others with it.
        except Exception as error:  # noqa: BLE001
            traceback.print_exc()
            lines.append(Line(name, missing=f"{type(error).__name__}: {error}".replace("\n", " ")[:200]))
    return lines


def main() -> int:
    """Measure, print, and keep the table in out/bench.md."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--samples", type=int, default=20, help="measurements of each side")
    parser.add_argument("--only", default="", help="only rows whose names hold this word")
    parser.add_argument("--keep", action="store_true", help="keep the table in tests/bench/last.md, to be committed")
    parser.add_argument("what", nargs="?", choices=("scale",), help="`scale`: a thousand users of one shared journal")
    options = parser.parse_args()
    if options.what:
        return shared_journal.main()
    with ExitStack() as stack:
        # Short, because sockets are made below it.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kagura-bench-")))
        false_home.apply(os.environ, folder / "home", token=str(folder))
        daemon, no_daemon = None, dockerd.why_not()
        if not no_daemon:
            daemon = stack.enter_context(dockerd.shared_daemon())
            ensure_images(daemon)
        bench = Bench(folder, samples=options.samples, daemon=daemon, no_daemon=no_daemon)
        lines = asyncio.run(measure(bench, options.only))
    last = told(LAST.read_text("utf-8")) if LAST.exists() else {}
    text = f"{table(lines, last)}\n\n{datetime.now(UTC):%Y-%m-%d %H:%M} UTC: {versions()}\n"
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(text, "utf-8")
    if options.keep:
        LAST.write_text(f"{table(lines)}\n\n{datetime.now(UTC):%Y-%m-%d}: {versions()}\n", "utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
