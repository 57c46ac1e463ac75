"""What a person decided about a plugin for good: that it is approved, or that it stays off until somebody has looked.

Both hold for exactly the bytes that they were decided about; a changed plugin has neither.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.plugins import AuditVerdict, PluginAudit, Risk
from kagura_kernel.plugins.book import Book, Entries, Entry

_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)
_APPROVAL = frozenset({"contentHash", "approvedAt", "auditRiskLevel", "auditVerdict"})
_QUARANTINE = frozenset({"contentHash", "reason", "at"})


@dataclass(frozen=True, slots=True)
class ApprovalRecord:
    """One approval."""

    content_hash: str  # Of the files that are approved
    approved_at: datetime  # When, UTC
    risk: Risk  # What their audit said
    verdict: AuditVerdict  # What their audit advised


class ApprovalBook(Book):
    """The approvals of this machine; a session's end does not end them.

    Args:
        path: The file.
        clock: The time.
    """

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        super().__init__(path, _is_approval)
        self._clock = clock or SystemClock()

    def approve(self, audit: PluginAudit) -> ApprovalRecord:
        """Keep the approval of what was audited; whether it may be approved was decided before.

        Raises:
            ConfigurationError: it cannot be kept.
        """
        record = ApprovalRecord(audit.content_hash, self._clock.now(), audit.risk, audit.verdict)
        entry = {
            "contentHash": record.content_hash,
            "approvedAt": record.approved_at.isoformat(),
            "auditRiskLevel": record.risk.value,
            "auditVerdict": record.verdict.value,
        }

        def put(entries: Entries) -> bool:
            entries[audit.plugin] = entry
            return True

        self.change(put)
        return record

    def unapprove(self, name: str) -> bool:
        """Take an approval back, of whatever files: whether there was one.

        Raises:
            ConfigurationError: it cannot be taken back.
        """
        return self.change(lambda entries: entries.pop(name, None) is not None)

    def record(self, name: str) -> ApprovalRecord | None:
        """The approval of a plugin, of whatever files."""
        entry = self.entries().get(name)
        if entry is None:
            return None
        return ApprovalRecord(
            entry["contentHash"],
            datetime.fromisoformat(entry["approvedAt"]),
            Risk(entry["auditRiskLevel"]),
            AuditVerdict(entry["auditVerdict"]),
        )

    def valid(self, name: str, content_hash: str) -> ApprovalRecord | None:
        """The approval of exactly these files."""
        record = self.record(name)
        return record if record is not None and record.content_hash == content_hash else None


class QuarantineBook(Book):
    """The plugins of this machine that are off because they failed.

    Args:
        path: The file.
        clock: The time.
    """

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        super().__init__(path, _is_quarantine)
        self._clock = clock or SystemClock()

    def put(self, name: str, content_hash: str, reason: str) -> None:
        """Put these files of a plugin off.

        Raises:
            ConfigurationError: it cannot be kept.
        """
        entry = {"contentHash": content_hash, "reason": reason, "at": self._clock.now().isoformat()}

        def put(entries: Entries) -> bool:
            entries[_key(name, content_hash)] = entry
            return True

        self.change(put)

    def release(self, name: str, content_hash: str) -> bool:
        """Let these files of a plugin out: whether they were in.

        Raises:
            ConfigurationError: it cannot be kept.
        """
        return self.change(lambda entries: entries.pop(_key(name, content_hash), None) is not None)

    def reason(self, name: str, content_hash: str) -> str:
        """Why exactly these files are off, half a sentence; empty when they are not."""
        entry = self.entries().get(_key(name, content_hash))
        return str(entry["reason"]) if entry is not None and entry["contentHash"] == content_hash else ""


def _key(name: str, content_hash: str) -> str:
    # Two projects may have plugins of one name: what befalls the one lets the other neither in nor out.
    return f"{name} {content_hash}"


def _is_approval(entry: Entry) -> bool:
    return (
        set(entry) == _APPROVAL
        and _is_hash(entry["contentHash"])
        and _is_time(entry["approvedAt"])
        and entry["auditRiskLevel"] in list(Risk)
        and entry["auditVerdict"] in list(AuditVerdict)
    )


def _is_quarantine(entry: Entry) -> bool:
    known = set(entry) == _QUARANTINE and _is_hash(entry["contentHash"]) and _is_time(entry["at"])
    return known and isinstance(entry["reason"], str)


def _is_hash(value: object) -> bool:
    return isinstance(value, str) and _HASH.fullmatch(value) is not None


def _is_time(value: object) -> bool:
    """Whether it is a time with its zone, as the journal has them all."""
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False
