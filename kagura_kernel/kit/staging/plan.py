"""What would be staged for an agent, from where and why, and copying that into a directory without its secrets."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.kit import LeftOut, StagedFile, StagedPrompt, StagedSkill
from kagura_kernel.domain.late_dataclass import dataclass, field, replace
from kagura_kernel.kit.staging.home_files import (
    BAD_NAME,
    MAX_FILE_BYTES,
    Root,
    Unfit,
    open_root,
    shown_name,
    size_in_words,
    why_unread,
    without_secret,
)
from kagura_kernel.kit.staging.planned import KitPlaces, PlannedAgent, PlannedFile, PlannedPrompt, PlannedSkill
from kagura_kernel.kit.staging.skills import (
    MAX_PROMPT_BYTES,
    SKILL_FILE,
    Wanted,
    find_prompt_files,
    find_skills,
    wanted_by,
)
from kagura_kernel.kit.staging.versions import Manifest, ManifestFile, bounded, make_directory, write_file

if TYPE_CHECKING:
    from kagura_kernel.kit.definitions.definition import AgentDefinition
    from kagura_kernel.kit.definitions.references import ResolvedAgent
    from kagura_kernel.kit.redaction.redactor import Redactor
    from kagura_kernel.kit.redaction.spans import RedactedFile

MAX_FILES = 10_000
"""Files of one kit."""
MAX_BYTES = 256 << 20

_ASKED = ", and asked about before a run: the definition is not yours"


@dataclass(frozen=True, slots=True)
class KitPlan:
    """Everything that a kit would hold. Showing it shows no content."""

    agent: str  # The agent's name
    reference: str  # As it was asked for
    definition: str  # SHA-256 of the definition and those of its sub-agents
    key: str  # What its kits are kept under: 32 hexadecimal digits of the reference and the project
    skills: tuple[PlannedSkill, ...] = ()  # By name; those of the workspace too, which are not copied
    prompt_files: tuple[PlannedPrompt, ...] = ()  # In the order in which a brain reads them; those of the workspace too
    agents: tuple[PlannedAgent, ...] = ()  # Sub-agents, by name
    left_out: tuple[LeftOut, ...] = ()  # What would not be staged, and why
    notes: tuple[str, ...] = ()  # What a person may want to know and nothing hangs on, each a sentence
    # What stands against this kit, each a sentence without its end; such a plan is never staged
    problems: tuple[str, ...] = ()

    @property
    def staged(self) -> tuple[PlannedFile, ...]:
        """The files of the host that would be copied, by target."""
        of_skills = (file for skill in self.skills if skill.place == "kit" for file in skill.files)
        of_prompts = (prompt.file for prompt in self.prompt_files if prompt.place == "kit")
        return tuple(sorted((*of_skills, *of_prompts), key=lambda file: file.target))

    @property
    def asked_files(self) -> tuple[str, ...]:
        """Places of prompt files that a person's word is needed for, as the person may read them."""
        return tuple(prompt.where for prompt in self.prompt_files if prompt.asks)

    @property
    def asked_skills(self) -> tuple[str, ...]:
        """Names of skills that a person's word is needed for, sorted."""
        return tuple(sorted(skill.name for skill in self.skills if skill.asks))

    @property
    def empty(self) -> bool:
        """Whether nothing would be staged, so that a box needs no kit."""
        return not self.staged and not self.agents

    def shown(self) -> list[str]:
        """Lines for a person: what, why, from where, how large; no content."""
        return list(_lines(self))


def plan_kit(agent: ResolvedAgent, where: KitPlaces, redactor: Redactor | None = None) -> KitPlan:
    """What would be staged for an agent here. Looks at the host and changes nothing.

    Whatever cannot be staged is told in the plan and never raised.

    Args:
        agent: Whose.
        where: The places of the host.
        redactor: Knows the secrets that no name may hold; None looks for none.

    Raises:
        RedactionUnavailable: secrets cannot be looked for.
    """
    team = tuple(_team(agent))
    trusted = tuple(_team(agent, trusted=True))
    wanted = wanted_by(member.skills for member in team)
    given = wanted_by(member.skills for member in trusted)
    found = find_skills(where, wanted, (lambda text: redactor.redact(text).text) if redactor is not None else str)
    skills, too_much = _within_limits(_with_question(skill, wanted, given) for skill in found.skills.values())
    others = [name for member in team[1:] for name in member.add_prompt_files]
    named = {name for member in trusted for name in member.add_prompt_files}
    foreign = {*agent.definition.add_prompt_files, *others} - named
    prompts = find_prompt_files(agent.definition.add_prompt_files, others, where, foreign)
    left_out = {*found.left_out, *too_much, *prompts.left_out}
    # A name that is left out was found, and why it is left out is told there.
    known = found.names | {one.target.split("/")[1] for one in found.left_out}
    return KitPlan(
        agent=agent.definition.name,
        reference=agent.reference,
        definition=agent.digest,
        key=_key(agent, where),
        skills=skills,
        prompt_files=tuple(prompts.prompts),
        agents=tuple(
            PlannedAgent(name, f"agents/{name}.yaml", agent.agents[name].to_yaml()) for name in sorted(agent.agents)
        ),
        left_out=tuple(sorted(left_out, key=lambda one: (one.target, one.reason))),
        notes=tuple(dict.fromkeys(found.notes)),
        problems=(*prompts.problems, *wanted.unmatched(known)),
    )


