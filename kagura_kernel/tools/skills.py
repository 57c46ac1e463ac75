"""Skills at work: the brain knows names and descriptions, and reads a skill when a task calls for it: `skill`.

A skill's text is shown as it was staged. Nothing in it is expanded, and nothing of it runs unless the brain runs it, in
the box, like any other program.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from kagura_kernel.domain.errors import BoxFileError
from kagura_kernel.domain.kit import StagedSkill
from kagura_kernel.domain.tools import FileSystem, ToolResult, ToolSpec
from kagura_kernel.runtime.router import Runtime
from kagura_kernel.tools import schema
from kagura_kernel.tools.fences import TEXT_LENGTH, shorten_middle
from kagura_kernel.tools.text_file import decode_text, is_binary
from kagura_kernel.tools.toolbox import CallContext

BODY = "SKILL.md"
MOST_FILES = 200
_FARTHEST = 1 << 20


class SkillTool:
    """Reads one skill, or one of its files."""

    def __init__(self, runtime: Runtime, skills: Sequence[StagedSkill]) -> None:
        self._runtime = runtime
        self._skills = {skill.name: skill for skill in skills}

    @property
    def spec(self) -> ToolSpec:
        """Name, description and schema."""
        return ToolSpec(
            "skill",
            "Read a skill before you do what it is for: its instructions, where its directory lies and what is in it; "
            "or one of its files. Its scripts are run with bash, by their full path.",
            schema.arguments(
                "name",
                name=schema.text("The skill, by its name in the list of skills."),
                file=schema.text("A file of it, relative to its directory; its instructions when left out."),
            ),
            read_only=True,
        )

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:  # noqa: ARG002 - a tool's shape
        """Read it."""
        skill = self._skills.get(arguments["name"])
        if skill is None:
            return ToolResult(self._unknown(arguments["name"]), is_error=True)
        wanted = str(arguments.get("file") or BODY)
        text = await _text(self._runtime.files, skill.root, wanted)
        if arguments.get("file"):
            return ToolResult(text)
        files = await _listed(self._runtime.files, skill)
        return ToolResult(f"Directory: {skill.root}\n{files}\n\n{text}")

    def _unknown(self, name: str) -> str:
        near = get_close_matches(name, self._skills, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return f"There is no skill {name!r}.{hint} There are: {', '.join(self._skills)}."


async def _text(files: FileSystem, root: str, wanted: str) -> str:
    path = posixpath.normpath(posixpath.join(root, wanted))
    if not path.startswith(root.rstrip("/") + "/"):
        raise BoxFileError(wanted, "EACCES", "lies outside of the skill's directory")
    data = await files.read(path, limit=_FARTHEST)
    if is_binary(data):
        raise BoxFileError(wanted, "EINVAL", "is a binary file; look at it with bash or python")
    return shorten_middle(decode_text(data).text, TEXT_LENGTH)


async def _listed(files: FileSystem, skill: StagedSkill) -> str:
    """What lies in a skill's directory beside its instructions."""
    if skill.files:
        base = f"skills/{posixpath.basename(skill.root)}/"
        names = [file.target.removeprefix(base) for file in skill.files]
    else:
        # Of the workspace: what is there now.
        found = await files.glob(f"{skill.root}/**/*", limit=MOST_FILES + 1)
        names = [path.removeprefix(f"{skill.root}/") for path in found]
    names = sorted(name for name in names if name != BODY)
    if not names:
        return "It has no other files."
    more = f", and {len(names) - MOST_FILES} more" if len(names) > MOST_FILES else ""
    return f"Files: {', '.join(names[:MOST_FILES])}{more}"
