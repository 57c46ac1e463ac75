"""A run's kit below the head of its card: one quiet line that opens to everything that was staged.

What went wrong with a toolset is not quiet: it stands below that line, always in sight.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kagura_kernel.domain.events import KitStaged, ToolsetEnded, ToolsetStarted
from kagura_kernel.domain.kit import StagedSkill
from kagura_kernel.jupyter.cards.kit_text import (
    SHOWN_FILES,
    SHOWN_LEFT_OUT,
    SHOWN_SKILLS,
    kinds_words,
    summary,
)
from kagura_kernel.render.escape import escaped, escaped_prose, one_line, shown_path
from kagura_kernel.render.figures import counted, data_size, seconds
from kagura_kernel.views.kit import Kitted, Staged, files_of
from kagura_kernel.views.run import RunView

_ABOUT = 160
_REASON = 300


def kit_html(view: RunView, *, live: bool) -> str:
    """The line and what it opens; empty where the agent brought nothing.

    The saved card of a run that can be repeated has neither times nor the run's id.
    """
    kit = view.kit
    if not kit:
        return ""
    steady = view.repeatable and not live
    inside = [] if kit.staged is None else [staged_html(kit.staged), _installing(kit.staged)]
    inside.append(_toolsets(kit, steady=steady))
    if kit.staged is not None and kit.staged.digest and not steady:
        how = f"`%kagura kit show --run {kit.staged.run_id}` opens its files."
        inside.append(f'<div class="kg-label">{escaped_prose(how)}</div>')
    line = summary(kit)
    return (
        '<div class="kg-kit" role="group" aria-label="Kit"><details data-keep="kit"><summary>'
        f'<span class="kg-soft">{escaped(line[:1].upper() + line[1:])}</span></summary>'
        f'<div class="kg-inside">{"".join(inside)}</div></details>{_troubles(kit)}</div>'
    )


def staged_html(staged: Staged) -> str:
    """Skills with their files, prompt files, sub-agents, and what was left out; each only where there is one."""
    return "".join(
        [
            _part("Skills", [_skill(skill) for skill in staged.skills[:SHOWN_SKILLS]], len(staged.skills)),
            _prompts(staged),
            _names("Sub-agents", staged.agents),
            _left_out(staged),
        ]
    )


def redacted_chip(count: int, kinds: Sequence[str]) -> str:
    """How often a file was redacted, and of what; empty where it was not."""
    if not count:
        return ""
    about = f' <span class="kg-soft">{escaped(kinds_words(kinds))}</span>' if kinds else ""
    return f'<span class="kg-chip kg-warn">{counted(count, "redaction")}</span>{about}'


def _skill(skill: StagedSkill) -> str:
    name = f'<code class="kg-path">{escaped(skill.name)}</code>'
    about = f' <span class="kg-arg">{escaped(one_line(skill.description, _ABOUT))}</span>' if skill.description else ""
    if not skill.files:
        return f'<div class="kg-skill">{name}{about} <span class="kg-chip">in the workspace</span></div>'
    marked = sum(one.redactions for one in skill.files)
    chips = f'<span class="kg-chip">{counted(len(skill.files), "file")}</span>'
    chips += f' <span class="kg-chip kg-warn">{counted(marked, "redaction")}</span>' if marked else ""
    rows = [
        (_path(place), _figure(data_size(one.size)), redacted_chip(one.redactions, one.kinds))
        for place, one in files_of(skill)[:SHOWN_FILES]
    ]
    return (
        f'<details class="kg-skill" data-keep="{escaped(f"kit:{skill.name}")}"><summary>{name}{about} {chips}</summary>'
        f'<div class="kg-inside">{_table(rows)}{_more(len(skill.files) - len(rows), "file")}</div></details>'
    )


def _prompts(staged: Staged) -> str:
    rows = [
        (
            _path(prompt.name),
            "in the workspace" if prompt.place == "workspace" else "",
            _figure(data_size(prompt.size)),
            redacted_chip(prompt.redactions, prompt.kinds),
        )
        for prompt in staged.prompt_files
    ]
    return _part("Prompt files", [_table(rows)] if rows else [])


def _left_out(staged: Staged) -> str:
    shown = staged.left_out[:SHOWN_LEFT_OUT]
    rows = [(_path(one.target), escaped(one_line(one.reason, _REASON))) for one in shown]
    left = len(staged.left_out) - len(shown) + staged.omitted
    return _part("Left out", ([_table(rows)] if rows else []) + ([_more(left, "thing")] if left else []))


def _installing(staged: KitStaged) -> str:
    """The hosts that were opened so that toolsets can be installed."""
    return _names("Opened for installing toolsets", staged.tool_hosts)


def _toolsets(kit: Kitted, *, steady: bool) -> str:
    rows = [_toolset(one, gone=kit.ended.get(name), steady=steady) for name, one in kit.started.items()]
    return _part("Toolsets", [_table(rows)] if rows else [])


def _toolset(one: ToolsetStarted, *, gone: ToolsetEnded | None, steady: bool) -> tuple[str, ...]:
    tools = f'<span title="{escaped(one_line(", ".join(one.tools), 2000))}">{counted(len(one.tools), "tool")}</span>'
    if one.withheld:
        withheld = escaped(one_line("; ".join(one.withheld), 2000))
        tools += f', <span title="{withheld}">{len(one.withheld):,} withheld</span>'
    way = "through egress" if one.remote else "in the box"
    state = '<span class="kg-chip kg-bad">gone</span>' if gone is not None else ""
    command = f'<code class="kg-path">{escaped(one_line(one.command, _ABOUT))}</code>'
    # What was installed and how long it took is the day's, not the cell's.
    today = () if steady else (escaped(one_line(one.installed, 80)), _figure(seconds(one.seconds)))
    return (f"<b>{escaped(one.toolset)}</b> {state}", escaped(one_line(one.server, 60)), tools, way, command, *today)


def _troubles(kit: Kitted) -> str:
    staged = kit.staged
    rows = [_trouble("Gone", one.toolset, one.reason, one.stderr) for one in kit.ended.values()]
    rows += [
        _trouble(
            "Not known", one.toolset, f"Where {one.command} is installed from could not be found out: {one.reason}"
        )
        for one in (staged.unresolved if staged is not None else ())
    ]
    return "".join(rows)


def _trouble(word: str, toolset: str, why: str, stderr: str = "") -> str:
    said = f'<pre class="kg-pre">{escaped(stderr)}</pre>' if stderr.strip() else ""
    return (
        f'<div class="kg-refused"><b class="kg-warn">{word}</b> <code class="kg-where">{escaped(toolset)}</code> '
        f'<span class="kg-soft">{escaped_prose(one_line(why, _REASON))}</span></div>{said}'
    )


def _part(name: str, blocks: Sequence[str], count: int = 0) -> str:
    if not blocks:
        return ""
    more = _more(count - len(blocks), name.removesuffix("s").lower()) if count else ""
    return f'<div class="kg-kit-part"><div class="kg-part-name">{name}</div>{"".join(blocks)}{more}</div>'


def _names(name: str, values: Sequence[str]) -> str:
    listed = ", ".join(f'<code class="kg-path">{escaped(value)}</code>' for value in values)
    return _part(name, [f"<div>{listed}</div>"] if values else [])


def _table(rows: Iterable[Sequence[str]]) -> str:
    body = "".join(f"<tr>{' '.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="kg-wide"><table class="kg-table"><tbody>{body}</tbody></table></div>'


def _path(place: str) -> str:
    return f'<code class="kg-path">{escaped(shown_path(place))}</code>'


def _figure(text: str) -> str:
    return f'<span class="kg-size">{text}</span>'


def _more(count: int, noun: str) -> str:
    return f'<div class="kg-label">… and {counted(count, f"more {noun}")}.</div>' if count > 0 else ""
