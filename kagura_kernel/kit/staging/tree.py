"""Lists what is in a directory that is not trusted, links to files and directories in it followed. Opens no file."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field

from kagura_kernel.kit.staging.naming import MAX_PATH, Names, shown_name, why_not_named
from kagura_kernel.kit.staging.reading import CIRCLE, Root, Unfit, check_regular, why_unread

MAX_FILES = 2_000
"""Files of one skill."""
MAX_FILE_BYTES = 16 << 20
MAX_DEPTH = 16
_MAX_ENTRIES = 10_000
_MAX_ODD = 1_000

_ELSEWHERE = {
    ".git": "a repository's own files are not staged",
    ".hg": "a repository's own files are not staged",
    ".jj": "a repository's own files are not staged",
    ".svn": "a repository's own files are not staged",
    ".venv": "what was installed on the host is not staged",
    "node_modules": "what was installed on the host is not staged",
    "__pycache__": "what was compiled on the host is not staged",
}


@dataclass(slots=True)
class Tree:
    """What a directory holds."""

    # The state of each plain file by its path, parts joined by `/`
    files: dict[str, os.stat_result] = field(default_factory=dict)
    odd: list[tuple[str, str]] = field(default_factory=list)  # What is not staged: its path, fit to be shown, and why
    refused: str = ""  # Why nothing of it is staged, half a sentence; empty when it is

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(found.st_size for found in self.files.values())


def list_tree(root: Root) -> Tree:
    """Everything below a directory; what cannot be staged is told with its reason and never raised."""
    walk = _Walk(root)
    walk.directory(os.dup(root.handle), "", (_identity(os.fstat(root.handle)),))
    walk.tree.odd.sort()
    walk.tree.files = {path: walk.tree.files[path] for path in sorted(walk.tree.files)}
    return walk.tree


class _Walk:
    def __init__(self, root: Root) -> None:
        self.tree = Tree()
        self._root = root
        self._entries = 0

    def directory(self, handle: int, prefix: str, above: tuple[tuple[int, int], ...]) -> None:
        """Everything in one directory, whose descriptor is closed; `above` is it and those that it lies in."""
        names = Names()
        try:
            for name in self._names(handle, prefix):
                self._entries += 1
                if self._entries > _MAX_ENTRIES or len(self.tree.odd) > _MAX_ODD:
                    self.tree.refused = f"it holds more than {_MAX_FILES_TOLD}"
                if self.tree.refused:
                    return
                if why := why_not_named(name) or names.clash(name):
                    self._odd(f"{prefix}{name}", why)
                else:
                    self._entry(handle, prefix, name, above)
        finally:
            os.close(handle)

    def _names(self, handle: int, prefix: str) -> list[str]:
        try:
            with os.scandir(handle) as entries:
                # One more than is allowed, so that the walk sees that there are too many.
                names = [entry.name for entry, _ in zip(entries, range(_MAX_ENTRIES + 1), strict=False)]
        except OSError as error:
            self._odd(prefix.rstrip("/"), why_unread(error))
            return []
        return sorted(names)

    def _entry(self, parent: int, prefix: str, name: str, above: tuple[tuple[int, int], ...]) -> None:
        path = f"{prefix}{name}"
        try:
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return  # gone since it was listed: no part of the directory
        try:
            if stat.S_ISLNK(found.st_mode):
                found = self._root.look(path)
            if stat.S_ISDIR(found.st_mode):
                self._descend(path, name, found, above)
                return
            check_regular(found, MAX_FILE_BYTES)
        except FileNotFoundError:
            self._odd(path, "it is a link that leads nowhere")
        except Unfit as error:
            self._odd(path, str(error))
        except OSError as error:
            self._odd(path, why_unread(error))
        else:
            self._take(path, found)

    def _descend(self, path: str, name: str, found: os.stat_result, above: tuple[tuple[int, int], ...]) -> None:
        me = _identity(found)
        if why := _ELSEWHERE.get(name.casefold(), ""):
            self._odd(path, why)
        elif me in above:
            self._odd(path, CIRCLE)
        elif len(above) >= MAX_DEPTH or len(path) > MAX_PATH:
            self._odd(path, f"it lies more than {MAX_DEPTH} directories deep")
        else:
            below = self._root.below(path)
            self.directory(below.handle, f"{path}/", (*above, me))

    def _take(self, path: str, found: os.stat_result) -> None:
        if len(self.tree.files) >= MAX_FILES:
            self.tree.refused = f"it holds more than {_MAX_FILES_TOLD}"
        elif len(path) > MAX_PATH:
            self._odd(path, "its path is too long")
        else:
            self.tree.files[path] = found

    def _odd(self, path: str, why: str) -> None:
        self.tree.odd.append(("/".join(shown_name(part) for part in path.split("/")), why))


_MAX_FILES_TOLD = f"{MAX_FILES:,} files"


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
