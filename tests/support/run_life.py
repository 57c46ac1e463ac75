"""A process that launches one run after another until somebody kills it: for tests of what a crash leaves behind.

Run as a program by `Lives("tests.support.run_life")`; an order names the environment, the project, the grant
and the cell::

    {"environ": {…}, "project": "/dir", "grant": "provider:scope", "code": "curl $API"}
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from kagura_kernel.assembly import make_cockpit
from kagura_kernel.runs.request import RunRequest
from tests.support.credential_life import serve
from tests.support.redactors import shared_redactor


def live(order: dict[str, Any]) -> None:
    """RunRequest the cell again and again, with nobody to ask."""
    cockpit = make_cockpit(order["environ"])
    while True:
        intent = RunRequest(
            task=order["code"], language="bash", project=Path(order["project"]), grants=(order["grant"],), headless=True
        )
        cockpit.launch(intent).result()


if __name__ == "__main__":
    # Imported before the first fork, so that a life begins at once.
    import httpx  # noqa: F401

    import kagura_kernel.journal.sqlite
    import kagura_kernel.membrane.credentials.injection.injector
    import kagura_kernel.membrane.credentials.providers.cloudflare
    import kagura_kernel.membrane.run_leases
    import kagura_kernel.sandbox.bubblewrap  # noqa: F401

    shared_redactor().wait()
    serve(sys.stdin, sys.stdout, live)
