"""Packages that cost much to import and that nothing needs yet: they are read when something of them is first used.

`jsonschema` takes the check of one format of addresses from `rfc3987_syntax` where that is installed, as it is with
every Jupyter server, and that package builds a grammar while it is imported: 1.2 s for the SDK of Claude, for charts
and for notebooks as files, of which none ever checks such an address. Only imports that this package sets off are
postponed (`imports.OutsideProject`); whoever imports it otherwise has it at once.
"""

from __future__ import annotations

import threading
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

LATE = {"rfc3987_syntax": ("is_valid_syntax",)}
"""Names of packages, and their functions that are taken at once and called later."""


def later(spec: ModuleSpec) -> ModuleSpec:
    """The same module, read when something of it is used; a spec of another kind is left as it is."""
    if spec.name in LATE and spec.loader is not None and hasattr(spec.loader, "exec_module"):
        spec.loader = _LateLoader(spec.loader, LATE[spec.name])
    return spec


class _LateLoader(Loader):
    def __init__(self, loader: Loader, functions: tuple[str, ...]) -> None:
        self._loader = loader
        self._functions = functions
        self._lock = threading.RLock()
        self._begun = False

    def exec_module(self, module: ModuleType) -> None:
        for name in self._functions:
            vars(module)[name] = self._standing_in(module, name)
        module.__class__ = _LateModule

    def read(self, module: ModuleType) -> None:
        """Read it now, unless that was done; who asks from within, while it is read, has what is there so far.

        Raises:
            Exception: whatever the package raises; the next one who asks tries again.
        """
        with self._lock:
            if self._begun:
                return
            self._begun = True
            try:
                self._loader.exec_module(module)
            except BaseException:
                self._begun = False
                raise
            module.__class__ = ModuleType
            module.__loader__ = self._loader
            if module.__spec__ is not None:
                module.__spec__.loader = self._loader

    def _standing_in(self, module: ModuleType, name: str) -> Any:
        def function(*positional: Any, **named: Any) -> Any:
            self.read(module)
            return vars(module)[name](*positional, **named)

        function.__name__ = function.__qualname__ = name
        function.__module__ = module.__name__
        return function


class _LateModule(ModuleType):
    """One that was not read yet."""

    def __getattr__(self, name: str) -> Any:
        # What tools ask every module for is no reason to read it, but for what `import *` asks for.
        if (name.startswith("__") and name != "__all__") or self.__spec__ is None:
            raise AttributeError(name)
        loader = self.__spec__.loader
        if isinstance(loader, _LateLoader):
            loader.read(self)
        try:
            return vars(self)[name]
        except KeyError:
            message = f"module {self.__name__!r} has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=self) from None
