"""`python -m kagura_kernel.jupyter.kernel -f CONNECTION_FILE`: start the kernel, as its kernelspec does."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run until a front end shuts it down."""
    # The project comes behind everything that the kernel itself needs.
    if sys.path and sys.path[0] in {"", os.getcwd()}:  # noqa: PTH109  # pathlib would cost what it saves here
        del sys.path[0]
    from ipykernel.kernelapp import IPKernelApp

    from kagura_kernel.jupyter.kernel.kernel import KaguraKernel

    _add_project()
    IPKernelApp.launch_instance(kernel_class=KaguraKernel)


def _add_project() -> None:
    """Put the working directory on the import path, where IPython puts it for other kernels.

    It leaves it out where Python was started with `-P`, as this kernel is, so that the kernel itself never comes from
    the project; a person who wants it left out says so in a variable.
    """
    if os.environ.get("PYTHONSAFEPATH") or "" in sys.path:
        return
    packages = (i for i, entry in enumerate(sys.path) if entry.endswith(("/site-packages", "/dist-packages")))
    sys.path.insert(next(packages, 0), "")


if __name__ == "__main__":
    main()
