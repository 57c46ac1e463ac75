"""Cassettes: a brain's side of a run, as a file of JSON lines.

`docs/cassette.md` is the description for people. This module reads, checks and writes the lines; it plays nothing.
A cassette is read and checked as a whole before anything of it is played.

A cassette's file: only a plain file of sensible size is ever read, and whoever names something else is told so.

A path comes from a person, who may name a pipe, a device or a disk image by mistake. Nothing here waits for one, and
nothing here takes more memory than `LIMIT`.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar

from kagura_kernel.brain.provider import BrainDone
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import CassetteBroken, CassetteMissing, UsageError
from kagura_kernel.domain.late_dataclass import asdict, dataclass, field
from kagura_kernel.domain.nesting import is_deeper_than
from kagura_kernel.domain.sentences import Sentence
from kagura_kernel.domain.tools import ToolCall
from kagura_kernel.domain.visible import is_whole

LIMIT = 64 * 2**20
"""Bytes; a larger file is no cassette that this package plays."""

# Opening a pipe without this waits for somebody who writes into it; a terminal would become ours.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_BOM = b"\xef\xbb\xbf"


def read_text(path: Path) -> str:
    """The whole text, without a byte order mark.

    Raises:
        CassetteMissing: there is no such file.
        CassetteBroken: it is no plain file, too large, or no UTF-8 text; `foreign` unless it begins as a cassette does.
    """
    with open_plain(path) as file:
        foreign = not starts_as_cassette(file)
        file.seek(0)
        try:
            # One byte more than is allowed, whatever size the file claims: it may grow, or be one of the system's.
            data = file.read(LIMIT + 1)
        except OSError as error:
            raise CassetteBroken(str(path), 1, f"it cannot be read ({error.strerror})", foreign=True) from error
    if len(data) > LIMIT:
        raise CassetteBroken(str(path), 1, f"it is larger than {LIMIT // 2**20} MiB", foreign=foreign)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CassetteBroken(str(path), line, "it is not UTF-8 text", foreign=foreign) from error


def open_plain(path: Path) -> BinaryIO:
    """The file, open for reading, if it is a plain one; waits for nobody.

    Raises:
        CassetteMissing: there is no such file.
        CassetteBroken: it is something else, or may not be read.
    """
    try:
        handle = os.open(path, _FLAGS)
    except FileNotFoundError as error:
        raise CassetteMissing(str(path)) from error
    except OSError as error:
        raise CassetteBroken(str(path), 1, f"it cannot be read ({error.strerror})", foreign=True) from error
    except ValueError as error:
        raise CassetteBroken(str(path), 1, f"that is no file name ({error})", foreign=True) from error
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise CassetteBroken(str(path), 1, f"it cannot be read (it is {_kind(mode)})", foreign=True)
    return os.fdopen(handle, "rb")


def starts_as_cassette(file: BinaryIO) -> bool:
    """Whether the first line that is not empty is a cassette's header, of whatever version."""
    left = LIMIT
    try:
        while left > 0 and (line := file.readline(left)):
            left -= len(line)
            if line := line.removeprefix(_BOM).strip():
                return is_header(json.loads(line))
    except (OSError, ValueError, RecursionError, MemoryError):
        pass  # what cannot be read or understood is no header
    return False


def is_header(value: object) -> bool:
    """Whether a parsed line is a cassette's header, of whatever version."""
    # `true` is a number to Python and 1 at that.
    return isinstance(value, dict) and type(value.get("kagura_cassette")) is int


def _kind(mode: int) -> str:
    names = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return names.get(stat.S_IFMT(mode), "a device")


VERSION = 1
_LARGEST_FIGURE = 10**9
# What is nested deeper than this comes back from no journal; no tool needs nearly as much.
_DEEPEST = 100

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CassetteHeader:
    """The first line."""

    recorded_at: str = ""  # ISO 8601, UTC
    brain: str = ""  # Which brain spoke
    model: str = ""  # Which model it was asked to use; empty was its own choice
    task: str = ""  # What it was asked
    pictures: str = ""  # What it was shown with the task: names and hashes, in lines; a replay does not show it again


