"""Which plugins there are: every directory of some places, read anew each time.

What cannot be used is told and passed over; the others go on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from kagura_kernel.domain.errors import PluginInvalid, UnknownName
from kagura_kernel.domain.plugins import PluginPlace
from kagura_kernel.plugins.content import MANIFEST, SOURCE, PluginContent, read_content
from kagura_kernel.plugins.manifest import Manifest, parse_manifest
from kagura_kernel.plugins.wording import unseen

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


def own_places(data_home: Path) -> tuple[tuple[PluginPlace, Path], ...]:
    """Where plugins lie whatever the project is, the most trusted place first: with this package, the user's own."""
    bundled = bundled_directory()
    own: tuple[tuple[PluginPlace, Path], ...] = (("user", data_home / FOLDER),)
    return own if bundled is None else (("bundled", bundled), *own)


def plugin_places(data_home: Path, project: Path | None) -> tuple[tuple[PluginPlace, Path], ...]:
    """Where plugins lie for a project, or without one."""
    own = own_places(data_home)
    return own if project is None else (*own, ("project", project / FOLDER))


MAX_ENTRIES = 1000
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
        """A usable plugin.

        Raises:
            PluginInvalid: it is there and cannot be used.
            UnknownName: it is not there.
        """
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
                plugin = _found(content, place)
            except PluginInvalid as error:
                problems.append(Problem(error.plugin, place, path, error.problems))
                continue
            if why := _taken(plugin, found):
                problems.append(Problem(plugin.name, place, path, (why,)))
            else:
                found[plugin.name] = plugin
    return Discovery(MappingProxyType(dict(sorted(found.items()))), tuple(problems))


def load_found(path: Path, place: PluginPlace) -> Found:
    """One plugin directory.

    Raises:
        PluginInvalid: it is none; with everything that is wrong.
    """
    return _found(read_content(path, bundled=place == "bundled"), place)


def _read(path: Path, place: PluginPlace, left: int) -> PluginContent:
    """A directory's files, while so many bytes of its place are left."""
    if left <= 0:
        why = f"it was not read: the plugins before it in {path.parent} have more than {MAX_PLACE_BYTES >> 20} MiB"
        raise PluginInvalid(_shown(path.name), [why])
    return read_content(path, bundled=place == "bundled")


def _shown(name: str) -> str:
    return ascii(name)[1:-1] if unseen(name) else name


def _found(content: PluginContent, place: PluginPlace) -> Found:
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
            names = [entry.name for entry in islice(entries, MAX_ENTRIES) if not entry.name.startswith((".", "_"))]
    except OSError:
        return []
    paths = [directory / name for name in sorted(names)]
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
