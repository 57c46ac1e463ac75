"""Run the committed notebooks and write their outputs anew: `python tests/notebooks/record.py [NAME …]`.

A person does this after changing a notebook or the look of a card, and reads the difference before committing it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def main() -> int:
    """0 when every cell ran; a notebook that failed is left as it was."""
    import nbformat
    from nbclient import NotebookClient

    from tests.support.kernel import kernel_environ
    from tests.support.sshd import other_machine

    with tempfile.TemporaryDirectory() as home, other_machine() as machine:
        # Who recorded it is nobody's business.
        environ = kernel_environ(Path(home), KAGURA_BOX="bubblewrap", JUPYTER_PREFER_ENV_PATH="1", LOGNAME="ada")
        environ |= {"KAGURA_SSH_HOST": machine.host, "KAGURA_SSH_CONFIG": machine.config}
        os.environ.update(environ)
        named = [NOTEBOOKS / f"{name}.ipynb" for name in sys.argv[1:]]
        for path in named or sorted(NOTEBOOKS.glob("*.ipynb")):
            # A copy is run: what a run does must not land in the repository.
            folder = Path(shutil.copytree(NOTEBOOKS, Path(home) / path.stem))
            notebook = nbformat.read(path, as_version=4)
            kernel = notebook.metadata["kernelspec"]["name"]
            # A shell cell sends its output in pieces; a page shows each output by itself.
            client = NotebookClient(
                notebook, kernel_name=kernel, timeout=180, record_timing=False, coalesce_streams=True
            )
            client.execute(cwd=str(folder), env=environ)
            notebook.metadata.pop("widgets", None)
            # A version in it would be a difference with every release.
            language = notebook.metadata["language_info"]
            notebook.metadata["language_info"] = {name: language[name] for name in ("name", "pygments_lexer")}
            nbformat.write(notebook, path)
            print(f"recorded {path.name}")  # noqa: T201  # a command answers by printing
    return 0


if __name__ == "__main__":
    sys.exit(main())
