"""What of the person's own directories may be a project, and what never is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.kit.redaction.redactor import redactor_in
from kagura_kernel.membrane.project import check_project

if TYPE_CHECKING:
    from kagura_kernel.kit.redaction.redactor import Redactor

# What lies in a home directory and is nobody's project, whatever the notebook's working directory says.
_PRIVATE = (
    ".aws",
    ".claude",
    ".config",
    ".docker",
    ".gnupg",
    ".jupyter",
    ".kagura",
    ".kube",
    ".local/share/jupyter",
    ".ssh",
)


def project_checker(environ: Mapping[str, str], home: Path) -> Callable[[Path], Path]:
    """What turns a directory into a project's root; it raises `WorkspaceError`."""
    own, private = person(environ), private_places(environ, home)

    def check(path: Path) -> Path:
        return check_project(path, home=own, private=private)

    return check


def person(environ: Mapping[str, str]) -> Path | None:
    """The person's home directory."""
    return Path(environ["HOME"]) if environ.get("HOME") else None


def private_places(environ: Mapping[str, str], home: Path) -> list[Path]:
    """Directories that no box ever sees, ours among them."""
    own = person(environ)
    private = [home, *(own / name for name in _PRIVATE if own)]
    if runtime := environ.get("JUPYTER_RUNTIME_DIR"):
        private.append(Path(runtime))
    return private


def redactor_of(home: Path) -> Redactor:
    """The redactor of this process, which keeps its compiled rules below our data directory; cheap until it is used."""
    return redactor_in(home)
