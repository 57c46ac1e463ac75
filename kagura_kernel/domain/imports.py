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

import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import FrameType, ModuleType
from typing import Any

from kagura_kernel.domain.importers import Asker, Place, Places, asker_on, is_set_off_by_us
from kagura_kernel.domain.late_modules import LATE, later

LIBRARIES = frozenset(
    {
        "IPython",
        "PIL",
        "_cffi_backend",
        "_re2",
        "_yaml",
        "aiohappyeyeballs",
        "aiohttp",
        "aiosignal",
        "altair",
        "annotated_types",
        "anyio",
        "anywidget",
        "attr",
        "attrs",
        "boto3",
        "botocore",
        "bottleneck",
        "certifi",
        "charset_normalizer",
        "claude_agent_sdk",
        "click",
        "cloudpickle",
        "comm",
        "cryptography",
        "dask",
        "dateutil",
        "discord",
        "distributed",
        "docker",
        "fastjsonschema",
        "frozenlist",
        "fsspec",
        "genai_prices",
        "greenlet",
        "griffe",
        "h11",
        "httpcore",
        "httpcore2",
        "httpx",
        "httpx2",
        "httpx_sse",
        "idna",
        "importlib_metadata",
        "ipykernel",
        "ipykernel_launcher",
        "ipywidgets",
        "jinja2",
        "jiter",
        "jsonschema",
        "jupyter_client",
        "jupyter_core",
        "jupyter_events",
        "jupyter_server",
        "jwt",
        "kagura_brain",
        "keyring",
        "kingfisher_sdk",
        "locket",
        "logfire_api",
        "markdown_it",
        "matplotlib",
        "mcp",
        "mdurl",
        "msgpack",
        "multidict",
        "narwhals",
        "nbformat",
        "nh3",
        "numexpr",
        "numpy",
        "openai",
        "opentelemetry",
        "packaging",
        "pandas",
        "partd",
        "platformdirs",
        "propcache",
        "psutil",
        "psycopg",
        "psycopg_binary",
        "psygnal",
        "pyarrow",
        "pydantic",
        "pydantic_ai",
        "pydantic_core",
        "pydantic_graph",
        "pytz",
        "re2",
        "regex",
        "requests",
        "rich",
        "six",
        "slack_bolt",
        "slack_sdk",
        "sniffio",
        "sortedcontainers",
        "sqlalchemy",
        "tblib",
        "tiktoken",
        "tiktoken_ext",
        "toolz",
        "tornado",
        "traitlets",
        "truststore",
        "typing_extensions",
        "typing_inspection",
        "urllib3",
        "websocket",
        "yaml",
        "yarl",
        "zict",
        "zmq",
    }
)
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
