"""The environment of a test: a home that is nobody's, no keys, no daemons, and rules compiled once for all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, MutableMapping
from pathlib import Path

FOLDER = "redaction"
"""What the folder of compiled rules is called in a data directory; the same as `assembly.kits.REDACTION`."""


def compiled_rules() -> Path:
    """The folder that all tests of this user share; made when needed."""
    shared = Path(tempfile.gettempdir()) / f"kagura-compiled-rules-{os.getuid()}"
    shared.mkdir(mode=0o700, exist_ok=True)
    return shared


def share_rules(home: Path) -> None:
    """Let a data directory, which need not exist, have the shared rules."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (home / FOLDER).symlink_to(compiled_rules())


TOKEN = "KAGURA_TEST_HOME_IS_A_FAKE"  # noqa: S105 - the name of a variable
"""Variable that every process of a test session carries; leftovers are recognised by its value."""

# Keys, addresses and switches of the person's own set-up. A test that needs one sets it.
_FORGOTTEN_PREFIXES = ("ANTHROPIC_", "AWS_", "CLAUDE", "DOCKER_", "GOOGLE_", "JUPYTER", "KAGURA_", "OPENAI_", "PG")
_FORGOTTEN = ("DBUS_SESSION_BUS_ADDRESS", "GH_TOKEN", "GITHUB_TOKEN", "IPYTHONDIR", "SSH_AUTH_SOCK")

_FOLDERS = {
    "HOME": "home",
    "XDG_CONFIG_HOME": "home/.config",
    "XDG_DATA_HOME": "home/.local/share",
    "XDG_STATE_HOME": "home/.local/state",
    "XDG_CACHE_HOME": "home/.cache",
    "XDG_RUNTIME_DIR": "run",
    "KAGURA_HOME": "home/.kagura-test",
    "CLAUDE_CONFIG_DIR": "home/.claude",
    "DOCKER_CONFIG": "home/.docker",
    "IPYTHONDIR": "home/.ipython",
    "JUPYTER_CONFIG_DIR": "home/.jupyter",
    "JUPYTER_DATA_DIR": "home/.local/share/jupyter",
    "JUPYTER_RUNTIME_DIR": "run/jupyter",
}


def apply(environment: MutableMapping[str, str], base: Path, *, token: str, keychain: bool = False) -> None:
    """Point everything that says where things of a person lie below `base`, and forget every key."""
    for name in list(environment):
        # What steers the tests themselves (where images are kept, say) is no one's set-up.
        if (name.startswith(_FORGOTTEN_PREFIXES) and not name.startswith("KAGURA_TEST_")) or name in _FORGOTTEN:
            del environment[name]
    for name, folder in _FOLDERS.items():
        path = base / folder
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        environment[name] = str(path)
    share_rules(Path(environment["KAGURA_HOME"]))
    environment[TOKEN] = token
    environment["DOCKER_HOST"] = f"unix://{base}/run/no-docker-daemon-without-its-marker.sock"
    # The kernels of this environment, whatever the machine has installed beside them.
    environment["JUPYTER_PREFER_ENV_PATH"] = "1"
    if keychain:
        environment.pop("PYTHON_KEYRING_BACKEND", None)
    else:
        environment["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"


def contents(base: Path) -> frozenset[tuple[str, int]]:
    """Everything below `base`, each with its kind and mode: what tells whether a home is as it was made."""
    return frozenset(_below(str(base), ""))


def _below(folder: str, name: str) -> Iterator[tuple[str, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            inner = f"{name}/{entry.name}"
            yield inner, entry.stat(follow_symlinks=False).st_mode
            if entry.is_dir(follow_symlinks=False):
                yield from _below(entry.path, inner)
