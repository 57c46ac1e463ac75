"""Text files as bytes and as text: encoding and newlines survive an edit. Pure."""

from __future__ import annotations

import codecs
import contextlib
import posixpath
from dataclasses import dataclass

from kagura_kernel.domain.errors import BoxFileError
from kagura_kernel.domain.kit import KIT_DIR

SCRATCH = "/tmp"  # noqa: S108 - the box's own, private scratch space


def workspace_path(root: str, path: str) -> str:
    """A path as the box's files take it: relative to the workspace, or absolute below its scratch space.

    Raises:
        BoxFileError: it lies outside of both.
    """
    if "\0" in path:
        raise BoxFileError(path.replace("\0", "\\0"), "EINVAL", "a path cannot hold NUL")
    absolute = posixpath.normpath(posixpath.join(root, path))
    if absolute.startswith("//"):
        absolute = absolute[1:]
    if absolute == root:
        return "."
    if absolute.startswith(root.rstrip("/") + "/"):
        return absolute[len(root.rstrip("/")) + 1 :]
    if absolute == SCRATCH or absolute.startswith(SCRATCH + "/"):
        return absolute
    raise BoxFileError(path, "EACCES", f"lies outside of the workspace; file tools see {root} and {SCRATCH}")


def readable_path(root: str, path: str) -> str:
    """A path as the box's files take it for reading: like `workspace_path`, or absolute in the kit.

    Raises:
        BoxFileError: it lies outside of all three.
    """
    absolute = posixpath.normpath(posixpath.join(root, path)) if "\0" not in path else ""
    if absolute == KIT_DIR or absolute.startswith(KIT_DIR + "/"):
        return absolute
    return workspace_path(root, path)


_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file's text and how it was written."""

    text: str  # Its text; bytes that are not valid stand as lone surrogates and become the same bytes again
    encoding: str = "utf-8"  # How it is written
    mark: bytes = b""  # The byte order mark before it, or nothing

    @property
    def clean(self) -> bool:
        """Whether every byte was valid."""
        return not any("\udc80" <= char <= "\udcff" for char in self.text)

    @property
    def crlf(self) -> bool:
        """Whether every line ends in CR LF."""
        return "\r\n" in self.text and self.text.count("\r\n") == self.text.count("\n")

    def encoded(self) -> bytes:
        """The bytes of the file."""
        return self.mark + self.text.encode(self.encoding, _errors(self.encoding))


def decode_text(data: bytes) -> TextFile:
    """Text of a file; never fails."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            # Half a character at the end of UTF-16 is an error that no handler mends; it is read as bytes then.
            with contextlib.suppress(UnicodeDecodeError):
                return TextFile(data[len(mark) :].decode(encoding, _errors(encoding)), encoding, mark)
    return TextFile(data.decode("utf-8", "surrogateescape"))


def is_binary(data: bytes) -> bool:
    """Whether the beginning of a file looks like no text."""
    return b"\0" in data[:8192] and not data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def _errors(encoding: str) -> str:
    return "surrogateescape" if encoding == "utf-8" else "surrogatepass"
