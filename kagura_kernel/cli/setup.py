"""`kagura-kernel setup`: walks through what the doctor finds, and writes down what a person chooses.

Without a terminal, or with `--yes`, nobody is asked: what cannot be right is set back to what always works, and the
rest is told.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING

from kagura_kernel.cli.doctor_rows import BRAIN, FAIL, MEMORY, OK, SANDBOX, TRANSPORT, Finding
from kagura_kernel.cli.printing import for_terminal, paragraph, terminal_width
from kagura_kernel.domain.errors import KaguraError

if TYPE_CHECKING:
    from kagura_kernel.domain.settings import Settings

READY, NOT_READY = 0, 3
PARTS = (BRAIN, MEMORY, SANDBOX, TRANSPORT)


def run(arguments: SimpleNamespace) -> int:
    """Walk through one part, or all; 0 when runs can begin with them, 3 when something still has to be done.

    Raises:
        ConfigurationError: the settings are wrong, or cannot be written.
    """
    from kagura_kernel.assembly import load_settings
    from kagura_kernel.cli.setup_parts import Walk

    parts = [arguments.part] if arguments.part else list(PARTS)
    asks = sys.stdin.isatty() and sys.stdout.isatty() and not arguments.yes
    walk = Walk(os.environ, asks=asks, mend=arguments.yes)
    for part in parts:
        print(f"{part}\n")
        _show(rows_of(part, load_settings(os.environ)))
        try:
            walk.through(part, load_settings(os.environ))
        except (EOFError, KeyboardInterrupt):
            print("\nNothing more was changed.")
            break
        except KaguraError as error:
            from kagura_kernel.cli.main import told

            print(told(error), file=sys.stderr)
        print()
    if not arguments.part:
        _show_rest()
    return READY if _is_ready(parts) else NOT_READY


def rows_of(part: str, settings: Settings) -> list[Finding]:
    """The doctor's rows about one part."""
    from kagura_kernel.cli import doctor
    from kagura_kernel.cli.doctor_brains import brains
    from kagura_kernel.cli.doctor_chats import chats

    match part:
        case "brain":
            return list(brains(settings, os.environ))
        case "memory":
            return [doctor.memory(settings)]
        case "transport":
            return list(chats(settings, os.environ))
        case _:
            return list(doctor.boxes(settings))


def _is_ready(parts: Sequence[str]) -> bool:
    """Whether nothing of these failed, and whoever set up a brain has one."""
    from kagura_kernel.assembly import load_settings

    rows = [row for part in parts for row in rows_of(part, load_settings(os.environ))]
    no_brain = any(row.name == "brain" and row.state != OK for row in rows)
    return not no_brain and not any(row.state == FAIL for row in rows)


def _show_rest() -> None:
    """The other rows that are not well: each says for itself what mends it."""
    from kagura_kernel.assembly import load_settings
    from kagura_kernel.cli import doctor
    from kagura_kernel.cli.opening import place_in_use

    settings = load_settings(os.environ)
    rest = doctor.beside_boxes(settings, place_in_use(), datetime.now(UTC))
    print("the machine\n")
    _show([row for row in rest if row.state != OK] or [Finding("all else", OK, "well")])


def _show(rows: Sequence[Finding]) -> None:
    names = max(len(row.name) for row in rows)
    indent = " " * (len("FAIL  ") + names + 2)
    for row in rows:
        start = f"{row.state.upper():<4}  {row.name:<{names}}  "
        print(paragraph(for_terminal(row.said), start, indent, terminal_width()))
        if row.then and not row.then.startswith("`kagura-kernel setup"):
            print(paragraph(for_terminal(row.then), f"{indent}→ ", f"{indent}  ", terminal_width()))
