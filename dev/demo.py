"""Run the quickstart notebook for real, in a copy of its own, and say where the result lies."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "out" / "demo"


def main() -> int:
    """0 when every cell ran; the executed copy is written in any case."""
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    project = _fresh_copy()
    source = project / "quickstart.ipynb"
    executed = project / "quickstart.executed.ipynb"
    # The demonstration keeps its journal to itself, and runs the Python of this environment whatever
    # kernels the person has registered.
    os.environ["KAGURA_HOME"] = str(DEMO / "home")
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"

    notebook = nbformat.read(source, as_version=4)
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=180,
        resources={"metadata": {"path": str(project)}},
        extra_arguments=["--log-level=ERROR"],  # newer kernels remark on every start that loopback is not encrypted
    )
    print(f"Running {source.relative_to(ROOT)} …", flush=True)
    try:
        client.execute()
    except CellExecutionError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        nbformat.write(notebook, executed)
        print(f"The executed copy: {executed}")
    cells = sum(cell.cell_type == "code" for cell in notebook.cells)
    print(f"All {cells} cells ran. To go on from there by hand: make lab")
    return 0


def _fresh_copy() -> Path:
    shutil.rmtree(DEMO, ignore_errors=True)
    (DEMO / "home").mkdir(parents=True, mode=0o700)
    project = DEMO / "notebooks"
    shutil.copytree(ROOT / "notebooks", project, ignore=shutil.ignore_patterns(".ipynb_checkpoints", "__pycache__"))
    return project


if __name__ == "__main__":
    raise SystemExit(main())
