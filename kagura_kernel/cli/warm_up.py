"""Begins what a command waits for in other threads and processes, beside its imports."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.journal.place import data_home


@contextlib.contextmanager
def prepared_box() -> Iterator[None]:
    """Start the process that will start boxes, which looks through what they show; end it where no box was started."""
    from kagura_kernel.assembly.first_box import start_supervisor
    from kagura_kernel.journal.place import read_settings
    from kagura_kernel.sandbox.supervisor.launched import end_spare

    # Wrong settings are told by the command.
    with contextlib.suppress(KaguraError):
        start_supervisor(read_settings(os.environ), os.environ)
    try:
        yield
    finally:
        end_spare()


def warm() -> None:
    """Begin to read the rules of redaction, or to compile them; does nothing where that was begun."""
    from kagura_kernel.kit.redaction.known_rules import FOLDER, begin

    # Wrong settings are told by the command.
    with contextlib.suppress(KaguraError):
        begin(data_home(os.environ) / FOLDER)
