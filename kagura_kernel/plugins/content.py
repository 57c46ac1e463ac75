"""All files of a plugin, read once: what is hashed, scanned, audited, sent to the jail and compiled are these bytes.

Nobody trusts the directory. Every component is opened with `O_NOFOLLOW` relative to its parent's descriptor, so that a
link is never followed, not even one that is put in place while the walk goes on. What is not read is told as a finding
of severity danger.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from kagura_kernel.domain.errors import PluginInvalid, PluginRefused, SignatureInvalid
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.plugins import PluginFinding, Severity
from kagura_kernel.plugins.signature import BROKEN, SIGNATURE, Signature, check_signature, make_signature
from kagura_kernel.plugins.text import reason, unseen

MANIFEST = "plugin.json"
SOURCE = "plugin.py"

# Hashes of other things never equal one of these; a change of what is hashed changes the number.
_MARK = b"kagura plugin 1\0"


MAX_FILES = 200
MAX_FILE_BYTES = 1 << 20
MAX_TOTAL_BYTES = 4 << 20
MAX_DEPTH = 8
_MAX_ENTRIES = 1000
_MAX_ODDITIES = 100

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Not blocking, so that a pipe that was put in a file's place does not wait for its other end.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_CACHE = "__pycache__"
_KEPT_ELSEWHERE = frozenset({".git", ".hg", ".svn", ".venv", "node_modules"})
# Rule and message of files that are known by their names, whatever is in them.
_NAMES = (
    (re.compile(r"\.py[co]$"), "compiled-code", "is compiled Python, which nobody can read; delete it"),
    (re.compile(r"\.pth$"), "path-file", "changes where Python looks for modules, or runs code when Python starts"),
    (
        re.compile(r"\.(so(\.\d+)*|pyd|dll|dylib|o|obj|a|lib|exe|com|node|wasm|class|jar)$"),
        "native-code",
        "is native code, which nobody can read",
    ),
    (re.compile(r"\.(egg|whl|pyz|pyzw|pex|shiv)$"), "packed-code", "is packed code; a plugin holds its files openly"),
)
_MAGIC = (
    (b"\x7fELF", "an ELF program"),
    (b"MZ", "a Windows program"),
    *((bytes.fromhex(magic), "a Mach-O program") for magic in ("feedface", "feedfacf", "cefaedfe", "cffaedfe")),
    (b"\xca\xfe\xba\xbe", "a Mach-O or Java program"),
    (b"\0asm", "a WebAssembly program"),
)
_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a block device"),
    (stat.S_ISCHR, "a character device"),
)


@dataclass(frozen=True)
class PluginContent:
    """One plugin as it was at one moment."""

    root: Path  # Its directory
    name: str  # The directory's name
    files: Mapping[str, bytes]  # Bytes by path, relative to the directory, parts joined by `/`, sorted
    executable: frozenset[str] = frozenset()  # Those of the paths whose file has an execute bit
    # What a plugin may not hold and was therefore not read (links, devices, native code, too much)
    oddities: tuple[PluginFinding, ...] = ()

    @cached_property
    def content_hash(self) -> str:
        """SHA-256, hexadecimal, over path, execute bit and bytes of every file; what was not read counts by name."""
        return self._hash("")

    @cached_property
    def signed_hash(self) -> str:
        """The same without `plugin.sig`: what a signature is about."""
        return self._hash(SIGNATURE)

    def signature(self) -> Signature | None:
        """Its signature; None when it has none.

        Raises `SignatureInvalid`: it has one that does not hold.
        """
        data = self.files.get(SIGNATURE)
        return None if data is None else check_signature(data, self.signed_hash)

    @property
    def source(self) -> bytes:
        """`plugin.py`; empty when there is none."""
        return self.files.get(SOURCE, b"")

    @cached_property
    def python(self) -> Mapping[str, bytes]:
        """The files whose name ends in `.py`, `plugin.py` among them."""
        return MappingProxyType({path: data for path, data in self.files.items() if path.endswith(".py")})

    def _hash(self, without: str) -> str:
        digest = hashlib.sha256(_MARK)
        for path in sorted(self.files):
            if path == without:
                continue
            data = self.files[path]
            # Length and number of parts are in it, so that no two contents make the same stream.
            digest.update(f"{path}\0{int(path in self.executable)}\0{len(data)}\0".encode())
            digest.update(data)
        unread = [finding for finding in self.oddities if finding.file not in self.files]
        for finding in sorted(unread, key=lambda one: (one.file, one.rule)):
            digest.update(f"{finding.file}\0!{finding.rule}\0".encode())
        return digest.hexdigest()


def read_content(root: Path, *, bundled: bool = False) -> PluginContent:
    """Everything in a plugin's directory; what a plugin may not hold becomes a finding, and is not read.

    The directory's parents may be links, it may not. One that is `bundled` came with this package, whose installer
    compiles and links files as it likes: compiled files are passed over, and a file may have other names. Raises
    `PluginInvalid`: it is a link, no directory, or cannot be read.
    """
    root = root.absolute()  # `.` has no name
    walk = _Walk(bundled)
    with _opened(root) as handle:
        walk.directory(handle, "", 1)
    files = MappingProxyType(dict(sorted(walk.files.items())))
    oddities = tuple(sorted(walk.oddities, key=lambda finding: finding.order))
    content = PluginContent(root, root.name, files, frozenset(walk.executable), oddities)
    try:
        content.signature()
    except SignatureInvalid as error:
        broken = PluginFinding(Severity.DANGER, BROKEN, f"Its signature does not hold. {error.message}", SIGNATURE)
        return replace(content, oddities=(*content.oddities, broken))
    return content


@contextmanager
def _opened(root: Path) -> Iterator[int]:
    name = ascii(root.name)[1:-1]
    try:
        handle = os.open(root, _DIRECTORY)
    except OSError as error:
        why = f"its directory cannot be opened: {reason(error)}"
        if root.is_symlink():
            why = "its directory is a link; put the directory itself there, or use `plugin install`"
        elif isinstance(error, FileNotFoundError):
            why = f"there is no directory {root}"
        elif isinstance(error, NotADirectoryError):
            why = f"{root} is no directory"
        raise PluginInvalid(name, [why]) from error
    try:
        yield handle
    finally:
        os.close(handle)


class _Walk:
    """One walk; knows how much is read already."""

    def __init__(self, bundled: bool) -> None:
        self.files: dict[str, bytes] = {}  # Bytes by relative path, parts joined by `/`
        self.executable: set[str] = set()  # Those of the paths whose file has an execute bit
        self.oddities: list[PluginFinding] = []  # What was not read, and why
        self._bundled = bundled
        self._entries = 0
        self._bytes = 0
        self._full = False

    def directory(self, handle: int, prefix: str, depth: int) -> None:
        for name in self._names(handle, prefix):
            if self._full:
                return
            self._entries += 1
            if self._entries > _MAX_ENTRIES:
                self._stop(f"it holds more than {_MAX_ENTRIES} files and directories")
                return
            self._entry(handle, prefix, name, depth)

    def _names(self, handle: int, prefix: str) -> list[str]:
        names: list[str] = []
        try:
            with os.scandir(handle) as entries:
                for entry in entries:
                    names.append(entry.name)
                    if len(names) > _MAX_ENTRIES:
                        break  # the walk stops at the same number, and says so
        except OSError as error:
            self._odd("unreadable", prefix.rstrip("/"), f"cannot be read: {reason(error)}")
        return sorted(names)

    def _entry(self, parent: int, prefix: str, name: str, depth: int) -> None:
        path = prefix + name
        if (sign := unseen(name)) or "\\" in name:
            what = f"the character {sign}" if sign else "a backslash"
            self._odd("odd-name", path, f"has {what} in its name, which a reader may not see")
            return
        try:
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                self._descend(parent, path, name, depth)
            elif self._readable(path, name, found):
                self._file(parent, path, name)
        except FileNotFoundError:
            return  # gone since it was listed: what is not there is no part of the plugin
        except OSError as error:
            self._odd("unreadable", path, f"cannot be read: {reason(error)}")

    def _descend(self, parent: int, path: str, name: str, depth: int) -> None:
        if name == _CACHE:
            if not self._bundled:
                self._odd("compiled-code", path, "holds compiled Python, which nobody can read; delete it")
            return
        if name in _KEPT_ELSEWHERE:
            self._odd("foreign-directory", path, "is no part of a plugin; keep it elsewhere")
            return
        if depth >= MAX_DEPTH:
            self._odd("too-much", path, f"lies more than {MAX_DEPTH} directories deep")
            return
        try:
            handle = os.open(name, _DIRECTORY, dir_fd=parent)
        except OSError as error:
            self._swapped(path, error)
            return
        try:
            self.directory(handle, f"{path}/", depth + 1)
        finally:
            os.close(handle)

    def _readable(self, path: str, name: str, found: os.stat_result) -> bool:
        if stat.S_ISLNK(found.st_mode):
            self._odd("link", path, "is a link; a plugin holds its files itself")
            return False
        for pattern, rule, message in _NAMES:
            if pattern.search(name.lower()):
                if not (self._bundled and rule == "compiled-code"):
                    self._odd(rule, path, message)
                return False
        return self._regular(path, found)

    def _regular(self, path: str, found: os.stat_result) -> bool:
        if not stat.S_ISREG(found.st_mode):
            kind = next((word for test, word in _KINDS if test(found.st_mode)), "no plain file")
            self._odd("special-file", path, f"is {kind}")
        elif found.st_nlink > 1 and not self._bundled:
            self._odd("hard-link", path, "has another name elsewhere, through which it can be changed; copy it")
        elif found.st_size > MAX_FILE_BYTES:
            self._odd("too-much", path, f"is larger than {MAX_FILE_BYTES >> 20} MiB")
        else:
            return True
        return False

    def _file(self, parent: int, path: str, name: str) -> None:
        if len(self.files) >= MAX_FILES:
            self._stop(f"it holds more than {MAX_FILES} files")
            return
        try:
            handle = os.open(name, _FILE, dir_fd=parent)
        except OSError as error:
            self._swapped(path, error)
            return
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            # What was looked at may not be what was opened.
            if not self._regular(path, found):
                return
            data = file.read(MAX_FILE_BYTES + 1)
        self._take(path, data, executable=bool(found.st_mode & 0o111))

    def _swapped(self, path: str, error: OSError) -> None:
        """Tells of what was fit to be read when it was looked at, and could not be opened."""
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise error
        self._odd("link", path, "was put into another's place while it was read")

    def _take(self, path: str, data: bytes, *, executable: bool) -> None:
        self._bytes += len(data)
        if len(data) > MAX_FILE_BYTES:
            self._odd("too-much", path, f"is larger than {MAX_FILE_BYTES >> 20} MiB")
        elif self._bytes > MAX_TOTAL_BYTES:
            self._stop(f"it holds more than {MAX_TOTAL_BYTES >> 20} MiB")
        elif (what := _native(data)) != "":
            self._odd("native-code" if "Python" not in what else "compiled-code", path, f"is {what}")
        else:
            self.files[path] = data
            if executable:
                self.executable.add(path)

    def _odd(self, rule: str, path: str, message: str) -> None:
        shown = ascii(path)[1:-1] if unseen(path) else path
        self.oddities.append(PluginFinding(Severity.DANGER, rule, f"{shown} {message}.", shown))
        if len(self.oddities) >= _MAX_ODDITIES:
            self._stop(f"more than {_MAX_ODDITIES} things in it are no part of a plugin")

    def _stop(self, why: str) -> None:
        if not self._full:
            self._full = True
            message = f"The plugin was not read to its end: {why}."
            self.oddities.append(PluginFinding(Severity.DANGER, "too-much", message))


def _native(data: bytes) -> str:
    """What a file is by its first bytes, when it is code for a machine; a text never is."""
    head = data[:64]
    if head.startswith(b"!<arch>\n"):
        return "an archive of native code"
    if b"\0" not in head:
        return ""
    if head[1:4] == b"\r\r\n":
        return "compiled Python"
    return next((what for magic, what in _MAGIC if head.startswith(magic)), "")


def sign(content: PluginContent, key_path: Path, author: str) -> Signature:
    """Sign a plugin as it was read, and put the signature into its directory as `plugin.sig`.

    Raises `SignatureInvalid`: the key is none, others may read it, or the author's name cannot be shown;
    `PluginRefused`: the plugin holds what no plugin may hold, or its directory cannot be written to.
    """
    odd = [finding for finding in content.oddities if finding.rule != BROKEN]
    if odd:
        raise PluginRefused(content.name, f"cannot be signed: {odd[0].message.rstrip('.')}")
    signature, data = make_signature(content.signed_hash, key_path, author)
    _put(content, data)
    return signature


def _put(content: PluginContent, data: bytes) -> None:
    temporary = f".{SIGNATURE}.{secrets.token_hex(4)}"
    try:
        directory = os.open(content.root, _DIRECTORY)
        try:
            with os.fdopen(os.open(temporary, _NEW, 0o644, dir_fd=directory), "wb") as file:
                file.write(data)
            os.rename(temporary, SIGNATURE, src_dir_fd=directory, dst_dir_fd=directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise PluginRefused(content.name, f"cannot be signed: its directory says {reason(error)}") from error
