"""From an intent and the settings to an order: every choice made, every mistake told before anything runs."""

from __future__ import annotations

import getpass
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.brain.provider import BrainProvider
from kagura_kernel.brain.selection import AUTO, CLAUDE, SEALED, usual_model
from kagura_kernel.cockpit.agents import (
    ReadMcpConfig,
    ResolveAgent,
    agent_order,
    budget,
    usual_net,
    with_agent,
    write_mode,
)
from kagura_kernel.cockpit.handed import delegation_terms, handed_budget, handed_routing
from kagura_kernel.cockpit.intents import Launch, LaunchCell, LaunchRun
from kagura_kernel.cockpit.lines.reading import is_text
from kagura_kernel.cockpit.naming import here_of, working_directory
from kagura_kernel.cockpit.resuming import brain_session, continued, left_budget
from kagura_kernel.domain.errors import NotThisTime, UnknownName, UsageError, VariableRefused
from kagura_kernel.domain.identity import new_run_id
from kagura_kernel.domain.patterns import Checkpoint, Handoff, PlanTerms, TrustTerms
from kagura_kernel.domain.policy import BoxLimits, CommandLimits, SandboxPolicy
from kagura_kernel.domain.settings import Settings
from kagura_kernel.journal.rows import Here
from kagura_kernel.kit.definitions.definition import AgentDefinition
from kagura_kernel.kit.staging.naming import without_secret
from kagura_kernel.membrane.credentials.lease import Grant
from kagura_kernel.membrane.egress.proxy import PROXY_PORT, proxy_variables, usual_variables
from kagura_kernel.membrane.grant import RunGrant, compute_grant, host_sets
from kagura_kernel.membrane.protection import GitRules
from kagura_kernel.patterns.dispatch import capped
from kagura_kernel.runs.order import AgentOrder, RunOrder
from kagura_kernel.runs.sealing import model_api, sealed_needs, with_program
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.selection import WITHOUT_IMAGES

if TYPE_CHECKING:
    from kagura_kernel.kit.redaction.redactor import Redactor

"""The brain that `--seal` seals, and its name when it is."""

_SESSION_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def no_checkpoint(run: str, here: Here) -> Checkpoint:
    """Of a program that was put together without checkpoints.

    Raises:
        NotThisTime: always.
    """
    del here
    raise NotThisTime(f"{run} cannot be resumed: this program was put together without checkpoints.")


@dataclass(frozen=True, slots=True)
class Choices:
    """What an order is put together from.

    Attributes:
        settings: The user's.
        boxes: Names that `--box` takes, beside `auto`.
        choose_brain: A name to a brain and the reason for it; raises `UnknownName` and `BrainNotConfigured`.
        replay: A cassette to a brain that plays it and the task it was recorded with; raises `CassetteMissing` and
            `CassetteBroken`.
        record: A brain and a path to the same brain, recorded.
        check_project: A directory to the project root; raises `WorkspaceError`.
        resume: Session and brain to what that brain needs to go on; empty to start afresh.
        owner: Identifies this process.
        check_credentials: Raises when one of these is given by no provider.
        resolve_agent: A reference to an agent.
        read_mcp_config: A file to the MCP servers that it names.
        git_places: A project root to what git reads or runs of it; None where nobody asks git.
        checkpoint: A run, as a person names it there, to where it stood last; raises `RunError`, and `UsageError` where
            several fit.
    """

    settings: Settings
    boxes: tuple[str, ...]
    choose_brain: Callable[[str], tuple[BrainProvider, str]]
    replay: Callable[[Path], tuple[BrainProvider, str]]
    record: Callable[[BrainProvider, Path], BrainProvider]
    check_project: Callable[[Path], Path]
    resume: Callable[[str, str], str]
    owner: str
    check_credentials: Callable[[Sequence[Grant]], None]
    resolve_agent: ResolveAgent
    read_mcp_config: ReadMcpConfig
    git_places: Callable[[Path], GitRules | None] = lambda _: None
    checkpoint: Callable[[str, Here], Checkpoint] = no_checkpoint


