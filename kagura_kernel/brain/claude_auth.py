"""How the Claude brain signs in, and what of the environment its program is given.

The program gets exactly what `program_environ` returns. Of the caller's variables these are three, the ones that name
the service and the key; and when there is no key, the two that say where a person's sign-in is kept. Proxy and
certificate variables are not handed on.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kagura_kernel.brain.provider import AuthContext, Turn
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import BrainNotConfigured, CredentialError
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.search_path import entries_outside, is_inside
from kagura_kernel.domain.tools import ToolSpec

if TYPE_CHECKING:
    from kagura_kernel.brain.openai_compatible import Key

SERVER = "kagura"
PREFIX = f"mcp__{SERVER}__"

LIBRARY = "kagura-kernel[claude]"
"""What brings the Claude Agent SDK, which brings the program."""

INSTALL = f"install it with `pip install '{LIBRARY}'`"
"""What is to be done where either is missing."""

# 1 is PR_SET_PDEATHSIG. A parent that died before it was set is seen by the other parent this process then has.
_DIE_WITH_PARENT = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))
if os.getppid() != int(sys.argv[1]):
    sys.exit("the kernel is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""


def find_program(environ: Mapping[str, str], project: Path | None = None) -> Path | None:
    """The program that came with the SDK, else the one on the PATH of `environ`; None when there is neither.

    It runs on the host and thinks for everybody, so it is never taken from the project, where a box's changes end up.

    Args:
        environ: Where PATH is read from.
        project: The project; None is the working directory.
    """
    spec = find_spec("claude_agent_sdk")
    if spec is not None and spec.origin is not None:
        bundled = Path(spec.origin).parent / "_bundled" / "claude"
        if bundled.is_file():
            return bundled
    projects = [os.path.realpath(project)] if project else working_directory()
    path = entries_outside(environ.get("PATH", "").split(":"), projects, os.path.realpath)
    found = shutil.which("claude", path=":".join(path))
    return Path(found) if found and not is_inside(os.path.realpath(found), projects) else None


def program_file(named: Path | None, environ: Mapping[str, str]) -> Path | None:
    """The program that is named, else the one that is found; None where there is no such file.

    Args:
        named: A path that somebody has set.
        environ: Where PATH is read from.
    """
    program = find_program(environ) if named is None else named
    return program if program is not None and program.is_file() else None


def what_is_missing(named: Path | None, environ: Mapping[str, str]) -> str:
    """What of the Claude program and the SDK that talks to it is not there, and how to get it; empty where both are.

    Args:
        named: A path of the program that somebody has set.
        environ: Where PATH is read from.
    """
    if find_spec("claude_agent_sdk") is None:
        return f"the Claude Agent SDK is missing: {INSTALL}"
    return "" if program_file(named, environ) else f"the Claude program is missing: {INSTALL}"


def working_directory() -> list[str]:
    """Where this process stands, without links; nothing where that was removed."""
    # One that was removed is nobody's project any more.
    with contextlib.suppress(OSError):
        return [os.path.realpath(Path.cwd())]
    return []


def with_death_signal(line: Sequence[str]) -> list[str]:
    """The same command line, killed by the system when the thread that starts it is gone.

    The end of its input is not enough: the program goes on while it waits for an answer of the model. The signal is
    asked for by a few lines of Python that then become the program, with the same process id. Only Linux has it;
    elsewhere the program ends when the answer has come.
    """
    if sys.platform != "linux" or not sys.executable:
        return list(line)
    return [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *line]


def tool_names(tools: Sequence[ToolSpec]) -> list[str]:
    """The names under which the model is offered our tools."""
    return [PREFIX + tool.name for tool in tools]


def command_line(program: Path, turn: Turn, system_file: str) -> list[str]:
    """The program and its arguments; the task goes over its standard input, the system prompt in `system_file`.

    The system prompt is not an argument, since other users of the machine can read arguments.
    """
    line = [
        str(program),
        "--print",
        "--verbose",
        "--input-format=stream-json",
        "--output-format=stream-json",
        "--include-partial-messages",
        # It says of each message when it takes it up: of the task, and of what a person says later.
        "--replay-user-messages",
        f"--system-prompt-file={system_file}",
        "--system-prompt-snapshot=off",
        "--tools",
        "",
        "--setting-sources=",
        "--strict-mcp-config",
        "--mcp-config",
        json.dumps({"mcpServers": {SERVER: {"type": "sdk", "name": SERVER}}}),
        "--disable-slash-commands",
        # Whatever is not named here is refused without asking anybody.
        "--permission-mode=dontAsk",
    ]
    line += turn_options(turn)
    if turn.budget_usd is not None:
        line.append(f"--max-budget-usd={turn.budget_usd:.6f}")
    if turn.resume:
        line.append(f"--resume={turn.resume}")
    return line


def turn_options(turn: Turn) -> list[str]:
    """What a turn says wherever the program runs: our tools, the model, and how often it may think."""
    options = ["--allowedTools", ",".join(tool_names(turn.tools))] if turn.tools else []
    if turn.model:
        options.append(f"--model={turn.model}")
    if turn.max_turns is not None:
        options.append(f"--max-turns={turn.max_turns}")
    return options


STOPPED: Mapping[str, Literal["budget", "turns"]] = {"error_max_budget_usd": "budget", "error_max_turns": "turns"}
"""The limits of a turn, by what the program calls an end that came of them."""


def usage_of(figures: Mapping[str, Any]) -> Usage:
    """Tokens as the API counts them, in our count, where input includes the cache."""
    read = int(figures.get("cache_read_input_tokens") or 0)
    written = int(figures.get("cache_creation_input_tokens") or 0)
    fresh = int(figures.get("input_tokens") or 0)
    by_age = figures.get("cache_creation") or {}
    return Usage(
        input_tokens=fresh + read + written,
        output_tokens=int(figures.get("output_tokens") or 0),
        cache_read_tokens=read,
        cache_write_tokens=written,
        cache_write_1h_tokens=int(by_age.get("ephemeral_1h_input_tokens") or 0),
    )


SERVICE_VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL")

SIGN_IN_HINT = "sign in once with `claude`, or set ANTHROPIC_API_KEY before the kernel starts"

# A tool call may wait for a person for as long as it takes: the desk has the deadline, not the program.
_A_DAY = "86400000"

_SIGN_IN = ".credentials.json"
"""Where the program keeps a sign-in, in its folder; we read until when it holds, and nothing else."""

FORGOTTEN = 8 * 86_400  # seconds; longer than any run may take

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
    """The directories of our own that the program is given, all private."""

    root: Path  # Everything below it belongs to the Claude brain

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
        for directory in (self.root.parent, self.root, self.work, self.home, self.cache):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Runs leave something whose kernel was killed.
        sweep(self.cache)


def sweep(folder: Path) -> None:
    """Remove the directories in a folder of ours that no run uses any more, by their time."""
    with os.scandir(folder) as entries:
        for entry in entries:
            # Another run may end just now and remove its own.
            with contextlib.suppress(FileNotFoundError):
                if entry.stat(follow_symlinks=False).st_mtime < time.time() - FORGOTTEN:
                    shutil.rmtree(entry.path, ignore_errors=True)


def has_key(environ: Mapping[str, str]) -> bool:
    """Whether a variable holds a key."""
    return bool(environ.get("ANTHROPIC_API_KEY") or environ.get("ANTHROPIC_AUTH_TOKEN"))


async def signed_environ(brain: str, environ: Mapping[str, str], key: Key | None) -> Mapping[str, str]:
    """The environment with the key that is kept, where a variable holds none.

    Args:
        brain: Whose it is.
        environ: What there is.
        key: Where a key is kept; None for nowhere.

    Raises:
        BrainNotConfigured: the key cannot be read.
    """
    if key is None or has_key(environ):
        return environ
    try:
        return {**environ, "ANTHROPIC_API_KEY": await key.read()}
    except CredentialError as error:
        message = f"The {brain} brain cannot think: {error.message}"
        raise BrainNotConfigured(message) from error


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
    if has_key(given):
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
    if own := environ.get("CLAUDE_CONFIG_DIR"):
        return Path(own)
    return Path(environ["HOME"]) / ".claude" if environ.get("HOME") else None


def _signed_in(environ: Mapping[str, str]) -> bool:
    config = _config(environ)
    if config is None:
        return False
    try:
        if (config / _SIGN_IN).is_file():
            return True
        # On macOS the credentials are in the keychain, and the program's own notes say whose they are.
        notes = (config if environ.get("CLAUDE_CONFIG_DIR") else config.parent) / ".claude.json"
        return sys.platform == "darwin" and "oauthAccount" in json.loads(notes.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False


class ClaudeParts:
    """What a brain that thinks with the Claude program is made of, wherever that runs."""

    def __init__(
        self,
        environ: Mapping[str, str],
        state_dir: Path,
        *,
        key: Key | None = None,
        program: Path | None = None,
        max_retries: int = 4,
        silence: float = 600.0,
    ) -> None:
        """A brain that has started nothing.

        Args:
            environ: Where the key and the base URL are read from; never this process's own unless it is handed in.
            state_dir: A directory of ours, made when needed, where the brain keeps what it needs.
            key: Where a key is kept that is used where the environment has none; None where there is none.
            program: The Claude program; None finds the one that came with the SDK, else the one on the PATH.
            max_retries: How often the program asks an overloaded service again, with growing pauses.
            silence: Seconds without a sign of life, while no tool runs, after which the program counts as lost.
        """
        self._environ = dict(environ)
        self._state_dir = state_dir
        self._key = key
        self._program = program
        self._max_retries = max_retries
        self._silence = silence
