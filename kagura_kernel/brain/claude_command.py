"""The command line of the Claude program: every built-in tool off, nothing loaded from anybody's configuration."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from kagura_kernel.brain.provider import Turn
from kagura_kernel.domain.search_path import entries_outside, is_inside
from kagura_kernel.domain.tools import ToolSpec

SERVER = "kagura"
PREFIX = f"mcp__{SERVER}__"

INSTALL = "install it with `pip install claude-agent-sdk`, which brings it along"
"""What is to be done where the program is missing."""

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
