"""What runs inside a plugin's jail: it loads the plugin from bytes it is sent, tells its functions, and calls them.

What is compiled is what was hashed. Of the packages that the box's Python has, only drivers that ours need are found.

Over its one connection to the host requests come in, threads call the plugin, answers go out. The host believes nothing
that comes from here. Standard library only.
"""

from __future__ import annotations

import base64
import importlib.machinery
import inspect
import keyword
import linecache
import os
import queue
import sys
import threading
from dataclasses import dataclass
from functools import partial
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any, BinaryIO

from kagura_kernel.plugins import frames

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from socket import socket
    from types import CodeType, ModuleType

SDK = "kagura_plugin"
"""What plugins import of ours."""

DRIVERS = frozenset({"psycopg", "psycopg_binary", "psycopg_c", "typing_extensions"})
"""What the modules of ours may import of the box's packages, where they are installed."""


# Neither of the two classes inherits from what `importlib.abc` has for them: to import that takes as long as the rest.
class SentModules:
    """Finds and loads the modules of one package whose files were sent, some of them compiled by this very Python."""

    def __init__(
        self, package: str, files: Mapping[str, bytes], place: str, codes: Mapping[str, CodeType] | None = None
    ) -> None:
        self._package = package
        self._files = files
        self._place = place
        self._codes = codes or {}
        parts = [path.split("/") for path in files]
        self._folders = {"/".join(one[:depth]) for one in parts for depth in range(1, len(one))}

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


def package_of(plugin: str) -> str:
    """What the package of a plugin's files is called in its jail."""
    return f"plugin_{plugin.replace('-', '_')}"


def load_plugin(name: str, files: Mapping[str, bytes], sdk: SentModules) -> Any:
    """The plugin's main module, which has run. Raises `BaseException`: whatever it raised."""
    package = package_of(name)
    # Their methods are all that the import system asks for.
    finders: list[Any] = [sdk, SentModules(package, files, name), *sys.meta_path, Drivers()]
    sys.meta_path[:] = finders
    __import__(f"{package}.plugin")
    return sys.modules[f"{package}.plugin"]


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
    """What `create_host_functions` returned, as a table. Raises `NotHostFunctions`: it is none."""
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
    """An error as an answer, or as a defect, whose traceback goes to the log."""
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


MAX_HELLO = 32 * 2**20
"""Bytes of the first thing that the host says: all of a plugin, as text."""


def main(connection: socket, sdk: Mapping[str, str], codes: Mapping[str, CodeType]) -> None:
    """Be the jailer of the plugin that the host names at the other end of this connection."""
    stream = open(connection.fileno(), "rb", closefd=False)  # noqa: SIM115 - a socket, until the end
    hello = receive(stream, MAX_HELLO)
    if hello is None:
        return
    package = package_of(hello["plugin"])
    try:
        ours = SentModules(SDK, {path: text.encode() for path, text in sdk.items()}, SDK, codes)
        table = look_at(_create(hello, ours))
        ready = {
            "ready": {
                module: [function.told(name) for name, function in given.items()] for module, given in table.items()
            }
        }
    # A plugin may end like anything that ends a program; the host has to hear why.
    except BaseException as error:  # noqa: BLE001
        connection.sendall(frames.encode({"failed": _why(error, hello["plugin"])}))
        return
    connection.sendall(frames.encode(ready))
    serve(connection, stream, partial(call, table, package), hello["calls"], hello["most"])


def _create(hello: dict[str, Any], sdk: SentModules) -> Any:
    files = {path: base64.b64decode(data) for path, data in hello["files"].items()}
    module = load_plugin(hello["plugin"], files, sdk)
    create = getattr(module, "create_host_functions", None)
    if not callable(create):
        raise NotHostFunctions("plugin.py has no function create_host_functions")
    return create(hello["config"])


def _why(error: BaseException, plugin: str) -> dict[str, str]:
    if isinstance(error, NotHostFunctions):
        return {"code": VALUE, "kind": "", "message": str(error)}
    told = explain(error, package_of(plugin))
    # What is no Python says itself where.
    if (place := _place_of(error, plugin)) and not isinstance(error, SyntaxError):
        told["message"] = f"{told['message']} ({place})"
    return told


def _place_of(error: BaseException, plugin: str) -> str:
    """The last line of the plugin's own that an error came through; empty where it came through none.

    The log of a plugin that was not loaded is gone with its jail.
    """
    import traceback

    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(f"{plugin}/")]
    return f"{own[-1].filename.removeprefix(f'{plugin}/')}, line {own[-1].lineno}" if own else ""


def serve(
    connection: socket, stream: BinaryIO, answer: Callable[[dict[str, Any]], dict[str, Any]], threads: int, most: int
) -> None:
    """Read requests and answer them until the host hangs up; then the process is over, whatever the plugin does."""
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    turn = threading.Lock()

    def work() -> None:
        while True:
            request = requests.get()
            told = answer(request)
            try:
                frame = frames.encode({"id": request["id"], **told}, most)
            except frames.FrameError as error:
                why = f"what the function returned cannot be sent: {error}"
                frame = frames.encode({"id": request["id"], **_failure(VALUE, "", why)}, most)
            with turn:
                connection.sendall(frame)

    for number in range(threads):
        threading.Thread(target=work, name=f"call-{number}", daemon=True).start()
    while (request := receive(stream)) is not None:
        requests.put(request)
    os._exit(0)


def call(table: Mapping[str, Mapping[str, HostFunction]], package: str, request: dict[str, Any]) -> dict[str, Any]:
    """Call what a request asks for: its value, or what went wrong in the plugin's package."""
    function = table[request["module"]][request["function"]]
    arguments, named = request["arguments"], request["named"]
    if why := function.fits(arguments, named):
        return _failure(ARGUMENTS, "TypeError", why)
    try:
        value = function.call(*arguments, **named)
        if hasattr(value, "__await__"):
            import asyncio

            async def waited_for(pending: Any) -> Any:
                return await pending

            value = asyncio.run(waited_for(value))
    # Also what would end a thread or the whole process: the caller has to have an answer.
    except BaseException as error:  # noqa: BLE001
        return {"ok": False, "error": explain(error, package)}
    return {"ok": True, "value": value}


def _failure(code: str, kind: str, message: str) -> dict[str, Any]:
    return {"ok": False, "error": {"code": code, "kind": kind, "message": message}}


def receive(stream: BinaryIO, most: int = frames.MAX_BYTES) -> Any:
    """The next thing that the host says; None when it has hung up."""
    header = stream.read(frames.HEADER.size)
    if len(header) < frames.HEADER.size:
        return None
    count = frames.length(header, most)
    body = stream.read(count)
    return frames.decode(body, most) if len(body) == count else None
