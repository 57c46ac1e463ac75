"""The modules of enabled plugins, as Python knows modules: made when they are first asked for."""

from __future__ import annotations

import sys

from ._errors import CALL, PluginError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType
    from typing import Any


def known() -> Mapping[str, tuple[str, Sequence[tuple[str, str, str]]]]:
    """Each module's plugin and its functions, as name, signature and description."""
    from . import _place

    found: Mapping[str, tuple[str, Sequence[tuple[str, str, str]]]] = _place.MODULES
    return found


def missing(name: str) -> str:
    """Why there is no such module, and what there is."""
    there = ", ".join(known()) or "none"
    return (
        f"no plugin that is enabled in this session has a module {name!r}; there is: {there}. "
        "A person can enable a plugin for the next run"
    )


def absent(name: str, function: str, there: Sequence[str]) -> str:
    """That a module has no such function, and what it has."""
    return f"{name} has no function {function!r}; it has: {', '.join(there)}"


class Finder:
    """Finds `kagura_host.<module>`, and says what there is when there is no such module."""

    def __init__(self, package: str) -> None:
        self.package = package
        self._begin = package + "."

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> Any:
        """The specification of an enabled plugin's module.

        Raises `ModuleNotFoundError`: it is in this package, and there is none.
        """
        if not name.startswith(self._begin):
            return None
        word = name[len(self._begin) :]
        if word.startswith("_"):
            return None
        if word not in known():
            # With its whole name `from kagura_host import x` would replace the text by one of its own.
            raise ModuleNotFoundError(missing(word), name=word)
        from importlib.machinery import ModuleSpec

        loader: Any = self
        return ModuleSpec(name, loader, origin="plugin " + known()[word][0])

    def create_module(self, spec: Any) -> ModuleType:
        """The module, complete."""
        return build(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: there is no code of the module in this box."""


def install(package: str, finders: list[Any]) -> None:
    """Find this package's modules from now on; once, however often it is called."""
    if not any(isinstance(one, Finder) and one.package == package for one in finders):
        finders.append(Finder(package))


def module(package: str, name: str) -> ModuleType:
    """An enabled plugin's module, the same one each time."""
    import importlib

    return importlib.import_module(package + "." + name)


def build(full_name: str) -> ModuleType:
    """A module with one function for each of the plugin's."""
    package, _, name = full_name.rpartition(".")
    plugin, functions = known()[name]
    made = type(sys)(full_name, f"Functions of the plugin {plugin}; they run outside of this box.")
    made.__package__ = package
    # Set in the dictionary: a function of a plugin may be called `name`, and must not become an attribute of ours.
    made.__dict__["__all__"] = [function for function, _, _ in functions]
    for function, signature, doc in functions:
        made.__dict__[function] = caller(name, function, signature, doc)
    made.__dict__["__getattr__"] = refuse(name, [function for function, _, _ in functions])
    return made


def caller(name: str, function: str, signature: str, doc: str) -> Callable[..., Any]:
    """The function that calls."""

    def call(*arguments: Any, **named: Any) -> Any:
        from . import _calls

        return _calls.call(name, function, arguments, named)

    call.__name__ = call.__qualname__ = function
    call.__module__ = __name__.rpartition(".")[0] + "." + name
    call.__doc__ = "\n\n".join(part for part in (function + signature, doc) if part)
    return call


def refuse(name: str, functions: Sequence[str]) -> Callable[[str], Any]:
    """What answers for attributes that the module has not."""

    def __getattr__(attribute: str) -> Any:  # noqa: N807 - the language's name for it
        raise AttributeError(absent(name, attribute, functions))

    return __getattr__


def check(name: str, function: str) -> None:
    """Whether there is such a function. Raises `PluginError`: there is none; the text says which there are."""
    if name not in known():
        raise PluginError(missing(name) + ".", CALL)
    functions = [one for one, _, _ in known()[name][1]]
    if function not in functions:
        raise PluginError(absent(name, function, functions) + ".", CALL)
