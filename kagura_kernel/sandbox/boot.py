"""How the guest gets into a box: a tiny stub on the command line, everything else through the pipe.

Nothing of ours is baked into an image or mounted into a box. The stub reads one length-prefixed payload from standard
input and runs it; the same pipe then carries frames. Sent as code objects when the box runs this very Python (nothing
is compiled in the box), as source text otherwise; code objects of another version are never loaded, the source that
travels with them is.
"""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.abc import InspectLoader
from importlib.util import MAGIC_NUMBER, find_spec
from types import CodeType

from kagura_kernel.domain.late_dataclass import asdict, dataclass, field

_PACKAGE = "kagura_kernel.sandbox.guest"
MODULES = ("frames", "loop", "processes", "commands", "files", "changes", "main")
"""Loaded at the start, each after those it imports."""

LATER = {"listeners": ("proxy", "clients", "listeners"), "resident": ("resident",)}
"""Travel along as they are, and are loaded when the one they are named by is imported."""

STUB = """
import marshal, posix, sys
import _frozen_importlib_external as here

def take(count):
    data = b""
    while len(data) < count:
        part = posix.read(0, count - len(data))
        if not part:
            sys.exit(1)
        data += part
    return data

def load(codes, sources):
    codes = marshal.loads(codes) if magic == here.MAGIC_NUMBER else [
        compile(text, "<guest %s>" % name, "exec") for name, text in sources
    ]
    for (name, text), code in zip(sources, codes):
        module = sys.modules["kagura_guest." + name] = Module("kagura_guest." + name)
        module.__package__ = "kagura_guest"
        setattr(package, name, module)
        exec(code, module.__dict__)

def find(name):
    if name not in later:
        raise AttributeError(name)
    load(*marshal.loads(later[name]))
    return sys.modules["kagura_guest." + name]

magic, codes, sources, later, config = marshal.loads(take(int.from_bytes(take(4), "big")))
Module = type(sys)
package = sys.modules["kagura_guest"] = Module("kagura_guest")
package.__path__ = []
package.__getattr__ = find
load(codes, sources)
package.main.main(config)
"""


@dataclass(frozen=True, slots=True)
class GuestConfig:
    """What the guest is told about its box, before anything else."""

    workspace: str = "/workspace"  # where the workspace lies in the box
    # Where the overlay's upper directory, and the untouched project, are visible in the box, for `changes`; None, both,
    # compares with the state recorded after `populate` (nothing populated: everything there is an addition).
    upper: str | None = None
    lower: str | None = None
    protected: tuple[str, ...] = (".git", ".kagura")  # subpaths of the workspace that `changes` never tells
    # The whole environment of commands, before their own variables. Never secrets.
    env: Mapping[str, str] = field(default_factory=dict)
    writable: bool = True  # whether the workspace may be written; when not, `files.write` below it answers EROFS


def guest_argv(python: str) -> list[str]:
    """The command line that waits for a guest on standard input; `python` is the interpreter's path in the box."""
    return [python, "-I", "-S", "-c", STUB]


def guest_payload(config: GuestConfig, *, same_python: bool) -> bytes:
    """What must be written to the stub first; a wrong guess whether the box runs this interpreter costs time only."""
    magic = MAGIC_NUMBER if same_python else b""
    now = _packed(MODULES, same_python=same_python)
    later = {name: marshal.dumps(_packed(modules, same_python=same_python), 2) for name, modules in LATER.items()}
    # Version 2 of the format is read by every Python that a box may have.
    body = marshal.dumps((magic, *now, later, asdict(config)), 2)
    return len(body).to_bytes(4, "big") + body


@cache
def _sources(modules: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Modules of the guest as (name, text), each after those it imports."""
    folder = resources.files(_PACKAGE)
    return tuple((name, (folder / f"{name}.py").read_text("utf-8")) for name in modules)


def _packed(modules: tuple[str, ...], *, same_python: bool) -> tuple[bytes, tuple[tuple[str, str], ...]]:
    return _codes(modules) if same_python else b"", _sources(modules)


@cache
def _codes(modules: tuple[str, ...]) -> bytes:
    return marshal.dumps([_named(code_of(f"{_PACKAGE}.{name}"), f"<guest {name}>") for name in modules])


def code_of(module: str) -> CodeType:
    """A module as this interpreter compiled it, of its cache where it has one."""
    loader = getattr(find_spec(module), "loader", None)
    code = loader.get_code(module) if isinstance(loader, InspectLoader) else None
    if code is None:
        raise FileNotFoundError(module)
    return code


def _named(code: CodeType, name: str) -> CodeType:
    # Where this package lies on the host is nothing that a box should be told.
    inner = [_named(part, name) if isinstance(part, CodeType) else part for part in code.co_consts]
    return code.replace(co_filename=name, co_consts=tuple(inner))
