"""What a run was given by its agent: the kit, the toolsets that were started for it, and a staged kit to look into.

Nothing in its words differs between two equal runs. On a card it is one quiet line that opens to everything that was
staged. What went wrong with a toolset is not quiet: it stands below that line, always in sight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Protocol

from kagura_kernel.domain.events import KitStaged, ToolsetEnded, ToolsetStarted
from kagura_kernel.domain.kit import LeftOut, StagedFile, StagedPrompt, StagedSkill
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.visible import printed, visible
from kagura_kernel.render import blocks as ui
from kagura_kernel.render.escape import one_line, shown_path
from kagura_kernel.render.figures import counted, data_size, seconds

USUAL = "default"
"""The agent of a cell that names none."""

SHOWN_SKILLS = 60
SHOWN_FILES = 200
SHOWN_LEFT_OUT = 40
_NAMED = 3
_ABOUT, _REASON, _LISTED = 160, 300, 2000
_LAST_WORDS = 3


class Staged(Protocol):
    """What was staged, wherever that is told: by a run's event, or by a build."""

    @property
    def agent(self) -> str:
        """The agent's name."""
        ...

    @property
    def skills(self) -> tuple[StagedSkill, ...]:
        """By name."""
        ...

    @property
    def prompt_files(self) -> tuple[StagedPrompt, ...]:
        """In the order in which the brain reads them."""
        ...

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of sub-agents."""
        ...

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """What was not staged."""
        ...

    @property
    def omitted(self) -> int:
        """How many more were not staged."""
        ...


@dataclass(slots=True)
class Kitted:
    """The kit and the toolsets of a run."""

    staged: KitStaged | None = None  # what was staged, once that is known
    started: dict[str, ToolsetStarted] = field(default_factory=dict)  # toolsets that answered, by name
    ended: dict[str, ToolsetEnded] = field(default_factory=dict)  # those that are gone before their run, or never came

    def apply(self, event: KitStaged | ToolsetStarted | ToolsetEnded) -> None:
        """Take one event."""
        match event:
            case KitStaged():
                self.staged = event
            case ToolsetStarted():
                self.started[event.toolset] = event
            case ToolsetEnded():
                self.ended[event.toolset] = event

    @property
    def toolsets(self) -> list[str]:
        """Names of all of them, those that answered first."""
        return list(dict.fromkeys([*self.started, *self.ended]))

    def __bool__(self) -> bool:
        """Whether there is anything to say: an agent that was named, something staged or left out, a toolset."""
        staged = self.staged
        if staged is None:
            return bool(self.toolsets)
        return bool(staged.reference or self.toolsets or staged.unresolved or staged.tool_hosts or not empty(staged))


def empty(staged: Staged) -> bool:
    """Whether nothing was staged, nothing is read from the workspace, and nothing was left out."""
    return not (staged.skills or staged.prompt_files or staged.agents or staged.left_out or staged.omitted)


def files_of(skill: StagedSkill) -> Sequence[tuple[str, StagedFile]]:
    """A skill's files, each with its place below the skill."""
    root = f"skills/{skill.name}/"
    return [(one.target.removeprefix(root), one) for one in skill.files]


def redactions(staged: Staged) -> int:
    """How many markers were put in, all in all."""
    in_skills = sum(one.redactions for skill in staged.skills for one in skill.files)
    return in_skills + sum(prompt.redactions for prompt in staged.prompt_files)


def left_out_count(staged: Staged) -> int:
    """How many things were not staged."""
    return len(staged.left_out) + staged.omitted


# ---------------------------------------------------------------- in words


def kit_text(kit: Kitted) -> list[str]:
    """A run's kit and toolsets as lines; none where there is nothing to say.

    Of a skill's files those with redactions are named; `kit show` lists all of them.
    """
    if not kit:
        return []
    staged = kit.staged
    lines = [f"= {summary(kit)}"]
    if staged is not None:
        lines += [f"  {line}" for line in staged_lines(staged, every_file=False)]
        if staged.tool_hosts:
            lines.append(f"  opened for installing toolsets: {', '.join(map(visible, staged.tool_hosts))}")
        lines += [
            f"! toolset {visible(one.toolset)}: where {visible(one.command)} is installed from is not known "
            f"({one_line(one.reason, _REASON)})"
            for one in staged.unresolved
        ]
    lines += [_started(one) for name, one in kit.started.items() if name not in kit.ended]
    for gone in kit.ended.values():
        lines.append(f"! toolset {visible(gone.toolset)}: {one_line(gone.reason, _REASON)}")
        lines += [f"    {one_line(said, _REASON)}" for said in gone.stderr.strip().splitlines()[-_LAST_WORDS:]]
    return lines


