"""What `%kagura WORD …` and `/WORD …` do in a notebook: a function for each command, thin above the cockpit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import import_module
from inspect import isawaitable, iscoroutinefunction
from typing import TYPE_CHECKING, Any

from kagura_kernel.cockpit.lines.parser import parse_line
from kagura_kernel.cockpit.run_names import here_of
from kagura_kernel.domain.grammar import Surface as Typed
from kagura_kernel.jupyter.surface import Surface, place_of, surface_of

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.journal.rows import Here

_FILES = {
    "graduation": "memory",
    "kit": "plugins",
    "lessons": "memory",
    "memory": "memory",
    "plugin": "plugins",
    "recall": "memory",
}
"""The file of all commands that begin with a word; the others are in `runs`."""


class Asked:
    """One command as it was asked for, with all that carrying it out may need."""

    def __init__(self, shell: Any, values: Mapping[str, Any], prefix: str) -> None:
        self.shell = shell  # IPython
        self.values = values  # The command's values, by the names of its arguments and options
        self.prefix = prefix  # How commands begin here: `%kagura ` or `/`
        # Whether the kernel hears no buttons while this command goes on, so that nobody can be asked
        self.blocked = False
        self.awaited = False  # Whether what is returned may be awaited

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def here(self) -> Here:
        """What `last` is about."""
        return here_of(place_of(self.shell))

    @cached_property
    def cockpit(self) -> Cockpit:
        """The cockpit, made on first use: help and the like need none."""
        from kagura_kernel.assembly import get_cockpit

        return get_cockpit()


def say(text: str) -> None:
    """Answer with a text; data is the command's value instead."""
    print(text)  # noqa: T201  # a magic answers by printing


def executor_of(name: str) -> Callable[[Asked], Any]:
    """What carries a command `a b` out: the function `a_b` of its file. One that asks a person and waits is awaited."""
    file = import_module(f"{__name__}.{_FILES.get(name.partition(' ')[0], 'runs')}")
    executor: Callable[[Asked], Any] = getattr(file, name.replace(" ", "_"))
    return executor


def run_line(shell: Any, line: str, *, prefix: str = "%kagura ") -> Any:
    """Carry a line out; returns its value, if it has one. The cockpit is made only by commands that need it.

    Raises:
        KaguraError: it cannot be understood, or cannot be done.
    """
    parsed = parse_line(line, Typed.NOTEBOOK, prefix=prefix)
    asked, executor = Asked(shell, parsed.values, prefix), executor_of(parsed.command.name)
    if not iscoroutinefunction(executor):
        return executor(asked)
    from kagura_kernel.jupyter.follow import wait_in_thread

    asked.blocked = surface_of(shell) is Surface.NOTEBOOK
    return wait_in_thread(executor(asked), "kagura plugin")


async def run_awaited(shell: Any, line: str, *, prefix: str = "%kagura ") -> Any:
    """The same for a line that is awaited: a person can be asked meanwhile."""
    parsed = parse_line(line, Typed.NOTEBOOK, prefix=prefix)
    asked = Asked(shell, parsed.values, prefix)
    asked.awaited = True
    found = executor_of(parsed.command.name)(asked)
    return await found if isawaitable(found) else found
