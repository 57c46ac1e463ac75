"""How the Claude brain signs in, and what of the environment its program is given.

The program gets exactly what `program_environ` returns. Of the caller's variables these are three, the ones that name
the service and the key; and when there is no key, the two that say where a person's sign-in is kept. Proxy and
certificate variables are not handed on.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from kagura_kernel.brain.provider import AuthContext

SERVICE_VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL")

SIGN_IN_HINT = "sign in once with `claude`, or set ANTHROPIC_API_KEY before the kernel starts"

# A tool call may wait for a person for as long as it takes: the desk has the deadline, not the program.
_A_DAY = "86400000"

_SIGN_IN = ".credentials.json"
"""Where the program keeps a sign-in, in its folder; we read until when it holds, and nothing else."""

_FORGOTTEN = 2 * 86400  # seconds; longer than any tool call may take

# What the program is told about itself. Nothing here comes from the caller.
FIXED = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "CLAUDE_CODE_ENTRYPOINT": "sdk-py",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    # A `@path` in a prompt must not put a file of the host into it.
    "CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "CLAUDE_CODE_DISABLE_MCP_TASK_BACKGROUND": "1",
    "CLAUDE_CODE_SKIP_MCP_DEBUG_LOG_FILES": "1",
    # All our tools, always: none is left to be searched for.
    "ENABLE_TOOL_SEARCH": "false",
    "MCP_TOOL_TIMEOUT": _A_DAY,
    "CLAUDE_CODE_SDK_MCP_TOOL_IDLE_TIMEOUT": _A_DAY,
    # A toolbox bounds its results itself.
    "MAX_MCP_OUTPUT_TOKENS": "200000",
}


@dataclass(frozen=True, slots=True)
class ClaudeHome:
    """The directories of our own that the program is given, all private.

    Attributes:
        root: Everything below it belongs to the Claude brain.
    """

    root: Path

    @property
    def work(self) -> Path:
        """The program's working directory: empty, and the same for all runs, since sessions are found by it."""
        return self.root / "empty"

    @property
    def home(self) -> Path:
        """Its home when it does not need the person's."""
        return self.root / "home"

    @property
    def cache(self) -> Path:
        """Where each run gets a directory for its notes and temporary files, gone with the run."""
        return self.root / "cache"

    def make(self) -> None:
        """Make the directories, for this user alone.

        Raises:
            OSError: they cannot be made.
        """
        for directory in (self.root, self.work, self.home, self.cache):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._sweep()

    def _sweep(self) -> None:
        """Remove what runs left whose kernel was killed."""
        with os.scandir(self.cache) as entries:
            for entry in entries:
                if entry.stat(follow_symlinks=False).st_mtime < time.time() - _FORGOTTEN:
                    shutil.rmtree(entry.path, ignore_errors=True)


def resolve(environ: Mapping[str, str]) -> AuthContext:
    """How the program would sign in with this environment; looks at variables and for one file."""
    if environ.get("ANTHROPIC_API_KEY"):
        return AuthContext(ready=True, method="api key", reason="ANTHROPIC_API_KEY is set")
    if environ.get("ANTHROPIC_AUTH_TOKEN"):
        return AuthContext(ready=True, method="token", reason="ANTHROPIC_AUTH_TOKEN is set")
    if _signed_in(environ):
        if ended := _sign_in_ended(environ):
            reason = f"the sign-in ran out on {ended:%Y-%m-%d}: {SIGN_IN_HINT}"
            return AuthContext(ready=False, method="sign-in", reason=reason)
        return AuthContext(ready=True, method="sign-in", reason="the Claude program is signed in")
    return AuthContext(ready=False, method="", reason=f"there is no key and no sign-in: {SIGN_IN_HINT}")


def program_environ(environ: Mapping[str, str], home: ClaudeHome, *, max_retries: int) -> dict[str, str]:
    """The whole environment of the program."""
    given = {name: environ[name] for name in SERVICE_VARIABLES if environ.get(name)}
    if "ANTHROPIC_API_KEY" in given or "ANTHROPIC_AUTH_TOKEN" in given:
        # With a key nothing of the person's own set-up is needed, so nothing of it is shown.
        places = {"HOME": str(home.home), "CLAUDE_CONFIG_DIR": str(home.home / ".claude")}
    else:
        places = {name: environ[name] for name in ("HOME", "CLAUDE_CONFIG_DIR") if environ.get(name)}
    return {**FIXED, **places, **given, "CLAUDE_CODE_MAX_RETRIES": str(max_retries)}


def scratch_environ(scratch: Path) -> dict[str, str]:
    """The variables that make the program write its notes and temporary files into this directory."""
    return dict.fromkeys(("TMPDIR", "CLAUDE_CODE_TMPDIR", "XDG_CACHE_HOME"), str(scratch))


def _sign_in_ended(environ: Mapping[str, str]) -> datetime | None:
    """When a sign-in that the program cannot renew ran out; None while it holds, or where nobody can tell."""
    config = _config(environ)
    try:
        kept = json.loads((config / _SIGN_IN).read_text(encoding="utf-8"))["claudeAiOauth"] if config else {}
        if kept.get("refreshToken"):
            return None
        ends = datetime.fromtimestamp(kept["expiresAt"] / 1000, UTC)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError):
        return None
    return ends if ends < datetime.now(UTC) else None


def _config(environ: Mapping[str, str]) -> Path | None:
    person = Path(environ["HOME"]) if environ.get("HOME") else None
    own = environ.get("CLAUDE_CONFIG_DIR")
    return Path(own) if own else person / ".claude" if person else None


def _signed_in(environ: Mapping[str, str]) -> bool:
    person = Path(environ["HOME"]) if environ.get("HOME") else None
    own = environ.get("CLAUDE_CONFIG_DIR")
    config = _config(environ)
    if config is None:
        return False
    try:
        if (config / _SIGN_IN).is_file():
            return True
        # On macOS the credentials are in the keychain, and the program's own notes say whose they are.
        notes = config / ".claude.json" if own or person is None else person / ".claude.json"
        return sys.platform == "darwin" and "oauthAccount" in json.loads(notes.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
