"""Plugins without a jail: their functions are Python functions of the test. For tests of everything that calls them.

::

    plugin = FakePlugin("fs-read", {"fs_read": {"read_text": lambda path: "hello"}})
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kagura_kernel.domain.errors import KaguraError, PluginCallRefused, PluginFailed
from kagura_kernel.plugins.calls import EnabledPlugin, FunctionSpec, plugin_briefing
from kagura_kernel.plugins.jail.jail import Jail
from kagura_kernel.plugins.manifest import Hints

Function = Callable[..., Any]


class FakePlugin:
    """An enabled plugin; satisfies `EnabledPlugin`.

    What a function raises becomes `PluginFailed`, as in a jail, unless it is an error of ours; what it returns goes
    through JSON; an awaitable is awaited.
    """

    def __init__(
        self,
        name: str,
        modules: Mapping[str, Mapping[str, Function]],
        *,
        version: str = "1.0.0",
        hints: Hints | None = None,
    ) -> None:
        self.name = name
        self.version = version
        self.content_hash = "f" * 64
        self.hints = hints or Hints()
        # Every call: module, function, arguments, named
        self.calls: list[tuple[str, str, Sequence[Any], Mapping[str, Any]]] = []
        self.cut = 0  # Calls that were cut before they had ended
        self.off = ""  # Why it can be called no more; empty while it can
        self._functions = modules
        self.modules = {
            module: tuple(
                FunctionSpec(one, str(inspect.signature(function, eval_str=True)), inspect.getdoc(function) or "")
                for one, function in functions.items()
            )
            for module, functions in modules.items()
        }

    async def call(self, module: str, function: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """The function's answer.

        Raises:
            PluginFailed: it raised something.
            PluginCallRefused: the plugin is off.
        """
        self.calls.append((module, function, arguments, named))
        if self.off:
            raise PluginCallRefused(f"The plugin {self.name!r} {self.off}.")
        ended = False
        try:
            value = self._functions[module][function](*arguments, **named)
            answer = json.loads(json.dumps(await value if isinstance(value, Awaitable) else value))
            ended = True
        except KaguraError:
            ended = True
            raise
        # Whatever it is, it is the plugin's.
        except Exception as error:
            ended = True
            raise PluginFailed(self.name, type(error).__name__, str(error)) from error
        finally:
            self.cut += not ended
        return answer


class FakePlugins:
    """The plugins of every session; satisfies `PluginAccess`."""

    def __init__(self, *plugins: EnabledPlugin) -> None:
        self.plugins = list(plugins)  # Enabled now
        self.notes: list[str] = []  # What the next refresh has to say; said once
        self.refreshed: list[tuple[str, Path]] = []  # Sessions and projects, in the order of their refreshes

    async def refresh(self, session_id: str, project: Path) -> Sequence[str]:
        """The notes."""
        self.refreshed.append((session_id, project))
        told, self.notes = self.notes, []
        return told

    def enabled(self, _session_id: str) -> Sequence[EnabledPlugin]:
        """All of them."""
        return list(self.plugins)

    def briefing(self, _session_id: str) -> str:
        """About all of them."""
        return plugin_briefing(self.plugins)


class UnmanagedPlugin:
    """A real jail as an enabled plugin, without anything around it; satisfies `EnabledPlugin`.

    Args:
        jail: It runs the plugin.
        hints: The author's.
    """

    version = "1.0.0"
    content_hash = "a" * 64

    def __init__(self, jail: Jail, hints: Hints | None = None) -> None:
        self.name = jail.name
        self.modules = jail.modules
        self.hints = hints or Hints()
        self._jail = jail

    async def call(self, module: str, function: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """As the jail."""
        return await self._jail.call(module, function, arguments, named)