def summary(kit: Kitted) -> str:
    """One line: whose kit, and the counts; not yet escaped."""
    staged = kit.staged
    if staged is None:
        return f"toolsets: {', '.join(map(visible, kit.toolsets))}"
    parts = [] if empty(staged) else [counts(staged)]
    if kit.toolsets:
        parts.append(f"{'toolset' if len(kit.toolsets) == 1 else 'toolsets'} {_with_and(kit.toolsets)}")
    return f"{whose(staged)}: {', '.join(parts)}" if parts else whose(staged)


def whose(staged: Staged) -> str:
    """`kit`, or `kit of reviewer`."""
    return "kit" if staged.agent in {"", USUAL} else f"kit of {visible(staged.agent)}"


def counts(staged: Staged) -> str:
    """`2 skills, AGENTS.md, 3 redactions, 1 left out`; empty where there is nothing."""
    # The project may have one of a name, and the home another.
    names = Counter(prompt.name for prompt in staged.prompt_files)
    prompts = [name if many == 1 else f"{many} × {name}" for name, many in names.items()]
    marked, left = redactions(staged), left_out_count(staged)
    parts = [
        counted(len(staged.skills), "skill") if staged.skills else "",
        _with_and(prompts) if len(prompts) <= _NAMED else counted(names.total(), "prompt file"),
        counted(len(staged.agents), "sub-agent") if staged.agents else "",
        counted(marked, "redaction") if marked else "",
        f"{left:,} left out" if left else "",
    ]
    return ", ".join(filter(None, parts))


def staged_lines(staged: Staged, *, every_file: bool) -> list[str]:
    """By skill, then prompt files, sub-agents and what was left out; files with `every_file`, else redacted ones."""
    lines: list[str] = []
    for skill in staged.skills[:SHOWN_SKILLS]:
        where = counted(len(skill.files), "file") if skill.files else "in the workspace"
        lines.append(f"skill {visible(skill.name)} ({where})")
        named = [(place, one) for place, one in files_of(skill) if every_file or one.redactions]
        lines += [f"  {shown_path(place)}{_marked(one.redactions, one.kinds)}" for place, one in named[:SHOWN_FILES]]
        lines += _more(len(named) - SHOWN_FILES, "file", "  ")
    lines += _more(len(staged.skills) - SHOWN_SKILLS, "skill")
    for prompt in staged.prompt_files:
        where = " (in the workspace)" if prompt.place == "workspace" else ""
        lines.append(f"prompt file {shown_path(prompt.name)}{where}{_marked(prompt.redactions, prompt.kinds)}")
    lines += [f"sub-agent {visible(name)}" for name in staged.agents]
    left = staged.left_out
    lines += [f"left out: {_left_name(one)}: {one_line(one.reason, _REASON)}" for one in left[:SHOWN_LEFT_OUT]]
    return lines + _more(len(left) - len(left[:SHOWN_LEFT_OUT]) + staged.omitted, "thing", word="left out")


def built_lines(staged: Staged, *, unchanged: bool) -> list[str]:
    """What became of a build: the counts, then everything by skill; one line where nothing had to be staged."""
    said = counts(staged)
    if not said:
        return [f"{whose(staged)}: nothing has to be staged"]
    how = "as it was" if unchanged else "staged"
    return [f"{whose(staged)} ({how}): {said}", *(f"  {line}" for line in staged_lines(staged, every_file=True))]


def kinds_words(kinds: Sequence[str]) -> str:
    """`password, aws-key and 2 more`."""
    shown = [visible(kind) for kind in kinds[:_NAMED]]
    more = len(kinds) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _marked(count: int, kinds: Sequence[str]) -> str:
    if not count:
        return ""
    about = f": {kinds_words(kinds)}" if kinds else ""
    return f" (redacted{f' {count:,} times' if count > 1 else ''}{about})"


