"""Kits as a person handles them: what would be staged for an agent, what is, and how it reads.

Nothing here waits for a person or starts a box. Looking (`plan`) stages nothing; staging writes below our own data
directory alone. Reading a definition from an address, and asking package registries where a toolset is installed from,
take the network; both are bounded.
"""

from __future__ import annotations

import shlex
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.cockpit.run_names import working_directory
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import ConfigurationError, KitError, RunUnknown, UsageError
from kagura_kernel.domain.events import KitStaged
from kagura_kernel.domain.kit import LeftOut, StagedFile, StagedPrompt, StagedSkill
from kagura_kernel.domain.late_dataclass import dataclass, field, replace
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.domain.settings import Settings
from kagura_kernel.journal.place import expanded
from kagura_kernel.kit.definitions.references import add_ready, known_agents, resolve_agent, usual_places
from kagura_kernel.kit.packages.hosts import ToolHosts, tool_hosts
from kagura_kernel.kit.packages.registry import load_registry, sources_of
from kagura_kernel.kit.staging.plan import plan_kit
from kagura_kernel.kit.staging.planned import kit_places
from kagura_kernel.kit.staging.stage import build_kit
from kagura_kernel.kit.staging.versions import MANIFEST
from kagura_kernel.membrane.egress.hosts import ASK, HTTPS, NONE, parse_target
from kagura_kernel.membrane.egress.policy import parse_grants
from kagura_kernel.membrane.grant import host_sets

if TYPE_CHECKING:
    from kagura_kernel.domain.kit import UnresolvedTool
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.kit.definitions.definition import AgentDefinition
    from kagura_kernel.kit.definitions.references import AgentPlaces, ResolvedAgent
    from kagura_kernel.kit.definitions.toolsets import Toolset
    from kagura_kernel.kit.redaction.redactor import Redactor
    from kagura_kernel.kit.redaction.spans import RedactedFile
    from kagura_kernel.kit.staging.plan import KitPlan
    from kagura_kernel.kit.staging.planned import KitPlaces
    from kagura_kernel.kit.staging.stage import StagedText


@dataclass(frozen=True, slots=True)
class StagedKit:
    """One kit as it was staged, to look into. Nothing holds it: it may be gone when somebody looks."""

    agent: str  # The agent's name
    reference: str  # As it was asked for
    digest: str  # SHA-256 over everything staged; empty where nothing was
    root: Path  # The folder of kits
    skills: tuple[StagedSkill, ...] = ()  # By name; those of the workspace too
    # In the order in which the brain reads them; those of the workspace too
    prompt_files: tuple[StagedPrompt, ...] = ()
    agents: tuple[str, ...] = ()  # Names of sub-agents
    left_out: tuple[LeftOut, ...] = ()  # What was not staged, at most 200
    omitted: int = 0  # How many more were not staged
    unchanged: bool = False  # Whether an earlier build could be used as it was
    # The path that stays the same for the agent and its project; None where only a run tells of it
    link: Path | None = field(default=None, compare=False)

    def files(self) -> tuple[StagedFile, ...]:
        """Every file in it, by its place; none of an empty kit.

        Raises:
            KitGone: it is not kept any more.
        """
        from kagura_kernel.kit.staging.stage import staged_files

        return staged_files(self.root, self.digest) if self.digest else ()

    def read(self, target: str) -> StagedText:
        """One of them, with its redactions; `manifest.json` too.

        Raises:
            KitGone: it is not kept any more.
            UsageError: it has no such file; says which one may be meant.
        """
        from kagura_kernel.kit.staging.stage import read_staged

        places = [file.target for file in self.files()]
        if target not in {*places, MANIFEST}:
            raise UsageError(_no_such_file(target, places))
        return read_staged(self.root, self.digest, target)


