"""The plugin's modules, and those it may import of ours, out of bytes that were sent: nothing is read from a disk.

What is compiled is what was hashed. Of the packages that the box's Python has, only drivers that ours need are found.
Standard library only: runs in the jail.
"""

from __future__ import annotations

import importlib.machinery
import linecache
import sys
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import CodeType, ModuleType

SDK = "kagura_plugin"
"""What plugins import of ours."""

DRIVERS = frozenset({"psycopg", "psycopg_binary", "psycopg_c", "typing_extensions"})
"""What the modules of ours may import of the box's packages, where they are installed."""


# Neither of the two classes inherits from what `importlib.abc` has for them: to import that takes as long as the rest.
class SentModules:
    """Finds and loads the modules of one package whose files were sent.

    Args:
        package: Its name.
        files: Bytes of its Python files, by path in it with `/`.
        place: What tracebacks call its directory.
        codes: Some of them compiled already, by this very Python.
    """

    def __init__(
        self, package: str, files: Mapping[str, bytes], place: str, codes: Mapping[str, CodeType] | None = None
    ) -> None:
        self._package = package
        self._files = files
        self._place = place
        self._codes = codes or {}
        self._folders = {folder for path in files for folder in _above(path)}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where a module of this package comes from; None for any other."""
        del path, target
        if fullname != self._package and not fullname.startswith(f"{self._package}."):
            return None
        inside = self._inside(fullname)
        is_package = not inside or inside in self._folders
        if self._file(fullname) is None and not is_package:
            return None
        own: Any = self
        return ModuleSpec(fullname, own, origin=self._shown(fullname), is_package=is_package)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """None: a plain module will do."""
        del spec
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Run its file; a directory without one runs nothing."""
        path = self._file(module.__name__)
        if path is None:
            return
        data, shown = self._files[path], self._shown(module.__name__)
        # For tracebacks.
        lines = data.decode("utf-8", "replace").splitlines(keepends=True)
        linecache.cache[shown] = (len(data), None, lines, shown)
        code = self._codes.get(path) or compile(data, shown, "exec", dont_inherit=True)
        exec(code, module.__dict__)  # noqa: S102 - what it was sent for

    def _inside(self, fullname: str) -> str:
        return fullname[len(self._package) + 1 :].replace(".", "/")

    def _file(self, fullname: str) -> str | None:
        inside = self._inside(fullname)
        own = f"{inside}/__init__.py" if inside else "__init__.py"
        return next((path for path in (own, f"{inside}.py") if path in self._files), None)

    def _shown(self, fullname: str) -> str:
        return f"{self._place}/{self._file(fullname) or self._inside(fullname)}"


class Drivers:
    """Finds the box's own packages once one of the drivers is asked for; asked last."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where a driver lies; None for anything else, and where there is none."""
        del path
        finders: list[Any] = sys.meta_path
        if fullname.partition(".")[0] not in DRIVERS or self not in finders:
            return None
        finders.remove(self)
        import site

        # This Python was started without it, which is most of what a start takes.
        site.main()
        return importlib.machinery.PathFinder.find_spec(fullname, None, target)


def _above(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def package_of(plugin: str) -> str:
    """What the package of a plugin's files is called in its jail."""
    return f"plugin_{plugin.replace('-', '_')}"


def load_plugin(name: str, files: Mapping[str, bytes], sdk: SentModules) -> Any:
    """The plugin's main module, which has run.

    Args:
        name: The plugin's.
        files: Its files.
        sdk: What it may import of ours.

    Raises:
        BaseException: whatever it raised.
    """
    package = package_of(name)
    # Their methods are all that the import system asks for.
    finders: list[Any] = [sdk, SentModules(package, files, name), *sys.meta_path, Drivers()]
    sys.meta_path[:] = finders
    __import__(f"{package}.plugin")
    return sys.modules[f"{package}.plugin"]
