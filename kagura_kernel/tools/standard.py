"""The tools that every run has, and those by which a brain says what it is going to do, and asks to do it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

from kagura_kernel.domain.approvals import LIMIT, ApprovalKind, Verdict
from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.errors import ApprovalRequired
from kagura_kernel.domain.images import MAX_BYTES, NoImageError, read_image, starts_as_image
from kagura_kernel.domain.tools import FileStat, FileSystem, ShowImage, ToolResult, ToolSpec, failed
from kagura_kernel.runtime.router import Asker, Runtime
from kagura_kernel.tools import schema
from kagura_kernel.tools.fences import TEXT_LENGTH, shorten_middle
from kagura_kernel.tools.shell import BashTool, BoxPrograms, CommandLeases, PythonTool, ToolTimes
from kagura_kernel.tools.text_file import EditFileTool, FileTool, WriteFileTool, decode_text, is_binary, readable_path
from kagura_kernel.tools.toolbox import CallContext, Tool, Toolbox

MOST_MATCHES = 1000
USUAL_MATCHES = 200


class GrepTool(FileTool):
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
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
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


MOST_LINES = 2000
MOST_ENTRIES = 500
LONGEST_LINE = 2000
_CHUNK = 1 << 20
_FARTHEST = 64 << 20


class ReadFileTool(FileTool):
    """Shows a part of a text file with line numbers, or an image to a model that takes images.

    Args:
        runtime: Whose files are read.
        show: Shows an image to the model; None for one that takes none.
    """

    def __init__(self, runtime: Runtime, show: ShowImage | None = None) -> None:
        super().__init__(runtime)
        self._show = show
        images = "PNG, JPEG, GIF and WebP are shown to you as images, other binary files" if show else "Binary files"
        self.spec = ToolSpec(
            "read_file",
            "Read a text file of the workspace, with line numbers as `cat -n` prints them (they and the tab are not "
            f"part of the file). At most {MOST_LINES} lines at once; offset and limit choose others. {images} are "
            "refused.",
            schema.arguments(
                "path",
                path=schema.text("Path in the workspace."),
                offset=schema.whole("First line to show; 1 when left out."),
                limit=schema.whole(f"How many lines; {MOST_LINES} when left out.", maximum=MOST_LINES),
            ),
            read_only=True,
        )

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        """Read, number and bound the lines."""
        files = self._runtime.files
        path = readable_path(files.root, arguments["path"])
        first = int(arguments.get("offset", 1))
        wanted = int(arguments.get("limit", MOST_LINES))
        data, complete = await _read_lines(files, path, first + wanted)
        if self._show is not None and starts_as_image(data):
            return await self._look(path, arguments["path"], context.call_id, self._show)
        if is_binary(data):
            return ToolResult(f"{arguments['path']} is a binary file; look at it with bash or python.", is_error=True)
        if not data:
            return ToolResult("(the file is empty)")
        lines = decode_text(data).lines
        if first > len(lines):
            return ToolResult(f"The file has {len(lines)} lines; there is no line {first}.", is_error=True)
        return ToolResult(_numbered(lines, first, wanted, complete=complete))

    async def _look(self, path: str, name: str, call_id: str, show: ShowImage) -> ToolResult:
        try:
            data = await self._runtime.files.read(path, limit=MAX_BYTES + 1)
            image = await show(call_id, read_image(data, name))
        except NoImageError as why:
            return ToolResult(f"{name} is an image that is not shown to you: {why}.", is_error=True)
        return ToolResult(f"{name}: {image.mime}, {image.width} × {image.height}.", images=(image,))


class ListFilesTool(FileTool):
    """Lists one directory."""

    spec = ToolSpec(
        "list_files",
        f"List one directory of the workspace by name, at most {MOST_ENTRIES} entries: directories end in /, links "
        "show where they point, files their size in bytes. Use glob to search deeper.",
        schema.arguments(path=schema.text("Directory in the workspace; its top when left out.")),
        read_only=True,
    )

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:  # noqa: ARG002 - a tool's shape
        """List it."""
        files = self._runtime.files
        entries = await files.list_dir(readable_path(files.root, arguments.get("path", ".")))
        lines = [_entry(entry) for entry in entries[:MOST_ENTRIES]]
        if len(entries) > MOST_ENTRIES:
            lines.append(f"… and {len(entries) - MOST_ENTRIES} more")
        return ToolResult("\n".join(lines) or "(the directory is empty)")


class GlobTool(FileTool):
    """Finds files by name."""

    spec = ToolSpec(
        "glob",
        f"Find paths in the workspace by pattern, sorted, at most {MOST_ENTRIES}: * and ? stay within one directory, "
        "** crosses them, so **/*.py finds every Python file. Links are not followed.",
        schema.arguments(
            "pattern",
            pattern=schema.text("The pattern, with /."),
            path=schema.text("Directory to look below; the top of the workspace when left out."),
        ),
        read_only=True,
    )

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:  # noqa: ARG002 - a tool's shape
        """Find them."""
        files = self._runtime.files
        below = readable_path(files.root, arguments.get("path", "."))
        pattern = arguments["pattern"] if below == "." else f"{below}/{arguments['pattern']}"
        found = await files.glob(pattern, limit=MOST_ENTRIES + 1)
        if len(found) > MOST_ENTRIES:
            found = [*found[:MOST_ENTRIES], "… and more; narrow the pattern"]
        return ToolResult("\n".join(found) or "Nothing matches.")


async def _read_lines(files: FileSystem, path: str, lines: int) -> tuple[bytes, bool]:
    """The beginning of a file, at least `lines` lines of it, and whether that is all there is."""
    parts: list[bytes] = []
    size = seen = 0
    while seen < lines and size < _FARTHEST:
        part = await files.read(path, offset=size, limit=_CHUNK)
        parts.append(part)
        size += len(part)
        seen += part.count(b"\n")
        if len(part) < _CHUNK:
            return b"".join(parts), True
        if len(parts) == 1 and is_binary(part):
            break
    return b"".join(parts), False


def _numbered(lines: list[str], first: int, wanted: int, *, complete: bool) -> str:
    page: list[str] = []
    room = TEXT_LENGTH
    for number, line in enumerate(lines[first - 1 : first - 1 + wanted], first):
        shown = line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}… ({len(line)} characters)"
        numbered = f"{number:6d}\t{shown}"
        if page and len(numbered) > room:
            break
        page.append(numbered)
        room -= len(numbered) + 1
    last = first - 1 + len(page)
    if last < len(lines) or not complete:
        total = f"{len(lines)} lines" if complete else "more lines"
        page.append(f"… up to line {last} of {total}; go on with offset={last + 1}")
    return "\n".join(page)


def _entry(entry: FileStat) -> str:
    name = entry.path.rsplit("/", 1)[-1]
    match entry.kind:
        case "directory":
            return f"{name}/"
        case "link":
            return f"{name} -> {entry.target}"
        case "file":
            return f"{name}  {entry.size}"
        case _:
            return f"{name}  (special file)"


class AskUserTool:
    """Puts a question to the person at the notebook; the answer grants nothing."""

    spec = ToolSpec(
        "ask_user",
        "Ask the person a question and wait for the answer. Use it when the task cannot go on without a decision that "
        "is theirs. The answer is information; it never allows a host command by itself.",
        schema.arguments(
            "question",
            question=schema.text("The question, complete in itself."),
            options=schema.texts("Answers to choose from; leave out for a free answer."),
        ),
    )

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        """Ask, and hand back the answer."""
        options = tuple(arguments.get("options", ()))
        try:
            decision = await self._asker.ask(
                ApprovalKind.QUESTION,
                "A question",
                arguments["question"],
                arguments={"question": arguments["question"], "options": list(options)},
                call_id=context.call_id,
                options=options,
            )
        except ApprovalRequired:
            return failed("Nobody can answer questions here: decide yourself, or say what you would need to know.")
        if decision.verdict is Verdict.TIMEOUT:
            return failed("Nobody answered in time: decide yourself, or say what you would need to know.")
        if decision.by == LIMIT:
            return failed(f"The person was not asked: {decision.answer}.")
        if not decision.allowed:
            remark = f": {decision.answer}" if decision.answer else "."
            nobody = decision.by == "policy"
            who = "Nobody can answer questions here" if nobody else "The person does not want to answer"
            return failed(who + remark)
        return ToolResult(decision.answer, route="")


def standard_toolbox(
    runtime: Runtime,
    *,
    times: ToolTimes | None = None,
    leases: CommandLeases | None = None,
    programs: BoxPrograms | None = None,
    spill_dir: Path | None = None,
    show: ShowImage | None = None,
) -> Toolbox:
    """The tools that work with this runtime; without a box, and without full control, only those that ask."""
    ask = AskUserTool(runtime.asker)
    if not runtime.has_files:
        return Toolbox([BashTool(runtime, times), ask], spill_dir=spill_dir)
    own = (WriteFileTool, EditFileTool, ListFilesTool, GlobTool, GrepTool)
    given = runtime, times, leases, programs
    read = ReadFileTool(runtime, show)
    tools: list[Tool] = [BashTool(*given), PythonTool(*given), read, *(make(runtime) for make in own), ask]
    return Toolbox(tools, spill_dir=spill_dir)


MOST_STEPS = 50
LONGEST_STEP = 300
"""Characters."""


class PlanTool:
    """Keeps a run's plan.

    Args:
        keep: Takes the plan, and how many of its steps are done.
    """

    spec = ToolSpec(
        "plan",
        "Say in which steps you will do a task of several steps, before you begin, and again whenever a step is done "
        "or the plan has changed. It is kept, so that the work can be taken up from there if it is interrupted.",
        schema.arguments(
            "steps",
            steps=schema.texts(f"All steps in their order, the finished ones too; at most {MOST_STEPS}, a line each."),
            done=schema.whole("How many of them, from the first on, are finished.", minimum=0),
        ),
    )

    def __init__(self, keep: Callable[[Sequence[str], int], Awaitable[None]]) -> None:
        self._keep = keep

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:  # noqa: ARG002 - a tool's shape
        """Keep it."""
        steps = [" ".join(step.split())[:LONGEST_STEP] for step in arguments["steps"] if step.strip()][:MOST_STEPS]
        done = min(int(arguments.get("done", 0)), len(steps))
        await self._keep(steps, done)
        return ToolResult(f"Kept: {len(steps)} steps, {done} of them done.", route="")


YES, NO = "Carry it out", "Keep planning"


class CarryOutTool:
    """`carry_out`: shows a person the plan, and leaves planning behind when they say so.

    Args:
        asker: Puts the question.
        leave: Told who said yes, and to which plan.
    """

    spec = ToolSpec(
        "carry_out",
        "Show the person your plan when it is whole, and ask to carry it out. Until they say so nothing that you do "
        "leaves the sandbox. They may answer with what to change in it.",
        schema.arguments("plan", plan=schema.text("The whole plan, in Markdown: what you will change, and how.")),
    )

    def __init__(self, asker: Asker, leave: Callable[[str, str], None]) -> None:
        self._asker = asker
        self._leave = leave

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        """Ask, and hand back what they say."""
        plan = arguments["plan"]
        try:
            decision = await self._asker.ask(
                ApprovalKind.QUESTION,
                "A plan: shall it be carried out?",
                plan,
                arguments={"question": plan, "options": [YES, NO]},
                call_id=context.call_id,
                options=(YES, NO),
            )
        except ApprovalRequired:
            return failed("Nobody can be asked here: hand the plan back as your answer.")
        if decision.allowed and decision.answer == YES:
            self._leave(decision.by, plan)
            return ToolResult("Carry the plan out now; what you change counts from here on.", route="")
        said = f" They say: {decision.answer}" if decision.answer not in ("", NO) else ""
        return ToolResult(f"Not yet: go on planning, or hand the plan back as your answer.{said}", route="")
