"""What a plugin gives, looked at and told, and what its errors say about it.

Standard library only: runs in the jail.
"""

from __future__ import annotations

import inspect
import keyword
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kagura_kernel.plugins.jailer.loading import SDK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_MESSAGE = 4000
MAX_TEXT = 2000
MAX_NAME = 64
MAX_MODULES = 64
MAX_FUNCTIONS = 200

FAILED = "failed"
"""The plugin answers that it cannot do what was asked for."""

DEFECT = "defect"
"""Its code went wrong."""

ARGUMENTS = "arguments"
"""The call does not fit the function."""

VALUE = "value"
"""What it returned is no JSON, or too much."""


class NotHostFunctions(Exception):
    """What the plugin gave is no table of functions; the text says what it is."""


@dataclass(frozen=True, slots=True)
class HostFunction:
    """One function that may be called."""

    call: Callable[..., Any]  # The plugin's
    signature: inspect.Signature | None  # Of it; None where Python cannot say

    def fits(self, arguments: list[Any], named: dict[str, Any]) -> str:
        """Why it cannot be called like this; empty when it can."""
        if self.signature is None:
            return ""
        try:
            self.signature.bind(*arguments, **named)
        except TypeError as error:
            return str(error)
        return ""

    def told(self, name: str) -> dict[str, str]:
        """Name, signature and the first paragraph of its docstring."""
        doc = inspect.getdoc(self.call) or ""
        paragraph = " ".join(doc.partition("\n\n")[0].split())
        shown = "(*arguments, **named)" if self.signature is None else str(self.signature)
        return {"name": name, "signature": shown[:MAX_TEXT], "doc": paragraph[:MAX_TEXT]}


def look_at(given: Any) -> dict[str, dict[str, HostFunction]]:
    """What `create_host_functions` returned, as a table.

    Raises:
        NotHostFunctions: it is none.
    """
    if not isinstance(given, dict) or not all(map(is_name, given)):
        raise NotHostFunctions("create_host_functions has to return {module: {function: callable}}")
    if len(given) > MAX_MODULES:
        raise NotHostFunctions(f"there are more than {MAX_MODULES} modules")
    return {name: _module(name, functions) for name, functions in given.items()}


def is_name(name: Any) -> bool:
    """Whether it can be the name of a function or of a module."""
    plain = isinstance(name, str) and name.isascii() and name.isidentifier() and len(name) <= MAX_NAME
    return plain and not keyword.iskeyword(name)


def _module(module: str, given: Mapping[str, Any]) -> dict[str, HostFunction]:
    if not isinstance(given, dict) or not 0 < len(given) <= MAX_FUNCTIONS:
        raise NotHostFunctions(f"the module {module!r} has to be a dictionary of 1 to {MAX_FUNCTIONS} functions")
    found = {}
    for name, function in given.items():
        if not is_name(name) or not callable(function):
            raise NotHostFunctions(f"{str(name)[:MAX_NAME]!r} of the module {module!r} is no function with a name")
        found[name] = HostFunction(function, _signature(function))
    return found


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """What it takes, its annotations as types where they stand as text; None where Python cannot say."""
    for written_out in (True, False):
        try:
            return inspect.signature(function, eval_str=written_out)
        except Exception:  # noqa: BLE001, S112 - an annotation may mean anything, or nothing
            continue
    return None


def explain(error: BaseException, package: str) -> dict[str, str]:
    """An error as an answer, or as a defect, whose traceback goes to the log.

    Args:
        error: What the plugin raised.
        package: Name of the plugin's package.
    """
    own = type(error).__module__.partition(".")[0] in (SDK, package) and isinstance(error, Exception)
    # What the system says (a file that is not there) is about what was asked for. Any other class of Python's own may
    # come from anywhere in the code; whoever means to answer has a class for it.
    code = FAILED if own or isinstance(error, OSError) else DEFECT
    if code == DEFECT:
        import traceback

        # Nobody else sees where it happened.
        traceback.print_exception(error, limit=-20, file=sys.stderr)
    return {"code": code, "kind": type(error).__name__[:200], "message": _text_of(error)}


def _text_of(error: BaseException) -> str:
    try:
        return str(error)[:MAX_MESSAGE]
    # An error whose text cannot be had is still an error.
    except Exception:  # noqa: BLE001
        return ""
