"""What a run's box may call: the functions of the plugins that are enabled in its session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kagura_kernel.plugins.manifest import Hints


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """One function of a plugin, as its jail told it. Both texts are the author's.

    Attributes:
        name: Its name in its module.
        signature: As Python writes it: `(path, *, limit=100)`.
        doc: The first paragraph of its docstring; empty without one.
    """

    name: str
    signature: str = "(*arguments, **named)"
    doc: str = ""


class EnabledPlugin(Protocol):
    """A plugin whose jail is there."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def version(self) -> str:
        """SemVer."""

    @property
    def content_hash(self) -> str:
        """SHA-256 of everything that was loaded, in hexadecimal."""

    @property
    def modules(self) -> Mapping[str, tuple[FunctionSpec, ...]]:
        """The modules that guest code may import, and their functions."""

    @property
    def hints(self) -> Hints:
        """What its author wants a brain to know."""

    async def call(self, module: str, function: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """The function's answer, as JSON has it. Who stops waiting has none; the plugin may go on until its deadline.

        Raises:
            PluginFailed: its own code failed.
            PluginTimeout: it took too long.
            PluginJailBroken: its process ended, or spoke out of turn.
            PluginBusy: too many calls wait already.
            PluginCallRefused: no such function, too large, or it is off.
        """


class PluginAccess(Protocol):
    """The plugins of sessions, as a run sees them. Used on the engine's loop."""

    async def refresh(self, session_id: str, project: Path) -> Sequence[str]:
        """Look whether enabled plugins are still what was audited, and take in what other processes have decided.

        Called before every run's box is launched.

        Returns:
            Sentences for the run's record: `fs-read has changed and is off`.
        """

    def enabled(self, session_id: str) -> Sequence[EnabledPlugin]:
        """Those that are enabled now, by name."""

    def briefing(self, session_id: str) -> str:
        """What the session's brain is told of them: a section of its system prompt; empty without any.

        The same text until the session is dirty.
        """