def _started(one: ToolsetStarted) -> str:
    server = f" ({one_line(one.server, 60)})" if one.server else ""
    withheld = f", {len(one.withheld):,} withheld" if one.withheld else ""
    return f"= toolset {visible(one.toolset)}{server}: {counted(len(one.tools), 'tool')}{withheld}"


def _with_and(names: Sequence[str]) -> str:
    found = [visible(name) for name in names]
    return " and ".join(filter(None, (", ".join(found[:-1]), *found[-1:])))


def _more(count: int, noun: str, indent: str = "", word: str = "") -> list[str]:
    return [f"{indent}… and {counted(count, f'more {noun}')}{f' {word}' if word else ''}"] if count > 0 else []


# ---------------------------------------------------------------- on a card


def kit_blocks(kit: Kitted, *, steady: bool) -> ui.Blocks:
    """The line and what it opens; nothing where the agent brought nothing.

    A steady card, which has to come out the same, has neither times nor the run's id.
    """
    if not kit:
        return ()
    staged = kit.staged
    inside: list[ui.Block] = []
    if staged is not None:
        inside += [*_staged(staged), *_names("Opened for installing toolsets", staged.tool_hosts)]
    toolsets = [_toolset(one, gone=name in kit.ended, steady=steady) for name, one in kit.started.items()]
    inside += _rows("Toolsets", toolsets)
    if staged is not None and staged.digest and not steady:
        inside.append(ui.label(ui.Span(f"`%kagura kit show --run {staged.run_id}` opens its files.", "prose")))
    line = summary(kit)
    fold = ui.Fold((ui.soft(line[:1].upper() + line[1:]),), tuple(inside), "kit")
    return (ui.Group((fold, *_troubles(kit)), "kit", "Kit", plain="\n".join(kit_text(kit))),)


def redacted(count: int, kinds: Sequence[str]) -> ui.Words:
    """How often a file was redacted, and of what; nothing where it was not."""
    if not count:
        return ()
    return (ui.chip(counted(count, "redaction"), "warn"), *([ui.soft(kinds_words(kinds))] if kinds else []))


def path(place: str) -> ui.Span:
    """A place in a kit."""
    return ui.code(shown_path(place), "path")


def _staged(staged: Staged) -> Iterable[ui.Block]:
    """Skills with their files, prompt files, sub-agents, and what was left out; each only where there is one."""
    if staged.skills:
        skills = [_skill(one) for one in staged.skills[:SHOWN_SKILLS]]
        yield ui.section("Skills", [*skills, *_left(len(staged.skills) - SHOWN_SKILLS, "skill")])
    prompts = [
        (
            (path(one.name),),
            ("in the workspace" if one.place == "workspace" else "",),
            (ui.figure(data_size(one.size)),),
            redacted(one.redactions, one.kinds),
        )
        for one in staged.prompt_files
    ]
    yield from _rows("Prompt files", prompts)
    yield from _names("Sub-agents", staged.agents)
    left_out = [((_left_path(one),), (one_line(one.reason, _REASON),)) for one in staged.left_out[:SHOWN_LEFT_OUT]]
    yield from _rows("Left out", left_out, left_out_count(staged) - len(left_out), "thing")


def _skill(skill: StagedSkill) -> ui.Block:
    about = [ui.Span(one_line(skill.description, _ABOUT), look="arg")] if skill.description else []
    words: ui.Words = (ui.code(skill.name, "path"), *about)
    if not skill.files:
        return ui.Line((*words, ui.chip("in the workspace")), "skill")
    marked = sum(one.redactions for one in skill.files)
    chips = (ui.chip(counted(len(skill.files), "file")), *redacted(marked, ()))
    rows = [
        ((path(place),), (ui.figure(data_size(one.size)),), redacted(one.redactions, one.kinds))
        for place, one in files_of(skill)[:SHOWN_FILES]
    ]
    inside = (ui.Table(rows, is_wide=True), *_left(len(skill.files) - len(rows), "file"))
    return ui.Fold((*words, *chips), inside, f"kit:{skill.name}", "skill")


