"""Keeps a project's files from being imported by anything but the person's own code.

In a notebook the working directory is on the import path, in front of installed packages, and a box's changes end up
in that directory. Without this, a file `stack_data.py` that a box wrote would run in the kernel as soon as a cell
fails, since IPython imports a module of that name then. So code of the standard library, of installed packages and of
this package finds no module in the project, whatever it is called, and neither does anybody under a name of `GUARDED`.
What a cell or a module of the project imports is found as ever.

Who asks is read from the stack, and only where what was found lies in the project: every other import costs next to
nothing more. On the way, what costs much and is not needed yet is postponed (`late_modules`).
"""

from __future__ import annotations

import opcode
import sys
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder
from types import FrameType, ModuleType
from typing import Any

from kagura_kernel.domain.late_modules import LATE, later
from kagura_kernel.domain.search_path import entries_outside, is_inside

_PACKAGE = __name__.partition(".")[0]
# The finder itself is on every such stack, and tests are somebody else's even where they are shipped with the package.
_NOT_ASKING = (f"{_PACKAGE}.domain.imports", f"{_PACKAGE}.testing")
_INSTALLED = ("site-packages", "dist-packages")
_PACKAGES = (*_INSTALLED, "lib-dynload")

_FINDING = frozenset(
    {
        "_frozen_importlib",
        "_frozen_importlib_external",
        "importlib._bootstrap",
        "importlib._bootstrap_external",
    }
)
"""What finds and loads modules: on every such stack."""

_HANDS_ON_WORDS = """
    asyncio bdb cProfile code concurrent contextlib copyreg doctest functools importlib logging multiprocessing pdb
    pickle pkgutil profile runpy shelve threading timeit trace unittest
"""
_HANDS_ON = frozenset(_HANDS_ON_WORDS.split())
"""Modules of the standard library that import what somebody else has named: whoever called them asks."""

_DOORS = frozenset(
    {
        ("IPython.core.extensions", "_load_extension"),
        ("IPython.core.interactiveshell", "safe_run_module"),
        ("IPython.extensions.autoreload", "aimport_module"),
        ("IPython.utils.module_paths", "find_mod"),
    }
)
"""Functions of libraries that import what a person has named in a cell: `%load_ext`, `%run -m`, `%aimport`."""

_STATEMENT = opcode.opmap["IMPORT_NAME"]


class Place(Enum):
    """Where a file lies."""

    LIBRARY = "in the standard library or among installed packages"
    PROJECT = "where a box may have written"
    ELSEWHERE = "somewhere else"


class Asker(Enum):
    """On whose behalf something is imported, and so where it is looked for."""

    PERSON = "anywhere, in the order of the path"
    DATA = "outside of the project, and then in it: a name in pickled data, or one that a person gave IPython"
    LIBRARY = "outside of the project alone, as for this package itself"


