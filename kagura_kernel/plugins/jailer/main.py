"""The jailer: hears which plugin it is, loads it, says what it gives, and calls it until the host hangs up.

Standard library only: runs in the jail.
"""

from __future__ import annotations

import base64
import sys
from typing import TYPE_CHECKING, Any

from kagura_kernel.plugins import framing
from kagura_kernel.plugins.jailer import functions, loading, serving

if TYPE_CHECKING:
    from collections.abc import Mapping
    from socket import socket
    from types import CodeType

MAX_HELLO = 32 * 2**20
"""Bytes of the first thing that the host says: all of a plugin, as text."""


def main(connection: socket, sdk: Mapping[str, str], codes: Mapping[str, CodeType]) -> None:
    """Be the jailer of the plugin that the host names at the other end of this connection.

    Args:
        connection: To the host.
        sdk: Text of what plugins may import of ours, by path.
        codes: The same compiled, when that was by this very Python.
    """
    stream = open(connection.fileno(), "rb", closefd=False)  # noqa: SIM115 - a socket, until the end
    hello = serving.receive(stream, MAX_HELLO)
    if hello is None:
        return
    package = loading.package_of(hello["plugin"])
    try:
        ours = loading.SentModules(loading.SDK, {path: text.encode() for path, text in sdk.items()}, loading.SDK, codes)
        table = functions.look_at(_create(hello, ours))
        ready = {
            "ready": {
                module: [function.told(name) for name, function in given.items()] for module, given in table.items()
            }
        }
    # A plugin may end like anything that ends a program; the host has to hear why.
    except BaseException as error:  # noqa: BLE001
        connection.sendall(framing.encode({"failed": _why(error, package)}))
        return
    connection.sendall(framing.encode(ready))
    serving.Serving(connection, stream, package, table, threads=hello["calls"], most=hello["most"]).run()


def _create(hello: dict[str, Any], sdk: loading.SentModules) -> Any:
    files = {path: base64.b64decode(data) for path, data in hello["files"].items()}
    module = loading.load_plugin(hello["plugin"], files, sdk)
    create = getattr(module, "create_host_functions", None)
    if not callable(create):
        raise functions.NotHostFunctions("plugin.py has no function create_host_functions")
    return create(hello["config"])


def _why(error: BaseException, package: str) -> dict[str, str]:
    if isinstance(error, functions.NotHostFunctions):
        return {"code": functions.VALUE, "kind": "", "message": str(error)}
    if isinstance(error, SyntaxError):
        import traceback

        traceback.print_exception(error, limit=0, file=sys.stderr)
    return functions.explain(error, package)