def _toolset(one: ToolsetStarted, *, gone: bool, steady: bool) -> Sequence[ui.Cell]:
    tools: list[ui.Inline] = [ui.item(counted(len(one.tools), "tool"), hint=one_line(", ".join(one.tools), _LISTED))]
    if one.withheld:
        tools += [",", ui.item(f"{len(one.withheld):,} withheld", hint=one_line("; ".join(one.withheld), _LISTED))]
    cells: list[ui.Cell] = [
        (ui.strong(one.toolset), *([ui.chip("gone", "bad")] if gone else [])),
        (one_line(one.server, 60),),
        tuple(tools),
        ("through egress" if one.remote else "in the box",),
        (ui.code(one_line(one.command, _ABOUT), "path"),),
    ]
    # What was installed and how long it took is the day's, not the cell's.
    return cells if steady else [*cells, (one_line(one.installed, 80),), (ui.figure(seconds(one.seconds)),)]


def _troubles(kit: Kitted) -> Iterable[ui.Block]:
    for gone in kit.ended.values():
        yield _trouble("Gone", gone.toolset, gone.reason)
        if gone.stderr.strip():
            yield ui.Pre(gone.stderr)
    for one in kit.staged.unresolved if kit.staged is not None else ():
        why = f"Where {one.command} is installed from could not be found out: {one.reason}"
        yield _trouble("Not known", one.toolset, why)


def _trouble(word: str, toolset: str, why: str) -> ui.Line:
    reason = ui.Span(one_line(why, _REASON), "prose")
    return ui.Line((ui.strong(word, "warn"), ui.code(toolset, "where"), ui.soft(reason)), "refused")


def _rows(name: str, rows: Sequence[Sequence[ui.Cell]], left: int = 0, noun: str = "") -> ui.Blocks:
    table = [ui.Table(rows, is_wide=True)] if rows else []
    inside = (*table, *_left(left, noun))
    return (ui.section(name, inside),) if inside else ()


def _names(name: str, values: Sequence[str]) -> ui.Blocks:
    return (ui.section(name, [ui.Line(ui.listed([ui.code(one, "path") for one in values]))]),) if values else ()


def _left(count: int, noun: str) -> ui.Blocks:
    return (ui.label(f"… and {counted(count, f'more {noun}')}."),) if count > 0 else ()


LISTED = 2000
"""Files that a list shows."""

SHOWN = 200_000
"""Characters of a file that a card shows."""

_LINES_NAMED = 20
_LEFT_OUT_REASON = 200
_GROUPS = {"prompt_files": "Prompt files", "agents": "Sub-agents"}


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """One file as it is shown."""

    target: str  # Its place in the kit
    text: str = field(repr=False)  # What is in it; empty for what is no text
    # Where redactions stand in the text: begin and end in characters, and of what kind
    blocks: Sequence[tuple[int, int, str]] = ()
    size: int = 0  # Bytes of the file
    is_text: bool = True  # Whether it is one
    cut: bool = False  # Whether `text` is only its beginning


def kit_head(kit: Staged) -> ui.Group:
    """Whose kit it is, and the counts."""
    name = whose(kit)
    return ui.head(name[:1].upper() + name[1:], ui.soft(counts(kit) or "Nothing is staged"))


def files_block(kit: Staged, files: Sequence[StagedFile], opened: str = "", *, live: bool) -> ui.Group:
    """All files, by skill; a live list has a button for each."""
    shown = sorted(files[:LISTED], key=lambda one: (_folder_of(one), one.target))
    groups = [_folder(name, list(found), opened, live=live) for (_, name), found in groupby(shown, _folder_of)]
    left = len(files) - len(shown)
    more = [ui.label(f"… and {counted(left, 'more file')}.")] if left > 0 else []
    return ui.Group((*groups, *more, *_elsewhere(kit), *_left_out(kit)), "kit-files")


def file_blocks(file: OpenedFile | None) -> ui.Blocks:
    """The file that is open; a hint where none is."""
    if file is None:
        return (ui.Line(("Choose a file. What was redacted stands in it as a block.",), "soft kit-hint"),)
    top = ui.Line((path(file.target), ui.figure(data_size(file.size)), *_redacted(file)), "kit-file-top")
    if not file.is_text:
        return (top, ui.Line(("It is no text, and no picture of it is made here.",), "soft"))
    whole = len(file.text) <= SHOWN and not file.cut
    more = [] if whole else [ui.label("Only its beginning is shown.")]
    return (top, ui.Pre(tuple(_pieces(file)), "staged"), *more)


