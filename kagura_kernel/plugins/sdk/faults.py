"""The answers that a plugin gives instead of a value; guest code tells them apart by their class."""

from __future__ import annotations


class PluginFault(Exception):
    """An answer to the caller; the text is for whoever wrote the call and names nothing of the host."""


class ArgumentRefused(PluginFault):
    """An argument of the wrong type or out of its range."""


class ConfigRefused(PluginFault):
    """A configured value that cannot be used."""


class LimitReached(PluginFault):
    """A budget or a rate is used up."""


class TooLarge(PluginFault):
    """A file, a chunk or an answer is above its cap."""


class PathRefused(PluginFault):
    """A path that is no plain way to a plain file or directory below the base."""


class NotFound(PluginFault):
    """Nothing is there."""


class NotText(PluginFault):
    """A file that is no UTF-8 text."""


class AccessDenied(PluginFault):
    """The system does not let the plugin at it."""


class AlreadyExists(PluginFault):
    """Something is there already."""


class StorageFailed(PluginFault):
    """The disk is full, or failed."""


class NetworkRefused(PluginFault):
    """A request that is not allowed or could not be made. The text is always the same: it tells nothing of the net."""

    def __init__(self) -> None:
        super().__init__(
            "The request was refused or could not be made. Only https:// URLs on port 443 of hosts that a person has "
            "listed can be asked for; whether a host is listed, exists or answers is not told."
        )


class ResponseRefused(PluginFault):
    """A server's answer that is no HTTP, or holds what is not taken."""


class QueryRefused(PluginFault):
    """A statement that does more than read, or more than one statement."""


class QueryFailed(PluginFault):
    """The database did not take a statement; the text is the database's."""


class QueryTimeout(PluginFault):
    """A statement took too long and was stopped."""


class DatabaseUnavailable(PluginFault):
    """There is no such database, or nobody answers there."""
