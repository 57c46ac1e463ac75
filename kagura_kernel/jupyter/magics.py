"""`%%kagura`, `%%sandbox` and `%kagura`: registered in a moment, everything heavier waits for the first use."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from kagura_kernel.jupyter.errors import calm
from kagura_kernel.jupyter.outcome import register_outcome
from kagura_kernel.jupyter.transformer import CELL_MAGICS, ENTRY, ENTRY_INSIDE, rewrite

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def register(shell: InteractiveShell) -> None:
    """Add the magics; doing it twice changes nothing."""
    unregister(shell)
    magics = Magics(shell)
    transforms = shell.input_transformers_cleanup
    transforms.insert(0, rewrite)
    setattr(shell, ENTRY, magics.awaited)
    setattr(shell, ENTRY_INSIDE, magics.inside)
    # IPython's own annotations of this method leave `self` out.
    add: Any = shell.register_magic_function
    add(magics.kagura, "line_cell", "kagura")
    add(magics.sandbox, "cell", "sandbox")
    register_outcome(shell)


def unregister(shell: InteractiveShell) -> None:
    """Take the magics away, stop what runs and close what is open; nothing happens when they are not there."""
    transforms = shell.input_transformers_cleanup
    while rewrite in transforms:
        transforms.remove(rewrite)
    for entry in (ENTRY, ENTRY_INSIDE):
        shell.__dict__.pop(entry, None)
    for kind in ("line", "cell"):
        for name in CELL_MAGICS:
            shell.magics_manager.magics[kind].pop(name, None)
    assembly = sys.modules.get("kagura_kernel.assembly")
    if assembly is not None:
        assembly.close_cockpit()


class Magics:
    """The entry points that IPython calls."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell

    async def awaited(self, magic: str, line: str, body: str) -> Any:
        """A rewritten cell."""
        with calm():
            from kagura_kernel.jupyter.cell import run_cell

            return await run_cell(self._shell, magic, line, body)

    def kagura(self, line: str, cell: str | None = None) -> Any:
        """Send a task to an agent (`%%kagura`), or steer runs (`%kagura WORD`); `%kagura help` lists the words."""
        if cell is not None:
            return self.inside("kagura", line, cell)
        with calm():
            from kagura_kernel.jupyter.commands import USAGE, parse_command

            command = parse_command(line)
            if command.word == "help":
                print(USAGE)  # noqa: T201  # a magic answers by printing
                return None
            from kagura_kernel.assembly import get_cockpit
            from kagura_kernel.jupyter.steering import steer

            return steer(get_cockpit(), self._shell, command)

    def sandbox(self, line: str, cell: str) -> Any:
        """Run the cell's own code in a box, without any model: `%%sandbox [python|bash] [options]`."""
        return self.inside("sandbox", line, cell)

    def inside(self, magic: str, line: str, cell: str) -> Any:
        """A cell that other code runs and that cannot be awaited."""
        from kagura_kernel.jupyter.blocking import run_blocking

        return run_blocking(self._shell, magic, line, cell)
