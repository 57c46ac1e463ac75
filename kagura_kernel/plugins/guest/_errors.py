"""What a call raises when it fails."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CALL = "ERR_PLUGIN_CALL"


class PluginError(Exception):
    """A plugin's function failed, or could not be called; its text is the plugin's message."""

    def __init__(self, message: str, code: str = CALL, kind: str = "", function: str = "") -> None:
        super().__init__(message)
        self.message = message  # The text
        # Stable: ERR_PLUGIN_FAILED for what the plugin's own code raised, ERR_PLUGIN_TIMEOUT, ERR_PLUGIN_CALL, …
        self.code = code
        self.kind = kind  # What the plugin raised, `FileNotFoundError`; empty for everything else
        self.function = function  # What was called, `fs_read.stat`

    def __reduce__(self) -> tuple[Any, ...]:
        """With everything that it knows, so that pools of processes hand it on."""
        return type(self), (self.message, self.code, self.kind, self.function)
