"""What a run was given by its agent, folded from its events: the kit, and the toolsets that were started for it.

Nothing in its words differs between two equal runs. On a card it is one quiet line that opens to everything that was
staged. What went wrong with a toolset is not quiet: it stands below that line, always in sight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kagura_kernel.domain.events import KitStaged, ToolsetEnded, ToolsetStarted
from kagura_kernel.domain.kit import LeftOut, StagedFile, StagedPrompt, StagedSkill
from kagura_kernel.domain.visible import visible
from kagura_kernel.render.blocks import (
    Block,
    Blocks,
    Cell,
    Fold,
    Group,
    Inline,
    Line,
    Pre,
    Span,
    Table,
    Words,
    chip,
    code,
    figure,
    item,
    label,
    listed,
    section,
    soft,
    strong,
)
from kagura_kernel.render.escape import one_line, shown_path
from kagura_kernel.render.figures import counted, data_size, seconds

USUAL = "default"
"""The agent of a cell that names none."""

SHOWN_SKILLS = 60
SHOWN_FILES = 200
SHOWN_LEFT_OUT = 40
_NAMED = 3
_ABOUT, _REASON, _LISTED = 160, 300, 2000


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
    lines += [f"! toolset {visible(one.toolset)}: {one_line(one.reason, _REASON)}" for one in kit.ended.values()]
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
    """By skill, then prompt files, sub-agents and what was left out; redacted files are marked.

    Args:
        staged: What was staged.
        every_file: Whether files without redactions are named too.
    """
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
    lines += [f"left out: {shown_path(one.target)}: {one_line(one.reason, _REASON)}" for one in left[:SHOWN_LEFT_OUT]]
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


def kit_blocks(kit: Kitted, *, steady: bool) -> Blocks:
    """The line and what it opens; nothing where the agent brought nothing.

    Args:
        kit: What is known.
        steady: For a card that has to come out the same: neither times nor the run's id.
    """
    if not kit:
        return ()
    staged = kit.staged
    inside: list[Block] = []
    if staged is not None:
        inside += [*_staged(staged), *_names("Opened for installing toolsets", staged.tool_hosts)]
    toolsets = [_toolset(one, gone=name in kit.ended, steady=steady) for name, one in kit.started.items()]
    inside += _rows("Toolsets", toolsets)
    if staged is not None and staged.digest and not steady:
        inside.append(label(Span(f"`%kagura kit show --run {staged.run_id}` opens its files.", "prose")))
    line = summary(kit)
    fold = Fold((soft(line[:1].upper() + line[1:]),), tuple(inside), "kit")
    return (Group((fold, *_troubles(kit)), "kit", "Kit", plain="\n".join(kit_text(kit))),)


def redacted(count: int, kinds: Sequence[str]) -> Words:
    """How often a file was redacted, and of what; nothing where it was not."""
    if not count:
        return ()
    return (chip(counted(count, "redaction"), "warn"), *([soft(kinds_words(kinds))] if kinds else []))


def path(place: str) -> Span:
    """A place in a kit."""
    return code(shown_path(place), "path")


def _staged(staged: Staged) -> Iterable[Block]:
    """Skills with their files, prompt files, sub-agents, and what was left out; each only where there is one."""
    if staged.skills:
        skills = [_skill(one) for one in staged.skills[:SHOWN_SKILLS]]
        yield section("Skills", [*skills, *_left(len(staged.skills) - SHOWN_SKILLS, "skill")])
    prompts = [
        (
            (path(one.name),),
            ("in the workspace" if one.place == "workspace" else "",),
            (figure(data_size(one.size)),),
            redacted(one.redactions, one.kinds),
        )
        for one in staged.prompt_files
    ]
    yield from _rows("Prompt files", prompts)
    yield from _names("Sub-agents", staged.agents)
    left_out = [((path(one.target),), (one_line(one.reason, _REASON),)) for one in staged.left_out[:SHOWN_LEFT_OUT]]
    yield from _rows("Left out", left_out, left_out_count(staged) - len(left_out), "thing")


def _skill(skill: StagedSkill) -> Block:
    about = [Span(one_line(skill.description, _ABOUT), look="arg")] if skill.description else []
    words: Words = (code(skill.name, "path"), *about)
    if not skill.files:
        return Line((*words, chip("in the workspace")), "skill")
    marked = sum(one.redactions for one in skill.files)
    chips = (chip(counted(len(skill.files), "file")), *redacted(marked, ()))
    rows = [
        ((path(place),), (figure(data_size(one.size)),), redacted(one.redactions, one.kinds))
        for place, one in files_of(skill)[:SHOWN_FILES]
    ]
    inside = (Table(rows, is_wide=True), *_left(len(skill.files) - len(rows), "file"))
    return Fold((*words, *chips), inside, f"kit:{skill.name}", "skill")


def _toolset(one: ToolsetStarted, *, gone: bool, steady: bool) -> Sequence[Cell]:
    tools: list[Inline] = [item(counted(len(one.tools), "tool"), hint=one_line(", ".join(one.tools), _LISTED))]
    if one.withheld:
        tools += [",", item(f"{len(one.withheld):,} withheld", hint=one_line("; ".join(one.withheld), _LISTED))]
    cells: list[Cell] = [
        (strong(one.toolset), *([chip("gone", "bad")] if gone else [])),
        (one_line(one.server, 60),),
        tuple(tools),
        ("through egress" if one.remote else "in the box",),
        (code(one_line(one.command, _ABOUT), "path"),),
    ]
    # What was installed and how long it took is the day's, not the cell's.
    return cells if steady else [*cells, (one_line(one.installed, 80),), (figure(seconds(one.seconds)),)]


def _troubles(kit: Kitted) -> Iterable[Block]:
    for gone in kit.ended.values():
        yield _trouble("Gone", gone.toolset, gone.reason)
        if gone.stderr.strip():
            yield Pre(gone.stderr)
    for one in kit.staged.unresolved if kit.staged is not None else ():
        why = f"Where {one.command} is installed from could not be found out: {one.reason}"
        yield _trouble("Not known", one.toolset, why)


def _trouble(word: str, toolset: str, why: str) -> Line:
    reason = Span(one_line(why, _REASON), "prose")
    return Line((strong(word, "warn"), code(toolset, "where"), soft(reason)), "refused")


def _rows(name: str, rows: Sequence[Sequence[Cell]], left: int = 0, noun: str = "") -> Blocks:
    table = [Table(rows, is_wide=True)] if rows else []
    inside = (*table, *_left(left, noun))
    return (section(name, inside),) if inside else ()


def _names(name: str, values: Sequence[str]) -> Blocks:
    return (section(name, [Line(listed([code(one, "path") for one in values]))]),) if values else ()


def _left(count: int, noun: str) -> Blocks:
    return (label(f"… and {counted(count, f'more {noun}')}."),) if count > 0 else ()
