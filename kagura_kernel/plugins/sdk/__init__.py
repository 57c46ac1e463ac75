"""What a plugin may import in its jail, there under the name `kagura_plugin`: jailed files, HTTPS, databases, checks.

Standard library only, and every import among these files is relative: the same files are `kagura_kernel.plugins.sdk`
where they are tested. They promise that a plugin which uses them keeps to its rules whatever guest code asks for, and
that no answer of theirs names a path of the host. They do not replace the jail, which holds a plugin that does not.
"""

from __future__ import annotations

from .faults import (
    AccessDenied,
    AlreadyExists,
    ArgumentRefused,
    ConfigRefused,
    DatabaseUnavailable,
    LimitReached,
    NetworkRefused,
    NotFound,
    NotText,
    PathRefused,
    PluginFault,
    QueryFailed,
    QueryRefused,
    QueryTimeout,
    ResponseRefused,
    StorageFailed,
    TooLarge,
)
from .notes import note

__all__ = [
    "AccessDenied",
    "AlreadyExists",
    "ArgumentRefused",
    "ConfigRefused",
    "DatabaseUnavailable",
    "LimitReached",
    "NetworkRefused",
    "NotFound",
    "NotText",
    "PathRefused",
    "PluginFault",
    "QueryFailed",
    "QueryRefused",
    "QueryTimeout",
    "ResponseRefused",
    "StorageFailed",
    "TooLarge",
    "note",
]
