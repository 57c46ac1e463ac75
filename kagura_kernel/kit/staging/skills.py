"""Finds the prompt files that an agent asks for, and the skills of a project and of a person.

Of prompt files the nearest on the walk up from the working directory counts, then home's. A place nearer to the project
goes before one further away, and its skills before those of the same name elsewhere. Skills of the project are seen by
the box as they are; all others would be copied.
"""

from __future__ import annotations

import codecs
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeGuard

from kagura_kernel.domain.kit import KIT_DIR, LeftOut
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.kit.definitions.document import hint, unseen
from kagura_kernel.kit.staging.home_files import (
    BAD_NAME,
    Names,
    Root,
    Unfit,
    check_regular,
    list_tree,
    open_root,
    shown_name,
    skill_name,
    stamp_of,
    why_not_asked,
    why_not_named,
    why_unread,
    without_secret,
)
from kagura_kernel.kit.staging.planned import KitPlaces, Origin, PlannedFile, PlannedPrompt, PlannedSkill
from kagura_kernel.membrane.names import folded_path
from kagura_kernel.sandbox.backend import WORKSPACE

if TYPE_CHECKING:
    from kagura_kernel.kit.definitions.definition import Skills


@dataclass(frozen=True, slots=True)
class Wanted:
    """What several definitions want together."""

    workspace: bool = False  # Every skill of the project
    local: bool = False  # Every skill of the project and of the person
    patterns: tuple[str, ...] = ()  # Names, which may hold `*` and `?`, of whichever skills

    @property
    def beyond_workspace(self) -> bool:
        """Whether places outside of the project are looked into at all."""
        return self.local or bool(self.patterns)

    @property
    def nothing(self) -> bool:
        """Whether no skill is wanted."""
        return not (self.workspace or self.beyond_workspace)

    def covers(self, name: str, *, live: bool) -> bool:
        """Whether a skill is wanted.

        Args:
            name: Its name.
            live: Whether it is one of the project.
        """
        return self.local or (live and self.workspace) or any(fnmatchcase(name, one) for one in self.patterns)

    def unmatched(self, names: Iterable[str]) -> list[str]:
        """What is asked for by name and nowhere, among the names that there are: each half a sentence."""
        known = sorted(set(names))
        return [
            f"the skill {one!r} is asked for and nowhere to be found{hint(one, known)}"
            for one in self.patterns
            if not any(fnmatchcase(name, one) for name in known)
        ]


def wanted_by(definitions: Iterable[Skills]) -> Wanted:
    """What these definitions want together."""
    each = tuple(definitions)
    return Wanted(
        workspace="workspace" in each,
        local="local" in each,
        patterns=tuple(dict.fromkeys(pattern for skills in each if isinstance(skills, tuple) for pattern in skills)),
    )


MAX_BYTES = 64 << 10
"""As much of a SKILL.md as is looked at for its front matter."""
MAX_DESCRIPTION = 1024
_MAX_DEPTH = 16
_NOTHING = ("", "~", "null")

