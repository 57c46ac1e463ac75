"""What of the person's own directories may be a project, and what never is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors import WorkspaceUnreadable
from kagura_kernel.membrane.project import check_project, make_project

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


def folder_for_project(environ: Mapping[str, str], home: Path, path: Path) -> Path:
    """A folder of the person's, made where it is missing, as a project's root; raises `WorkspaceError`."""
    own = person(environ)
    if own is None:
        raise WorkspaceUnreadable(str(path), "there is no home directory here")
    return make_project(path, home=own, private=private_places(environ, home))


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
    # Its forms take a while to import, and what only looks at this machine has no text to look through.
    from kagura_kernel.kit.redaction.redactor import redactor_in

    return redactor_in(home)
