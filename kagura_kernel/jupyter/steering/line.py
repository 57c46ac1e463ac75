"""From a line to what it does: parsed by the one list, carried out by the function of the command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import iscoroutinefunction
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kagura_kernel.cockpit.lines.parsing import Parsed, parse_line
from kagura_kernel.domain.grammar import Surface
from kagura_kernel.jupyter.steering import kit, memory, plugins, runs, trust
from kagura_kernel.jupyter.steering.asked import Asked
from kagura_kernel.jupyter.surface import Surface as Place
from kagura_kernel.jupyter.surface import surface_of

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit

_FILES: Mapping[str, ModuleType] = {
    "graduation": trust,
    "kit": kit,
    "lessons": memory,
    "memory": memory,
    "plugin": plugins,
    "recall": memory,
}
"""The file of all commands that begin with a word; the others are in `runs`."""


def executor_of(name: str) -> Callable[[Asked], Any]:
    """What carries a command `a b` out: the function `a_b` of its file. One that asks a person and waits is awaited."""
    executor: Callable[[Asked], Any] = getattr(_FILES.get(name.partition(" ")[0], runs), name.replace(" ", "_"))
    return executor


def run_line(shell: Any, line: str, *, prefix: str = "%kagura ") -> Any:
    """Carry a line out; returns its value, if it has one. The cockpit is made only by commands that need it.

    Args:
        shell: IPython.
        line: Without its prefix.
        prefix: How commands begin here: `%kagura ` or `/`.

    Raises:
        KaguraError: it cannot be understood, or cannot be done.
    """
    return _carry_out(Asked(shell, {}, _cockpit, prefix=prefix), parse_line(line, Surface.NOTEBOOK, prefix=prefix))


async def run_awaited(shell: Any, line: str, *, prefix: str = "%kagura ") -> Any:
    """The same for a line that is awaited: a person can be asked meanwhile."""
    parsed = parse_line(line, Surface.NOTEBOOK, prefix=prefix)
    asked = Asked(shell, parsed.values, _cockpit, prefix=prefix)
    executor = executor_of(parsed.command.name)
    return await executor(asked) if iscoroutinefunction(executor) else executor(asked)


def steer(cockpit: Cockpit, shell: Any, line: str) -> Any:
    """The same for a cockpit of one's own."""
    return _carry_out(Asked(shell, {}, lambda: cockpit), parse_line(line, Surface.NOTEBOOK))


def _carry_out(asked: Asked, parsed: Parsed) -> Any:
    asked.values = parsed.values
    executor = executor_of(parsed.command.name)
    if not iscoroutinefunction(executor):
        return executor(asked)
    from kagura_kernel.jupyter.own_loop import wait_in_thread

    asked.blocked = surface_of(asked.shell) is Place.NOTEBOOK
    return wait_in_thread(executor(asked), "kagura plugin")


def _cockpit() -> Cockpit:
    from kagura_kernel.assembly import get_cockpit

    return get_cockpit()
