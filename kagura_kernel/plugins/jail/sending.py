"""What is sent into a jail: the jailer, then the plugin. Only decides; the bytes are those that were hashed."""

from __future__ import annotations

import base64
import marshal
from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from importlib.util import MAGIC_NUMBER
from typing import TYPE_CHECKING, Any

from kagura_kernel.plugins import framing
from kagura_kernel.plugins.jail.parts import JailLimits
from kagura_kernel.plugins.jailer.loading import SDK
from kagura_kernel.plugins.jailer.main import MAX_HELLO

if TYPE_CHECKING:
    from kagura_kernel.plugins.content import PluginContent

_PLUGINS = "kagura_kernel.plugins"
_JAILER = f"{_PLUGINS}.jailer"

MODULES = (f"{_PLUGINS}.framing", *(f"{_JAILER}.{name}" for name in ("loading", "functions", "serving", "main")))
"""Of the jailer, each after those it imports."""

_PACKAGES = ("kagura_kernel", _PLUGINS, _JAILER)

STUB = """
import _socket, marshal, sys
import _frozen_importlib_external as here

connection = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
connection.connect(("127.0.0.1", int(sys.argv[1])))
connection.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)

def take(count):
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            sys.exit(1)
        data += part
    return data

magic, packages, sources, sdk, codes = marshal.loads(take(int.from_bytes(take(4), "big")))
codes, ours = marshal.loads(codes) if magic == here.MAGIC_NUMBER else ([
    compile(text, "<%s>" % name, "exec", dont_inherit=True) for name, text in sources
], {})
for name, code in [(name, None) for name in packages] + [(name, code) for (name, _), code in zip(sources, codes)]:
    module = sys.modules[name] = type(sys)(name)
    above, _, last = name.rpartition(".")
    module.__package__ = above
    if above:
        setattr(sys.modules[above], last, module)
    if code is None:
        module.__package__, module.__path__ = name, []
    else:
        exec(code, module.__dict__)
module.main(connection, sdk, ours)
"""


def jailer_argv(port: int) -> tuple[str, ...]:
    """The command that waits for a jailer on this port of the box's loopback."""
    return ("python3", "-I", "-S", "-B", "-u", "-c", STUB, str(port))


@cache
def jailer_payload() -> bytes:
    """What has to be written to that command first, the modules for plugins in it.

    It holds code of this Python, and text for any other.
    """
    sources = tuple((name, _text(name)) for name in MODULES)
    codes = [compile(text, f"<{name}>", "exec", dont_inherit=True) for name, text in sources]
    sdk = dict(_files(resources.files(f"{_PLUGINS}.sdk"), ""))
    ours = {path: compile(text, f"{SDK}/{path}", "exec", dont_inherit=True) for path, text in sdk.items()}
    # Version 2 of the format is read by every Python that a box may have.
    body = marshal.dumps((MAGIC_NUMBER, _PACKAGES, sources, sdk, marshal.dumps((codes, ours))), 2)
    return len(body).to_bytes(4, "big") + body


def hello(content: PluginContent, config: Mapping[str, Any], limits: JailLimits) -> bytes:
    """The frame after it: the plugin, and what it is to know.

    Raises:
        FrameError: there is too much of it.
    """
    told = {
        "plugin": content.name,
        "files": {path: base64.b64encode(data).decode("ascii") for path, data in content.python.items()},
        "config": dict(config),
        "calls": limits.calls,
        "most": limits.frame_bytes,
    }
    return framing.encode(told, MAX_HELLO)


def _text(module: str) -> str:
    package, _, name = module.rpartition(".")
    return (resources.files(package) / f"{name}.py").read_text("utf-8")


def _files(folder: Traversable, above: str) -> list[tuple[str, str]]:
    found = []
    for one in folder.iterdir():
        if one.is_dir():
            found += _files(one, f"{above}{one.name}/")
        elif one.name.endswith(".py"):
            found.append((f"{above}{one.name}", one.read_text("utf-8")))
    return found
