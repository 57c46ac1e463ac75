"""Makes a folder that can be served as a repository, and adds to it; it is what The Update Framework specifies.

One key signs all four of its roles. Whoever wants several keys, or thresholds, keeps the same files with that
framework's own tools. What clients look at first is written last: a publishing that is killed leaves what was there.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import secrets
import tarfile
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.errors import PluginRefused, PluginRepositoryError, SignatureInvalid
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.plugins import Risk
from kagura_kernel.plugins.content import PluginContent
from kagura_kernel.plugins.manifest import Found
from kagura_kernel.plugins.repositories.trusted import FIRST_ROOT, INSTALL, METADATA, TARGETS, Entry, custom, read_offer
from kagura_kernel.plugins.signature import secret_key
from kagura_kernel.plugins.text import first_danger, reason

if TYPE_CHECKING:
    from securesystemslib.signer import CryptoSigner
    from tuf.api.metadata import Metadata, Root, Snapshot, Targets, Timestamp

ROOT_DAYS = 3650
"""How long the keys of a repository hold; renewed by themselves when half of it is over."""


@dataclass(frozen=True, slots=True)
class Published:
    """What became of a repository."""

    folder: Path
    root_sha256: str  # Of its first root, which those who trust it are told
    added: tuple[str, ...]  # What is new in it, each `NAME VERSION`
    plugins: int  # How many versions it has now
    expires: datetime  # When its index does, UTC


@dataclass(frozen=True, slots=True)
class Issue:
    """One version of a plugin that is to be published."""

    found: Found  # Its files
    archive: bytes
    ending: str  # `.zip` or `.tar.gz`
    risk: Risk  # What the publisher's audit says


def packed(content: PluginContent) -> bytes:
    """The files as a `.tar.gz`, which is the same for the same files."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, data in sorted(content.files.items()):
            entry = tarfile.TarInfo(f"{content.name}/{path}")
            entry.size, entry.mode = len(data), 0o755 if path in content.executable else 0o644
            archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(plain.getvalue(), mtime=0)


def check_publishable(found: Found) -> None:
    """Refuse what nobody could install or enable. Raises `PluginRefused`; takes as long as a scan."""
    from kagura_kernel.plugins.scan.scanner import scan_content

    findings = [*found.content.oddities, *scan_content(found.content, found.manifest.permissions).findings]
    if danger := first_danger(findings):
        raise PluginRefused(found.name, f"is not published: {danger}")


def is_repository(folder: Path) -> bool:
    """Whether one lies in this folder."""
    return (folder / METADATA / FIRST_ROOT).exists()


def is_other(folder: Path) -> bool:
    """Whether something else lies there."""
    return folder.exists() and not is_repository(folder) and (not folder.is_dir() or any(folder.iterdir()))


def publish(folder: Path, issues: Sequence[Issue], key: Path, *, days: int, now: datetime) -> Published:
    """Add these to a repository, and have its index hold for so many days from now; one that is not there is made.

    Raises:
        PluginRepositoryError: the folder holds something else, is another key's, or cannot be written.
        PluginRefused: another plugin of that name and version is in it.
        SignatureInvalid: the key is none, or others may read it.
    """
    try:
        from securesystemslib.signer import CryptoSigner
        from tuf.api.exceptions import RepositoryError
    except ImportError as error:
        raise PluginRepositoryError(folder.name, "needs one more package here", f"Install it: {INSTALL}") from error
    if is_other(folder):
        raise PluginRepositoryError(folder.name, "is no repository, and not empty", "Name a new folder.")
    signer = CryptoSigner(secret_key(key))
    try:
        store = _Folder(folder, signer, now)
        added = [store.add(issue) for issue in issues]
        store.sign(days)
    except RepositoryError as error:
        raise PluginRepositoryError(folder.name, f"cannot be read: {error}") from error
    except OSError as error:
        raise PluginRepositoryError(folder.name, f"cannot be written: {reason(error)}") from error
    first = (folder / METADATA / FIRST_ROOT).read_bytes()
    return Published(
        folder,
        hashlib.sha256(first).hexdigest(),
        tuple(one for one in added if one),
        len(store.targets.signed.targets),
        now + timedelta(days=days),
    )


