"""Values that cross the wall by name: what travels, and where a cell stands.

A variable crosses by value. It is packed by whoever has it and unpacked by whoever gets it; nothing between them looks
inside, and nothing on the way can run code.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Any, Literal

from kagura_kernel.domain.late_dataclass import dataclass, field

Form = Literal["frame", "series", "array", "json", "image", "text", "file"]
"""How a variable travels.

`frame` and `series` are Arrow IPC streams, `array` NumPy's `.npy` without objects, `json` a plain value in UTF-8,
`image` a PNG, `text` UTF-8, and `file` the bytes of a file.
"""

VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
"""What may name a variable on both sides, in Python and in a shell."""

MAX_VARIABLES = 32
"""In one direction, for one cell."""

_OF_THE_SHELL = re.compile(
    r"PATH|HOME|PWD|OLDPWD|IFS|ENV|SHELL|USER|LOGNAME|TERM|TZ|LANG|TMPDIR|PS[0-4]|UID|EUID|PPID|RANDOM|SECONDS|LINENO"
    r"|OPTARG|OPTIND|CDPATH|SHELLOPTS|HOSTNAME|_|MPLBACKEND|(no|https?|all)_proxy|(NO|HTTPS?|ALL)_PROXY"
    r"|(LD|LC|BASH|KAGURA|PYTHON|PIP|UV|GIT|SSL|NODE)_[A-Z0-9_]*|BASH"
)


def is_free_in_a_shell(name: str) -> bool:
    """Whether a variable of this name changes nothing but itself in a shell and what it starts."""
    return not _OF_THE_SHELL.fullmatch(name)


@dataclass(frozen=True, slots=True)
class PackedVariable:
    """One variable as it travels."""

    name: str  # Its name on both sides
    form: Form  # What `data` is
    data: bytes = field(repr=False)  # The bytes
    # Plain values that the other side needs beside them: an index's names, a file's name
    details: dict[str, Any] = field(default_factory=dict)
    summary: str = ""  # What it is, for reading: `DataFrame, 1,000 rows × 4 columns: day, city, …`


def kernel_of(connection_file: object) -> str:
    """A kernel's id, from the file that a server builds as `kernel-ID.json`; empty for another one."""
    name = PurePath(str(connection_file or "")).name
    ours = name.startswith("kernel-") and name.endswith(".json")
    return name.removeprefix("kernel-").removesuffix(".json") if ours else ""


@dataclass(frozen=True, slots=True)
class CellPlace:
    """Where a cell stands, for whoever wants to jump to it; empty where that is unknown."""

    notebook: str = ""  # The notebook as its server names it
    kernel_id: str = ""  # Its kernel's id
    cell_id: str = ""  # The cell's id
    count: int | None = None  # Its execution count
