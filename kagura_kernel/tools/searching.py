"""Looking into files: `grep`. The search is a small program of ours that runs where the files are.

Neither grep nor ripgrep is in every box, and their patterns differ; Python is in all of them. The pattern travels as
data and never meets a shell.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files as resources
from typing import Any

from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.tools import ToolResult, ToolSpec
from kagura_kernel.runtime.router import Runtime
from kagura_kernel.tools import schema
from kagura_kernel.tools.bounded import shorten_middle
from kagura_kernel.tools.paths import readable_path
from kagura_kernel.tools.toolbox import CallContext

MOST_MATCHES = 1000
USUAL_MATCHES = 200


class GrepTool:
    """Finds lines by a regular expression."""

    spec = ToolSpec(
        "grep",
        "Search the text files of the workspace for a regular expression (Python's), line by line. Answers "
        "path:line:text, sorted by path. Binary files, links, .git, node_modules, .venv and __pycache__ are left out.",
        schema.arguments(
            "pattern",
            pattern=schema.text("The regular expression."),
            path=schema.text("File or directory to search; the whole workspace when left out."),
            glob=schema.text("Only files whose name (with a /: whose path below `path`) matches, such as *.py."),
            ignore_case=schema.flag("Whether capital and small letters are the same."),
            max=schema.whole(f"Most lines to answer; {USUAL_MATCHES} when left out.", maximum=MOST_MATCHES),
        ),
        read_only=True,
    )

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:  # noqa: ARG002 - a tool's shape
        """Search."""
        path = readable_path(self._runtime.files.root, arguments.get("path", "."))
        order = {
            "root": path,
            "pattern": arguments["pattern"],
            "glob": arguments.get("glob", ""),
            "ignore_case": bool(arguments.get("ignore_case")),
            "max": int(arguments.get("max", USUAL_MATCHES)),
        }
        command = Command(
            ("python3", "-I", "-S", "-c", _program()), stdin=json.dumps(order).encode(), keep_bytes=4 << 20
        )
        result = await self._runtime.run_own(command)
        if not result.ok:
            return ToolResult(f"The search failed: {shorten_middle(result.stderr.text, 2000)}", is_error=True)
        return _answer(result.stdout.data)


def _answer(data: bytes) -> ToolResult:
    try:
        answer = json.loads(data)
        if "error" in answer:
            return ToolResult(f"Not searched: {answer['error']}.", is_error=True)
        lines = [f"{str(path).removeprefix('./')}:{number}:{line}" for path, number, line in answer["matches"]]
        more, looked_at = bool(answer["more"]), int(answer["files"])
    except (ValueError, KeyError, TypeError, AttributeError):
        # What comes out of a box is its word; anything else than the agreed form is no answer.
        return ToolResult("The search gave no readable answer.", is_error=True)
    if not lines:
        return ToolResult(f"Nothing matches in {looked_at} files.")
    if more:
        lines.append("… and more; narrow the search, or raise max")
    return ToolResult(shorten_middle("\n".join(lines)))


@cache
def _program() -> str:
    return resources("kagura_kernel.tools").joinpath("box_grep.py").read_text("utf-8")
