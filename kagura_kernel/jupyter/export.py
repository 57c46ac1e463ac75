"""A notebook of the kagura kernel as a plain Python notebook, which does the same in any kernel that IPython runs.

Every cell is written as its equal in a Python kernel; the first cell loads the extension. Outputs, ids, metadata and
all that is no code stay as they are.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.jupyter.dialect import plain
from kagura_kernel.jupyter.errors import KERNEL

LOAD = "%load_ext kagura_kernel"

_PYTHON = {
    "kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"},
    "language_info": {
        "name": "python",
        "mimetype": "text/x-python",
        "codemirror_mode": {"name": "ipython", "version": 3},
        "pygments_lexer": "ipython3",
        "nbconvert_exporter": "python",
        "file_extension": ".py",
    },
}


def export_notebook(path: Path, out: Path | None = None, *, force: bool = False) -> Path:
    """Write the plain notebook; returns where it is.

    Without `out` it lies beside the other, with `-python` in its name.

    Raises:
        UsageError: there is no such notebook, it belongs to another kernel, or the target exists.
    """
    import nbformat

    target = path.parent if out is None else out
    if target.is_dir():
        target = target / f"{path.stem}-python{path.suffix}"
    notebook = _read(path)
    _check_target(path, target, force=force)
    text = nbformat.writes(converted(notebook), version=4)
    _write(target, text if text.endswith("\n") else f"{text}\n")
    return target


def converted(notebook: Any) -> Any:
    """The notebook (nbformat 4) as a plain one; the given one is changed, too.

    Cells that the kagura kernel refuses would do something else in a Python kernel: they come out as comments.
    """
    from nbformat.v4 import new_code_cell

    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = _source(cell.source)
    first = new_code_cell(LOAD)
    taken = {cell.get("id") for cell in notebook.cells}
    while first.id in taken:
        first = new_code_cell(LOAD)
    notebook.cells.insert(0, first)
    notebook.metadata.update(_PYTHON)
    return notebook


def _source(cell: str) -> str:
    try:
        return plain(cell)
    except UsageError as error:
        reason = f"The kagura kernel did not run this cell. {error.message}"
        return "\n".join(f"# {line}".rstrip() for line in [*reason.split("\n"), "", *cell.split("\n")])


def _read(path: Path) -> Any:
    import nbformat

    try:
        notebook = nbformat.read(path, as_version=4)
        notebook = nbformat.v4.upgrade(notebook)
        _, notebook = nbformat.validator.normalize(notebook, version=4, version_minor=notebook.nbformat_minor)
        nbformat.validate(notebook)
    except FileNotFoundError as error:
        raise UsageError(f"There is no notebook {path}.") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    # Text that is no JSON, JSON that is no notebook, and a notebook that nbformat cannot bring up to date.
    except (ValueError, AttributeError, KeyError, TypeError, nbformat.ValidationError) as error:
        raise UsageError(f"{path} is no Jupyter notebook.") from error
    kernel = notebook.metadata.get("kernelspec", {}).get("name", "")
    if kernel != KERNEL:
        what = f"belongs to the kernel {kernel!r}" if kernel else "does not say which kernel it belongs to"
        raise UsageError(f"{path} {what}; only a notebook of the kagura kernel has to be exported.")
    return notebook


def _check_target(path: Path, target: Path, *, force: bool) -> None:
    if target.exists() and target.samefile(path):
        raise UsageError(f"The export of {path} would replace the notebook itself. Give it another name with `-o`.")
    if not target.parent.is_dir():
        raise UsageError(f"There is no folder {target.parent} for the exported notebook.")
    if target.exists() and not force:
        raise UsageError(
            f"{target} is there already. Give the export another name with `-o`, or allow it with `--force`."
        )


def _write(target: Path, text: str) -> None:
    """Write all of it or nothing. Raises `UsageError`: it cannot be written there."""
    beside = None
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=target.parent, suffix=".part", delete=False
        ) as file:
            beside = Path(file.name)
            file.write(text)
        # A temporary file is its owner's alone; a notebook has the rights that any new file would have.
        mask = os.umask(0)
        os.umask(mask)
        beside.chmod(0o666 & ~mask)
        beside.replace(target)
    except OSError as error:
        if beside is not None:
            beside.unlink(missing_ok=True)
        raise UsageError(f"{target} cannot be written: {error.strerror}.") from error
