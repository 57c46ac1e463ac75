"""What IPython knows beyond Python: lines that begin with `%` or `!`, cells with `%%`, names that end with `?`."""

from __future__ import annotations

import builtins
import re
import sys
from typing import Any

_SPECIAL = re.compile(rb"^\s*(?:[%!?]|[^#\n]*[?]\s*$)", re.MULTILINE)


def plain(source: bytes, error: SyntaxError) -> bytes:
    """The same program in plain Python.

    Args:
        source: The program.
        error: Why it is none as it stands; raised again where IPython would not know better.
    """
    if not _SPECIAL.search(source):
        raise error
    try:
        from IPython.core.inputtransformer2 import TransformerManager
    except ImportError:
        why = "lines that begin with % or ! need IPython, which this box does not have: use subprocess, or bash"
        raise SyntaxError(why, (error.filename, error.lineno, error.offset, error.text)) from None
    manager: Any = TransformerManager
    made: str = manager().transform_cell(source.decode("utf-8", "replace"))
    if made.encode().rstrip() == source.rstrip():
        raise error
    builtins.get_ipython = _shell  # type: ignore[attr-defined]
    return made.encode()


def _shell() -> Any:
    """IPython's shell over the program's own names."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    quiet = Config({"HistoryManager": {"enabled": False}, "InteractiveShell": {"colors": "nocolor"}})
    shell = InteractiveShell.instance(user_module=sys.modules["__main__"], config=quiet)
    vars(shell)["enable_matplotlib"] = _figures_as_ever
    return shell


def _figures_as_ever(gui: str | None = None) -> tuple[str, str]:
    """What `%matplotlib` comes to: figures are shown here whatever it names, and nobody would see a window."""
    return gui or "", "agg"
