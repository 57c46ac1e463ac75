"""The plugins that can be found from a project, what is said of new ones, and what a process's plugins share."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import PluginChangedSince, PluginInvalid
from kagura_kernel.domain.events import PluginSeen
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.plugins import PluginPlace, Risk
from kagura_kernel.journal.plugins import PluginHistory
from kagura_kernel.journal.store import Journal
from kagura_kernel.plugins.configuration import Schema, read_schema
from kagura_kernel.plugins.decisions import ApprovalBook, QuarantineBook
from kagura_kernel.plugins.manifest import Discovery, Found, discover, load_found
from kagura_kernel.plugins.permissions import check_declared
from kagura_kernel.plugins.scan.scanner import ScanResult
from kagura_kernel.plugins.sessions import StartJail

if TYPE_CHECKING:
    from kagura_kernel.plugins.decisions import TrustBook

_SCANS = 32
"""So many scans are kept: the same bytes are looked at again by each step of an enabling."""


@dataclass(frozen=True, slots=True)
class Examined:
    """A plugin whose bytes were read once, and scanned: exactly these are audited, approved, loaded."""

    found: Found  # Place, manifest and bytes
    scan: ScanResult  # What the scan found in these bytes
    schema: Schema  # The fields of its configuration; none where the source is too broken to have any
    signed_by: str = ""  # The trusted author whose signature holds; empty for none

    @property
    def name(self) -> str:
        """The plugin's name."""
        return self.found.name

    @property
    def content_hash(self) -> str:
        """Of the bytes that were read."""
        return self.found.content.content_hash


class Library:
    """Looks for plugins, and tells the journal what it sees; any thread may use it.

    `replaced` is told, before anything is written down, the name of a plugin whose files are others now, and the hash
    that they had.
    """

    def __init__(self, parts: ManagerParts, history: PluginHistory, replaced: Callable[[str, str], object]) -> None:
        self._parts = parts
        self._history = history
        self._replaced = replaced
        self._lock = threading.Lock()
        self._scans: OrderedDict[str, tuple[ScanResult, Schema]] = OrderedDict()

    def look(self, project: Path | None) -> Discovery:
        """Read every plugin anew, and write down what is new, different or gone.

        Raises `JournalError`: it cannot be written down.
        """
        places = self._parts.places(project)
        discovery = discover(places)
        signed = {
            name: author for name, found in discovery.found.items() if (author := self._parts.trust.signer(found))
        }
        with self._lock:
            self._tell(places, project, discovery, signed)
        return replace(discovery, signed=MappingProxyType(signed))

    def examine(self, look: Discovery, name: str, *, content_hash: str = "") -> Examined:
        """Scan the files of a plugin as they were read.

        Raises:
            UnknownName: there is no such plugin.
            PluginInvalid: it cannot be used; with everything that is wrong.
            PluginChangedSince: its files have another hash than the one that was meant.
        """
        found = look.one(name)
        if content_hash and found.content.content_hash != content_hash:
            raise PluginChangedSince(name, "looked at")
        scan, schema = self._scan(found)
        about_author = self._parts.trust.findings(found.content)
        findings = sorted((*scan.findings, *about_author), key=lambda finding: finding.order)
        return Examined(found, replace(scan, findings=tuple(findings)), schema, look.signed.get(name, ""))

    def hash_now(self, found: Found) -> str:
        """The hash that the files of a plugin have now; empty where they are a plugin no more."""
        try:
            return load_found(found.content.root, found.place).content.content_hash
        except PluginInvalid:
            return ""

    def _scan(self, found: Found) -> tuple[ScanResult, Schema]:
        from kagura_kernel.plugins.scan.scanner import scan_content

        key = found.content.content_hash
        with self._lock:
            if key in self._scans:
                self._scans.move_to_end(key)
                return self._scans[key]
        scan = scan_content(found.content, found.manifest.permissions)
        scan = replace(scan, findings=self._parts.redact(scan.findings))
        # A source too broken to have a schema is a danger, and is shown as that.
        schema: Schema = MappingProxyType({})
        if scan.schema is not None or not scan.dangerous:
            schema = read_schema(scan.schema, found.name)
            if problems := check_declared(found.manifest.permissions, schema):
                raise PluginInvalid(found.name, problems)
        with self._lock:
            self._scans[key] = (scan, schema)
            if len(self._scans) > _SCANS:
                self._scans.popitem(last=False)
        return scan, schema

    def _tell(
        self,
        places: Sequence[tuple[PluginPlace, Path]],
        project: Path | None,
        discovery: Discovery,
        signed: Mapping[str, str],
    ) -> None:
        sights = [self._sight(found, project, signed.get(found.name, "")) for found in discovery.found.values()]
        for problem in discovery.problems:
            why, where = self._parts.redact("; ".join(problem.why)), _project_of(problem.place, project)
            sights.append(self._seen(problem.name, problem.place, where, problem=why))
        last = self._history.seen()
        for sight in sights:
            before = last.get((sight.plugin, sight.place, sight.project))
            if before is not None and before.content_hash not in ("", sight.content_hash):
                self._replaced(sight.plugin, before.content_hash)
            if before is None or before != sight.model_copy(update={"at": before.at}):
                self._parts.journal.append(sight)
        looked_at = {(place, _project_of(place, project)) for place, _ in places}
        here = {(sight.plugin, sight.place, sight.project) for sight in sights}
        for name, place, where in sorted(last.keys() - here):
            if (place, where) in looked_at:
                self._parts.journal.append(self._seen(name, place, where, gone=True))

    def _sight(self, found: Found, project: Path | None, signed_by: str) -> PluginSeen:
        return self._seen(
            found.name,
            found.place,
            _project_of(found.place, project),
            version=found.manifest.version,
            description=self._parts.redact(found.manifest.description),
            modules=found.manifest.host_modules,
            permissions=found.manifest.permissions,
            content_hash=found.content.content_hash,
            signed_by=signed_by,
        )

    def _seen(self, name: str, place: PluginPlace, project: str, **facts: Any) -> PluginSeen:
        at = self._parts.clock.now()
        return PluginSeen(run_id="", session_id="", at=at, plugin=name, place=place, project=project, **facts)


def _project_of(place: PluginPlace, project: Path | None) -> str:
    return str(project) if place == "project" and project is not None else ""


Places = Callable[[Path | None], Sequence[tuple[PluginPlace, Path]]]
"""Where plugins lie for a project, or without one, the most trusted place first."""


def as_it_is(value: Any) -> Any:
    """The value: where nothing is taken out."""
    return value


@dataclass(frozen=True, slots=True)
class ManagerParts:
    """What a manager is joined from."""

    journal: Journal  # Where everything about plugins is written down, and where words from other processes lie
    clock: Clock  # The time
    owner: str  # This process, as `process_owner` names it
    places: Places  # Where plugins lie
    person: Path | None  # The person's home directory; None where there is none
    private: Sequence[Path]  # Directories that no jail may be shown, our data directory among them
    approvals: ApprovalBook  # The approved ones, of this machine
    quarantine: QuarantineBook  # Those that are put off, of this machine
    trust: TrustBook  # Authors whose signatures count
    start_jail: StartJail  # Makes the jail of an enabled plugin
    max_risk: Risk = Risk.MEDIUM  # The highest risk at which a plugin may be enabled or approved
    # Takes secrets out of a text, a finding or a report: the same type comes back. A brain that audits is shown the
    # source as it is.
    redact: Callable[[Any], Any] = as_it_is