class Places:
    """Tells where files lie; belongs to one process.

    Args:
        resolve: The path without links, as `os.path.realpath` finds it.
    """

    def __init__(self, resolve: Callable[[str], str]) -> None:
        self._resolve = resolve
        self._projects: dict[str, str] = {}
        self._found: dict[str, Place] = {}

    @property
    def known(self) -> int:
        """How many directories are distrusted; it never falls."""
        return len(self._projects)

    def distrust(self, directory: str) -> None:
        """Take everything in this directory, but for an environment, for what a box may have written."""
        if directory not in self._projects:
            self._projects[directory] = self._resolve(directory)
            self._found.clear()

    def of(self, file: str | None) -> Place | None:
        """Where a file or a directory lies; None for what has no absolute path."""
        if file is None or not file.startswith("/"):
            return None
        directory = file.rpartition("/")[0] or "/"
        found = self._found.get(directory)
        if found is None:
            # What lies in an installed package need not be looked at folder by folder.
            above = self._found.get(directory.rpartition("/")[0])
            found = self._found[directory] = above if above is Place.LIBRARY else self._look(directory)
        return found

    def outside(self, path: Iterable[object]) -> list[str]:
        """The entries of a path for modules in which no box may have written."""
        entries = [entry for entry in path if isinstance(entry, str)]
        outside = set(entries_outside(entries, self._projects, self._resolve))
        return [entry for entry in entries if entry in outside or self._in_environment(entry)]

    def _look(self, directory: str) -> Place:
        if self._in_environment(directory):
            return Place.LIBRARY
        if is_inside(self._resolve(directory), self._projects.values()):
            return Place.PROJECT
        return Place.LIBRARY if any(name in _INSTALLED for name in directory.split("/")) else Place.ELSEWHERE

    def _in_environment(self, entry: str) -> bool:
        """Whether it belongs to the running interpreter's packages, wherever they are; no box's change gets there.

        An environment often lies in its project, as `.venv`.
        """
        if not entry.startswith("/") or not any(_holds_packages(name) for name in entry.split("/")):
            return False
        resolved = self._resolve(entry)
        user = getattr(sys.modules.get("site"), "USER_SITE", None)
        if user is not None and is_inside(resolved, [self._resolve(user)]):
            return True
        for prefix in {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}:
            root = self._resolve(prefix)
            if is_inside(resolved, [root]):
                return any(_holds_packages(name) for name in resolved[len(root) :].split("/"))
        return False


def _holds_packages(name: str) -> bool:
    return name in _PACKAGES or name.startswith("python3")


def asker_on(frame: FrameType | None, places: Places) -> Asker:
    """Who set an import off: the first on the stack that neither finds modules nor hands names on."""
    stack = _Stack(places)
    while frame is not None:
        asker = stack.follow(frame)
        if asker is not None:
            return asker
        frame = frame.f_back
    return stack.at_end()


def is_set_off_by_us(frame: FrameType | None, places: Places) -> bool:
    """Whether this package set an import off, itself or through a library: it is met before the person's code."""
    while frame is not None:
        name = _name_of(frame)
        if _is_ours(name):
            return True
        if name == "__main__" or _place_of(frame, name, places) is Place.PROJECT:
            return False
        frame = frame.f_back
    return False