def file_text(file: OpenedFile) -> str:
    """The same in plain text: markers stand as they are."""
    marked = counted(len(file.blocks), "redaction")
    top = f"{shown_path(file.target)} ({data_size(file.size)}, {marked})"
    if not file.is_text:
        return f"{top}\nIt is no text."
    more = "" if len(file.text) <= SHOWN and not file.cut else "\n… Only its beginning is shown."
    return f"{top}\n{printed(file.text[:SHOWN])}{more}"


def _pieces(file: OpenedFile) -> Iterator[str | ui.Span]:
    """The text, each redaction as a block that says of what kind it is."""
    end = min(len(file.text), SHOWN)
    at = 0
    for begin, stop, kind in file.blocks:
        if stop > end or begin < at:
            break
        yield file.text[at:begin]
        yield ui.Span(file.text[begin:stop], "mark", "redacted", hint=f"Redacted: {kind}")
        at = stop
    yield file.text[at:end]


def _redacted(file: OpenedFile) -> ui.Words:
    chips = redacted(len(file.blocks), tuple(sorted({kind for _, _, kind in file.blocks})))
    lines = list(dict.fromkeys(_lines(file)))
    if not lines:
        return chips
    named = ", ".join(f"{line:,}" for line in lines[:_LINES_NAMED])
    more = " and more" if len(lines) > _LINES_NAMED else ""
    return (*chips, ui.soft(f"in {'line' if len(lines) == 1 else 'lines'} {named}{more}"))


def _lines(file: OpenedFile) -> Iterator[int]:
    """Numbers of the lines of its redactions, as far as it is shown."""
    line, at = 1, 0
    for begin, stop, _ in file.blocks:
        if stop > min(len(file.text), SHOWN):
            break
        line, at = line + file.text.count("\n", at, begin), begin
        yield line


def _folder_of(file: StagedFile) -> tuple[int, str]:
    """Its folder, in order: skills by name first, then prompt files, then sub-agents."""
    first, _, rest = file.target.partition("/")
    name = f"{first}/{rest.partition('/')[0]}" if first == "skills" else first
    return (list(_GROUPS).index(name) + 1 if name in _GROUPS else 0), name


def _folder(name: str, files: Sequence[StagedFile], opened: str, *, live: bool) -> ui.Fold:
    marked = redacted(sum(one.redactions for one in files), ())
    title = ui.Span(shown_path(_GROUPS.get(name) or name.removeprefix("skills/")), "title", "tool")
    rows = [_row(one, one.target.removeprefix(f"{name}/"), opened, live=live) for one in files]
    is_open = live or any(one.target == opened for one in files)
    line = (title, ui.soft(counted(len(files), "file")), *marked)
    return ui.Fold(line, (ui.Bullets(rows),), f"folder:{name}", "kit-folder", is_open=is_open, is_bare=True)


def _row(file: StagedFile, place: str, opened: str, *, live: bool) -> ui.Words:
    name: ui.Inline = path(place)
    if live:
        name = ui.Choice((name,), file.target, is_current=file.target == opened)
    mark = [ui.chip(f"{file.redactions:,} redacted", "warn", ", ".join(file.kinds))] if file.redactions else []
    return (name, ui.figure(data_size(file.size)), *mark)


def _elsewhere(kit: Staged) -> Iterable[ui.Block]:
    """What the box sees in its workspace as it is, and what is therefore no file of the kit."""
    names = [skill.name for skill in kit.skills if not skill.files]
    names += [prompt.name for prompt in kit.prompt_files if prompt.place == "workspace"]
    if names:
        yield ui.label("As it is in the workspace:", *ui.listed([path(name) for name in names]))


def _left_name(one: LeftOut) -> str:
    # What nobody would see in it was written out when it was left out.
    return one_line(one.target, _REASON)


def _left_path(one: LeftOut) -> ui.Span:
    return ui.code(_left_name(one), "path")


def _left_out(kit: Staged) -> Iterable[ui.Block]:
    shown = kit.left_out[:SHOWN_LEFT_OUT]
    rows: list[ui.Words] = [(_left_path(one), ui.soft(one_line(one.reason, _LEFT_OUT_REASON))) for one in shown]
    count = left_out_count(kit)
    rows += [(f"… and {count - len(shown):,} more",)] if count > len(shown) else []
    if rows:
        line = (ui.Span("Left out", "title", "tool"), ui.soft(f"{count:,}"))
        yield ui.Fold(line, (ui.Bullets(rows),), "left-out", "kit-folder", is_bare=True)
