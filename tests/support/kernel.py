"""A real kernel, driven by code as a notebook would: cells in, outputs out, without a browser."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from kagura_kernel.jupyter import kernel as kagura
from kagura_kernel.testing.false_home import share_rules

KERNELSPEC = {"name": "python3", "display_name": "Python 3", "language": "python"}
SPEC = Path(kagura.__file__).with_name("spec")
"""The folder of the kagura kernel's specification."""


class Specs(KernelSpecManager):
    """The kernels that are installed, and the kagura kernel of this package whether it is or not."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """The specification of a kernel.

        Raises:
            NoSuchKernel: there is none of this name.
        """
        return (
            KernelSpec.from_resource_dir(str(SPEC)) if kernel_name == "kagura" else super().get_kernel_spec(kernel_name)
        )


class _Manager(AsyncKernelManager):
    """Knows them."""

    def _kernel_spec_manager_default(self) -> Specs:
        return Specs()


@dataclass(frozen=True, slots=True)
class Ran:
    """What one cell published."""

    outputs: Sequence[Mapping[str, Any]]  # As nbformat has them

    @property
    def text(self) -> str:
        """All that a reader without widgets sees: streams, plain texts and tracebacks."""
        parts: list[str] = []
        before = ""
        for output in self.outputs:
            stream, before = before, output.get("name", "")
            match output["output_type"]:
                case "stream" if parts and stream == before:
                    # One text, in as many messages as the kernel's timing made of it.
                    parts[-1] += output["text"]
                case "stream":
                    parts.append(output["text"])
                case "error":
                    parts.append("\n".join(output["traceback"]) or output["evalue"])
                case _:
                    parts.append(output["data"].get("text/plain", ""))
        return "\n".join(parts)

    def data(self, mime: str) -> list[Any]:
        """Everything published under a MIME type."""
        return [output["data"][mime] for output in self.outputs if mime in output.get("data", {})]

    @property
    def failed(self) -> bool:
        """Whether the cell ended in an error."""
        return any(output["output_type"] == "error" for output in self.outputs)


def run_cells(
    sources: Sequence[str], *, environ: Mapping[str, str], cwd: Path, timeout: float = 120.0, kernel: str = "python3"
) -> list[Ran]:
    """Run cells one after the other in a fresh kernel, headless as nbclient is; failing cells do not stop the rest.

    Args:
        sources: The cells' texts.
        environ: The kernel's whole environment.
        cwd: Its working directory, and so the project.
        timeout: Seconds per cell.
        kernel: `python3` or `kagura`.
    """
    notebook = new_notebook(
        cells=[new_code_cell(source) for source in sources], metadata={"kernelspec": dict(KERNELSPEC)}
    )
    client = NotebookClient(
        notebook, timeout=timeout, kernel_name=kernel, kernel_manager_class=_Manager, allow_errors=True
    )

    async def execute() -> None:
        async with client.async_setup_kernel(cwd=str(cwd), env=dict(environ)):
            for index, cell in enumerate(notebook.cells):
                await client.async_execute_cell(cell, index)

    asyncio.run(execute())
    return [Ran(cell["outputs"]) for cell in notebook.cells]


def kernel_environ(home: Path, **more: str) -> dict[str, str]:
    """A kernel's environment that holds nothing of ours: a home of its own, and what is handed in."""
    home.mkdir(parents=True, exist_ok=True)
    share_rules(home / "kagura")
    return {
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "KAGURA_HOME": str(home / "kagura"),
        "KAGURA_CONFIG": str(home / "no-config.toml"),
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "DOCKER_HOST": f"unix://{home}/no-daemon.sock",
        # Where a run of tests measures what it runs through, its kernels do too.
        **{name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")},
        **more,
    }
