"""Where programs and modules are looked for: never in a directory whose files a box may have written."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def entries_outside(entries: Iterable[str], directories: Iterable[str], resolve: Callable[[str], str]) -> list[str]:
    """The entries of a search path that lead into none of these directories, in order and as they were written.

    Args:
        entries: Directories in the order they are searched. Those that are not absolute mean another place in every
            working directory, and are left out.
        directories: Existing or not; the root is passed over, as everything lies in it.
        resolve: The path without links, as `os.path.realpath` finds it.
    """
    avoided = [resolve(directory) for directory in directories]
    return [entry for entry in entries if entry.startswith("/") and not is_inside(resolve(entry), avoided)]


def is_inside(path: str, directories: Iterable[str]) -> bool:
    """Whether an absolute path is one of these directories, other than the root, or lies below one."""
    return any(path == directory or path.startswith(f"{directory}/") for directory in directories if directory != "/")
