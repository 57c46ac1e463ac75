"""Which memory a setting means: a file, a PostgreSQL database, or the cloud. Nothing heavy is imported before it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors import ExtensionBroken
from kagura_kernel.domain.errors.memory import MemoryUnavailable
from kagura_kernel.domain.extensions import MEMORIES, Extension, installed, load
from kagura_kernel.journal.place import expanded
from kagura_kernel.memory.store import MemoryStore

if TYPE_CHECKING:
    from kagura_kernel.memory.cloud.wire import CloudAccess
    from kagura_kernel.memory.sqlite.meanings import TextEncoder

FILE = "memory.sqlite3"
"""Its name in the data directory, where the settings name none."""

CLOUD = "cloud"
"""The word for Kagura Memory Cloud at its usual address."""

_DATABASES = ("postgresql", "postgres", "postgresql+psycopg")
_WEB = ("https", "http")

OUR_SCHEMES = (*_DATABASES, *_WEB, CLOUD, "file")
"""What other packages cannot take for their memories."""
_KNOWN = "Name a file, a postgresql:// URL, `cloud`, or an https:// address of Kagura Memory Cloud"


def open_memory(
    where: str,
    home: Path,
    environ: Mapping[str, str],
    *,
    clock: Clock | None = None,
    meaning: bool = True,
    setting: bool = True,
) -> MemoryStore:
    """The memory that a setting names; a file is made where there is none, a server is not asked yet.

    Args:
        where: Empty for the file in the data directory, a path, a `postgresql://` URL, `cloud`, or an `https://`
            address.
        home: Our data directory.
        environ: Variables; the cloud's key and context are among them.
        clock: The time.
        meaning: Whether memories are found by meaning too, where the optional model is installed. Files alone; the
            model is read when the first text is to be understood.
        setting: Whether the settings name it, where a path has no directory to begin at.

    Raises:
        MemoryUnavailable: it cannot be used, its folder is not there, or nobody knows what is meant.
    """
    clock = clock or SystemClock()
    check_place(where, setting=setting)
    scheme = _scheme(where)
    if scheme in _DATABASES:
        from kagura_kernel.memory.postgres.store import PostgresMemory

        return PostgresMemory(scheme + where[len(scheme) :], clock=clock)
    if is_cloud(where):
        from kagura_kernel.memory.cloud.store import CloudMemory

        return CloudMemory(cloud_access(where, environ), clock=clock)
    if scheme:
        return _of_another(scheme, where, clock)
    from kagura_kernel.memory.sqlite.store import SqliteMemory

    path = file_of(where, home, environ) or home / FILE
    check_folder(path, home)
    return SqliteMemory(path, clock=clock, encoder=_encoder() if meaning else None)


def check_place(where: str, *, setting: bool = True) -> None:
    """Return when a memory can lie where this name says.

    Args:
        where: The name; it is not repeated, since a URL may hold a password.
        setting: Whether the settings name it.

    Raises:
        MemoryUnavailable: it is no place.
    """
    if problem := problem_with(where, setting=setting):
        place = "the place that the setting `memory` names" if setting else "the given place"
        raise MemoryUnavailable(place, problem, f"{_KNOWN}.")


def file_of(where: str, home: Path, environ: Mapping[str, str]) -> Path | None:
    """The file that a setting means; None where it means a server."""
    if _scheme(where) or where == CLOUD:
        return None
    return _expanded(where, environ) if where else home / FILE


def check_folder(file: Path, home: Path) -> None:
    """Return when a memory may lie there: folders are made for our own data directory alone.

    A slip in a name would make folders otherwise, and an empty memory in them that nobody looks for.

    Raises:
        MemoryUnavailable: the file's folder is not there.
    """
    folder = file.parent
    if folder != home and not folder.exists():
        why = f"the folder {folder} does not exist"
        raise MemoryUnavailable(str(file), why, "Make the folder, or name another place for it.")


def is_cloud(where: str) -> bool:
    """Whether a setting means Kagura Memory Cloud."""
    return where == CLOUD or _scheme(where) in _WEB


def cloud_access(where: str, environ: Mapping[str, str]) -> CloudAccess:
    """How to reach the cloud that a setting names.

    Raises:
        MemoryUnavailable: there is no key or no context, or the address would show the key to others.
    """
    from kagura_kernel.memory.cloud.wire import find_access

    return find_access("" if where == CLOUD else where, environ, _person_home(environ))


def problem_with(where: str, *, setting: bool = False) -> str:
    """What is wrong with the name of a memory, in half a sentence that does not repeat it; empty when nothing is.

    Args:
        where: The name.
        setting: Whether it stands in the settings, where a path has no directory to begin at.
    """
    scheme = _scheme(where)
    if "\0" in where or "\n" in where:
        return "it holds a character that no place has in its name"
    if scheme and scheme not in (*_DATABASES, *_WEB) and scheme not in installed(MEMORIES, OUR_SCHEMES):
        return f"nothing is kept behind {scheme[:20]}://" if scheme.isascii() and scheme.isalnum() else "it is no place"
    if scheme in _WEB:
        return _problem_with_address(where)
    if setting and where and not scheme and where != CLOUD and not Path(where).is_absolute() and where[0] != "~":
        return "a path is absolute or begins with ~"
    return ""


def _of_another(scheme: str, where: str, clock: Clock) -> MemoryStore:
    try:
        store = load_memory(installed(MEMORIES, OUR_SCHEMES)[scheme])(where, clock)
        _ = store.where, store.check, store.recall
    except ExtensionBroken as error:
        raise MemoryUnavailable(f"{scheme}://…", error.why, f"Mend or remove {error.package}.") from error
    except MemoryUnavailable:
        raise
    # Code of a stranger: whatever it raises means that this memory cannot be used, and no other one takes its place.
    except Exception as error:
        why = f"its package failed: {type(error).__name__}"
        raise MemoryUnavailable(f"{scheme}://…", why, "`kagura-kernel doctor` says more.") from error
    return store


MakeMemory = Callable[[str, Clock], MemoryStore]
"""What an entry point of the group `kagura_kernel.memories` names: of the setting `memory`, which begins with the entry
point's name and `://`, and the time."""


def load_memory(extension: Extension) -> MakeMemory:
    """What opens memories of another package.

    Raises:
        ExtensionBroken: it is nothing that can be called.
    """

    def make(named: object) -> MakeMemory:
        if not callable(named):
            raise TypeError("it is nothing that can be called")
        return named

    return load(extension, make)


def _problem_with_address(where: str) -> str:
    from kagura_kernel.memory.cloud.wire import check_address

    try:
        check_address(where)
    except MemoryUnavailable:
        return "it is no address that a key may be sent to: https:// and a host, without a user name or password"
    return ""


def _scheme(where: str) -> str:
    scheme, mark, _ = where.partition("://")
    return scheme.lower() if mark else ""


def _person_home(environ: Mapping[str, str]) -> Path:
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()


def _expanded(where: str, environ: Mapping[str, str]) -> Path:
    if where == "~" or where.startswith("~/"):
        return _person_home(environ) / where[2:]
    return expanded(where)


def _encoder() -> TextEncoder | None:
    from kagura_kernel.memory.embeddings import MiniLM, find_model

    model = find_model()
    return None if model is None else MiniLM(model)