_FENCE = re.compile(r"\A\s*---[ \t]*\r?\n(?P<matter>.*?)^(?:---|\.\.\.)[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"^(?P<name>name|description)[ \t]*:[ \t]*(?P<value>.*)$", re.MULTILINE)
_HEADING = re.compile(r"^(?:#.*|\s*)$")
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What a SKILL.md says of its skill."""

    name: str  # As it is written; empty where it says none
    description: str = field(repr=False)  # One line, bounded; the first paragraph where it says none


def read_front_matter(data: bytes) -> FrontMatter:
    """The front matter at the beginning of a SKILL.md; a text without one is taken for what it says first."""
    text = _text(data)
    fence = _FENCE.match(text)
    if fence is None:
        return FrontMatter("", one_line(_first_paragraph(text)))
    fields = _fields(fence["matter"])
    name, description = fields.get("name"), fields.get("description")
    return FrontMatter(
        name=name.strip() if _says(name) else "",
        description=one_line(description if _says(description) else _first_paragraph(text[fence.end() :])),
    )


def _says(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value.strip() not in _NOTHING


def one_line(text: str) -> str:
    """A text as one line without what nobody would see, at most as long as a description may be."""
    line = " ".join("".join(" " if unseen(sign) else sign for sign in text[: MAX_DESCRIPTION * 4]).split())
    return line if len(line) <= MAX_DESCRIPTION else f"{line[: MAX_DESCRIPTION - 1]}…"


def _text(data: bytes) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    try:
        # The piece that is looked at may end in the middle of a character.
        return codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _fields(matter: str) -> dict[str, Any]:
    """The fields of the matter as YAML; line by line where it is not, since many descriptions hold a bare colon."""
    import yaml

    # Every value is a text, whatever it looks like or is said to be: nothing of it is made into something else.
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        if not _is_flat(yaml.parse(matter, loader)):
            return _line_by_line(matter)
        fields = yaml.load(matter, loader)  # noqa: S506 - it makes texts, lists and mappings alone
    except (yaml.YAMLError, ValueError, RecursionError):
        return _line_by_line(matter)
    return fields if isinstance(fields, dict) else _line_by_line(matter)


def _is_flat(events: Iterable[Any]) -> bool:
    """Whether a matter repeats nothing and does not lie deep: the library in C would end the process over depth."""
    import yaml

    depth = 0
    for event in events:
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH or isinstance(event, yaml.AliasEvent):
            return False
    return True


def _line_by_line(matter: str) -> dict[str, Any]:
    return {found["name"]: found["value"].strip().strip("\"'") for found in _FIELD.finditer(matter)}


def _first_paragraph(text: str) -> str:
    lines: list[str] = []
    for line in text.splitlines():
        if not _HEADING.match(line):
            lines.append(line)
        elif lines:
            break
    return " ".join(lines)


SKILL_FILE = "SKILL.md"
PLACES = (".agents/skills", ".claude/skills", ".kagura/skills")
"""Where skills are kept in a project and in the directories above it."""

_OF_HOME = PLACES[:2]
_MAX_SKILLS = 1_000
"""Directories of one place that are looked at."""


@dataclass(frozen=True, slots=True)
class SkillPlace:
    """One place of skills."""

    anchor: Path  # A directory, absolute; no link on the way to a skill leads out of it
    path: str  # The place, relative to the anchor
    foreign: bool = False  # Whether others than the person could have put something there


@dataclass(slots=True)
class FoundSkills:
    """What the places hold."""

    # Each name once, in the order in which they were found
    skills: dict[str, PlannedSkill] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)  # What is wanted and cannot be staged
    notes: list[str] = field(default_factory=list)  # What a person may want to know, each a sentence
    names: set[str] = field(default_factory=set)  # Of every skill that is there, wanted or not


def skill_places(where: KitPlaces) -> Iterator[SkillPlace]:
    """The places, the first of which counts most; they need not exist."""
    above = set(where.above())
    for directory in where.upwards():
        if directory.is_relative_to(where.project):
            inner = directory.relative_to(where.project)
            yield from (SkillPlace(where.project, os.path.normpath(inner / place)) for place in PLACES)
        elif directory in above:
            yield from (SkillPlace(directory, place, where.is_foreign(directory)) for place in PLACES)
    if not where.outside:
        return
    if where.home is not None:
        yield from (SkillPlace(where.home, place) for place in _OF_HOME)
        if where.config.is_relative_to(where.home):
            yield SkillPlace(where.home, str(where.config.relative_to(where.home) / "skills"))
            return
    yield SkillPlace(where.config, "skills")


def find_skills(where: KitPlaces, wanted: Wanted, plain: Callable[[str], str] = str) -> FoundSkills:
    """Every skill that is wanted here; places of which nothing can be wanted are not looked into.

    Args:
        where: The places of the host.
        wanted: What is.
        plain: Takes secrets out of a text: a skill whose name holds one is left out.
    """
    found = FoundSkills()
    for place in () if wanted.nothing else skill_places(where):
        if not wanted.beyond_workspace and place.anchor != where.project:
            continue
        try:
            with open_root(place.anchor) as anchor, anchor.below(place.path) as directory:
                _Place(place, where, wanted, found, plain).look(anchor, directory)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except Unfit as error:
            found.notes.append(f"Skills in {where.shown(place.anchor / place.path)} are passed over: {error}.")
        except OSError as error:
            found.notes.append(
                f"Skills in {where.shown(place.anchor / place.path)} are passed over: {why_unread(error)}."
            )
    return found


class _Place:
    """One place while it is looked at."""

    def __init__(
        self, place: SkillPlace, where: KitPlaces, wanted: Wanted, found: FoundSkills, plain: Callable[[str], str]
    ) -> None:
        self._plain = plain
        self._place = place
        self._where = where
        self._wanted = wanted
        self._found = found
        self._shown = where.shown(place.anchor / place.path)
        self._here: set[str] = set()

    def look(self, anchor: Root, directory: Root) -> None:
        """Take every skill that is wanted and not there yet."""
        names = Names()
        entries = sorted(os.listdir(directory.handle))  # noqa: PTH208 - a descriptor has no path
        if len(entries) > _MAX_SKILLS:
            self._note(f"{self._shown} holds more than {_MAX_SKILLS:,} entries; the others are passed over.")
        for entry in entries[:_MAX_SKILLS]:
            if not entry.startswith("."):
                self._entry(anchor, directory, entry, why_not_named(entry) or names.clash(entry))

    def _entry(self, anchor: Root, directory: Root, entry: str, misnamed: str) -> None:
        try:
            with anchor.below(f"{self._place.path}/{entry}") as root:
                if misnamed:
                    self._leave_out(entry, misnamed)
                else:
                    self._skill(root, entry)
        except (FileNotFoundError, NotADirectoryError):
            return  # a link to nowhere, or a skill that is just being taken away
        except Unfit as error:
            # A file beside the skills is none; a link that leads away would have been one.
            if _is_link(directory, entry):
                self._leave_out(entry, str(error))
        except OSError as error:
            self._leave_out(entry, why_unread(error))

    def _skill(self, root: Root, entry: str) -> None:
        try:
            matter = read_front_matter(root.head(SKILL_FILE, MAX_BYTES))
        except FileNotFoundError:
            return
        except Unfit as error:
            self._leave_out(entry, f"its SKILL.md cannot be staged: {error}")
            return
        name = skill_name(matter.name or entry)
        if not name:
            self._leave_out(entry, "its name cannot be made kebab-case of at most 64 characters")
            return
        written = matter.name or entry
        if (seen := without_secret(written, self._plain)) != written:
            # In the form that a name is staged in, nobody would know it for a secret any more.
            self._leave_out(seen, BAD_NAME, name=name)
            return
        self._found.names.add(name)
        live = (self._place.anchor / self._place.path / entry).is_relative_to(self._where.project)
        if not self._wanted.covers(name, live=live):
            return
        if self._place.foreign and os.fstat(root.handle).st_uid not in (os.geteuid(), 0):
            self._leave_out(entry, "it belongs to somebody else")
        elif name in self._here:
            self._leave_out(entry, "another skill beside it has the same name")
        elif other := self._found.skills.get(name):
            self._note(f"The skill {name!r} of {self._shown} is passed over for that in {other.where}.")
        else:
            self._take(root, entry, name, matter)

    def _take(self, root: Root, entry: str, name: str, matter: FrontMatter) -> None:
        self._here.add(name)
        place = f"{self._shown}/{entry}"
        if matter.name and matter.name != entry:
            self._note(f"The skill in {place} calls itself {name!r}.")
        directory = self._place.anchor / self._place.path / entry
        live = directory.is_relative_to(self._where.project)
        why = f"skill {name} of {self._shown}"
        files = self._live(root, directory, why) if live else self._staged(root, entry, name, why)
        if files:
            inner = directory.relative_to(self._where.project).as_posix() if live else ""
            self._found.skills[name] = PlannedSkill(
                name=name,
                description=matter.description,
                place="workspace" if live else "kit",
                where=place,
                root=str(PurePosixPath(WORKSPACE, inner)) if live else f"{KIT_DIR}/skills/{name}",
                files=files,
                written=matter.name or entry,
            )

    def _live(self, root: Root, directory: Path, why: str) -> tuple[PlannedFile, ...]:
        inner = directory.relative_to(self._where.project)
        origin = Origin(self._where.project, inner.as_posix(), SKILL_FILE)
        found = root.look(SKILL_FILE)
        return (PlannedFile((inner / SKILL_FILE).as_posix(), origin, why, stamp_of(found)),)

    def _staged(self, root: Root, entry: str, name: str, why: str) -> tuple[PlannedFile, ...]:
        tree = list_tree(root)
        if not tree.refused and SKILL_FILE not in tree.files:
            reason = next((reason for path, reason in tree.odd if path == SKILL_FILE), "it is gone")
            tree.refused = f"its SKILL.md cannot be staged: {reason}"
        if tree.refused:
            self._leave_out(name, tree.refused)
            return ()
        for path, reason in tree.odd:
            self._leave_out(f"{name}/{path}" if path else name, reason)
        within = f"{self._place.path}/{entry}"
        return tuple(
            PlannedFile(
                target=f"skills/{name}/{path}",
                origin=Origin(self._place.anchor, within, path),
                why=why,
                stamp=stamp_of(found),
                executable=bool(found.st_mode & 0o111),
            )
            for path, found in tree.files.items()
        )

    def _leave_out(self, path: str, why: str, *, name: str = "") -> None:
        name = name or path.partition("/")[0]
        if self._wanted.covers(skill_name(name) or name, live=self._place.anchor == self._where.project):
            shown = "/".join(shown_name(without_secret(part, self._plain)) for part in path.split("/"))
            self._found.left_out.append(LeftOut(f"skills/{shown}", why))

    def _note(self, sentence: str) -> None:
        self._found.notes.append(sentence)


def _is_link(directory: Root, entry: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(entry, dir_fd=directory.handle, follow_symlinks=False).st_mode)
    except OSError:
        return False


MAX_PROMPT_BYTES = 256 << 10
"""Of one prompt file: a brain reads all of it."""

EXPECTED = frozenset({"AGENTS.md", "CLAUDE.md"})
"""Names that are asked for wherever they may be; that there is none goes without saying."""

FOR_AGENTS = EXPECTED | {"GEMINI.md"}
"""Names that people give to what they write for agents; anything else that lies about may be meant for nobody."""

_WHY = "asked for by add_prompt_files"


@dataclass(slots=True)
class FoundPrompts:
    """What the walks found."""

    prompts: list[PlannedPrompt] = field(default_factory=list)  # In the order in which a brain reads them
    left_out: list[LeftOut] = field(default_factory=list)  # What is there and cannot be read, or is nowhere
    problems: list[str] = field(default_factory=list)  # Names that nobody may ask for, each with why


def find_prompt_files(
    own: Iterable[str], of_sub_agents: Iterable[str], where: KitPlaces, foreign: Collection[str] = ()
) -> FoundPrompts:
    """The prompt files of these names.

    Args:
        own: What the agent itself asks for.
        of_sub_agents: What its sub-agents ask for.
        where: Where they are looked for.
        foreign: Those of the names that only definitions ask for which somebody else wrote.
    """
    search = _Search(where, frozenset(foreign))
    asked = dict.fromkeys(of_sub_agents, False) | dict.fromkeys(own, True)
    for name in dict.fromkeys((*own, *asked)):
        if why := why_not_asked(name):
            search.found.problems.append(f"the prompt file {shown_name(name)!r}: {why}")
        else:
            search.look_for(name, own=asked[name])
    return search.found


class _Search:
    def __init__(self, where: KitPlaces, foreign: Collection[str]) -> None:
        self.found = FoundPrompts()
        self._foreign = foreign
        self._where = where
        self._asked = Names()
        self._targets = Names()

    def look_for(self, name: str, *, own: bool) -> None:
        """The nearest file of this name, and that of the home directory if it is another."""
        if why := self._asked.clash(name):
            self._leave_out(name, why)
            return
        before = len(self.found.prompts) + len(self.found.left_out)
        nearest = next((place for place in self._where.upwards() if self._try(place, name, own=own)), None)
        home = self._where.home if self._where.outside else None
        if home is not None and nearest != home:
            self._try(home, name, own=own)
        if before == len(self.found.prompts) + len(self.found.left_out) and name not in EXPECTED:
            self._leave_out(name, "there is no such file in the project, above it, or in the home directory")

    def _try(self, directory: Path, name: str, *, own: bool) -> bool:
        """Whether a directory has such a file; one that cannot be read is told, and nothing stands in for it."""
        live = directory.is_relative_to(self._where.project)
        anchor = self._where.project if live else directory
        path = os.path.normpath(directory.relative_to(anchor) / name)
        try:
            with open_root(anchor) as root:
                found = root.look(path)
            if stat.S_ISDIR(found.st_mode):
                return False
            check_regular(found, MAX_PROMPT_BYTES)
            self._check_owner(found, directory)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except Unfit as error:
            self._leave_out(name, str(error))
            return True
        except OSError as error:
            self._leave_out(name, why_unread(error))
            return True
        target = path if live else self._target(name)
        if target:
            file = PlannedFile(target, Origin(anchor, "", path), _WHY, stamp_of(found))
            self.found.prompts.append(
                PlannedPrompt(
                    name=name,
                    place="workspace" if live else "kit",
                    where=self._where.shown(anchor / path),
                    path=f"{WORKSPACE if live else KIT_DIR}/{target}",
                    file=file,
                    own=own,
                    asks=not live and name in self._foreign and name not in FOR_AGENTS,
                )
            )
        return True

    def _target(self, name: str) -> str:
        """Where a file of this name is staged; the second of one name is that of the home directory."""
        taken = any(prompt.name == name and prompt.place == "kit" for prompt in self.found.prompts)
        target = f"home-{name}" if taken else name
        if why := self._targets.clash(target) or self._overlap(f"prompt_files/{target}"):
            self._leave_out(target, why)
            return ""
        return f"prompt_files/{target}"

    def _overlap(self, target: str) -> str:
        """Why a file may not lie there: its place would be another's directory, or its directory another's place."""
        for prompt in self.found.prompts:
            other = prompt.file.target
            if prompt.place == "kit" and (folded_path(other) + "/").startswith(folded_path(target) + "/"):
                return "another prompt file lies below this name"
            if prompt.place == "kit" and (folded_path(target) + "/").startswith(folded_path(other) + "/"):
                return "another prompt file has the name of its directory"
        return ""

    def _check_owner(self, found: os.stat_result, directory: Path) -> None:
        if self._where.is_foreign(directory) and found.st_uid not in (os.geteuid(), 0):
            raise Unfit("it belongs to somebody else")

    def _leave_out(self, name: str, why: str) -> None:
        self.found.left_out.append(LeftOut(f"prompt_files/{shown_name(name)}", why))
