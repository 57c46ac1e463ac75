"""Keeps a project's files from being imported in place of the libraries that this package works with.

In a notebook the working directory is on the import path, in front of installed packages, and a box's changes end up
in that directory. Without this, a file `pandas.py` that a box wrote would run in the kernel as soon as a table is
shown. Two kinds of import see the path without the project: those of names in `GUARDED`, whoever asks, and whatever
this package's own code sets off, directly or through a library. Everything else is left alone. On the way, what costs
much and is not needed yet is postponed (`late_modules`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import FrameType, ModuleType
from typing import Any

from kagura_kernel.domain.late_modules import later
from kagura_kernel.domain.search_path import entries_outside, is_inside

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

GUARDED = LIBRARIES | sys.stdlib_module_names
"""Names that never mean a file of the project, not even to a person's own code."""

_PACKAGE = __name__.partition(".")[0]
# The finder itself is on every such stack, and tests are somebody else's even where they are shipped with the package.
_NOT_ASKING = (__name__, f"{_PACKAGE}.testing")
_PACKAGES = ("site-packages", "dist-packages", "lib-dynload")


class OutsideProject(PathFinder):
    """Stands in the place of `PathFinder` on `sys.meta_path`, and is one.

    Args:
        resolve: The path without links, as `os.path.realpath` finds it.
        here: The working directory, as `os.getcwd` tells it.
    """

    def __init__(self, resolve: Callable[[str], str], here: Callable[[], str]) -> None:
        self._resolve = resolve
        self._here = here
        self._projects: dict[str, None] = {}
        self._known: tuple[object, list[str]] = (None, [])
        self._theirs: dict[str, bool] = {}
        self._note_working_directory()

    def distrust(self, directory: str) -> None:
        """Look for nothing in this directory from now on."""
        if directory not in self._projects:
            self._projects[directory] = None
            self._theirs.clear()

    def find_spec(  # type: ignore[override] # an instance stands on the list, so nobody asks the class
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module as `PathFinder` finds it, outside of the project where that matters."""
        if path is not None and not isinstance(path, list) and self._is_ours(_caller()):
            # A namespace package that the person's code has loaded may have parts in the project.
            path = self._outside(path)
        if path is not None or not (fullname in GUARDED or self._is_ours(_caller())):
            return PathFinder.find_spec(fullname, path, target)
        spec = PathFinder.find_spec(fullname, self.trusted_path(), target)
        if spec is not None and spec.loader is None and spec.submodule_search_locations is not None:
            # A namespace package would look for further parts along the whole path later on.
            spec.submodule_search_locations = list(spec.submodule_search_locations)
        return spec if spec is None else later(spec)

    def find_distributions(self, context: Any = None) -> Iterable[Any]:  # type: ignore[override] # as above
        """Installed packages; for our own code, those that a project holds do not count as installed."""
        from importlib.metadata import DistributionFinder, MetadataPathFinder

        context = DistributionFinder.Context() if context is None else context
        if "path" not in vars(context) and self._is_ours(_caller()):
            context = DistributionFinder.Context(name=context.name, path=self.trusted_path())
        return MetadataPathFinder.find_distributions(context)

    def trusted_path(self) -> list[str]:
        """`sys.path` without what a box may have written."""
        self._note_working_directory()
        key = (tuple(sys.path), len(self._projects))
        known, found = self._known
        if known != key:
            found = self._outside(sys.path)
            self._known = key, found
        return list(found)

    def _outside(self, path: Iterable[object]) -> list[str]:
        entries = [entry for entry in path if isinstance(entry, str)]
        outside = set(entries_outside(entries, self._projects, self._resolve))
        return [entry for entry in entries if entry in outside or self._in_environment(entry)]

    def _note_working_directory(self) -> None:
        try:
            self.distrust(self._here())
        except OSError:
            # It was removed: nothing can be imported from it.
            return

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

    def _is_ours(self, frame: FrameType | None) -> bool:
        """Whether this package's code set the import off: it is met on the stack before any code of the person's."""
        while frame is not None:
            name = frame.f_globals.get("__name__")
            if not isinstance(name, str) or name == "__main__":
                return False
            if (name == _PACKAGE or name.startswith(f"{_PACKAGE}.")) and not name.startswith(_NOT_ASKING):
                return True
            if self._is_theirs(frame.f_code.co_filename):
                return False
            frame = frame.f_back
        return False

    def _is_theirs(self, file: str) -> bool:
        """Whether a file that is running already belongs to the project: what it imports is its own affair."""
        known = self._theirs.get(file)
        if known is None:
            known = self._theirs[file] = is_inside(file, self._projects) and not self._in_environment(file)
        return known


def _holds_packages(name: str) -> bool:
    return name in _PACKAGES or name.startswith("python3")


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


def _guard() -> OutsideProject | None:
    return next((finder for finder in sys.meta_path if isinstance(finder, OutsideProject)), None)
