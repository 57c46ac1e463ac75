"""`kagura-kernel export`: writes a notebook of the kagura kernel as a plain Python one."""

from __future__ import annotations

from types import SimpleNamespace

from kagura_kernel.cli.output import tell
from kagura_kernel.jupyter.export import export_notebook


def export(arguments: SimpleNamespace) -> int:
    """Write it; 0.

    Raises:
        UsageError: there is no such notebook, it belongs to another kernel, or the target exists.
    """
    written = export_notebook(arguments.notebook, arguments.output, force=arguments.force)
    return tell(arguments, {"written": written}, f"{written} was written.")
