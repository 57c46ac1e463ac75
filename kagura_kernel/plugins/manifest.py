"""Which plugins there are, read anew each time, and what each says about itself in `plugin.json`, checked as a whole.

What cannot be used is told and passed over; the others go on. Also what is other about a plugin than it was: in its
files, and in what it asks for.
"""

from __future__ import annotations

import keyword
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from kagura_kernel.domain.errors import PluginInvalid, UnknownName
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.plugins import MAX_NAME, PLUGIN_NAME, PluginPermissions, PluginPlace
from kagura_kernel.plugins.content import MANIFEST, MAX_DEPTH, SOURCE, PluginContent, read_content
from kagura_kernel.plugins.permissions import check_entry
from kagura_kernel.plugins.text import NotReadable, hint, read_document, unseen

MAX_BYTES = 64 << 10
MAX_MODULES = 16
MAX_ENTRIES = 32
MAX_HINTS = 40
MAX_PROBLEMS = 20
"""So many faults of one manifest are told; it could have as many as letters."""

RESERVED_MODULES = frozenset({"kagura_host", "kagura_kernel", "kagura_plugin"})
"""Names that guest code and plugins import for other reasons."""

_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*)?"
    r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)
_MODULE = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)
_MAX_VERSION = 64


def _name(text: str) -> str:
    if not PLUGIN_NAME.fullmatch(text) or len(text) > MAX_NAME:
        raise ValueError(f"a name is in kebab-case, as in my-plugin, and has at most {MAX_NAME} letters")
    return text


def _version(text: str) -> str:
    if text[:1] in ("v", "V"):
        raise ValueError("a version has no v before it: 1.0.0")
    if len(text) > _MAX_VERSION or not _SEMVER.fullmatch(text):
        raise ValueError("a version is MAJOR.MINOR.PATCH, as in 1.0.0 (SemVer)")
    return text


def _module(text: str) -> str:
    if not _MODULE.fullmatch(text) or keyword.iskeyword(text):
        raise ValueError(f"{text[:80]!r} is no name for a module: small letters, digits and _, beginning with a letter")
    if text in sys.stdlib_module_names:
        raise ValueError(f"{text!r} is a module of Python's own; choose another name")
    if text in RESERVED_MODULES:
        raise ValueError(f"{text!r} is a name of ours; choose another one")
    return text


