"""Files of memories, as a person names them: read whole before anything is kept, written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from kagura_kernel.domain.errors import UsageError

MOST_MIB = 1024
"""Of a file that is read."""


def read_file(path: Path) -> list[str]:
    """The lines of a file.

    Raises:
        UsageError: it cannot be read, is no text, or is too large.
    """
    try:
        if path.stat().st_size > MOST_MIB << 20:
            raise UsageError(f"{path} is larger than {MOST_MIB:,} MiB; import it in parts.")
        return path.read_text("utf-8").splitlines()
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no text in UTF-8, so it holds no memories.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}.") from error


def write_file(path: Path, lines: Iterable[str]) -> int:
    """Write lines into a file that is not there yet, readable for its owner alone; how many they were.

    Raises:
        UsageError: there is a file already, or it cannot be written; then nothing is left behind.
    """
    count = 0
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        unfinished = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                for count, line in enumerate(lines, 1):  # noqa: B007 - how many they were
                    file.write(f"{line}\n")
                file.flush()
                os.fsync(file.fileno())
            # Unlike a renaming, this never takes the place of a file that somebody has made meanwhile.
            os.link(unfinished, path)
        finally:
            with suppress(OSError):
                unfinished.unlink()
    except FileExistsError:
        raise UsageError(f"{path} is there already; name a file that is not.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {(error.strerror or str(error)).lower()}.") from error
    return count
