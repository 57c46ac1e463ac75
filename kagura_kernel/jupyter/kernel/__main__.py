"""`python -m kagura_kernel.jupyter.kernel -f CONNECTION_FILE`: start the kernel, as its kernelspec does."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run until a front end shuts it down."""
    # The project is on the import path once IPython has started, behind everything that the kernel itself needs.
    if sys.path and sys.path[0] in {"", os.getcwd()}:  # noqa: PTH109  # pathlib would cost what it saves here
        del sys.path[0]
    from ipykernel.kernelapp import IPKernelApp

    from kagura_kernel.jupyter.kernel.kernel import KaguraKernel

    IPKernelApp.launch_instance(kernel_class=KaguraKernel)


if __name__ == "__main__":
    main()
