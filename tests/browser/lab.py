"""A JupyterLab of its own: no setting, no session and no key of the person at this machine is in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kagura_kernel.journal.store import Journal
from kagura_kernel.testing.false_home import share_rules
from tests.support import gated_backend
from tests.support.jupyter_server import hears
from tests.support.model_script import Answer, says
from tests.support.model_server import ModelServer

CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE = 180
"""Seconds in which it has to listen: a ceiling for hanging, on a machine where others work as well."""
TOKEN = "a-token-for-one-test-session"

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/docmanager-extension/plugin": {"autosave": False},
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"},
}

# Otherwise each page that is opened asks whether JupyterLab has to be built anew, which starts a node.
PAGE_CONFIG = {"buildAvailable": False, "buildCheck": False}

_FOLDERS = ("home", "kagura", "claude", "data", "runtime", "ipython")


@dataclass
class Model:
    """The scripted model behind the brain of the server's kernels."""

    server: ModelServer  # What listens
    turns: list[Any] = field(default_factory=list)  # What it answers next; each a step of `tests.support.model_script`


@contextmanager
def running_model() -> Iterator[Model]:
    """A model that listens, and answers from `turns`."""
    turns: list[Any] = []

    def answer(request: Mapping[str, Any]) -> Answer:
        step = turns.pop(0) if turns else says("The script is used up.")
        found: Answer = step(request) if callable(step) else step
        return found

    with ModelServer(answer) as server:
        yield Model(server, turns)


@dataclass
class Lab:
    """A running JupyterLab."""

    url: str  # Where it listens
    root: Path  # Its files; every notebook gets a folder of its own
    model: Model  # What the kernels' brain speaks to
    home: Path  # Where its kernels keep their journal
    doors: gated_backend.Doors  # Those of the boxes that `--box gated` starts in a kernel named `gated`
    environment: Mapping[str, str]  # Of its kernels
    server: int  # Its process

    @contextmanager
    def journal(self) -> Iterator[Journal]:
        """The journal that all its kernels share."""
        journal = Journal.open(self.home)
        try:
            yield journal
        finally:
            journal.close()


@contextmanager
def running_lab(base: Path, model: Model, *options: str, port: int = 0, without: Sequence[str] = ()) -> Iterator[Lab]:
    """JupyterLab below `base`, which ends with the block; once more there, it finds what the one before has left.

    Args:
        base: An empty folder, or one that was one before.
        model: What answers its brain.
        options: Of its command.
        port: Where it listens; 0 for any.
        without: Names of its extensions that are switched off.

    Raises:
        RuntimeError: it did not start; the text holds the end of its log.
    """
    root = base / "work"
    root.mkdir(exist_ok=True)
    for name in _FOLDERS:
        (base / name).mkdir(mode=0o700, exist_ok=True)
    for name, values in SETTINGS.items():
        path = base / "config" / "lab" / "user-settings" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    page_config = base / "config" / "labconfig" / "page_config.json"
    page_config.parent.mkdir(parents=True, exist_ok=True)
    page_config.write_text(json.dumps(PAGE_CONFIG | {"disabledExtensions": dict.fromkeys(without, True)}))
    share_rules(base / "kagura")
    doors = gated_backend.Doors(base / "doors")
    _add_gated_kernel(base, doors)
    environment = _environment(base, model)
    with (base / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *_arguments(base, port), *options],
            env=environment,
            cwd=root,
            stdout=log,
            stderr=log,
        )
    try:
        url = _listening(process, base)
        yield Lab(url, root, model, base / "kagura", doors, environment, process.pid)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _environment(base: Path, model: Model) -> dict[str, str]:
    return os.environ | {
        "HOME": str(base / "home"),
        "KAGURA_HOME": str(base / "kagura"),
        "CLAUDE_CONFIG_DIR": str(base / "claude"),
        "JUPYTER_CONFIG_DIR": str(base / "config"),
        "JUPYTER_DATA_DIR": str(base / "data"),
        "JUPYTER_RUNTIME_DIR": str(base / "runtime"),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "IPYTHONDIR": str(base / "ipython"),
        "ANTHROPIC_BASE_URL": model.server.url,
        "ANTHROPIC_API_KEY": "dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DOCKER_HOST": "unix:///run/no-docker-for-tests.sock",
    }


def _arguments(base: Path, port: int) -> list[str]:
    return [
        "--no-browser",
        "--allow-root",
        f"--ServerApp.port={port}",
        f"--IdentityProvider.token={TOKEN}",
        f"--ServerApp.root_dir={base / 'work'}",
        "--LabApp.expose_app_in_browser=True",
        f"--LabApp.user_settings_dir={base / 'config' / 'lab' / 'user-settings'}",
        f"--LabApp.workspaces_dir={base / 'workspaces'}",
        "--LabApp.extension_manager=readonly",
    ]


def _add_gated_kernel(base: Path, doors: gated_backend.Doors) -> None:
    """A Python kernel whose back-ends are those of this machine and one more, with doors before its boxes."""
    site = base / "site"
    gated_backend.register(site)
    spec = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "Python 3 (gated)",
        "language": "python",
        "env": {"PYTHONPATH": str(site), gated_backend.VARIABLE: str(doors.folder)},
    }
    path = base / "data" / "kernels" / "gated" / "kernel.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(spec))


def _listening(process: subprocess.Popen[bytes], base: Path) -> str:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        for path in (base / "runtime").glob("jpserver-*.json"):
            text = path.read_text()
            # The file is there a moment before anything listens.
            if text.endswith("}") and hears(url := str(json.loads(text)["url"])):
                return url
        time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not start:\n{(base / 'log').read_text()[-3000:]}")
