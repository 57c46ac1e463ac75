"""A plugin cannot be used, or not like this."""

from __future__ import annotations

from collections.abc import Sequence

from kagura_kernel.domain.errors.base import KaguraError


class PluginError(KaguraError):
    """A plugin cannot be used, or not like this."""

    code = "ERR_PLUGIN"


class PluginInvalid(PluginError):
    """Its files are no plugin; `problems` holds everything that is wrong, each a line."""

    code = "ERR_PLUGIN_INVALID"

    def __init__(self, plugin: str, problems: Sequence[str]) -> None:
        listed = "\n".join(f"  - {problem}" for problem in problems)
        super().__init__(f"The plugin {plugin!r} cannot be used:\n{listed}")
        self.plugin = plugin
        self.problems = tuple(problems)


class PluginRefused(PluginError):
    """It may not be enabled or approved: a danger in its source, its risk, or somebody's no."""

    code = "ERR_PLUGIN_REFUSED"

    def __init__(self, plugin: str, why: str, advice: str = "") -> None:
        super().__init__(f"The plugin {plugin!r} {why}.{f' {advice}' if advice else ''}")
        self.plugin = plugin
        self.why = why


class PluginChangedSince(PluginError):
    """Its files are not those that were audited, approved or enabled."""

    code = "ERR_PLUGIN_CHANGED"

    def __init__(self, plugin: str, since: str) -> None:
        super().__init__(
            f"The files of the plugin {plugin!r} have changed since it was {since}. Look at what changed, then audit "
            f"it again with `plugin audit {plugin}`."
        )
        self.plugin = plugin


class PluginNotConfigured(PluginError):
    """It needs values that nobody has given; `missing` names them."""

    code = "ERR_PLUGIN_CONFIG"

    def __init__(self, plugin: str, problems: Sequence[str], missing: Sequence[str] = ()) -> None:
        listed = "\n".join(f"  - {problem}" for problem in problems)
        super().__init__(f"The plugin {plugin!r} is not configured:\n{listed}")
        self.plugin = plugin
        self.problems = tuple(problems)
        self.missing = tuple(missing)


class PluginQuarantined(PluginError):
    """It has failed too often, or its jail broke, and is off until somebody has looked."""

    code = "ERR_PLUGIN_QUARANTINED"

    def __init__(self, plugin: str, why: str) -> None:
        super().__init__(
            f"The plugin {plugin!r} is in quarantine: {why}. See `plugin logs {plugin}`; `plugin audit {plugin}` "
            "examines it anew and lets it out."
        )
        self.plugin = plugin
        self.why = why


class PluginFailed(PluginError):
    """Its own code failed; the text is the plugin's, for the program that called it."""

    code = "ERR_PLUGIN_FAILED"

    def __init__(self, plugin: str, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}" if kind else text)
        self.plugin = plugin
        self.kind = kind
        self.text = text


class PluginCallRefused(PluginError):
    """A call that cannot be made: no such module or function, too large, no JSON, a plugin that is off."""

    code = "ERR_PLUGIN_CALL"


class PluginBusy(PluginError):
    """Too many calls wait for this plugin already."""

    code = "ERR_PLUGIN_BUSY"

    def __init__(self, plugin: str, most: int) -> None:
        super().__init__(f"{most} calls wait for the plugin {plugin!r} already. Wait for some of them first.")
        self.plugin = plugin


class PluginTimeout(PluginError):
    """A call took too long; the plugin's process was ended, and starts anew with the next call."""

    code = "ERR_PLUGIN_TIMEOUT"

    def __init__(self, plugin: str, function: str, seconds: float) -> None:
        super().__init__(
            f"{function} of the plugin {plugin!r} did not answer within {seconds:g} s and was ended. Ask for less at "
            "once, or configure it otherwise."
        )
        self.plugin = plugin
        self.seconds = seconds


class PluginJailBroken(PluginError):
    """Its process ended, or spoke out of turn."""

    code = "ERR_PLUGIN_JAIL"

    def __init__(self, plugin: str, why: str) -> None:
        super().__init__(f"The jail of the plugin {plugin!r} is gone: {why}.")
        self.plugin = plugin
        self.why = why


class SignatureInvalid(PluginError):
    """A signature does not hold, or a key is none."""

    code = "ERR_PLUGIN_SIGNATURE"
