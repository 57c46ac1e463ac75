"""The coding agents behind the package kagura-brain, without their own tools.

The package starts `claude` and `codex` with whatever tools and settings they have. So what it finds under these names
is a small program of ours, which starts the real one with every tool of its own off, nobody's settings read, and
nothing but our tools allowed. Of Codex's features, which each version has more of, every one is switched off that is
not known to be harmless.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kagura_kernel.brain.claude_auth import FIXED, PREFIX, SERVER, find_program, resolve, working_directory
from kagura_kernel.brain.openai_compatible import problem_with_url
from kagura_kernel.brain.provider import AuthContext, Turn
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.search_path import entries_outside, is_inside

NAME = "kagura_brain"

FEATURES_SECONDS = 30.0
"""How long Codex may take to list its features."""

_BRIDGE = Path(__file__).with_name("kagura_brain_bridge.py")

# 1 is PR_SET_PDEATHSIG: the agent ends with the launcher, however that ends. Only Linux has it.
_DIE_WITH_PARENT = """\
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))
if os.getppid() != int(sys.argv[1]):
    sys.exit("the kernel is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""

# Of what Codex has switched on, what is no hand: how it sends, keeps and counts.
_HARMLESS = frozenset(
    {
        "content_item_kinds",
        "deferred_tool_world_state",
        "incremental_tools",
        "item_ids",
        "sqlite",
        "steer",
        "untrusted_as_tool_output",
    }
)


@dataclass(frozen=True, slots=True)
class Access:
    """How a program reaches its service."""

    auth: AuthContext  # What to tell a person
    endpoint: str = ""  # The base URL that is used instead of a sign-in; empty for the sign-in
    key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Program:
    """One of the agents."""

    name: str  # As the settings call it: `claude`, `codex`, `ollama`
    file: Path | None  # Where it is; None where it is not installed

    @property
    def backend(self) -> str:
        """As the package calls it: local models are a way of Codex."""
        return "claude" if self.name == "claude" else "codex"


def find(name: str, environ: Mapping[str, str]) -> Program:
    """The program, which is never taken from the project, where a box's changes end up."""
    if name == "claude":
        return Program(name, find_program(environ))
    projects = working_directory()
    found = shutil.which("codex", path=":".join(_path(environ)))
    inside = found is not None and is_inside(os.path.realpath(found), projects)
    return Program(name, None if found is None or inside else Path(found))


def access(program: Program, environ: Mapping[str, str]) -> Access:
    """How it would sign in; looks at variables and for a file."""
    match program.name:
        case "claude":
            found = _claude_access(environ)
        case "codex":
            found = _codex_access(environ)
        case _:
            found = Access(AuthContext(ready=True, method="none needed", reason="Ollama answers on this machine"))
    if found.auth.ready and found.endpoint and (why := problem_with_url(found.endpoint, keyed=True)):
        return Access(AuthContext(ready=False, method=found.auth.method, reason=f"its base URL will not do: {why}"))
    return found


def _claude_access(environ: Mapping[str, str]) -> Access:
    base = environ.get("ANTHROPIC_BASE_URL", "")
    key = environ.get("ANTHROPIC_AUTH_TOKEN") or environ.get("ANTHROPIC_API_KEY") or ""
    if base and key:
        return Access(AuthContext(ready=True, method="api key", reason="ANTHROPIC_BASE_URL names a gateway"), base, key)
    signed = resolve({name: environ[name] for name in ("HOME", "CLAUDE_CONFIG_DIR") if environ.get(name)})
    if signed.ready:
        return Access(signed)
    reason = (
        "it uses a sign-in or a gateway: sign in once with `claude`, or set ANTHROPIC_BASE_URL and "
        "ANTHROPIC_AUTH_TOKEN; with a key of Anthropic's, use `--brain claude`"
    )
    return Access(AuthContext(ready=False, method="", reason=reason))


def _codex_access(environ: Mapping[str, str]) -> Access:
    base, key = environ.get("OPENAI_BASE_URL", ""), environ.get("OPENAI_API_KEY", "")
    if base and key:
        return Access(AuthContext(ready=True, method="api key", reason="OPENAI_BASE_URL names a service"), base, key)
    home = environ.get("HOME", "")
    if home and (Path(home) / ".codex" / "auth.json").is_file():
        return Access(AuthContext(ready=True, method="sign-in", reason="the Codex program is signed in"))
    reason = "sign in once with `codex login`, or set OPENAI_BASE_URL and OPENAI_API_KEY"
    return Access(AuthContext(ready=False, method="", reason=reason))


# ------------------------------------------------------------------ one run's place


@dataclass(frozen=True, slots=True)
class Place:
    """The directory of one run, private and gone with it."""

    root: Path

    @property
    def socket(self) -> Path:
        """Where our tools listen."""
        return self.root / "tools"

    @property
    def servers(self) -> Path:
        """The file that names our MCP server."""
        return self.root / "servers.json"

    @property
    def work(self) -> Path:
        """Where the agent stands: an empty directory."""
        return self.root / "empty"

    @property
    def home(self) -> Path:
        """Its home when it needs nothing of the person's."""
        return self.root / "home"

    @property
    def programs(self) -> Path:
        """What is found first on its path."""
        return self.root / "bin"

    def lay(self, program: Program, turn: Turn, environ: Mapping[str, str], *, max_retries: int) -> None:
        """Write everything that the agent is given.

        Args:
            program: The agent.
            turn: What it is to do.
            environ: The person's variables, of which the place of a sign-in is handed on.
            max_retries: How often it asks an overloaded service again.

        Raises:
            OSError: it cannot be written, or the program cannot be started.
        """
        for directory in (self.work, self.home, self.programs):
            directory.mkdir(mode=0o700)
        server = {"command": sys.executable, "args": ["-I", "-S", str(_BRIDGE), str(self.socket)]}
        self.servers.write_text(json.dumps({"mcpServers": {SERVER: server}}), "utf-8")
        system = self.root / "system.md"
        system.write_text(turn.system, "utf-8")
        flags = _claude_flags(turn, system) if program.backend == "claude" else _codex_flags(program, system, environ)
        variables = {name: value for name, value in FIXED.items() if name.startswith("CLAUDE_")}
        variables["CLAUDE_CODE_MAX_RETRIES"] = str(max_retries)
        if config := environ.get("CLAUDE_CONFIG_DIR"):
            variables["CLAUDE_CONFIG_DIR"] = config
        shim = self.programs / program.backend
        shim.write_text(_shim(str(program.file), flags, variables if program.backend == "claude" else {}), "utf-8")
        shim.chmod(0o700)

    def environ(self, program: Program, found: Access, environ: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of the launcher; of the person's, a sign-in needs the home."""
        plain = {name: value for name, value in FIXED.items() if not name.startswith("CLAUDE_")}
        path = ["/usr/bin", "/bin"] if program.backend == "claude" else _path(environ)
        own = found.endpoint or program.name == "ollama"
        home = str(self.home) if own else environ.get("HOME", str(self.home))
        return {**plain, "PATH": ":".join([str(self.programs), *path]), "HOME": home, "TMPDIR": str(self.root)}


def arguments(program: Program, found: Access, place: Place, turn: Turn) -> dict[str, Any]:
    """What the package is called with."""
    wanted: dict[str, Any] = {
        "backend": program.backend,
        "endpoint": found.endpoint or None,
        "api_key": found.key or None,
        # What begins with a slash would be a command of the agent's.
        "prompt": f"The task:\n\n{turn.prompt}",
        "cwd": str(place.work),
        # A run has its own end; the package's would come in the middle of somebody's thinking about an approval.
        "timeout": 7 * 86_400,
        "mcp_config": str(place.servers),
        "model": turn.model or None,
    }
    if program.backend == "claude":
        wanted["allowed_tools"] = [PREFIX + spec.name for spec in turn.tools]
    if program.name == "ollama":
        wanted["local_provider"] = "ollama"
    return wanted


def _claude_flags(turn: Turn, system: Path) -> list[str]:
    flags = ["--output-format=json", f"--system-prompt-file={system}", "--system-prompt-snapshot=off"]
    # The last word on tools and settings is ours, whatever stands before.
    flags += ["--tools", "", "--setting-sources=", "--strict-mcp-config", "--disable-slash-commands"]
    flags += ["--permission-mode=dontAsk", "--no-session-persistence"]
    if turn.max_turns is not None:
        flags.append(f"--max-turns={turn.max_turns}")
    if turn.budget_usd is not None:
        flags.append(f"--max-budget-usd={turn.budget_usd:.6f}")
    return flags


def _codex_flags(program: Program, system: Path, environ: Mapping[str, str]) -> list[str]:
    flags = ["--json", "--skip-git-repo-check", "--ephemeral", "--ignore-user-config", "--ignore-rules"]
    flags += ["--sandbox", "read-only"]
    for feature in _features(program, environ):
        flags += ["--disable", feature]
    settings = {
        "web_search": "disabled",
        "approval_policy": "never",
        "model_instructions_file": str(system),
        # The person's own notes and skills, and what the agent would tell of a place where our tools do not act.
        "project_doc_max_bytes": 0,
        "skills.include_instructions": False,
        "include_environment_context": False,
        "include_permissions_instructions": False,
        f"mcp_servers.{SERVER}.default_tools_approval_mode": "approve",
    }
    for name, value in settings.items():
        flags += ["-c", f"{name}={json.dumps(value)}"]
    return [*flags, "-c", f"mcp_servers.{SERVER}.tool_timeout_sec=86400"]


def _features(program: Program, environ: Mapping[str, str]) -> list[str]:
    """What this Codex has switched on and is not known to be harmless."""
    try:
        answer = subprocess.run(  # noqa: S603 - the program that is about to be started anyway
            [str(program.file), "features", "list"],
            env={"PATH": ":".join(_path(environ)), "HOME": environ.get("HOME", "/nonexistent")},
            capture_output=True,
            text=True,
            check=True,
            timeout=FEATURES_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.SubprocessError as error:
        message = "it does not list its features, so that its own tools cannot be switched off"
        raise OSError(0, message) from error
    rows = [line.split() for line in answer.stdout.splitlines() if line.strip()]
    return [row[0] for row in rows if row[-1] == "true" and "removed" not in row and row[0] not in _HARMLESS]


def _shim(program: str, flags: Sequence[str], variables: Mapping[str, str]) -> str:
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
    line = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT]
    return f'#!/bin/sh\n{exports}exec {shlex.join(line)} "$PPID" {shlex.quote(program)} "$@" {shlex.join(flags)}\n'


def _path(environ: Mapping[str, str]) -> list[str]:
    return entries_outside(environ.get("PATH", "").split(":"), working_directory(), os.path.realpath)