def order_for(intent: Launch, session_id: str, choices: Choices) -> RunOrder:
    """The order that an intent means.

    Raises:
        UsageError: something in it cannot be understood.
        NotThisTime: its image means nothing to its box.
        WorkspaceError: its project cannot be used.
        BrainError: its brain, or its cassette, cannot be used.
        KitError: its agent's definition cannot be used.
        RunError: the run that it is to go on from is unknown, or cannot be gone on with.
    """
    settings = choices.settings
    resumes = None
    if isinstance(intent, LaunchRun):
        _check_words(intent)
    if isinstance(intent, LaunchRun) and intent.resume is not None:
        resumes = choices.checkpoint(intent.resume, here_of(intent.place, intent.project))
        intent = continued(intent, resumes)
    box = intent.box or settings.box
    if box != "auto" and box not in choices.boxes:
        raise UnknownName("box", box, ("auto", *choices.boxes))
    if intent.image and box in WITHOUT_IMAGES:
        raise NotThisTime(
            f"Boxes of {box} have no images: they show this machine's own programs. Leave `--image {intent.image}` "
            "out, or use `--box docker`."
        )
    _check_numbers(intent)
    _check_variables(intent, settings)
    project = choices.check_project(intent.project or working_directory())
    agent = _agent(intent, project, choices)
    handoff = intent.handoff if isinstance(intent, LaunchRun) else None
    grant = _grant(intent, project, choices, agent)
    git = choices.git_places(project)
    common = {
        "run_id": (handoff.run_id if handoff is not None else intent.run_id) or new_run_id(),
        "session_id": session_id,
        "project": project,
        "spec": _spec(project, grant, settings, _protected(project, intent, git), bool(intent.image)),
        "git": git,
        "grant": grant,
        "box": box,
        "write_mode": write_mode(intent, agent, settings),
        "limits": _command_limits(intent, settings),
        "longest": intent.command_timeout or None,
        "routing": handed_routing(settings, handoff),
        "origin": intent.origin,
        "started_by": intent.started_by,
        "user": login_name(),
        "owner": choices.owner,
        "headless": intent.headless,
        "inputs": intent.inputs,
        "outputs": intent.outputs,
        "room": settings.variables_mib * 2**20,
        "place": intent.place,
    }
    if isinstance(intent, LaunchCell):
        if not intent.code.strip():
            raise UsageError("The cell is empty: write the code to run in the box below the first line.")
        _check_text("The program", intent.code)
        return RunOrder(task=intent.code, language=intent.language, **common)  # type: ignore[arg-type]
    if not isinstance(intent, LaunchRun) or agent is None:
        raise TypeError(type(intent).__name__)
    return _brain_order(intent, choices, agent, common, resumes)


def _agent(intent: Launch, project: Path, choices: Choices) -> AgentOrder | None:
    if not isinstance(intent, LaunchRun):
        return None
    return agent_order(intent, choices.settings, project, choices.resolve_agent, choices.read_mcp_config)


def _grant(intent: Launch, project: Path, choices: Choices, agent: AgentOrder | None) -> RunGrant:
    grant = compute_grant(
        project=project,
        policy=SandboxPolicy(),
        image=_image(intent.image or choices.settings.image),
        usual_net=usual_net(agent, choices.settings),
        net=intent.net,
        credentials=intent.grants,
        writable_root=intent.writable_root,
        sets=host_sets(choices.settings.mirrors),
    )
    if agent is not None:
        grant = with_agent(grant, agent, intent)
    if isinstance(intent, LaunchRun) and intent.handoff is not None:
        grant = capped(grant, intent.handoff)
    if grant.credentials:
        choices.check_credentials(grant.credentials)
    return grant


def _image(name: str) -> str:
    """One of our own by its short name; every other name as it is."""
    from kagura_kernel.sandbox.images.recipes import DEFAULT_PREFIX, NAMES

    return f"{DEFAULT_PREFIX}{name}:latest" if name in NAMES else name


def _protected(project: Path, intent: Launch, git: GitRules | None) -> tuple[str, ...]:
    """What of the project stays as it is: beside our own and git's directories, what git runs, and the notebook itself.

    A run that could write the notebook that it is asked for in could put its own words into the place of what is
    known of it.
    """
    held = [*SandboxPolicy().read_only_subpaths, *(git.held if git is not None else ())]
    if intent.place.notebook:
        # As its server names it, and where links lead from there.
        own = Path(intent.place.notebook)
        held += [place.relative_to(project).as_posix() for place in (own, own.resolve()) if project in place.parents]
    return tuple(dict.fromkeys(held))