def _modules(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise ValueError("it has no entry")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{', '.join(map(repr, twice))} stands in it more than once")
    return names


def _line(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty")
    if sign := unseen(text):
        raise ValueError(f"it holds {sign}, which a reader would not see; it is one line of plain text")
    return text


def _text(text: str) -> str:
    if sign := unseen(text, lines=True):
        raise ValueError(f"it holds {sign}, which a reader would not see")
    return text


def _permissions(permissions: PluginPermissions) -> PluginPermissions:
    problems = [
        f"{kind}: {problem}"
        for kind in ("read", "write", "net")
        for problem in _entries(kind, getattr(permissions, kind))
    ]
    if problems:
        raise ValueError("; ".join(problems))
    return permissions


def _entries(kind: str, entries: tuple[str, ...]) -> list[str]:
    if len(entries) > MAX_ENTRIES:
        return [f"it has more than {MAX_ENTRIES} entries"]
    twice = [f"{entry!r} stands in it twice" for entry in sorted({one for one in entries if entries.count(one) > 1})]
    return [problem for entry in entries if (problem := check_entry(kind, entry))] + twice


_Line = Annotated[str, Field(max_length=300), AfterValidator(_line)]
_Text = Annotated[str, Field(max_length=2000), AfterValidator(_text)]
_Texts = Annotated[tuple[_Text, ...], Field(max_length=MAX_HINTS)]


class _Part(BaseModel):
    # What is no key is told by `_strange_keys`, beside all else that is wrong.
    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)


class Hints(_Part):
    """What the author wants a brain to know; the author's words, never ours."""

    overview: _Text = ""  # What the plugin is for
    related_modules: _Texts = ()  # Modules that are often used with it
    critical_rules: _Texts = ()  # What must be kept to
    anti_patterns: _Texts = ()  # What is often done wrong
    common_patterns: _Texts = ()  # Typical uses, mostly code


class Manifest(_Part):
    """One plugin's manifest."""

    name: Annotated[str, AfterValidator(_name)]  # Kebab-case; the same as its directory
    version: Annotated[str, AfterValidator(_version)]  # SemVer, without a leading v
    description: _Line  # One line
    # What guest code may import
    host_modules: Annotated[
        tuple[Annotated[str, AfterValidator(_module)], ...],
        Field(max_length=MAX_MODULES),
        AfterValidator(_modules),
    ]
    hints: Hints = Field(default_factory=Hints)  # For brains
    # What its jail is to open, before configuration
    permissions: Annotated[PluginPermissions, AfterValidator(_permissions)] = Field(default_factory=PluginPermissions)


# What may stand where; the keys as they are written.
_KEYS: Mapping[str, tuple[str, ...]] = {
    "": tuple(map(to_camel, Manifest.model_fields)),
    "hints": tuple(map(to_camel, Hints.model_fields)),
    "permissions": ("read", "write", "net"),
}

# Of pydantic's faults, those that would be told in Python's words.
_FAULTS = {
    "missing": "it is missing",
    "string_type": "it is a text",
    "tuple_type": "it is a list",
    "model_type": "it is an object: {{…}}",
    "dataclass_type": "it is an object: {{…}}",
    "too_long": "it has more than {max_length} entries",
    "string_too_long": "it has more than {max_length} letters",
}


def parse_manifest(data: bytes, directory: str | None) -> Manifest:
    """The manifest in these bytes.

    Without a directory the name is not compared with one. Raises `PluginInvalid`: with everything that is wrong, or as
    much of it as anybody reads.
    """
    label = directory or "plugin"
    try:
        document, problems = read_document(data, MAX_BYTES)
    except NotReadable as error:
        raise PluginInvalid(label, [f"plugin.json: it {error}"]) from error
    problems = [f"plugin.json: {problem}" for problem in [*problems, *_strange_keys(document)]]
    try:
        manifest = Manifest.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        raise PluginInvalid(label, _first(problems + _found(error))) from error
    if directory is not None and manifest.name != directory:
        problems.append(f"name: it is {manifest.name!r}, and its directory is {directory!r}; both must be the same")
    if problems:
        raise PluginInvalid(label, _first(problems))
    return manifest


def _first(problems: list[str]) -> list[str]:
    """As many as a person reads, and how many more there are."""
    more = len(problems) - MAX_PROBLEMS
    return problems if more <= 0 else [*problems[:MAX_PROBLEMS], f"plugin.json: {more:,} more faults"]


def _strange_keys(document: Mapping[str, Any]) -> list[str]:
    told = []
    for place, known in _KEYS.items():
        part = document.get(place) if place else document
        if isinstance(part, dict):
            where = f"{place}." if place else ""
            strange = [key for key in part if key not in known]
            # A hint takes a while, and nobody reads the thousandth.
            told += [f"there is no key {where + key[:80]!r}{hint(key, known)}" for key in strange[:MAX_PROBLEMS]]
            told += [f"there is no key {where + key[:80]!r}" for key in strange[MAX_PROBLEMS:]]
    return told


def _found(error: ValidationError) -> list[str]:
    return [
        f"plugin.json: {'.'.join(map(str, one['loc']))}: {_told(one['type'], one['msg'], one.get('ctx', {}))}"
        for one in error.errors(include_input=False, include_url=False)
    ]


def _told(kind: str, message: str, context: Mapping[str, Any]) -> str:
    """A fault in the words of JSON, not of Python's types."""
    if kind in _FAULTS:
        return _FAULTS[kind].format_map(context)
    message = message.removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


FOLDER = "plugins"
"""Name of the directory that holds plugins, in the user's data directory and in a project alike."""

_HERE = Path(__file__).resolve()
# Those that came with the package, and those beside it in a clone.
_BUNDLED = (_HERE.parent / "bundled", _HERE.parents[2] / FOLDER)


def bundled_directory() -> Path | None:
    """Where the plugins that come with this package lie; None where they were left out."""
    for place in _BUNDLED:
        # Beside an installed package there may be a folder of this name that belongs to something else.
        if (place / "fs-read" / "plugin.json").is_file():
            return place
    return None


def plugin_places(data_home: Path, project: Path | None) -> tuple[tuple[PluginPlace, Path], ...]:
    """Where plugins lie for a project, or without one; the most trusted place first."""
    places: tuple[tuple[PluginPlace, Path | None], ...] = (
        *(("bundled", bundled_directory()), ("user", data_home / FOLDER)),
        ("project", None if project is None else project / FOLDER),
    )
    return tuple((place, path) for place, path in places if path is not None)


MAX_PLACE_ENTRIES = 1000
"""So many entries of one place are looked at."""

MAX_PLACE_BYTES = 64 << 20
"""So much of one place is read: whoever lists plugins holds all of them."""


@dataclass(frozen=True, slots=True)
class Found:
    """A plugin whose manifest holds; nobody has looked at its source yet."""

    name: str
    place: PluginPlace  # Where it lies
    content: PluginContent  # All of its files
    manifest: Manifest  # What it says about itself


@dataclass(frozen=True, slots=True)
class Problem:
    """A directory that is no usable plugin."""

    name: str  # The directory's name, fit to be shown
    place: PluginPlace  # Where it lies
    path: Path  # The directory
    why: tuple[str, ...]  # Every reason, each a line


@dataclass(frozen=True, slots=True)
class Discovery:
    """What was found."""

    found: Mapping[str, Found]  # Usable plugins, by name, sorted
    problems: tuple[Problem, ...] = ()  # Directories that are none, in the order in which they were met
    # The trusted author of each usable one that has one, once somebody has looked
    signed: Mapping[str, str] = field(default_factory=dict)

    def one(self, name: str) -> Found:
        """A usable plugin. Raises `PluginInvalid`: it is there and cannot be used; `UnknownName`: it is not there."""
        if name in self.found:
            return self.found[name]
        for problem in self.problems:
            if problem.name == name:
                raise PluginInvalid(name, problem.why)
        known = sorted({*self.found, *(problem.name for problem in self.problems)})
        raise UnknownName("plugin", name, known, hint="See `plugin list`.")


def discover(places: Sequence[tuple[PluginPlace, Path]]) -> Discovery:
    """All plugins of these places; an earlier place's name or module is refused in a later one.

    A place that does not exist has no plugins, and one that is an earlier place again adds none. What holds neither
    manifest nor source is no plugin; nor is what has a name that begins with a dot or `_`.
    """
    found: dict[str, Found] = {}
    problems: list[Problem] = []
    for place, directory in _apart(places):
        left = MAX_PLACE_BYTES
        for path in _candidates(directory):
            try:
                content = _read(path, place, left)
                left -= sum(map(len, content.files.values()))
                plugin = _found_at(content, place)
            except PluginInvalid as error:
                problems.append(Problem(error.plugin, place, path, error.problems))
                continue
            if why := _taken(plugin, found):
                problems.append(Problem(plugin.name, place, path, (why,)))
            else:
                found[plugin.name] = plugin
    return Discovery(MappingProxyType(dict(sorted(found.items()))), tuple(problems))


def load_found(path: Path, place: PluginPlace) -> Found:
    """One plugin directory. Raises `PluginInvalid`: it is none; with everything that is wrong."""
    return _found_at(read_content(path, bundled=place == "bundled"), place)


def _read(path: Path, place: PluginPlace, left: int) -> PluginContent:
    """A directory's files, while so many bytes of its place are left."""
    if left <= 0:
        why = f"it was not read: the plugins before it in {path.parent} have more than {MAX_PLACE_BYTES >> 20} MiB"
        raise PluginInvalid(_shown(path.name), [why])
    return read_content(path, bundled=place == "bundled")


def _shown(name: str) -> str:
    return ascii(name)[1:-1] if unseen(name) else name


def _found_at(content: PluginContent, place: PluginPlace) -> Found:
    shown = _shown(content.name)
    problems = [_missing(content, name) for name in (MANIFEST, SOURCE) if name not in content.files]
    if MANIFEST not in content.files:
        raise PluginInvalid(shown, problems)
    try:
        manifest = parse_manifest(content.files[MANIFEST], shown)
    except PluginInvalid as error:
        raise PluginInvalid(shown, [*problems, *error.problems]) from error
    if problems:
        raise PluginInvalid(shown, problems)
    return Found(manifest.name, place, content, manifest)


def _apart(places: Sequence[tuple[PluginPlace, Path]]) -> Iterator[tuple[PluginPlace, Path]]:
    """The places, without those that are an earlier one again: a project may be the clone that this package is."""
    known: set[tuple[int, int]] = set()
    for place, directory in places:
        try:
            found = directory.stat()
        except OSError:
            continue
        if (found.st_dev, found.st_ino) not in known:
            known.add((found.st_dev, found.st_ino))
            yield place, directory


def _candidates(directory: Path) -> list[Path]:
    """The directories, and links to some, in which a plugin's manifest or source lies."""
    try:
        with os.scandir(directory) as entries:
            seen = [entry.name for entry in islice(entries, MAX_PLACE_ENTRIES)]
    except OSError:
        return []
    paths = [directory / name for name in sorted(seen) if not name.startswith((".", "_"))]
    return [path for path in paths if any(os.path.lexists(path / name) for name in (MANIFEST, SOURCE))]


def _missing(content: PluginContent, name: str) -> str:
    told = [finding.message.rstrip(".") for finding in content.oddities if finding.file in (name, "")]
    return told[0] if told else f"there is no {name}"


def _taken(plugin: Found, found: Mapping[str, Found]) -> str:
    """Why a plugin cannot stand beside those that were found before it; empty when it can."""
    if plugin.name in found:
        return f"its name is that of a {found[plugin.name].place} plugin; give it another one"
    for other in found.values():
        if both := sorted({*plugin.manifest.host_modules} & {*other.manifest.host_modules}):
            return f"its module {both[0]!r} is one of the {other.place} plugin {other.name!r}; give it another name"
    return ""


_MAX_TRACED = 1000
_SHOWN_FILES = 12
_WORDS = (("reads", "read"), ("writes", "write"), ("reaches", "net"))


@dataclass(frozen=True, slots=True)
class Difference:
    """What is other; paths are relative to the plugin's directory."""

    versions: tuple[str, str]  # Before, and now
    changed: tuple[str, ...]  # Files with other bytes, or another execute bit
    added: tuple[str, ...]
    removed: tuple[str, ...]
    asks_more: tuple[str, ...]  # Permissions that it did not ask for before, each as `reaches example.org`
    asks_less: tuple[str, ...]  # Those that it asks for no more
    asks_still: tuple[str, ...]  # Those that it asks for as before
    modules: tuple[str, ...] = ()  # Those that guest code could not import from it before

    @property
    def files(self) -> str:
        """The files, for a person."""
        told = [
            *(f"{path} changed" for path in self.changed),
            *(f"{path} added" for path in self.added),
            *(f"{path} removed" for path in self.removed),
        ]
        more = len(told) - _SHOWN_FILES
        return ", ".join([*told[:_SHOWN_FILES], *([f"{more} more"] if more > 0 else [])]) or "none changed"

    @property
    def permissions(self) -> str:
        """The permissions, for a person."""
        told = [
            f"{word}: {', '.join(entries)}"
            for word, entries in (("new", self.asks_more), ("gone", self.asks_less), ("as before", self.asks_still))
            if entries
        ]
        return "; ".join(told) or "none, as before"

    def lines(self) -> Sequence[str]:
        """All of it for a person, each a line."""
        before, now = self.versions
        version = [f"version: {before}, now {now}"] if before != now else []
        modules = [f"new modules: {', '.join(self.modules)}"] if self.modules else []
        return [*version, f"files: {self.files}", f"permissions: {self.permissions}", *modules]


def difference(before: Found, now: Found) -> Difference:
    """What is other about a plugin."""
    old, new = before.content, now.content
    same = old.files.keys() & new.files.keys()
    asked, asks = _asked(before.manifest.permissions), _asked(now.manifest.permissions)
    return Difference(
        versions=(before.manifest.version, now.manifest.version),
        changed=tuple(
            sorted(
                path
                for path in same
                if old.files[path] != new.files[path] or (path in old.executable) != (path in new.executable)
            )
        ),
        added=tuple(sorted(new.files.keys() - same)),
        removed=tuple(sorted(old.files.keys() - same)),
        asks_more=tuple(one for one in asks if one not in asked),
        asks_less=tuple(one for one in asked if one not in asks),
        asks_still=tuple(one for one in asks if one in asked),
        modules=tuple(one for one in now.manifest.host_modules if one not in before.manifest.host_modules),
    )


def _asked(permissions: PluginPermissions) -> list[str]:
    return [f"{word} {entry}" for word, kind in _WORDS for entry in getattr(permissions, kind)]


Trace = frozenset[tuple[object, ...]]
"""What the system tells of a plugin's files without their being read; that of other bytes is another one."""


def trace(root: Path) -> Trace:
    """The trace of what lies in a directory now; costs a few calls of the system, and follows no link.

    Times of change are in it, which nobody can set as they like.
    """
    return frozenset(_traced(str(root), 1))


def _traced(directory: str, depth: int) -> Iterator[tuple[object, ...]]:
    try:
        with os.scandir(directory) as entries:
            for _, entry in zip(range(_MAX_TRACED), entries, strict=False):
                one = entry.stat(follow_symlinks=False)
                yield entry.path, one.st_mode, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns
                if depth < MAX_DEPTH and entry.is_dir(follow_symlinks=False):
                    yield from _traced(entry.path, depth + 1)
    except OSError as error:
        yield directory, error.errno
