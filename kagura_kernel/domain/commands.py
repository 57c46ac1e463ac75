"""A command and what came of it, the same whether it ran in a box or, approved, on the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, Protocol

from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.policy import CommandLimits

Stream = Literal["stdout", "stderr"]


class ByteFilter(Protocol):
    """What one stream's bytes go through, in order, before anybody sees them."""

    def feed(self, data: bytes) -> bytes:
        """What may be seen after these bytes; the rest comes later."""
        ...

    async def ready(self) -> None:
        """Return when `finish` answers at once; asked when the stream has ended."""
        ...

    def finish(self) -> bytes:
        """What was held back; called once, when the stream has ended."""
        ...


OutputFilter = Callable[[], ByteFilter]
"""Makes the filter of one stream; each stream of each command gets its own."""


def one_after_another(*filters: OutputFilter | None) -> OutputFilter | None:
    """Several filters as one, in this order; None where there are none."""
    made = [one for one in filters if one is not None]
    if len(made) < 2:  # noqa: PLR2004 - nothing to join
        return made[0] if made else None
    return lambda: _OneAfterAnother([make() for make in made])


class _OneAfterAnother:
    """Filters as one: what one gives out the next one sees."""

    def __init__(self, filters: list[ByteFilter]) -> None:
        self._filters = filters

    def feed(self, data: bytes) -> bytes:
        """What may be seen after all of them."""
        for one in self._filters:
            data = one.feed(data)
        return data

    async def ready(self) -> None:
        """When each of them is."""
        for one in self._filters:
            await one.ready()

    def finish(self) -> bytes:
        """What any of them held back."""
        data = b""
        for one in self._filters:
            data = (one.feed(data) if data else b"") + one.finish()
        return data


@dataclass(frozen=True, slots=True)
class Command:
    """One program to run to its end."""

    argv: tuple[str, ...]  # Program and arguments; a shell line is `("bash", "-c", line)`, see `shell_command`
    cwd: str | None = None  # Working directory; None is the workspace
    # Variables added to the runner's own minimal environment. Never secrets.
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""  # What the program reads; it then sees the end of its input
    limits: CommandLimits = field(default_factory=CommandLimits)  # Time limits; None lifts one
    keep_bytes: int = 256 * 1024  # How much of each stream is kept in memory: half from the start, half from the end
    spill_dir: Path | None = None  # Where the full text goes once it is longer than that; None drops the middle
    # What each stream goes through before it is heard, kept or spilled; None leaves it as it is
    output_filter: OutputFilter | None = None
    # Variables with secrets in them, for this one process; never shown, never sent to the host
    secret_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    # In a box: the program that stays and is handed `argv` as a call; started where it is not there. Empty for a
    # program that runs by itself.
    resident: tuple[str, ...] = ()
    restart: bool = False  # Whether the program that stays is ended first, with all it knows
    # In a box: the folder for what it leaves to be shown, there when it begins: programs that only write a file make
    # none. Empty for no folder.
    shows: str = ""
    name: str = ""  # What a person calls it, where they have typed no line of it; empty for its line

    @property
    def line(self) -> str:
        """How the command is shown: a shell line as it was typed, otherwise the quoted words."""
        import shlex

        match self.argv:
            case (_, "-c" | "-lc", line):
                return line
            case _:
                return shlex.join((*self.resident, *self.argv))


def shell_command(
    line: str,
    *,
    cwd: str | None = None,
    stdin: bytes = b"",
    limits: CommandLimits = CommandLimits(),
    env: Mapping[str, str] | None = None,
    spill_dir: Path | None = None,
) -> Command:
    """A line for bash, without start-up files."""
    return Command(("bash", "-c", line), cwd=cwd, stdin=stdin, limits=limits, env=env or {}, spill_dir=spill_dir)


@dataclass(frozen=True, slots=True)
class Output:
    """What one stream of a command printed, past the command's filter if it has one."""

    head: bytes = b""  # The first bytes, all of them when nothing was dropped
    tail: bytes = b""  # The last bytes when the middle was dropped, otherwise empty
    total: int = 0  # How many bytes there were
    spill: Path | None = None  # The file that holds every byte, when there is one

    @property
    def truncated(self) -> bool:
        """Whether bytes are missing between head and tail."""
        return self.total > len(self.head) + len(self.tail)

    @property
    def data(self) -> bytes:
        """All bytes in memory; a gap is not marked."""
        return self.head + self.tail

    @property
    def text(self) -> str:
        """For reading: decoded as UTF-8, other bytes as �, a gap marked with its size."""
        head = self.head.decode("utf-8", "replace")
        if not self.truncated:
            return head + self.tail.decode("utf-8", "replace")
        missing = self.total - len(self.head) - len(self.tail)
        return f"{head}\n… {missing} bytes left out …\n{self.tail.decode('utf-8', 'replace')}"


@dataclass(frozen=True, slots=True)
class CommandResult:
    """A command that ran to its end; a failing exit code is a result, not an error."""

    exit_code: int  # What the program returned; 128 + number for a signal, 127 when there is no such program
    stdout: Output = field(default_factory=Output)  # What it printed
    stderr: Output = field(default_factory=Output)  # What it complained of
    duration: float = 0.0  # Seconds from start to end, without set-up
    signal: int | None = None  # The signal that ended it, if one did
    # Of a call of a program that stays: whether that was started for it, was there, or is gone now; otherwise empty
    resident: Literal["", "new", "kept", "gone"] = ""
    shown: bool = False  # Whether anything lies in the folder for what it shows, on the box's word

    @property
    def ok(self) -> bool:
        """Whether the program returned 0."""
        return self.exit_code == 0


@dataclass(frozen=True, slots=True)
class OutputChunk:
    """Some bytes that a running command just printed."""

    stream: Stream
    data: bytes


OutputListener = Callable[[OutputChunk], None]
"""Called for each chunk, in order, on the loop that runs the command; must not block."""
