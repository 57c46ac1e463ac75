"""A kit told as values and events, for tests of whatever shows one."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kagura_kernel.domain.events import KitStaged, ToolsetEnded, ToolsetStarted
from kagura_kernel.domain.kit import (
    KIT_DIR,
    LeftOut,
    StagedFile,
    StagedPrompt,
    StagedSkill,
    UnresolvedTool,
    marker,
)
from kagura_kernel.views.kit import OpenedFile

SKILL = "skills/csv-tools"

FILES = (
    StagedFile("prompt_files/CLAUDE.md", 412, 1, ("password",)),
    StagedFile(f"{SKILL}/SKILL.md", 1_204),
    StagedFile(f"{SKILL}/references/keys.md", 2_310, 3, ("aws-access-key", "github", "uri-password")),
    StagedFile(f"{SKILL}/scripts/clean.py", 812),
)

SKILLS = (
    StagedSkill(
        "csv-tools",
        "Reads, cleans and joins CSV files",
        f"{KIT_DIR}/{SKILL}",
        tuple(one for one in FILES if one.target.startswith(SKILL)),
    ),
    StagedSkill("house-style", "How charts of this project look", "/workspace/.agents/skills/house-style"),
)

PROMPTS = (
    StagedPrompt("AGENTS.md", "workspace", "/workspace/AGENTS.md", 940),
    StagedPrompt("CLAUDE.md", "kit", f"{KIT_DIR}/prompt_files/CLAUDE.md", 412, 1, ("password",)),
)

LEFT_OUT = (
    LeftOut(f"{SKILL}/dump.fifo", "it is no file but a pipe"),
    LeftOut(f"{SKILL}/export.zip", "it is an archive, whose content is not looked through"),
)

_TEXT = f"""\
# Where the keys are

The staging database: postgres://app:{marker("uri-password")}@db.example.org/app
It is read with AWS_ACCESS_KEY_ID={marker("aws-access-key")}.

Clone with https://{marker("github")}@github.com/example/data.git
"""


def opened() -> OpenedFile:
    """A file with three redactions, as it is shown."""
    from kagura_kernel.domain.kit import MARKER

    blocks = tuple((found.start(), found.end(), found["kind"]) for found in MARKER.finditer(_TEXT))
    return OpenedFile(f"{SKILL}/references/keys.md", _TEXT, blocks, len(_TEXT))


class SampleKit:
    """Facts about the kit of one run; each method gives a fresh event, with what the test wants to be different.

    Args:
        run_id: The run's id.
        session_id: Its session.
        at: The time of all its events.
    """

    def __init__(
        self, run_id: str = "run-1", session_id: str = "ses-1", at: datetime = datetime(2026, 1, 1, 12, tzinfo=UTC)
    ) -> None:
        self._base: dict[str, Any] = {"run_id": run_id, "session_id": session_id, "at": at}

    def staged(self, **changes: Any) -> KitStaged:
        facts: dict[str, Any] = {
            "agent": "data-analyst",
            "reference": "./analyst.yaml",
            "definition": "d" * 64,
            "digest": "e" * 64,
            "seconds": 0.21,
            "skills": SKILLS,
            "prompt_files": PROMPTS,
            "agents": ("reviewer",),
            "left_out": LEFT_OUT,
            "tool_hosts": ("files.example.org", "index.example.org"),
        }
        return KitStaged(**self._base | facts | changes)

    def nothing(self) -> KitStaged:
        """The usual agent, and nothing to stage."""
        return KitStaged(**self._base, agent="default", definition="d" * 64)

    def started(self, **changes: Any) -> ToolsetStarted:
        facts: dict[str, Any] = {
            "toolset": "time",
            "server": "mcp-time 2026.10.19",
            "command": "mcp-server-time --local-timezone Europe/Vienna",
            "tools": ("time_get_current_time", "time_convert_time"),
            "seconds": 2.4,
            "installed": "mcp-server-time 2026.10.19",
        }
        return ToolsetStarted(**self._base | facts | changes)

    def ended(self, **changes: Any) -> ToolsetEnded:
        """A toolset is gone."""
        facts: dict[str, Any] = {
            "toolset": "docs",
            "reason": "It sent 1,400 messages within a second, and was cut off.",
            "stderr": "docs-server: listening on stdio\n",
        }
        return ToolsetEnded(**self._base | facts | changes)

    @staticmethod
    def unresolved() -> UnresolvedTool:
        """A toolset whose hosts are not known."""
        return UnresolvedTool("lint", "lint-server", "", "no registry knows this command")


SECRET = "v3ry-S3cret-Pw9"  # of nothing
"""What stands as a password in the files of `lay_out`, and in no kit that is made of them."""

ANALYST = """\
name: data-analyst
description: Looks at tables
system_prompt: You are careful.
add_prompt_files: [AGENTS.md, CLAUDE.md]
skills: true
agents: {checker: {name: checker, description: Reads it again}}
grants: {net: [python-packages]}
budget: {usd: 0.5}
"""


def lay_out(base: Path) -> tuple[Path, Path]:
    """A person's home with a skill that holds a secret and a pipe, and a project with an agent of its own.

    Args:
        base: An empty directory.

    Returns:
        The home and the project.
    """
    home, project = base / "home", base / "home" / "sales"
    skill = home / ".agents" / "skills" / "csv-tools"
    own = project / ".agents" / "skills" / "house-style"
    for folder in (skill / "references", skill / "scripts", own):
        folder.mkdir(parents=True)
    (skill / "SKILL.md").write_text(
        "---\nname: csv-tools\ndescription: Reads, cleans and joins CSV files\n---\n# CSV tools\n\n"
        "`scripts/clean.py FILE` cleans one. Where the data is stands in `references/keys.md`.\n"
    )
    (skill / "references" / "keys.md").write_text(
        f"# Where the data is\n\nStaging is postgres://app:{SECRET}@db.example.org/app and read-only.\n"
    )
    (skill / "scripts" / "clean.py").write_text('print("cleaned")\n')
    os.mkfifo(skill / "pipe")
    (own / "SKILL.md").write_text("---\nname: house-style\ndescription: How our charts look\n---\nBlue.\n")
    (project / "AGENTS.md").write_text("Be brief.\n")
    (home / "CLAUDE.md").write_text("Speak plainly.\n")
    (project / "analyst.yaml").write_text(ANALYST)
    return home, project