def _spec(
    project: Path, grant: RunGrant, settings: Settings, protected: tuple[str, ...], image_required: bool
) -> BoxSpec:
    """The box. Every one has the proxy's variables, so that a program without a grant is told why it gets nothing."""
    return BoxSpec(
        project,
        grant.image or None,
        SandboxPolicy(
            network_access=bool(grant.egress.granted) or grant.egress.ask,
            read_only_subpaths=protected,
        ),
        _box_limits(settings),
        env=usual_variables() | settings.env | proxy_variables(PROXY_PORT),
        writable_root=grant.writable_root,
        image_required=image_required,
    )


def _brain_order(
    intent: LaunchRun,
    choices: Choices,
    agent: AgentOrder,
    common: Mapping[str, object],
    resumes: Checkpoint | None,
) -> RunOrder:
    if not intent.task.strip() and intent.replay is None:
        raise UsageError("The task is empty: write what the agent should do below the first line.")
    _check_text("The task", intent.task)
    if intent.replay is not None and intent.record is not None:
        raise UsageError("`--replay` and `--record` exclude each other: a replay has nothing new to record.")
    settings, task = choices.settings, intent.task
    wanted = agent.agent.definition
    if intent.replay is not None:
        if intent.brain not in (None, "auto", "replay"):
            raise UsageError(
                f"`--replay` plays a recorded run and `--brain {intent.brain}` thinks anew. Use one of them."
            )
        brain, recorded = choices.replay(intent.replay)
        reason = f"the cassette {intent.replay.name} is played"
        task = task if task.strip() else recorded
    else:
        brain, reason = choices.choose_brain(_brain_name(intent, wanted.brain, settings))
    model = _model(intent, wanted, brain.name, choices)
    session_id = str(common["session_id"])
    goes_on = choices.resume(session_id, brain.name) if resumes is None else brain_session(resumes, brain.name)
    resume = goes_on if brain.capabilities().resume else ""
    if intent.record is not None:
        if brain.capabilities().sealed:
            raise UsageError(
                "`--record` writes down which tools a brain calls, and a sealed brain uses its own, which no cassette "
                "could call again. Leave one of them out."
            )
        brain = choices.record(brain, intent.record)
    if (needs := sealed_needs(brain)) is not None:
        model_api(needs)
        spec, grant = with_program(common["spec"], common["grant"], needs)  # type: ignore[arg-type]
        common = {**common, "spec": spec, "grant": grant}
    return RunOrder(
        task=task,
        brain=brain,
        brain_reason=reason,
        agent=agent,
        model=model,
        budget_usd=handed_budget(left_budget(budget(intent, wanted, settings), intent, resumes), intent.handoff),
        max_turns=intent.max_turns if intent.max_turns is not None else wanted.budget.turns,
        resume=resume,
        verify=(intent.verify or "").strip(),
        plan=PlanTerms(
            intent.plan, settings.plan_above_usd, settings.plan_above_seconds, intent.budget_usd is not None
        ),
        recall=settings.recall,
        resumes=resumes,
        handoff=intent.handoff or Handoff(),
        delegation=delegation_terms(settings, intent.workers, intent.handoff),
        changes=intent.changes,
        # The words of a replay are those of an earlier run, which has left what there was to learn.
        leaves=intent.replay is None or intent.remember,
        trust=TrustTerms(settings.trust_successes, settings.trust_tasks, settings.trust_days),
        **common,  # type: ignore[arg-type]
    )


def _model(intent: LaunchRun, wanted: AgentDefinition, brain: str, choices: Choices) -> str:
    """The model that was asked for; a definition's and the settings' count for the brain that they are meant for."""
    if intent.model is not None:
        return intent.model
    if wanted.model and (wanted.brain in ("", AUTO, brain) or {wanted.brain, brain} == {CLAUDE, SEALED}):
        return wanted.model
    return usual_model(choices.settings, brain, lambda: choices.choose_brain(AUTO)[0].name)


