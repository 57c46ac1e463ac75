"""The tray: the folder in a box's own /tmp in which a run's variables and results lie, and what runs programs there.

It is no part of the workspace, so that nothing in it is a change of the project.

    lib/    the inbox: what runs Python programs
    in/     variables that came in
    calls/  programs of the brain's python tool
    host/   what calls plugins, where any are enabled
    out/    what is to be brought back
    shown/  what each program shows, a folder for each call
"""

from __future__ import annotations

import asyncio
import importlib.resources
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import PurePosixPath

from kagura_kernel.domain.variables import is_free_in_a_shell
from kagura_kernel.sandbox.backend import Box

PACKAGE = "kagura_kernel.runs.inbox"
BOXED_PACKAGE = "kagura_inbox"
ENTRY = "run.py"
_PLAIN = re.compile(r"[^A-Za-z0-9_-]")


@cache
def inbox_files() -> Mapping[str, bytes]:
    """What is sent into a box, by path below `lib/`."""
    found = {}
    for one in importlib.resources.files(PACKAGE).iterdir():
        if one.name == ENTRY:
            found[ENTRY] = one.read_bytes()
        elif one.name.endswith(".py"):
            found[f"{BOXED_PACKAGE}/{one.name}"] = one.read_bytes()
    return found


@dataclass(frozen=True, slots=True)
class SearchPaths:
    """Where programs of a box look, in place of what the box says.

    Attributes:
        programs: PATH.
        modules: PYTHONPATH.
    """

    programs: tuple[str, ...]
    modules: tuple[str, ...]

    def variables(self, modules: Sequence[str] = ()) -> dict[str, str]:
        """Both as variables; `modules` are looked through after the first place for modules."""
        first, rest = self.modules[:1], self.modules[1:]
        return {"PATH": ":".join(self.programs), "PYTHONPATH": ":".join((*first, *modules, *rest))}


@dataclass(frozen=True, slots=True)
class Tray:
    """A run's folder in its box.

    Attributes:
        box: The run's box.
        inputs: Names of variables that lie in it.
        outputs: Names that are brought back.
        room: Bytes that one output may have.
        backend: How matplotlib draws; empty leaves that to the box.
        variables: What shell programs find in their environment: plain values as they are, others as paths.
        search: Where programs look beside the box's own places; None leaves it at those.
    """

    box: Box
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    room: int = 256 * 2**20
    backend: str = "Agg"
    variables: Mapping[str, str] = field(default_factory=dict)
    search: SearchPaths | None = None

    @property
    def scratch(self) -> str:
        """The box's /tmp, which lies beside its workspace."""
        return str(PurePosixPath(self.box.files.root).parent / "tmp")

    @property
    def root(self) -> str:
        """The tray."""
        return f"{self.scratch}/kagura"

    @property
    def out(self) -> str:
        """Where outputs are left."""
        return f"{self.root}/out"

    def shown(self, call_id: str) -> str:
        """Where the program of a call leaves what it shows."""
        return f"{self.root}/shown/{_PLAIN.sub('_', call_id)[:64]}"

    async def lay_out(self) -> None:
        """Send the inbox in."""
        write = self.box.files.write
        await asyncio.gather(*(write(f"{self.root}/lib/{path}", data) for path, data in inbox_files().items()))

    def python(self, path: str, call_id: str, first: str = ".") -> tuple[str, ...]:
        """The command that runs a Python program.

        Args:
            path: The program, in the box.
            call_id: The call it belongs to.
            first: Where it looks for modules first; `.` is the working directory.
        """
        call = PurePosixPath(self.shown(call_id)).name
        given = (path, call, first, ",".join(self.inputs), ",".join(self.outputs), str(self.room))
        return ("python3", "-u", f"{self.root}/lib/{ENTRY}", *given)

    def finding(self, search: SearchPaths | None) -> Tray:
        """The same, with programs that look there."""
        return replace(self, search=search)

    def environment(self, call_id: str, modules: Sequence[str] = ()) -> dict[str, str]:
        """What every program of a call finds in its environment.

        Args:
            call_id: The call.
            modules: Where Python looks for modules beside its own places.
        """
        ours = {"KAGURA_SHOW": self.shown(call_id)}
        if self.search is not None:
            ours |= self.search.variables(modules)
        elif modules:
            ours["PYTHONPATH"] = ":".join(modules)
        if self.backend:
            ours["MPLBACKEND"] = self.backend
        if self.outputs:
            ours["KAGURA_OUT"] = self.out
        usable = {name: word for name, word in self.variables.items() if is_free_in_a_shell(name)}
        return {**usable, **ours}

    async def open_call(self, call_id: str) -> None:
        """Make the folder for what the program of a call shows: programs that only write a file do not make one."""
        await self.box.files.write(f"{self.shown(call_id)}/.here", b"")

    async def python_line(self, call_id: str, code: bytes) -> str:
        """Put the code of a python call into the box; the shell line that runs it."""
        import shlex

        path = f"{self.root}/calls/{PurePosixPath(self.shown(call_id)).name}.py"
        await asyncio.gather(self.box.files.write(path, code), self.open_call(call_id))
        return shlex.join(self.python(path, call_id))
