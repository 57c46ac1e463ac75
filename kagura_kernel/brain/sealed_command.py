"""The command line and the environment of the Claude program in a box: its own tools on, and no key."""

from __future__ import annotations

import json
from collections.abc import Mapping

from kagura_kernel.brain.claude_auth import FIXED, SERVER, turn_options
from kagura_kernel.brain.in_box import InsideBox
from kagura_kernel.brain.provider import Turn
from kagura_kernel.domain.policy import PROGRAM_DIR

OWN_TOOLS = ("Bash", "Edit", "Glob", "Grep", "NotebookEdit", "Read", "Task", "TodoWrite", "Write")
"""What the program has of its own. What fetches pages, schedules or talks to other sessions is left out: it would lead
past the box's proxy, or nowhere."""

PLACEHOLDER = "added-by-the-membrane"
"""What stands in the box where the program insists on a key."""

_KEY_VARIABLES = {"x-api-key": "ANTHROPIC_API_KEY", "authorization": "ANTHROPIC_AUTH_TOKEN"}

# The box has its own.
_NOT_INSIDE = frozenset({"PATH", "LANG", "TERM"})

# A connection to an unknown host waits for a person, and the command that made it has to wait as long.
_LONGEST_COMMAND = "900000"

ABOUT_THE_PLACE = (
    "\n- You run inside the sandbox yourself: Bash, Read, Edit, Write and your other own tools act there, freely and "
    "without asking. Tools whose names begin with `mcp__kagura__` cross its wall or are kept outside of it: use "
    "`mcp__kagura__bash` only with host=true or with a leased credential, and Bash for all else."
)


def command_line(turn: Turn) -> list[str]:
    """The program and its arguments; `{system}` in one of them becomes the path of the system prompt.

    It is told of a limit of rounds, and not of a budget: what it says of its costs is the box's word, and the budget is
    kept outside.
    """
    return [
        f"{PROGRAM_DIR}/claude",
        "--print",
        "--verbose",
        "--input-format=stream-json",
        "--output-format=stream-json",
        "--include-partial-messages",
        "--replay-user-messages",
        "--append-system-prompt-file={system}",
        "--tools",
        ",".join(OWN_TOOLS),
        # Settings of the project could name hooks and servers that nobody has looked at. They could do no more than
        # the project's own code, and still nothing should run that was not asked for.
        "--setting-sources=",
        "--strict-mcp-config",
        "--mcp-config",
        json.dumps({"mcpServers": {SERVER: {"type": "sdk", "name": SERVER}}}),
        "--disable-slash-commands",
        "--no-session-persistence",
        # The wall is around the program, and not in it.
        "--permission-mode=bypassPermissions",
        *turn_options(turn),
    ]


def box_environ(inside: InsideBox, header: str, *, max_retries: int) -> dict[str, str]:
    """What the program finds in its environment beside the box's own; nothing in it is secret.

    Args:
        inside: The box.
        header: The header in which the membrane adds the key: the program must want the same one.
        max_retries: How often it asks an overloaded service again.
    """
    fixed: Mapping[str, str] = {name: value for name, value in FIXED.items() if name not in _NOT_INSIDE}
    return {
        **inside.environment,
        **fixed,
        "ANTHROPIC_BASE_URL": inside.api,
        _KEY_VARIABLES[header]: PLACEHOLDER,
        "CLAUDE_CODE_MAX_RETRIES": str(max_retries),
        "BASH_DEFAULT_TIMEOUT_MS": _LONGEST_COMMAND,
        "BASH_MAX_TIMEOUT_MS": _LONGEST_COMMAND,
        # What it writes beside the workspace is gone with the box.
        **({"IS_SANDBOX": "1"} if inside.root else {}),
    }