class _Stack:
    """What is known of a stack so far, followed from the import to whoever started the thread."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._first = True
        self._named = False
        self._theirs = False

    def follow(self, frame: FrameType) -> Asker | None:
        """Who asks, as soon as that is clear."""
        name = _name_of(frame)
        if name in _FINDING:
            extension = _extension(frame)
            return self._of_library(self._places.of(extension)) if extension else None
        first, self._first = self._first, False
        if name.partition(".")[0] in _HANDS_ON:
            self._named = self._named or name == "pickle"
            return Asker.LIBRARY if first and _is_statement(frame) else None
        if name.startswith(_NOT_ASKING):
            return None
        if _is_ours(name):
            return Asker.LIBRARY
        place = _place_of(frame, name, self._places)
        if (name, frame.f_code.co_name) in _DOORS or (first and _may_unpickle(frame, place)):
            self._named = True
        if place is Place.PROJECT or (name == "__main__" and place is not Place.LIBRARY):
            return Asker.DATA if self._named else Asker.PERSON
        # Code of theirs may lie elsewhere too, unless it is a library of ours that does.
        self._theirs = self._theirs or place is Place.ELSEWHERE
        return self._of_library(place)

    def at_end(self) -> Asker:
        """Who asks when nobody on the whole stack was clear."""
        if self._first:
            # A thread that is none of Python's.
            return Asker.LIBRARY
        return Asker.PERSON if self._theirs and not self._named else Asker.DATA

    def _of_library(self, place: Place | None) -> Asker | None:
        return Asker.LIBRARY if place is Place.LIBRARY and not (self._named or self._theirs) else None


def _place_of(frame: FrameType, name: str, places: Places) -> Place | None:
    """Where code lies; None for what was made from a text, unless it sees the names of a module."""
    found = places.of(frame.f_code.co_filename)
    if found is not None or name == "__main__":
        return found
    file = frame.f_globals.get("__file__")
    return places.of(file) if isinstance(file, str) else None


def _name_of(frame: FrameType) -> str:
    name = frame.f_globals.get("__name__")
    return name if isinstance(name, str) else ""


def _is_ours(name: str) -> bool:
    return (name == _PACKAGE or name.startswith(f"{_PACKAGE}.")) and not name.startswith(_NOT_ASKING)


def _is_statement(frame: FrameType) -> bool:
    """Whether a frame stands at an `import`; otherwise something that it called imports."""
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == _STATEMENT


def _may_unpickle(frame: FrameType, place: Place | None) -> bool:
    """Whether what imports may be the interpreter's own unpickler, which has no frame.

    Of a person's code that is anything compiled that it has called; a library has to speak of it.
    """
    names = frame.f_code.co_names
    if _is_statement(frame) or "__import__" in names:
        return False
    return place is not Place.LIBRARY or any("pickle" in name.lower() for name in names)


def _extension(frame: FrameType) -> str:
    """The file of the compiled module that a frame loads, which has no frame of its own; empty for another frame."""
    if frame.f_code.co_name not in ("create_module", "exec_module"):
        return ""
    loader = frame.f_locals.get("self")
    return str(loader.path) if isinstance(loader, ExtensionFileLoader) else ""


_LIBRARY_WORDS = """
    IPython PIL _cffi_backend _re2 _yaml aiohappyeyeballs aiohttp aiosignal altair annotated_types anyio anywidget
    attr attrs boto3 botocore bottleneck certifi charset_normalizer claude_agent_sdk click cloudpickle comm
    cryptography dask dateutil discord distributed docker durationpy fastjsonschema frozenlist fsspec genai_prices
    greenlet griffe h11 httpcore httpcore2 httpx httpx2 httpx_sse idna importlib_metadata ipykernel
    ipykernel_launcher ipywidgets jinja2 jiter jsonschema jupyter_client jupyter_core jupyter_events jupyter_server
    jwt kagura_brain keyring kingfisher_sdk kubernetes locket logfire_api markdown_it markupsafe matplotlib mcp
    mdurl mnemonic msgpack multidict narwhals nbformat nh3 numexpr numpy oauthlib openai opentelemetry packaging
    pandas partd platformdirs propcache psutil psycopg psycopg_binary psygnal pyarrow pydantic pydantic_ai
    pydantic_core pydantic_graph pytz re2 regex requests requests_oauthlib rich securesystemslib six slack_bolt
    slack_sdk sniffio sortedcontainers sqlalchemy tblib tiktoken tiktoken_ext toolz tornado traitlets truststore tuf
    typing_extensions typing_inspection urllib3 websocket yaml yarl zict zmq
"""
LIBRARIES = frozenset(_LIBRARY_WORDS.split())
"""The libraries that this package imports, and those that they do; checked against `pyproject.toml` by a test."""

GUARDED = LIBRARIES | sys.stdlib_module_names | {"autoreload", "storemagic"}
"""Names that never mean a file of the project, not even to a person's own code.