def _team(agent: ResolvedAgent, *, trusted: bool = False) -> Iterator[AgentDefinition]:
    """What an agent and all below it say; it comes first.

    Args:
        agent: The agent.
        trusted: Only those that the person's own word leads to: one of ours below somebody else's is not among them.
    """
    if trusted and not agent.trusted:
        return
    yield agent.definition
    for name in sorted(agent.agents):
        yield from _team(agent.agents[name], trusted=trusted)


def _with_question(skill: PlannedSkill, wanted: Wanted, given: Wanted) -> PlannedSkill:
    """A skill with whether it is asked about: who names it says what is taken, who takes whatever there is does not."""
    free = skill.place == "workspace" or given.covers(skill.name, live=False) or skill.name in wanted.patterns
    return skill if free else replace(skill, asks=True)


def _within_limits(skills: Iterable[PlannedSkill]) -> tuple[tuple[PlannedSkill, ...], list[LeftOut]]:
    """The skills that fit into one kit, by name, and those that do not; what was found first goes before."""
    kept: list[PlannedSkill] = []
    left_out: list[LeftOut] = []
    files = size = 0
    for skill in skills:
        more = sum(file.size for file in skill.files)
        if skill.place == "kit" and (files + len(skill.files) > MAX_FILES or size + more > MAX_BYTES):
            full = f"a kit holds at most {MAX_FILES:,} files and {size_in_words(MAX_BYTES)}"
            left_out.append(LeftOut(f"skills/{skill.name}", full))
            continue
        if skill.place == "kit":
            files, size = files + len(skill.files), size + more
        kept.append(skill)
    return tuple(sorted(kept, key=lambda skill: skill.name)), left_out


