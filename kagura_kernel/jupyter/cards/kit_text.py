"""A kit in words: for terminals, for diffs, for readers without HTML. Nothing here differs between two equal runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kagura_kernel.domain.events import ToolsetStarted
from kagura_kernel.domain.kit import UnresolvedTool
from kagura_kernel.domain.visible import visible
from kagura_kernel.render.escape import one_line, shown_path
from kagura_kernel.render.figures import counted
from kagura_kernel.views.kit import USUAL, Kitted, Staged, empty, files_of, left_out_count, redactions

SHOWN_SKILLS = 60
SHOWN_FILES = 200
SHOWN_LEFT_OUT = 40
_NAMED = 3
_REASON = 300


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
        lines += unresolved_lines(staged.unresolved)
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
        parts.append(f"{'toolset' if len(kit.toolsets) == 1 else 'toolsets'} {_listed(kit.toolsets)}")
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
        _listed(prompts) if len(prompts) <= _NAMED else counted(names.total(), "prompt file"),
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


def unresolved_lines(unresolved: Sequence[UnresolvedTool]) -> list[str]:
    """A line for each toolset whose hosts are not known."""
    return [
        f"! toolset {visible(one.toolset)}: where {visible(one.command)} is installed from is not known "
        f"({one_line(one.reason, _REASON)})"
        for one in unresolved
    ]


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


def _listed(names: Sequence[str]) -> str:
    found = [visible(name) for name in names]
    return " and ".join(filter(None, (", ".join(found[:-1]), *found[-1:])))


def _more(count: int, noun: str, indent: str = "", word: str = "") -> list[str]:
    return [f"{indent}… and {counted(count, f'more {noun}')}{f' {word}' if word else ''}"] if count > 0 else []
