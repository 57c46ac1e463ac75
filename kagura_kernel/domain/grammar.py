"""The shape of a command: its words, arguments and options as plain data.

One list of these is behind every way in: `%kagura word` and `/word` in a notebook, `kagura-kernel word` in a terminal.
Parsing, help, completion and the printed reference read it; nothing here does anything. It is imported by
`kagura-kernel --help`, so it imports almost nothing.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple


class Surface(Enum):
    """Where a command is typed."""

    NOTEBOOK = "notebook"
    TERMINAL = "terminal"
    CHAT = "chat"

    @property
    def prefix(self) -> str:
        """What stands before a command there."""
        return _PREFIXES[self]


_PREFIXES = {Surface.NOTEBOOK: "%kagura ", Surface.TERMINAL: "kagura-kernel ", Surface.CHAT: "/"}

Surfaces = frozenset[Surface]

NOTEBOOK: Surfaces = frozenset({Surface.NOTEBOOK})
TERMINAL: Surfaces = frozenset({Surface.TERMINAL})
BOTH: Surfaces = NOTEBOOK | TERMINAL


EVERYWHERE = "last everywhere"
"""Names the newest run of all places, or the only approval that waits; two words that a line has as one."""


class Kind(Enum):
    """What a word stands for: how it is read, and what completes it. The value is what help shows in its place."""

    RUN = "RUN"
    LEASE = "LEASE"
    APPROVAL = "ID"
    SESSION = "SESSION"
    COMMAND = "WORD"
    FILE = "FILE"
    DIRECTORY = "DIRECTORY"
    NOTEBOOK = "NOTEBOOK"
    SOURCE = "SOURCE"
    CHANGED_PATH = "PATH"
    BOX = "BOX"
    BRAIN = "BRAIN"
    MODEL = "MODEL"
    IMAGE = "IMAGE"
    RECIPE = "RECIPE"
    HOST = "HOST"
    TARGET = "TARGET"
    GRANT = "PROVIDER:SCOPE"
    PROVIDER = "PROVIDER"
    PLUGIN = "PLUGIN"
    AGENT = "AGENT"
    KIT_FILE = "PLACE"
    MEMORY = "MEMORY"
    VARIABLE = "NAME"
    EXPRESSION = "NAME[=EXPR]"
    PAIR = "NAME=VALUE"
    COUNT = "N"
    SECONDS = "SECONDS"
    USD = "USD"
    TIME = "WHEN"
    URL = "URL"
    CHOICE = "CHOICE"
    TEXT = "TEXT"


ON_DISK = frozenset({Kind.FILE, Kind.DIRECTORY, Kind.NOTEBOOK, Kind.SOURCE})
"""What names of files and folders complete."""


class InputRequest(NamedTuple):
    """The value of `Kind.EXPRESSION`: one variable that a cell gives into its box."""

    name: str  # in the box
    expression: str  # Python whose value it gets; the name itself for a variable as it stands


class Argument(NamedTuple):
    """A word that stands at a place."""

    name: str  # Its name among the values
    kind: Kind  # What it stands for
    help: str  # One clause
    required: bool = True  # Whether it has to be there
    many: bool = False  # Whether it takes all words that are left; then its value is a tuple
    choices: tuple[str, ...] = ()  # All it may be, for `Kind.CHOICE`
    metavar: str = ""  # What help shows in its place; empty for the kind's own
    default: Any = None  # Its value when it is not there
    surfaces: Surfaces | None = None  # Where it is taken; None wherever its command is
    # Of a text: whether each word of it that begins with two dashes is an option. Nobody searches for one or makes a
    # task of it, and a slip would run without the limit that was meant; a note may hold any.
    options: bool = False

    @property
    def shown(self) -> str:
        """What stands for it: `RUN`."""
        return self.metavar or "|".join(self.choices) or self.kind.value

    @property
    def usage(self) -> str:
        """How often it is given: `RUN`, `[RUN]`, `RUN …`, `[RUN …]`."""
        words = f"{self.shown} …" if self.many else self.shown
        return words if self.required else f"[{words}]"


class Option(NamedTuple):
    """A word that begins with a dash."""

    flags: tuple[str, ...]  # How it is written, the long form last
    help: str  # One clause, or several with semicolons
    kind: Kind | None = None  # What its value stands for; None for one that is either there or not
    metavar: str = ""  # What help shows in its value's place; empty for the kind's own
    many: bool = False  # Whether it may be given again; then its value is a tuple without doubles
    commas: bool = False  # Whether one value may name several, with commas
    choices: tuple[str, ...] = ()  # All its value may be, for `Kind.CHOICE`
    excludes: tuple[str, ...] = ()  # Flags that do not go together with it
    default: Any = None  # Its value when it is not given and is no flag and not `many`
    otherwise: str = ""  # What holds when it is not given, for people; empty where `setting` says it
    setting: str = ""  # The setting whose number holds then; empty for none
    dest: str = ""  # Its name among the values; empty for the long form's own
    surfaces: Surfaces | None = None  # Where it is taken; None wherever its command is

    @property
    def name(self) -> str:
        """Its name among the values."""
        return self.dest or self.flags[-1].lstrip("-").replace("-", "_")

    @property
    def without(self) -> str:
        """What holds when it is not given, with the default of its setting; empty where nobody says so."""
        if self.otherwise or not self.setting:
            return self.otherwise
        from kagura_kernel.domain.settings import DEFAULTS

        return f"{getattr(DEFAULTS, self.setting):g}"

    @property
    def value(self) -> str:
        """What stands for its value; empty for one that has none."""
        return "" if self.kind is None else self.metavar or "|".join(self.choices) or self.kind.value

    @property
    def shown(self) -> str:
        """It with its value: `--budget USD`."""
        return f"{self.flags[-1]} {self.value}".rstrip()

    @property
    def usage(self) -> str:
        """The same, and whether it may be given again."""
        return f"{self.shown} …" if self.many else self.shown


class Command(NamedTuple):
    """One command."""

    name: str  # Its words: `kill`, `egress log`
    summary: str  # What it does, one clause without a full stop
    surfaces: Surfaces  # Where it can be typed
    arguments: tuple[Argument, ...] = ()  # In their order; only the last may take many
    options: tuple[Option, ...] = ()  # In the order in which help shows them
    examples: tuple[str, ...] = ()  # What follows the prefix: `kill last`. Each of them parses wherever it is shown.
    group: str = ""  # Under which heading it is listed
    aliases: tuple[str, ...] = ()  # Further names, which parse and are not listed
    detail: str = ""  # More, as sentences: exit codes, what is not looked at

    def arguments_on(self, surface: Surface) -> tuple[Argument, ...]:
        """Those that are taken there."""
        return tuple(one for one in self.arguments if one.surfaces is None or surface in one.surfaces)

    def options_on(self, surface: Surface) -> tuple[Option, ...]:
        """Those that are taken there."""
        return tuple(one for one in self.options if one.surfaces is None or surface in one.surfaces)

    @property
    def home(self) -> Surface:
        """Where to show it to somebody who asks elsewhere: the notebook, if it is there at all."""
        return next(surface for surface in Surface if surface in self.surfaces)


class CellMagic(NamedTuple):
    """A kind of cell: its first line takes options, the lines below are its body."""

    name: str  # Without the percent signs
    summary: str  # What it does, one clause without a full stop
    body: str  # What goes into the lines below: `task`, `program`
    arguments: tuple[Argument, ...] = ()  # In their order
    options: tuple[Option, ...] = ()  # In the order in which help shows them
    examples: tuple[str, ...] = ()  # First lines, without the percent signs; each of them parses

    @property
    def typed(self) -> str:
        """As it stands at the top of a cell."""
        return f"%%{self.name}"
