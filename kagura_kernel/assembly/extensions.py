"""What other packages bring, by name: brains, tools; and how all of it is, for whoever asks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.assembly.brains import BRAINS as OUR_BRAINS, Prices, brain_reports
from kagura_kernel.brain.provider import AUTO, REPLAY, BrainProvider, choose
from kagura_kernel.cockpit.brains import BrainReport, Thinking, report_brains, usual_turn
from kagura_kernel.cockpit.status import PartStatus
from kagura_kernel.domain.errors import ExtensionBroken, UnknownName
from kagura_kernel.domain.extensions import (
    BACKENDS,
    BRAINS,
    CREDENTIALS,
    MEMORIES,
    TOOLS,
    TRANSPORTS,
    Extension,
    installed,
    load,
)
from kagura_kernel.domain.late_dataclass import replace
from kagura_kernel.domain.settings import Settings
from kagura_kernel.sandbox.selection import AUTO as ANY_BOX, BUILT_IN, load_backend

if TYPE_CHECKING:
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.tools.extension_tools import ToolMaker, ToolPlace
    from kagura_kernel.tools.toolbox import Tool


def brain_extensions() -> dict[str, Extension]:
    """Brains of other packages by name."""
    return installed(BRAINS, (*OUR_BRAINS, AUTO, REPLAY))


def brain_names() -> tuple[str, ...]:
    """What `--brain` takes."""
    return (AUTO, *OUR_BRAINS, *brain_extensions(), REPLAY)


def brain_chooser(brains: Mapping[str, BrainProvider]) -> Callable[[str], tuple[BrainProvider, str]]:
    """What finds the brain for a run. Brains of other packages are taken by name alone, and made once.

    Our own come by name, the preferred first.
    """

    @cache
    def made(name: str) -> BrainProvider:
        return load_brain(brain_extensions()[name])

    def chosen(name: str) -> tuple[BrainProvider, str]:
        if not name or name in (*brains, AUTO, REPLAY):
            return choose(name, brains)
        others = brain_extensions()
        if name not in others:
            raise UnknownName("brain", name, [AUTO, *brains, *others, REPLAY])
        brain, reason = choose(name, {name: made(name)})
        return brain, f"{reason}; of {others[name].package}"

    return chosen


def load_brain(extension: Extension) -> BrainProvider:
    """A brain of another package.

    Raises:
        ExtensionBroken: it is none.
    """

    def make(named: object) -> BrainProvider:
        brain: BrainProvider = named()  # type: ignore[operator] # what is wrong with it is told
        if brain.name != extension.name:
            raise TypeError(f"it calls itself {brain.name!r}")
        # What is missing shows here, and not in the middle of a run.
        _ = brain.run, brain.resolve_auth().ready, brain.capabilities().streaming
        return brain

    return load(extension, make)


def all_brain_reports(
    environ: Mapping[str, str], settings: Settings, home: Path, journal: Journal | None, *, model: str = ""
) -> list[BrainReport]:
    """As `brain_reports`, and behind ours those of other packages; one that cannot be used says why."""
    ours = brain_reports(environ, settings, home, journal, model=model)
    others = [_report(one, settings, journal, model) for one in brain_extensions().values()]
    return [*ours, *others]


def _report(one: Extension, settings: Settings, journal: Journal | None, model: str) -> BrainReport:
    def thinking(name: str) -> Thinking:
        return Thinking(model or (settings.model if settings.brain == name else ""))

    try:
        brains = {one.name: load_brain(one)}
    except ExtensionBroken as error:
        turn, counted = usual_turn(journal)
        why = f"{error.why}; of {one.package}"
        return BrainReport(
            one.name,
            ready=False,
            reason=why,
            model="",
            window=None,
            turn_usd=None,
            turn=turn,
            counted=counted,
            source="",
        )
    [found] = report_brains(brains, thinking, Prices(settings).price, journal, datetime.now(UTC))
    return replace(found, reason=f"{found.reason}; of {one.package}")


def tool_makers(settings: Settings) -> Callable[[], Sequence[ToolMaker]]:
    """What loads the tools that the settings name, when a run begins; raises `UnknownName` and `ExtensionBroken`."""

    @cache
    def makers() -> tuple[ToolMaker, ...]:
        if not settings.own_tools:
            return ()
        known = installed(TOOLS)
        missing = next((name for name in settings.own_tools if name not in known), None)
        if missing is not None:
            raise UnknownName("tool", missing, list(known), hint="The setting `own_tools` names it.")
        return tuple(load_tool(known[name]) for name in dict.fromkeys(settings.own_tools))

    return makers


def load_tool(extension: Extension) -> ToolMaker:
    """What makes a tool of another package.

    Raises:
        ExtensionBroken: it is none.
    """

    def check(named: object) -> None:
        if not callable(named):
            raise TypeError("it is nothing that can be called")

    def make(place: ToolPlace) -> Tool:
        from kagura_kernel.tools.extension_tools import OwnTool

        return load(extension, lambda named: OwnTool(named(place)))  # type: ignore[operator] # it was looked at

    load(extension, check)
    return make


_Kind = tuple[Collection[str], Callable[[Extension], object]]
"""What our own of one kind are called, and what loads another one."""


def _credentials() -> _Kind:
    from kagura_kernel.membrane.credentials.registry import KINDS, load_kind

    return tuple(KINDS), load_kind


def _memories() -> _Kind:
    from kagura_kernel.memory.location import OUR_SCHEMES, load_memory

    return OUR_SCHEMES, load_memory


def _chats() -> _Kind:
    from kagura_kernel.assembly.chats import CHATS, load_chat

    return tuple(CHATS), load_chat


_KINDS: Mapping[str, Callable[[], _Kind]] = {
    BRAINS: lambda: ((*OUR_BRAINS, AUTO, REPLAY), load_brain),
    TOOLS: lambda: ((), load_tool),
    BACKENDS: lambda: ((*BUILT_IN, ANY_BOX), load_backend),
    CREDENTIALS: _credentials,
    MEMORIES: _memories,
    TRANSPORTS: _chats,
}
"""Asked only where any is installed: most people have none, and ours would all be imported."""


def extensions() -> list[Extension]:
    """All that are installed, the kinds in their order; nothing of them is run."""
    found = entry_points()
    return [
        one
        for group, kind in _KINDS.items()
        if (there := found.select(group=group))
        for one in installed(group, kind()[0], found=there).values()
    ]


def extension_status() -> list[PartStatus]:
    """What is installed, without running any of it."""
    return [_status(one, one.problem) for one in extensions()]


def tried() -> Iterator[PartStatus]:
    """Every extension after it was loaded, for somebody who wants to know whether it can be used."""
    for one in extensions():
        _, loaded = _KINDS[one.group]()
        try:
            loaded(one)
        except ExtensionBroken as error:
            yield _status(one, error.why)
        else:
            yield _status(one, "")


def _status(one: Extension, problem: str) -> PartStatus:
    why = f": {problem}" if problem else ""
    return PartStatus(f"{one.kind} {one.name}", not problem, f"of {one.package}{why}")