@dataclass(frozen=True, slots=True)
class Spoken:
    """A whole text."""

    text: str


@dataclass(frozen=True, slots=True)
class Heard:
    """What a person said meanwhile, where the brain took it up."""

    text: str


@dataclass(frozen=True, slots=True)
class Called:
    """One tool call, or several that were under way at once."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class Counted:
    """One round as it was paid for when it was recorded."""

    usage: Usage
    model: str = ""


@dataclass(frozen=True, slots=True)
class Finished:
    """The end, as it was recorded."""

    text: str = ""
    model: str = ""
    turns: int = 0
    stopped: Literal["", "budget", "turns"] = ""


Entry = Spoken | Heard | Called | Counted | Finished


@dataclass(frozen=True, slots=True)
class Cassette:
    """A recorded run."""

    header: CassetteHeader  # The first line
    entries: tuple[Entry, ...] = field(default=())  # The others, of which the last, and only the last, is `Finished`

    @property
    def finished(self) -> Finished:
        """The last entry."""
        last = self.entries[-1]
        assert isinstance(last, Finished), "read_cassette saw to it"  # noqa: S101 - for the type checker
        return last


def read_cassette(path: Path, tools: Sequence[str] | None = None) -> Cassette:
    """A cassette, whole and checked.

    Args:
        path: The file.
        tools: Names of the tools that exist; None leaves the names unchecked.

    Raises:
        CassetteMissing: there is no such file.
        CassetteBroken: it is no cassette, of another version, cut short, or calls a tool that does not exist.
    """
    # Only these end a line: the text of a brain may hold other characters that `splitlines` would cut at.
    numbered = ((number, line) for number, line in enumerate(read_text(path).split("\n"), 1) if line.strip())
    first = next(numbered, None)
    if first is None:
        raise CassetteBroken(str(path), 1, "it is empty", foreign=True)
    header = _header(path, *first)
    entries = [(number, _entry(path, number, _parse(path, number, line))) for number, line in numbered]
    _check_order(path, entries, last_line=entries[-1][0] if entries else first[0])
    if tools is not None:
        _check_tools(path, entries, tools)
    return Cassette(header, tuple(entry for _, entry in entries))


def header_line(header: CassetteHeader) -> str:
    """The first line, without its end."""
    facts = {name: value for name, value in asdict(header).items() if value or name != "pictures"}
    return _dump({"kagura_cassette": VERSION, **facts})


def entry_line(entry: Spoken | Heard | Called | Counted | BrainDone) -> str:
    """The line of an entry, without its end."""
    match entry:
        case Spoken(text):
            return _dump({"text": text})
        case Heard(text):
            return _dump({"said": text})
        case Called((call,)):
            return _dump({"call": _call_value(call)})
        case Called(several):
            return _dump({"calls": [_call_value(call) for call in several]})
        case Counted(usage, model):
            return _dump({"usage": {**asdict(usage), "model": model}})
        case BrainDone():
            done = {"text": entry.text, "model": entry.model, "turns": entry.turns, "stopped": entry.stopped}
            return _dump({"done": {**done, "reported_usd": entry.reported_usd}})


def _dump(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, ensure_ascii=False)
    # Odd bytes of a file name have no UTF-8; as escapes they come back exactly.
    return text if is_whole(text) else json.dumps(value)


def _call_value(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "arguments": dict(call.arguments)}


def _parse(path: Path, number: int, line: str, *, foreign: bool = False) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise CassetteBroken(str(path), number, "it is not JSON", foreign=foreign) from error
    except (RecursionError, MemoryError) as error:
        raise CassetteBroken(str(path), number, "it is nested too deeply", foreign=foreign) from error
    if not isinstance(value, dict):
        raise CassetteBroken(str(path), number, "it is not a JSON object", foreign=foreign)
    if is_deeper_than(value, _DEEPEST):
        raise CassetteBroken(str(path), number, "it is nested too deeply", foreign=foreign)
    return value


def _header(path: Path, number: int, line: str) -> CassetteHeader:
    value = _parse(path, number, line, foreign=True)
    if not is_header(value):
        why = 'the first line is not `{"kagura_cassette": 1, …}`'
        raise CassetteBroken(str(path), number, why, foreign=True)
    version = value["kagura_cassette"]
    if version != VERSION:
        why = f"its version is {version!r}, and this kagura-kernel knows {VERSION}"
        raise CassetteBroken(str(path), number, why)
    return CassetteHeader(**{name: str(value.get(name) or "") for name in CassetteHeader.__dataclass_fields__})


def _entry(path: Path, number: int, value: Mapping[str, Any]) -> Entry:
    if len(value) != 1:
        raise CassetteBroken(str(path), number, f"it does not hold exactly one of {', '.join(_READERS)}")
    kind, content = next(iter(value.items()))
    reader = _READERS.get(kind)
    if reader is None:
        raise CassetteBroken(str(path), number, f"{kind!r} is none of {', '.join(_READERS)}")
    try:
        return reader(content)
    except (TypeError, KeyError, ValueError, UsageError) as error:
        raise CassetteBroken(str(path), number, f"its {kind!r} is not as it should be ({error})") from error


def _read_text(content: Any) -> Entry:
    return Spoken(_typed(content, str))


def _read_said(content: Any) -> Entry:
    return Heard(Sentence(_typed(content, str)).text)


def _read_call(content: Any) -> Entry:
    return Called((_one_call(content),))


def _read_calls(content: Any) -> Entry:
    calls = tuple(_one_call(one) for one in _typed(content, list))
    if not calls:
        message = "no call in it"
        raise ValueError(message)
    return Called(calls)


def _read_usage(content: Any) -> Entry:
    figures = dict(_typed(content, dict))
    model = _typed(figures.pop("model", ""), str)
    return Counted(Usage(**{name: _figure(figure) for name, figure in figures.items()}), model)


def _read_done(content: Any) -> Entry:
    value = _typed(content, dict)
    stopped = value.get("stopped", "")
    if stopped not in ("", "budget", "turns"):
        message = f"stopped is {stopped!r}"
        raise ValueError(message)
    return Finished(
        _typed(value["text"], str),
        _typed(value.get("model", ""), str),
        _figure(value.get("turns", 0)),
        stopped,
    )


_READERS: Mapping[str, Callable[[Any], Entry]] = {
    "text": _read_text,
    "said": _read_said,
    "call": _read_call,
    "calls": _read_calls,
    "usage": _read_usage,
    "done": _read_done,
}


def _one_call(value: Any) -> ToolCall:
    call = _typed(value, dict)
    return ToolCall(_typed(call.get("id", ""), str), _typed(call["name"], str), _typed(call.get("arguments", {}), dict))


def _figure(value: Any) -> int:
    # `true` is a number to Python.
    if type(value) is not int or not 0 <= value <= _LARGEST_FIGURE:
        message = f"{value!r} is no number from 0 to {_LARGEST_FIGURE}"
        raise TypeError(message)
    return value


def _typed(value: Any, kind: type[T]) -> T:
    if not isinstance(value, kind):
        message = f"{value!r} is no {kind.__name__}"
        raise TypeError(message)
    return value


def _check_order(path: Path, entries: Sequence[tuple[int, Entry]], *, last_line: int) -> None:
    for number, entry in entries[:-1]:
        if isinstance(entry, Finished):
            raise CassetteBroken(str(path), number, "lines follow after `done`")
    if not entries or not isinstance(entries[-1][1], Finished):
        raise CassetteBroken(str(path), last_line, "it ends without a `done` line, so it was cut short")


def _check_tools(path: Path, entries: Sequence[tuple[int, Entry]], tools: Sequence[str]) -> None:
    for number, entry in entries:
        for call in entry.calls if isinstance(entry, Called) else ():
            if call.name not in tools:
                known = ", ".join(tools) or "none"
                raise CassetteBroken(str(path), number, f"there is no tool {call.name!r} (there are: {known})")
