"""One command as it was asked for, with all that carrying it out may need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kagura_kernel.cockpit.naming import here_of
from kagura_kernel.jupyter.surface import place_of

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.journal.rows import Here


class Asked:
    """What an executor gets."""

    def __init__(
        self,
        shell: Any,
        values: Mapping[str, Any],
        get_cockpit: Callable[[], Cockpit],
        *,
        prefix: str = "%kagura ",
        blocked: bool = False,
    ) -> None:
        self.shell = shell  # IPython
        self.values = values  # The command's values, by the names of its arguments and options
        self.prefix = prefix  # How commands begin here: `%kagura ` or `/`
        # Whether the kernel hears no buttons while this command goes on, so that nobody can be asked
        self.blocked = blocked
        self._get_cockpit = get_cockpit

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def here(self) -> Here:
        """What `last` is about."""
        return here_of(place_of(self.shell))

    @cached_property
    def cockpit(self) -> Cockpit:
        """The cockpit, made on first use: help and the like need none."""
        return self._get_cockpit()


def say(text: str) -> None:
    """Answer with a text; data is the command's value instead."""
    print(text)  # noqa: T201  # a magic answers by printing