def _brain_name(intent: LaunchRun, wanted: str, settings: Settings) -> str:
    if not intent.seal:
        if intent.brain is None and wanted == SEALED:
            # There redaction does not stand between files and the model, and a definition may be somebody else's.
            raise UsageError(
                "The agent's definition wants the sealed brain, which is for you to say: add `--seal`, or name another "
                "with `--brain`."
            )
        return intent.brain or wanted or settings.brain
    if intent.brain not in (None, AUTO, CLAUDE, SEALED):
        raise UsageError(
            f"`--seal` lets the Claude program think in the box, and `--brain {intent.brain}` is another brain. Use "
            "one of them."
        )
    return SEALED


def check_name(what: str, name: str, redactor: Redactor | None) -> None:
    """Refuse a name that is a secret: names are kept, and shown, as they are.

    Args:
        what: What is named, as the person calls it.
        name: As it was typed.
        redactor: Knows secrets; None looks for none.

    Raises:
        UsageError: it is one.
        RedactionUnavailable: secrets cannot be looked for.
    """
    if redactor is not None and without_secret(name, lambda text: redactor.redact(text).text) != name:
        raise UsageError(
            f"{what} looks like a secret, and names are kept in the journal as they are: use another name. What is "
            "secret is lent to a run with `--grant`. If it was a live one, replace it where it was issued."
        )


def session_name(name: str, redactor: Redactor | None) -> str:
    """A session's name, checked.

    Raises:
        UsageError: it looks like a secret, or is not 1 to 64 letters, digits, dots, dashes and underscores, beginning
            with a letter or digit.
        RedactionUnavailable: secrets cannot be looked for.
    """
    check_name("The session's name", name, redactor)
    if not _SESSION_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot name a session: use 1 to 64 letters, digits, dots, dashes and underscores, "
            "beginning with a letter or digit."
        )
    return name


def _check_numbers(intent: Launch) -> None:
    for option, value in (("--timeout", intent.command_timeout), ("--idle", intent.idle_timeout)):
        if value is not None and not 0 <= value < 10**7:
            raise UsageError(f"{option} takes seconds, 0 or more (0 lifts the limit), not {value:g}.")
    if isinstance(intent, LaunchRun):
        if intent.budget_usd is not None and not 0 < intent.budget_usd < 10**6:
            raise UsageError(f"--budget takes an amount in USD above 0, not {intent.budget_usd:g}.")
        if intent.max_turns is not None and intent.max_turns < 1:
            raise UsageError(f"--max-turns takes a whole number from 1, not {intent.max_turns}.")


def _check_text(what: str, text: str) -> None:
    if not is_text(text):
        raise UsageError(f"{what} holds bytes or half characters that are no text in UTF-8. Type it anew.")


def _check_words(intent: LaunchRun) -> None:
    if intent.verify is not None and not intent.verify.strip():
        # Taken for none, it would end as `done` what was meant to be tried out.
        raise UsageError(
            "--verify is empty, so that nothing would be verified: give a command, such as `--verify 'pytest -q'`, or "
            "leave the option out."
        )
    if intent.remember and intent.replay is None:
        raise UsageError("`--remember` belongs to `--replay`: every other run leaves a summary by itself.")


def _check_variables(intent: Launch, settings: Settings) -> None:
    size, room = sum(len(packed.data) for packed in intent.inputs), settings.variables_mib * 2**20
    if size > room:
        largest = max(intent.inputs, key=lambda packed: len(packed.data))
        raise VariableRefused(
            largest.name,
            f"The variables of this cell have {size:,} bytes, and {room:,} may cross (the setting "
            f"`variables_mib`). The largest is {largest.name}.",
        )


def _command_limits(intent: Launch, settings: Settings) -> CommandLimits:
    total = settings.command_timeout if intent.command_timeout is None else intent.command_timeout
    idle = settings.idle_timeout if intent.idle_timeout is None else intent.idle_timeout
    return CommandLimits(total or None, idle or None)


def _box_limits(settings: Settings) -> BoxLimits:
    return BoxLimits(
        memory_bytes=settings.memory_mib * 2**20,
        processes=settings.processes,
        workspace_bytes=settings.workspace_mib * 2**20,
    )


def login_name() -> str:
    """Who this process runs as."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
