"""Commands about agents and their kits, for every surface."""

from __future__ import annotations

from kagura_kernel.cockpit.terminal_commands import JSON
from kagura_kernel.domain.grammar import BOTH, TERMINAL, Argument, Command, Kind, Option

_AGENT = Argument(
    "agent",
    Kind.AGENT,
    "whose: a definition’s file, a name, an `https://` address, or `oci://HOST/NAME@sha256:DIGEST`; the settings’ own "
    "when none is named",
    required=False,
)
_PROJECT = Option(
    ("--project",), "in which project", Kind.DIRECTORY, otherwise="the working directory", surfaces=TERMINAL
)

KIT_COMMANDS = (
    Command(
        "kit agents",
        "the agents that have a name: yours, and those that come with the package",
        BOTH,
        options=(JSON,),
        examples=("kit agents",),
    ),
    Command(
        "kit plan",
        "what a run of an agent would be given, why, and from where; nothing is staged",
        BOTH,
        (_AGENT,),
        (_PROJECT, JSON),
        ("kit plan", "kit plan ./reviewer.yaml"),
        detail="Skills, prompt files, sub-agents, what would be left out, what it asks for, and the hosts that its "
        "toolsets are installed from. In a terminal the exit code is 1 when something stands against this kit.",
    ),
    Command(
        "kit build",
        "stage an agent’s kit, as its next run would",
        BOTH,
        (_AGENT,),
        (_PROJECT, JSON),
        ("kit build", "kit build ./reviewer.yaml"),
        detail="Copies what the plan says into a directory of its own, without secrets. A kit that is as it would be "
        "is left alone.",
    ),
    Command(
        "kit show",
        "what is staged for an agent, file by file, with what was redacted",
        BOTH,
        (_AGENT,),
        (
            Option(("--run",), "what this run was given: its id, the end of it, or `last`", Kind.RUN),
            Option(("--file",), "open this file of the kit", Kind.KIT_FILE),
            _PROJECT,
            JSON,
        ),
        ("kit show", "kit show --run last", "kit show default --file skills/csv-tools/SKILL.md"),
        detail="Stages the kit first when it is not as it would be now. In a notebook a click opens a file; what was "
        "redacted stands there as a block.",
    ),
    Command(
        "kit redact",
        "show a file without its secrets, as a kit would hold it",
        BOTH,
        (Argument("file", Kind.FILE, "which; in a terminal `-` is its input"),),
        (JSON,),
        ("kit redact notes.md",),
        detail="Writes nothing but what it prints. In a terminal --json gives "
        "{findings: [{kind, line, start, end}], encoding, left_out}, never what was found.",
    ),
)