def _key(agent: ResolvedAgent, where: KitPlaces) -> str:
    named = "\0".join((agent.kind, agent.reference, str(where.project)))
    return hashlib.sha256(named.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _lines(plan: KitPlan) -> Iterator[str]:
    yield f"Kit of the agent {plan.agent}"
    for skill in plan.skills:
        if skill.place == "workspace":
            yield f"  skill {skill.name}: {skill.where}, seen in the workspace as it is"
            continue
        yield f"  skill {skill.name}: {skill.where}, {_amount(skill.files)}{_ASKED if skill.asks else ''}"
        root = f"skills/{skill.name}/"
        yield from (f"    {file.target.removeprefix(root)}  {_size(file.size)}" for file in skill.files)
    for prompt in plan.prompt_files:
        how = "read in the workspace, not copied" if prompt.place == "workspace" else f"as {prompt.file.target}"
        how += _ASKED if prompt.asks else ""
        yield f"  prompt file {prompt.name}: {prompt.where}, {_size(prompt.file.size)}, {prompt.file.why}, {how}"
    yield from (f"  sub-agent {agent.name}: as {agent.target}" for agent in plan.agents)
    yield from (f"  left out {one.target}: {one.reason}" for one in plan.left_out)
    yield from (f"  note: {note}" for note in plan.notes)
    yield from (f"  problem: {problem}" for problem in plan.problems)
    if plan.empty and not plan.problems:
        yield "  nothing is copied: a box needs no kit"
    elif plan.staged:
        yield f"  in all {_amount(plan.staged)}, before redaction"


def _amount(files: Sequence[PlannedFile]) -> str:
    count = len(files)
    return f"{count:,} {'file' if count == 1 else 'files'}, {_size(sum(file.size for file in files))}"


def _size(size: int) -> str:
    for unit, bytes_ in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= bytes_:
            return f"{size / bytes_:.1f} {unit}"
    return f"{size} B"


BYTE_ORDER_MARK = "\ufeff"
"""What stands before a text in some encodings and is no part of it."""

MAX_LEFT_OUT = 200
"""As many of what was left out are told one by one."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What came of a plan."""

    manifest: Manifest  # Of the directory
    # Name and redacted text of each prompt file that the agent itself asked for, in that order
    prompt_texts: tuple[tuple[str, str], ...] = field(repr=False)


def copy_plan(plan: KitPlan, into: Path, redactor: Redactor) -> Copied:
    """Everything of a plan that can be staged, in an empty directory; what cannot is told with its reason.

    Raises:
        OSError: something could not be written.
        RedactionUnavailable: secrets cannot be looked for.
    """
    with ExitStack() as stack:
        return _Copy(into, redactor, stack).all_of(plan)


class _Copy:
    def __init__(self, into: Path, redactor: Redactor, stack: ExitStack) -> None:
        self._into = into
        self._redactor = redactor
        self._stack = stack
        self._roots: dict[tuple[Path, str], Root] = {}
        self._files: list[ManifestFile] = []
        self._left_out: list[LeftOut] = []

    def all_of(self, plan: KitPlan) -> Copied:
        skills = [staged for skill in plan.skills if (staged := self._skill(skill)) is not None]
        prompts: list[StagedPrompt] = []
        texts: list[tuple[str, str]] = []
        for prompt in plan.prompt_files:
            if (read := self._prompt(prompt)) is not None:
                prompts.append(read[0])
                if prompt.own:
                    texts.append((prompt.name, read[1]))
        agents = [agent.name for agent in plan.agents if self._agent(agent.name, agent.target, agent.text)]
        hidden = [LeftOut(self._plain(one.target), one.reason) for one in plan.left_out]
        left_out, omitted = bounded((*hidden, *self._left_out), MAX_LEFT_OUT)
        manifest = Manifest(
            agent=plan.agent,
            definition=plan.definition,
            files=tuple(sorted(self._files, key=lambda file: file.staged.target)),
            skills=tuple(skills),
            prompt_files=tuple(prompts),
            agents=tuple(agents),
            left_out=left_out,
            omitted=omitted,
        )
        return Copied(manifest, tuple(texts))

    def _skill(self, skill: PlannedSkill) -> StagedSkill | None:
        written = without_secret(skill.written, self._plain)
        if written != skill.written or self._plain(skill.root) != skill.root:
            self._leave_out(f"skills/{shown_name(written)}", BAD_NAME)
            return None
        description = self._plain(skill.description)
        if skill.place == "workspace":
            return StagedSkill(skill.name, description, skill.root)
        before = len(self._files)
        # Without its SKILL.md a skill is none, so that comes first.
        for file in sorted(skill.files, key=lambda file: (file.origin.path != SKILL_FILE, file.target)):
            taken = self._file(file)
            if taken is None and file.origin.path == SKILL_FILE:
                del self._files[before:]
                return None
        files = sorted((file.staged for file in self._files[before:]), key=lambda file: file.target)
        return StagedSkill(skill.name, description, skill.root, tuple(files))

    def _prompt(self, prompt: PlannedPrompt) -> tuple[StagedPrompt, str] | None:
        redacted = self._read(prompt.file, MAX_PROMPT_BYTES)
        if redacted is None or redacted.data is None:
            return None
        if not redacted.encoding:
            self._leave_out(prompt.file.target, "it is no text")
            return None
        text = redacted.data.decode(redacted.encoding, "replace").removeprefix(BYTE_ORDER_MARK)
        if prompt.place == "kit":
            self._write(prompt.file.target, redacted, executable=False)
        staged = StagedPrompt(
            name=prompt.name,
            place=prompt.place,
            path=prompt.path,
            size=len(redacted.data),
            redactions=len(redacted.findings),
            kinds=redacted.kinds,
        )
        return staged, text

    def _agent(self, name: str, target: str, text: str) -> bool:
        redacted = self._redactor.redact_file(text.encode(), f"{name}.yaml")
        if redacted.data is None:
            self._leave_out(target, redacted.reason)
            return False
        self._write(target, redacted, executable=False)
        return True

    def _file(self, file: PlannedFile) -> ManifestFile | None:
        if self._plain(file.target) != file.target:
            self._leave_out(file.target, BAD_NAME)
            return None
        redacted = self._read(file, MAX_FILE_BYTES)
        if redacted is None or redacted.data is None:
            return None
        return self._write(file.target, redacted, executable=file.executable)

    def _read(self, file: PlannedFile, most: int) -> RedactedFile | None:
        """A file of the host without its secrets; None, and told, when it cannot be had."""
        try:
            data, _ = self._root(file).read(file.origin.path, most)
        except FileNotFoundError:
            self._leave_out(file.target, "it is gone since it was planned")
        except Unfit as error:
            self._leave_out(file.target, str(error))
        except OSError as error:
            self._leave_out(file.target, why_unread(error))
        else:
            redacted = self._redactor.redact_file(data, file.origin.path.rpartition("/")[2])
            if redacted.data is None:
                self._leave_out(file.target, redacted.reason)
            return redacted
        return None

    def _root(self, file: PlannedFile) -> Root:
        key = (file.origin.anchor, file.origin.root)
        if key not in self._roots:
            with open_root(file.origin.anchor) as anchor:
                self._roots[key] = self._stack.enter_context(anchor.below(file.origin.root))
        return self._roots[key]

    def _write(self, target: str, redacted: RedactedFile, *, executable: bool) -> ManifestFile:
        data = redacted.data or b""
        path = self._into / target
        make_directory(path.parent)
        write_file(path, data, executable=executable)
        staged = StagedFile(target, len(data), len(redacted.findings), redacted.kinds)
        written = ManifestFile(staged, hashlib.sha256(data).hexdigest(), redacted.encoding, executable)
        self._files.append(written)
        return written

    def _leave_out(self, target: str, why: str) -> None:
        self._left_out.append(LeftOut(self._plain(target), why))

    def _plain(self, text: str) -> str:
        return self._redactor.redact(text).text
