"""The Jupyter server's side of the sidebar: shows journal and memory by REST, and leaves decisions in the mailbox.

It runs in the process of the Jupyter server and never in a kernel: it holds no live object of a run, starts nothing,
and sees only `kagura_kernel.journal`, `kagura_kernel.memory` and `kagura_kernel.domain`. docs/server.md lists routes.
"""

from __future__ import annotations

from typing import Any


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    """What `jupyter server` loads; imported late, so that looking for extensions costs nothing."""
    from kagura_kernel.jupyter.server.extension import KaguraServer

    return [{"module": "kagura_kernel.jupyter.server", "app": KaguraServer}]