class _Folder:
    """The files of one repository, as they are and as they will be."""

    def __init__(self, folder: Path, signer: CryptoSigner, now: datetime) -> None:
        from tuf.api.metadata import Metadata, Root, Snapshot, Targets, Timestamp

        self._place = folder
        self._signer = signer
        self._now = now.replace(microsecond=0)
        self._metadata = folder / METADATA
        if is_repository(folder):
            roots = (path for path in self._metadata.glob("*.root.json") if path.name.partition(".")[0].isdecimal())
            latest = max(roots, key=lambda path: int(path.name.partition(".")[0]))
            self._root: Metadata[Root] = Metadata.from_file(str(latest))
            self._check_key()
            self._timestamp: Metadata[Timestamp] = self._verified(Timestamp.type, "timestamp.json")
            snapshots = self._timestamp.signed.snapshot_meta.version
            self._snapshot: Metadata[Snapshot] = self._verified(Snapshot.type, f"{snapshots}.snapshot.json")
            version = self._snapshot.signed.meta["targets.json"].version
            self.targets: Metadata[Targets] = self._verified(Targets.type, f"{version}.targets.json")
            return
        self._root = Metadata(Root(expires=self._now, consistent_snapshot=True))
        for role in (Root.type, Timestamp.type, Snapshot.type, Targets.type):
            self._root.signed.add_key(signer.public_key, role)
        self._timestamp, self._snapshot = Metadata(Timestamp()), Metadata(Snapshot())
        self.targets = Metadata(Targets())
        for document in (self._root, self._timestamp, self._snapshot, self.targets):
            document.signed.version = 0  # the first that is signed is 1

    def add(self, issue: Issue) -> str:
        """Add one; what is new, empty where the same is there already."""
        from tuf.api.metadata import TargetFile

        manifest, content = issue.found.manifest, issue.found.content
        for path, target in self.targets.signed.targets.items():
            offer = read_offer("", path, target.custom)
            if offer is None or (offer.name, offer.version) != (manifest.name, manifest.version):
                continue
            if offer.entry.content_hash == content.content_hash:
                return ""
            why = f"is published as {manifest.version} already, with other files"
            raise PluginRefused(manifest.name, why, "Give it another version.")
        try:
            signature = content.signature()
        except SignatureInvalid as error:
            raise PluginRefused(manifest.name, "cannot be published", error.message) from error
        entry = Entry(
            **manifest.model_dump(exclude={"hints"}),
            author=signature.author if signature is not None else "",
            risk=issue.risk,
            content_hash=content.content_hash,
        )
        path = f"{manifest.name}-{manifest.version}{issue.ending}"
        target = TargetFile.from_data(path, issue.archive, ["sha256"])
        target.unrecognized_fields["custom"] = custom(entry)
        self._write(self._place / TARGETS / f"{target.hashes['sha256']}.{path}", issue.archive)
        self.targets.signed.targets[path] = target
        return f"{manifest.name} {manifest.version}"

    def sign(self, days: int) -> None:
        """Write the index, what clients read first at the end."""
        from tuf.api.metadata import MetaFile

        expires = self._now + timedelta(days=days)
        if self._root.signed.expires < self._now + timedelta(days=ROOT_DAYS / 2):
            self._sign(self._root, self._now + timedelta(days=ROOT_DAYS), "{}.root.json")
        self._sign(self.targets, expires, "{}.targets.json")
        self._snapshot.signed.meta["targets.json"] = MetaFile(version=self.targets.signed.version)
        self._sign(self._snapshot, expires, "{}.snapshot.json")
        self._timestamp.signed.snapshot_meta = MetaFile(version=self._snapshot.signed.version)
        self._sign(self._timestamp, expires, "timestamp.json")

    def _sign(self, document: Metadata[Any], expires: datetime, name: str) -> None:
        document.signed.version += 1
        document.signed.expires = expires
        document.sign(self._signer)
        self._write(self._metadata / name.format(document.signed.version), document.to_bytes())

    def _verified(self, role: str, name: str) -> Metadata[Any]:
        """A document of the folder, which may have been on a server: nothing is signed again that was not ours."""
        from tuf.api.metadata import Metadata

        document: Metadata[Any] = Metadata.from_file(str(self._metadata / name))
        self._root.signed.verify_delegate(role, document.signed_bytes, document.signatures)
        return document

    def _check_key(self) -> None:
        """Whoever has had the folder can put a root of theirs there, which names our key too: ours must be its."""
        from securesystemslib.exceptions import UnverifiedSignatureError

        key = self._signer.public_key
        try:
            key.verify_signature(self._root.signatures[key.keyid], self._root.signed_bytes)
        except (KeyError, UnverifiedSignatureError) as error:
            why = "is signed with another key"
            raise PluginRepositoryError(self._place.name, why, "Publish with that one.") from error

    def _write(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            temporary.write_bytes(data)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
