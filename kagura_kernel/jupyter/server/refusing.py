"""Answers that say no: which status an error of ours has, with its code and its sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tornado import web

from kagura_kernel.domain.errors import (
    ApprovalAlreadyDecided,
    ApprovalExpired,
    ApprovalUnknown,
    ConfigurationError,
    JournalError,
    KaguraError,
    LeaseEnded,
    PluginError,
    RunOver,
    RunUnknown,
    SessionGone,
    UnknownName,
    UsageError,
)
from kagura_kernel.domain.errors.memory import MemoryInvalid, MemoryStoreError, MemoryUnknown

# The first that fits.
_STATUS: tuple[tuple[type[KaguraError], int], ...] = (
    (ApprovalUnknown, 404),
    (RunUnknown, 404),
    (UnknownName, 404),
    (MemoryUnknown, 404),
    (ApprovalAlreadyDecided, 409),
    (RunOver, 409),
    (LeaseEnded, 409),
    (SessionGone, 409),
    (PluginError, 409),
    (ApprovalExpired, 410),
    (UsageError, 400),
    (MemoryInvalid, 400),
    (JournalError, 503),
    (MemoryStoreError, 503),
    (ConfigurationError, 503),
)


class Refused(web.HTTPError):
    """An answer that says no."""

    def __init__(self, status: int, code: str, sentence: str, more: Mapping[str, Any] | None = None) -> None:
        super().__init__(status)
        self.code = code  # Stable across releases
        self.sentence = sentence  # What happened and what to do next
        self.more = dict(more or {})  # Further fields of the answer


def refusal(error: KaguraError, more: Mapping[str, Any] | None = None) -> Refused:
    """The answer that an error of ours becomes."""
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    return Refused(status, error.code, error.message, more)