def _no_such_file(target: str, places: Sequence[str]) -> str:
    ending = f"/{target.strip('/')}"
    near = [place for place in places if place.endswith(ending)] or get_close_matches(target, places, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else " `kit show` lists them."
    return f"The kit has no file {target!r}.{hint}"


_TOLD = ("digest", "skills", "prompt_files", "agents", "left_out", "omitted", "unchanged")
"""What a run's event says of its kit, and a kit that was just staged."""


FOLDER = "kits"
"""The folder of kits in our data directory."""

LINK = "kit"
"""What leads to the newest kit of one agent and project, below a folder of theirs."""

TOOL_ANSWERS = "tool-registry"
"""Where answers of package registries are kept there, for a day."""


REDACTED_BYTES = 64 << 20
"""Of a file that is redacted for somebody to look at."""

_ORIGINS = {"own": "yours", "built-in": "the package"}


@dataclass(frozen=True, slots=True)
class KitServices:
    """What kits are found and staged with; `assembly` makes it."""

    settings: Settings  # The user's
    environ: Mapping[str, str]  # This process's variables
    home: Path  # Our data directory: kits, the person's own agents and what was fetched lie below it
    clock: Clock  # The time
    check_project: Callable[[Path], Path]  # A directory to the project root; raises `WorkspaceError`
    redactor: Callable[[], Redactor]  # Gives the process's redactor


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """What a run of an agent would be given."""

    agent: ResolvedAgent  # Who it is
    kit: KitPlan  # What would be staged, from where and why
    tools: ToolHosts  # From which hosts its toolsets would be installed
    # Takes secrets out of a text before it is shown
    plain: Callable[[str], str] = field(default=str, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class NamedAgent:
    """An agent that has a name."""

    name: str  # What it is asked for by
    origin: str  # `yours`, or `the package`
    description: str = ""  # One line of its own; empty where there is none
    problem: str | None = None  # Why it cannot be used; None where it can


@dataclass(frozen=True, slots=True)
class AddedAgent:
    """A definition that was just written among a person's own."""

    name: str
    path: Path  # Where it is
    notes: tuple[str, ...]  # What it says of itself above its first key: what it needs, and how to say that
    definition: AgentDefinition

    @property
    def lines(self) -> list[str]:
        """What a person reads."""
        grants, place = self.definition.grants, f"{self.path.parent.name}/{self.path.name}"
        open_hosts = ", ".join(one for one in grants.net if one not in (ASK, NONE)) or "no host"
        others = " Any other host is a question." if ASK in grants.net else ""
        return [
            f"{place} of the data directory was written, and is yours to change. `--agent {self.name}` runs it.",
            f"Before each run it asks for: {', '.join(grants.credentials)}.",
            f"Open without a question: {open_hosts}.{others}",
            "",
            *self.notes,
        ]


def _is_note(line: str) -> bool:
    return line.startswith("#")


def _absolute(setting: str, text: str) -> Path:
    try:
        path = expanded(text)
    except UsageError as error:
        raise ConfigurationError("the settings", [f"{setting}: {error.message.removesuffix('.')}"]) from None
    if not path.is_absolute():
        raise ConfigurationError(
            "the settings", [f"{setting}: {text!r} is no absolute path, and none that begins with ~"]
        )
    return path


class KitDesk:
    """Everything that a person can ask about agents and kits, from any thread. Methods block."""

    def __init__(self, around: KitServices) -> None:
        self._around = around

    @property
    def folder(self) -> Path:
        """Where kits lie."""
        named = self._around.settings.kit_folder
        return _absolute("kit_folder", named) if named else self._around.home / FOLDER

    def agents(self) -> tuple[str, ...]:
        """Names that lead to an agent, sorted: the person's own, and those that come with the package."""
        return known_agents(self._places())

    def named(self) -> tuple[NamedAgent, ...]:
        """Each of them as it is now."""
        return tuple(self._named(name) for name in self.agents())

    def add(self, name: str) -> AddedAgent:
        """Write a definition that comes ready for a service among the person's own.

        Raises:
            UnknownName: there is none of this name.
            UsageError: the person has one of this name, or it cannot be written.
        """
        path, text = add_ready(name, self._places().own)
        lines = text.splitlines()
        notes = tuple(line.removeprefix("#").removeprefix(" ") for line in takewhile(_is_note, lines))
        return AddedAgent(name, path, notes, self.resolve(name).definition)

    def resolve(self, reference: str | None = None) -> ResolvedAgent:
        """The agent that a reference leads to; None is the settings' own, and then `default`.

        Raises:
            AgentNotFound: there is nothing at its end.
            AgentUnavailable: it cannot be fetched or read, or is not what was pinned.
            AgentInvalid: what is there is no definition, or hands a secret to a toolset.
            RedactionUnavailable: it hands something to a toolset, and secrets cannot be looked for.
        """
        redactor = self._around.redactor()
        return resolve_agent(reference or self._around.settings.agent, self._places(), redactor=redactor)

    def kit_places(self, project: Path) -> KitPlaces:
        """The places of the host that the kits of a project are made from."""
        environ = self._around.environ
        home = Path(environ["HOME"]) if environ.get("HOME") else None
        if named := self._around.settings.skills_home:
            home = _absolute("skills_home", named)
        # What lies beside a file of settings that was named (`KAGURA_CONFIG`) was not put there for agents.
        return kit_places(project, home=home, cwd=working_directory())

    def plan(self, reference: str | None = None, project: Path | None = None) -> AgentPlan:
        """What a run of it would be given, why, and from where; nothing is staged.

        Without a reference it is the settings' own agent, without a project the working directory.

        Raises:
            AgentNotFound: as `resolve`, and so its siblings.
            WorkspaceError: the project cannot be used.
            ConfigurationError: the file of `tool_registry` cannot be used.
            ToolHostsUnresolved: hosts of its toolsets are not known, and the settings say to stop then.
        """
        root = self._project(project)
        agent = self.resolve(reference)
        planned = self._planned(agent, root)
        redactor = self._around.redactor()
        return AgentPlan(
            agent, planned, self.find_hosts(agent.definition.toolsets), lambda text: redactor.redact(text).text
        )

    def build(self, reference: str | None = None, project: Path | None = None) -> StagedKit:
        """Stage its kit as a run would, or find that it is staged already.

        Raises:
            AgentNotFound: as `resolve`, and so its siblings.
            WorkspaceError: the project cannot be used.
            KitRefused: the kit would not be right.
            KitUnwritable: it cannot be written.
            RedactionUnavailable: secrets cannot be looked for.
        """
        root = self._project(project)
        agent = self.resolve(reference)
        plan = self._planned(agent, root)
        with build_kit(plan, self.folder, self._around.redactor(), clock=self._around.clock) as kit:
            told = {name: getattr(kit, name) for name in _TOLD}
            return StagedKit(agent=agent.name, reference=agent.reference, root=self.folder, link=kit.link, **told)

    def latest(self, reference: str | None = None, project: Path | None = None) -> StagedKit | None:
        """The kit that is staged for it, without staging anew; None where there is none.

        Raises:
            AgentNotFound: as `resolve`, and so its siblings.
            WorkspaceError: the project cannot be used.
        """
        root = self._project(project)
        agent = self.resolve(reference)
        link = self.folder / self._planned(agent, root).key / LINK
        try:
            digest = link.readlink().name
        except OSError:
            return None
        return StagedKit(agent.name, agent.reference, digest, self.folder, link=link)

    def of_run(self, journal: Journal, run_id: str) -> StagedKit:
        """What a run was given.

        Raises:
            RunUnknown: there is no such run.
            UsageError: it had no agent, as a `%%sandbox` cell has none.
            JournalError: the journal cannot be read.
        """
        rows = journal.events(run_id=run_id, kinds=("kit.staged",))
        told = next((row.event for row in rows if isinstance(row.event, KitStaged)), None)
        if told is None:
            if not journal.events(run_id=run_id, limit=1):
                raise RunUnknown(run_id)
            raise UsageError(f"The run {run_id} was given no kit: it had no agent, or ended before it had one.")
        facts = {name: getattr(told, name) for name in ("agent", "reference", *_TOLD)}
        return StagedKit(root=self.folder, **facts)

    def find_hosts(self, toolsets: Sequence[Toolset]) -> ToolHosts:
        """From which hosts toolsets would be installed, as far as they may be opened; asks the registries.

        Raises:
            ConfigurationError: the file of `tool_registry` cannot be used.
            ToolHostsUnresolved: not all are known, and the settings say to stop then.
        """
        if not toolsets:
            return ToolHosts()
        from kagura_kernel.kit.definitions.oci import Logins
        from kagura_kernel.kit.packages.lookup import PackageLookUp

        settings = self._around.settings
        sets = host_sets(settings.mirrors)
        sources = sources_of(settings.env, sets)
        found = tool_hosts(
            toolsets,
            load_registry(expanded(settings.tool_registry) if settings.tool_registry else None),
            look_up=PackageLookUp(
                sources,
                self._around.home / TOOL_ANSWERS,
                self._around.clock,
                login=Logins(self._around.environ).of_host,
            ),
            sources=sources,
            strict=settings.tool_hosts_strict,
        )
        if "net" not in settings.locked:
            return found
        # What an administrator has locked opens no more for an installer than for anybody.
        known = parse_grants((word for word in settings.net if word != NONE), sets).granted
        return replace(found, hosts=tuple(host for host in found.hosts if parse_target(host, HTTPS) in known))

    def redact_file(self, path: Path) -> RedactedFile:
        """A file as a kit would hold it; the file itself is left alone.

        Raises:
            UsageError: it cannot be read.
            RedactionUnavailable: secrets cannot be looked for.
        """
        try:
            # A pipe would be waited for.
            if not stat.S_ISREG(path.stat().st_mode):
                raise UsageError(f"{path} is no ordinary file.")
            with path.open("rb") as file:
                data = file.read(REDACTED_BYTES + 1)
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}.") from error
        if len(data) > REDACTED_BYTES:
            raise UsageError(f"{path} is larger than {REDACTED_BYTES >> 20} MiB; redact it in parts.")
        return self._around.redactor().redact_file(data, path.name)

    def _named(self, name: str) -> NamedAgent:
        try:
            agent = self.resolve(name)
        except KitError as error:
            # A built-in one always can be used.
            return NamedAgent(name, _ORIGINS["own"], problem=error.message)
        return NamedAgent(name, _ORIGINS.get(agent.kind, agent.kind), agent.definition.description)

    def _planned(self, agent: ResolvedAgent, project: Path) -> KitPlan:
        return plan_kit(agent, self.kit_places(project), self._around.redactor())

    def _places(self) -> AgentPlaces:
        return usual_places(self._around.environ, working_directory())

    def _project(self, path: Path | None) -> Path:
        return self._around.check_project(path or working_directory())


def one_of(agent: str | None, run: str | None) -> None:
    """Raise `UsageError` when both an agent and a run are named: it is one kit that is shown."""
    if agent is not None and run is not None:
        raise UsageError(f"Name an agent ({agent}) or a run (--run {run}), not both: one kit is shown.")


_KINDS = {
    "file": "a file",
    "own": "one of your agents",
    "built-in": "comes with the package",
    "url": "from an address",
    "oci": "from a registry",
    "inline": "defined by its parent",
}

_ASKED = "which you are asked about before the run starts"


def plan_lines(plan: AgentPlan) -> list[str]:
    """Lines for a person. No content of any file, and no value of a variable or a header, is among them."""
    agent = plan.agent
    head = f"agent {agent.name} ({_KINDS.get(agent.kind, agent.kind)})"
    about = [f"  {agent.definition.description}"] if agent.definition.description else []
    lines = [head, *about, *plan.kit.shown(), *_asks(agent), *_toolsets(agent), *_hosts(plan.tools, agent)]
    # A program that stands in the arguments has lines of its own, and none of them passes for one of ours.
    told = [plan.plain(line).split("\n") for line in lines]
    return [line if not number else f"    | {line}" for parts in told for number, line in enumerate(parts)]


def plan_record(plan: AgentPlan) -> dict[str, object]:
    """The same for programs."""
    kit, definition = plan.kit, plan.agent.definition
    told: dict[str, object] = {
        "agent": plan.agent.name,
        "kind": plan.agent.kind,
        "trusted": plan.agent.trusted,
        "digest": plan.agent.digest,
        "skills": [
            {"name": one.name, "place": one.place, "from": one.where, "files": len(one.files), "asked": one.asks}
            for one in kit.skills
        ],
        "prompt_files": [
            {"name": one.name, "place": one.place, "from": one.where, "asked": one.asks} for one in kit.prompt_files
        ],
        "files": [{"target": one.target, "size": one.size, "why": one.why} for one in kit.staged],
        "agents": [one.name for one in kit.agents],
        "left_out": [{"target": one.target, "reason": one.reason} for one in kit.left_out],
        "notes": list(kit.notes),
        "problems": list(kit.problems),
        "grants": {"net": list(definition.net_hosts()), "credentials": list(definition.grants.credentials)},
        "write": definition.write.value if definition.write is not None else None,
        "toolsets": [one.name for one in definition.toolsets],
        "tool_hosts": list(plan.tools.hosts),
        "unresolved": [{"toolset": one.toolset, "reason": one.reason} for one in plan.tools.unresolved],
    }
    return {name: value if name == "digest" else _plainly(value, plan.plain) for name, value in told.items()}


def _plainly(value: object, plain: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list):
        return [_plainly(one, plain) for one in value]
    return {name: _plainly(one, plain) for name, one in value.items()} if isinstance(value, dict) else value


def _asks(agent: ResolvedAgent) -> Iterator[str]:
    definition = agent.definition
    hosts = ["any other host after a question" if host == "ask" else host for host in definition.net_hosts()]
    asked = [
        f"to reach {', '.join(hosts)}" if hosts else "",
        f"to hold {', '.join(definition.grants.credentials)}" if definition.grants.credentials else "",
        "to change the project as it goes" if definition.write is WriteMode.THROUGH else "",
    ]
    asked = [one for one in asked if one]
    if asked:
        how = "which is as if you had typed it" if agent.trusted else _ASKED
        yield f"it asks {', '.join(asked)}, {how}"
    limits = [
        f"{definition.budget.usd:g} USD" if definition.budget.usd is not None else "",
        f"{definition.budget.turns:,} turns" if definition.budget.turns is not None else "",
    ]
    if any(limits):
        yield f"it stops after {' or '.join(filter(None, limits))}, unless the cell says otherwise"


def _toolsets(agent: ResolvedAgent) -> Iterator[str]:
    for toolset in agent.definition.toolsets:
        yield f"toolset {toolset.name} ({toolset.type}): {_started(toolset)}"


def _started(toolset: Toolset) -> str:
    url = getattr(toolset, "url", "")
    if url:
        return f"reached at {url}"
    version = f", {toolset.version}" if toolset.version else ""
    return f"`{shlex.join([toolset.command, *toolset.args])}` in the box{version}"


def _hosts(tools: ToolHosts, agent: ResolvedAgent) -> Iterator[str]:
    if tools.hosts:
        asked = "" if agent.trusted else f", {_ASKED}"
        yield f"opened so that toolsets can be installed: {', '.join(tools.hosts)}{asked}"
    for one in tools.unresolved:
        yield unresolved_line(one)


def unresolved_line(one: UnresolvedTool) -> str:
    """A toolset whose hosts are not known."""
    return f"! toolset {one.toolset}: where {one.command} is installed from is not known ({one.reason})"