The last are extensions that IPython brings, and that it looks for among all modules first.
"""


class OutsideProject(PathFinder):
    """Stands in the place of `PathFinder` on `sys.meta_path`, and is one.

    Args:
        resolve: The path without links, as `os.path.realpath` finds it.
        here: The working directory, as `os.getcwd` tells it.
    """

    def __init__(self, resolve: Callable[[str], str], here: Callable[[], str]) -> None:
        self._here = here
        self._places = Places(resolve)
        self._known: tuple[object, list[str]] = (None, [])
        self._note_working_directory()

    def distrust(self, directory: str) -> None:
        """Look for nothing in this directory from now on."""
        self._places.distrust(directory)

    def find_spec(  # type: ignore[override] # an instance stands on the list, so nobody asks the class
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module as `PathFinder` finds it, outside of the project where that matters."""
        if path is None and fullname in GUARDED:
            return self._find_outside(fullname, path, target)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and self._is_of_project(spec) and not self._is_loaded_from_project(target):
            spec = self._for_asker(spec, path, target, asker_on(_caller(), self._places))
        if fullname in LATE and spec is not None and is_set_off_by_us(_caller(), self._places):
            return later(spec)
        return spec

    def find_distributions(self, context: Any = None) -> Iterable[Any]:  # type: ignore[override] # as above
        """Installed packages; for all but a person's own code, those that a project holds do not count as installed."""
        from importlib.metadata import DistributionFinder, MetadataPathFinder

        context = DistributionFinder.Context() if context is None else context
        if "path" not in vars(context) and asker_on(_caller(), self._places) is Asker.LIBRARY:
            context = DistributionFinder.Context(name=context.name, path=self.trusted_path())
        return MetadataPathFinder.find_distributions(context)

    def trusted_path(self) -> list[str]:
        """`sys.path` without what a box may have written."""
        self._note_working_directory()
        key = (tuple(sys.path), self._places.known)
        known, found = self._known
        if known != key:
            found = self._places.outside(sys.path)
            self._known = key, found
        return list(found)

    def _for_asker(
        self, spec: ModuleSpec, path: Sequence[str] | None, target: ModuleType | None, asker: Asker
    ) -> ModuleSpec | None:
        """What somebody gets in place of a module that lies in the project."""
        outside = None if path is None else self._places.outside(path)
        # A package that lies in the project as a whole has been imported by the person's own code.
        if asker is Asker.PERSON or (isinstance(path, list) and not outside):
            return spec
        found = self._find_outside(spec.name, outside, target)
        return spec if found is None and asker is Asker.DATA else found

    def _find_outside(self, fullname: str, path: list[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, self.trusted_path() if path is None else path, target)
        if spec is not None and spec.loader is None and spec.submodule_search_locations is not None:
            # A namespace package would look for further parts along the whole path later on.
            spec.submodule_search_locations = list(spec.submodule_search_locations)
        return spec

    def _note_working_directory(self) -> None:
        try:
            self.distrust(self._here())
        except OSError:
            # It was removed: nothing can be imported from it.
            return

    def _is_of_project(self, spec: ModuleSpec) -> bool:
        """Whether a module, or a part of a namespace package, lies where a box may have written."""
        self._note_working_directory()
        files = [spec.origin] if spec.origin is not None else list(spec.submodule_search_locations or ())
        # A loader that does not say where it takes its modules from is none that Python brings.
        return not files or any(self._places.of(file) in (Place.PROJECT, None) for file in files)

    def _is_loaded_from_project(self, module: ModuleType | None) -> bool:
        """Whether somebody has imported it before who may, and it is read anew."""
        file = None if module is None else getattr(module, "__file__", None)
        return isinstance(file, str) and self._places.of(file) is Place.PROJECT


def _caller() -> FrameType | None:
    return sys._getframe(1).f_back  # noqa: SLF001 - the only way to learn who asks that costs next to nothing


def guard_imports(resolve: Callable[[str], str], here: Callable[[], str]) -> None:
    """Put the guard in the place of `PathFinder`; where it already stands, nothing happens."""
    if _guard() is not None:
        return
    guard = OutsideProject(resolve, here)
    if PathFinder in sys.meta_path:
        sys.meta_path[sys.meta_path.index(PathFinder)] = guard
    else:
        sys.meta_path.append(guard)


def distrust(directory: str) -> None:
    """Import nothing of ours from a directory that a box may change, wherever this process works."""
    guard = _guard()
    if guard is not None:
        guard.distrust(directory)


def trusted_path() -> list[str]:
    """Where modules are looked for outside of any project; for small processes of our own."""
    guard = _guard()
    return [] if guard is None else guard.trusted_path()


def is_library(name: str) -> bool:
    """Whether a module of this name is in the standard library, installed, or what this package works with."""
    return name in GUARDED or PathFinder.find_spec(name, trusted_path()) is not None


def _guard() -> OutsideProject | None:
    return next((finder for finder in sys.meta_path if isinstance(finder, OutsideProject)), None)
