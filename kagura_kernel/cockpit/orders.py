"""From a request and the settings to an order: every choice made, every mistake told before anything runs."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.brain.openai_compatible import service_of, stays_here
from kagura_kernel.brain.provider import AUTO, CLAUDE, SEALED, BrainProvider, usual_model
from kagura_kernel.cockpit import agents
from kagura_kernel.cockpit.locked_settings import check_locked
from kagura_kernel.cockpit.resumption import brain_session, continued, left_budget
from kagura_kernel.cockpit.run_names import here_of, working_directory
from kagura_kernel.cockpit.trust import trust_terms
from kagura_kernel.domain.errors import (
    BrainNotConfigured,
    ExtensionBroken,
    NotThisTime,
    UnknownName,
    UsageError,
    VariableRefused,
)
from kagura_kernel.domain.identity import new_run_id
from kagura_kernel.domain.images import MAX_BYTES, Image, NoImageError, read_image
from kagura_kernel.domain.late_dataclass import dataclass, field, replace
from kagura_kernel.domain.notebook import CONTEXT_MODES, LEAST_TOKENS, MOST_TOKENS, ContextMode, ContextTerms
from kagura_kernel.domain.patterns import Checkpoint, Handoff, PlanTerms
from kagura_kernel.domain.policy import BoxLimits, CommandLimits, PermissionMode, SandboxPolicy, SandboxPolicyType
from kagura_kernel.domain.settings import Settings
from kagura_kernel.domain.variables import CellPlace
from kagura_kernel.domain.visible import is_whole
from kagura_kernel.journal.place import expanded
from kagura_kernel.journal.rows import Conversation, Here
from kagura_kernel.kit.definitions.definition import AgentDefinition
from kagura_kernel.kit.staging.home_files import without_secret
from kagura_kernel.membrane.credentials.lease import Grant
from kagura_kernel.membrane.egress.proxy import PROXY_PORT, proxy_variables, usual_variables
from kagura_kernel.membrane.grant import THINKS_AT, RunGrant, compute_grant, host_sets
from kagura_kernel.membrane.protection import GitRules
from kagura_kernel.patterns.dispatch import capped
from kagura_kernel.runs.order import AgentOrder, RunOrder
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.runs.sealed_run import check_service, sealed_needs, with_program
from kagura_kernel.runtime.routing import Routing
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.selection import WITHOUT_IMAGES

if TYPE_CHECKING:
    from kagura_kernel.kit.redaction.redactor import Redactor

_GIT = ".git"
_KEEP_OR = "leave `--keep` or"
_MOST_PICTURES = 20
SESSION_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Choices:
    """What an order is put together from."""

    settings: Settings  # The user's
    boxes: tuple[str, ...]  # Names that `--box` takes, beside `auto`
    # A name to a brain and the reason for it; raises `UnknownName` and `BrainNotConfigured`
    choose_brain: Callable[[str], tuple[BrainProvider, str]]
    # A cassette to a brain that plays it and the task it was recorded with; raises `CassetteMissing` and
    # `CassetteBroken`
    replay: Callable[[Path], tuple[BrainProvider, str]]
    record: Callable[[BrainProvider, Path], BrainProvider]  # A brain and a path to the same brain, recorded
    check_project: Callable[[Path], Path]  # A directory to the project root; raises `WorkspaceError`
    # A run to what was known of its notebook at its end; None where it was told nothing
    known_cells: Callable[[str], Mapping[str, str] | None]
    conversation: Callable[[str, str], Conversation]  # Session and brain to what that brain goes on from
    owner: str  # Identifies this process
    check_credentials: Callable[[Sequence[Grant]], None]  # Raises when one of these is given by no provider
    resolve_agent: agents.ResolveAgent  # A reference to an agent
    read_mcp_config: agents.ReadMcpConfig  # A file to the MCP servers that it names
    # A run, as a person names it there, to where it stood last; raises `RunError`, and `UsageError` where several fit
    checkpoint: Callable[[str, Here], Checkpoint]
    # A project root to what git reads or runs of it; None where nobody asks git
    git_places: Callable[[Path], GitRules | None] = lambda _: None
    # What other packages bring and cannot be used, by the name that `--box` would take
    broken_boxes: Mapping[str, ExtensionBroken] = field(default_factory=dict)


def order_for(request: RunRequest, session_id: str, choices: Choices) -> RunOrder:
    """The order that a request means.

    Raises:
        UsageError: something in it cannot be understood, or an administrator has locked a setting that says less.
        NotThisTime: its image means nothing to its box.
        WorkspaceError: its project cannot be used.
        BrainError: its brain, or its cassette, cannot be used.
        KitError: its agent's definition cannot be used.
        RunError: the run that it is to go on from is unknown, or cannot be gone on with.
    """
    order = _made(request, session_id, choices)
    check_locked(order, choices.settings, lambda name: choices.choose_brain(name)[0].name)
    return order


def _made(request: RunRequest, session_id: str, choices: Choices) -> RunOrder:
    settings = choices.settings
    request, resumes = _from_where_it_stood(request, choices)
    _check_box(request, choices)
    _check_numbers(request)
    _check_variables(request, settings)
    project = choices.check_project(request.project or working_directory())
    reads = choices.resolve_agent, choices.read_mcp_config
    agent = None if request.language else agents.agent_order(request, settings, project, *reads)
    policy = SandboxPolicy(agents.policy(request, agent, settings))
    _check_policy(request, policy)
    grant = _grant(request, project, choices, agent, policy)
    git = choices.git_places(project)
    handoff = request.handoff or Handoff()
    order = RunOrder(
        run_id=handoff.run_id or request.run_id or new_run_id(),
        session_id=session_id,
        task=request.task,
        project=project,
        spec=_spec(
            project,
            grant,
            settings,
            _with_paths(policy, project, git, works_for_another=request.handoff is not None),
            bool(request.image),
        ),
        request=request,
        git=git,
        grant=grant,
        box=request.box or settings.box,
        keep_seconds=_keep_seconds(request, settings, grant) if policy.walled else 0.0,
        agent=agent,
        write_mode=agents.write_mode(request, agent, settings),
        plans_only=request.mode == "plan" or handoff.plans_only,
        limits=_command_limits(request, settings),
        most_limits=_most_limits(settings),
        routing=_routing(request, settings, policy),
        falls_back=settings.fallback_to_host and agent is not None and not (alone := _is_alone(request)),
        cannot_fall_back=alone if settings.fallback_to_host and agent is not None else "",
        user=login_name(),
        owner=choices.owner,
        room=settings.variables_mib * 2**20,
        place=request.place or CellPlace(),
    )
    if agent is not None:
        return _with_brain(order, agent, choices, resumes)
    if not request.task.strip():
        raise UsageError("The cell is empty: write the code to run in the box below the first line.")
    _check_text("The program", request.task)
    return order


def _from_where_it_stood(request: RunRequest, choices: Choices) -> tuple[RunRequest, Checkpoint | None]:
    """The request, as the run that it goes on from would have it, and where that stood."""
    if request.language:
        return request, None
    _check_words(request)
    if request.resume is None:
        return request, None
    resumes = choices.checkpoint(request.resume, here_of(request.place or CellPlace(), request.project))
    return continued(request, resumes), resumes


def _check_box(request: RunRequest, choices: Choices) -> None:
    box = request.box or choices.settings.box
    if box != "auto" and box not in choices.boxes:
        if box in choices.broken_boxes:
            raise choices.broken_boxes[box]
        raise UnknownName("box", box, ("auto", *choices.boxes))
    if request.image and box in WITHOUT_IMAGES:
        raise NotThisTime(
            f"Boxes of {box} have no images: they show their machine's own programs. Leave `--image {request.image}` "
            "out, or use `--box docker`. A picture is shown to the model with `--picture FILE`."
        )


def _is_alone(request: RunRequest) -> str:
    """Why the machine's owner does not answer for each command, or wants its box to stay; empty where they do."""
    asks = "The setting `fallback_to_host` asks the owner of this machine before each command"
    if request.started_by:
        return f"{asks}, and not whoever writes from a chat."
    if request.headless:
        return f"{asks}, and nobody can be asked here: run it in a notebook, or in a terminal where you can answer."
    return f"{asks}, and leaves no box that could stay: leave `--keep` out." if request.keep else ""


def _check_policy(request: RunRequest, policy: SandboxPolicy) -> None:
    """Refuse what nothing could hold a run to that has no box, and what a box that changes nothing cannot do."""
    if policy.walled:
        if request.writable_root and not policy.writable:
            raise UsageError(
                "`--writable-root` changes the box, and `--policy read_only` changes nothing: leave one out."
            )
        return
    needs = {
        "--seal": request.seal,
        "--keep": request.keep,
        "--mode plan": request.mode == "plan",
        "--net": bool(request.net),
        "--image": bool(request.image),
        "--writable-root": request.writable_root,
    }
    if named := [option for option, is_there in needs.items() if is_there]:
        raise UsageError(
            f"`{named[0]}` needs a box, and with the policy {policy.type} there is none: leave it out, or add "
            "`--policy workspace_write`."
        )


def _grant(
    request: RunRequest, project: Path, choices: Choices, agent: AgentOrder | None, policy: SandboxPolicy
) -> RunGrant:
    # What changes nothing sends nothing either, but where its own cell says so. Without a box there is no wall.
    quiet = not (policy.walled and policy.writable)
    grant = compute_grant(
        project=project,
        policy=policy,
        image=_image(request.image or choices.settings.image),
        usual_net=() if quiet else agents.usual_net(agent, choices.settings),
        net=request.net,
        credentials=request.grants,
        writable_root=request.writable_root,
        sets=host_sets(choices.settings.mirrors),
    )
    if agent is not None:
        grant = agents.with_agent(grant, agent, request)
    if request.handoff is not None:
        grant = capped(grant, request.handoff)
    if grant.credentials:
        choices.check_credentials(grant.credentials)
    return grant


def _keep_seconds(request: RunRequest, settings: Settings, grant: RunGrant) -> float:
    """How long the box stays for the next cell; 0 for one that ends with its run, as a child's does.

    What a program was lent as a secret may be anywhere in its box afterwards, so that such a box never stays.

    Raises:
        UsageError: it was asked to stay, and to be lent a credential.
    """
    if request.keep and grant.credentials:
        raise UsageError(f"A box that holds credentials ends with its run: {_KEEP_OR} `--grant` out.")
    stays = (request.keep or settings.keep) and not grant.credentials and request.handoff is None
    return 60 * settings.keep_minutes if stays else 0.0


def _image(name: str) -> str:
    """One of our own by its short name; every other name as it is."""
    from kagura_kernel.sandbox.images.recipes import DEFAULT_PREFIX, NAMES

    return f"{DEFAULT_PREFIX}{name}:latest" if name in NAMES else name


def _with_paths(
    policy: SandboxPolicy, project: Path, git: GitRules | None, *, works_for_another: bool
) -> SandboxPolicy:
    """The policy with what of the project stays as it is: our own directory, git's, and what git runs.

    Where a person's run works in a copy, a repository of the project's own is part of that, so that it can commit.
    """
    folder = project / _GIT
    in_a_copy = policy.writable and policy.type is not SandboxPolicyType.DANGER_FULL
    commits = in_a_copy and not works_for_another and folder.is_dir()
    own = (_GIT,) if commits and not folder.is_symlink() else ()
    held = [*policy.read_only_subpaths, *(git.held if git is not None else ())]
    read_only = tuple(path for path in dict.fromkeys(held) if path not in own)
    return replace(policy, read_only_subpaths=read_only, own_subpaths=own)


def _spec(project: Path, grant: RunGrant, settings: Settings, policy: SandboxPolicy, image_required: bool) -> BoxSpec:
    """The box. Every one has the proxy's variables, so that a program without a grant is told why it gets nothing."""
    return BoxSpec(
        project,
        grant.image or None,
        replace(policy, network_access=bool(grant.egress.granted) or grant.egress.ask),
        _box_limits(settings),
        env=usual_variables() | settings.env | (proxy_variables(PROXY_PORT) if policy.walled else {}),
        writable_root=grant.writable_root,
        image_required=image_required,
    )


def _with_brain(order: RunOrder, agent: AgentOrder, choices: Choices, resumes: Checkpoint | None) -> RunOrder:
    """The order with who thinks, for how much, and from where it goes on."""
    request, settings = order.request, choices.settings
    if not request.task.strip() and request.replay is None:
        raise UsageError("The task is empty: write what the agent should do below the first line.")
    _check_text("The task", request.task)
    wanted = agent.agent.definition
    brain, reason, task = _brain(request, wanted, choices)
    model = _model(request, wanted, brain.name, choices)
    goes_on = _conversation(order.session_id, brain, choices, resumes)
    if request.record is not None:
        if brain.capabilities().sealed:
            raise UsageError(
                "`--record` writes down which tools a brain calls, and a sealed brain uses its own, which no cassette "
                "could call again. Leave one of them out."
            )
        brain = choices.record(brain, request.record)
    spec, grant = order.spec, order.grant.asking(_elsewhere(request, agent, brain.name, model, choices))
    if (needs := sealed_needs(brain)) is not None:
        if not spec.policy.walled:
            raise UsageError(
                f"A sealed brain thinks in a box, and with the policy {spec.policy.type} there is none: add `--policy "
                "workspace_write`, or leave the sealed brain out."
            )
        if request.keep:
            raise UsageError(f"The box of a sealed brain ends with its run: {_KEEP_OR} the sealed brain out.")
        check_service(needs)
        spec, grant = with_program(spec, grant, needs)
    return replace(
        order,
        keep_seconds=order.keep_seconds if needs is None else 0.0,
        falls_back=order.falls_back and needs is None,
        spec=spec,
        grant=grant,
        task=task,
        brain=brain,
        brain_reason=reason,
        model=model,
        budget_usd=agents.handed_budget(
            left_budget(agents.budget(request, wanted, settings), request, resumes), request.handoff
        ),
        most_usd=settings.budget_usd if "budget_usd" in settings.locked else None,
        max_turns=request.max_turns if request.max_turns is not None else wanted.budget.turns,
        resume=goes_on.word,
        follows=goes_on,
        context=_context(request, settings, lambda: choices.known_cells(goes_on.run_id), goes_on=bool(goes_on.word)),
        verify=(request.verify or "").strip(),
        plan=PlanTerms(
            request.plan, settings.plan_above_usd, settings.plan_above_seconds, request.budget_usd is not None
        ),
        recall=settings.recall,
        resumes=resumes,
        handoff=request.handoff or Handoff(),
        delegation=agents.delegation_terms(settings, request.workers, request.handoff),
        # The words of a replay are those of an earlier run, which has left what there was to learn.
        leaves=request.replay is None or request.remember,
        pictures=_pictures(request, order.project, brain, model),
        trust=trust_terms(settings),
    )


def _pictures(request: RunRequest, project: Path, brain: BrainProvider, model: str) -> tuple[Image, ...]:
    """What the model is shown with the task. One from outside of the project goes by its name, not by its path."""
    if len(request.pictures) > _MOST_PICTURES:
        raise UsageError(f"A task has at most {_MOST_PICTURES} pictures, not {len(request.pictures)}.")
    if request.pictures and not brain.capabilities().images(model):
        raise UsageError(
            f"The brain {brain.name} does not say that {model or 'its model'} takes images. Leave `--picture` out, use "
            "another brain, or say `images = true` in the settings of its endpoint."
        )
    return tuple(_picture(path, project) for path in request.pictures)


def _picture(path: Path, project: Path) -> Image:
    whole = project / expanded(path)
    try:
        if not whole.is_file():
            raise UsageError(f"`--picture {path}`: there is no such file. A path counts from the project, {project}.")
        with whole.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        return read_image(data, whole.name if path.is_absolute() else path.as_posix())
    except (OSError, NoImageError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"`--picture {path}` cannot be shown: {why}. Name a PNG, JPEG, GIF or WebP file.") from error


def _routing(request: RunRequest, settings: Settings, policy: SandboxPolicy) -> Routing:
    """Where commands run; a run that only plans has none on the host unasked, also when it carries its plan out.

    Full control is the machine's owner's, for what may change something: no chat has it, nor a run that only reads.
    """
    routing = agents.handed_routing(settings, request.handoff)
    if policy.type is SandboxPolicyType.DANGER_FULL:
        return replace(routing, mode=PermissionMode.FULL_CONTROL)
    if request.started_by or not policy.writable:
        routing = replace(routing, mode=PermissionMode.DEFAULT)
    return replace(routing, mode=PermissionMode.DEFAULT, preapproved=()) if request.mode == "plan" else routing


def _conversation(session_id: str, brain: BrainProvider, choices: Choices, resumes: Checkpoint | None) -> Conversation:
    """What the brain goes on from, where it can."""
    if not brain.capabilities().resume:
        return Conversation()
    if resumes is not None:
        return Conversation(brain_session(resumes, brain.name), resumes.run_id)
    return choices.conversation(session_id, brain.name)


def _context(
    request: RunRequest, settings: Settings, known: Callable[[], Mapping[str, str] | None], *, goes_on: bool
) -> ContextTerms:
    """What it is shown of its notebook. A replay's words were said already, and look at nothing."""
    said = request.context
    mode: ContextMode = settings.context if request.replay is None else "none"
    tokens = settings.context_tokens
    if said is not None and said.isdecimal():
        mode, tokens = settings.context, int(said)
    elif said is not None:
        found = next((one for one in CONTEXT_MODES if one == said), None)
        if found is None:
            raise UsageError(f"--context takes none, names, cells, all, or a number of tokens, not {said!r}.")
        mode = found
    if not LEAST_TOKENS <= tokens <= MOST_TOKENS:
        raise UsageError(f"--context takes {LEAST_TOKENS} to {MOST_TOKENS:,} tokens, not {tokens:,}.")
    if request.notebook is None or mode == "none":
        return ContextTerms()
    return ContextTerms(mode, tokens, known() if goes_on else None)


def _brain(request: RunRequest, wanted: AgentDefinition, choices: Choices) -> tuple[BrainProvider, str, str]:
    """Who thinks, why it is this one, and the task: a cassette brings its own where the cell has none."""
    if request.replay is None:
        return *choices.choose_brain(_brain_name(request, wanted.brain, choices.settings)), request.task
    if request.record is not None:
        raise UsageError("`--replay` and `--record` exclude each other: a replay has nothing new to record.")
    if request.brain not in (None, "auto", "replay"):
        raise UsageError(f"`--replay` plays a recorded run and `--brain {request.brain}` thinks anew. Use one of them.")
    brain, recorded = choices.replay(request.replay)
    task = request.task if request.task.strip() else recorded
    return brain, f"the cassette {request.replay.name} is played", task


def _model(request: RunRequest, wanted: AgentDefinition, brain: str, choices: Choices) -> str:
    """The model that was asked for; a definition's and the settings' count for the brain that they are meant for."""
    is_meant = wanted.brain in ("", AUTO, brain) or {wanted.brain, brain} == {CLAUDE, SEALED}
    if request.model is None and wanted.model and is_meant:
        return wanted.model
    return _usual_model(request, brain, choices)


def _usual_model(request: RunRequest, brain: str, choices: Choices) -> str:
    if request.model is not None:
        return request.model
    return usual_model(choices.settings, brain, lambda: choices.choose_brain(AUTO)[0].name)


def _elsewhere(request: RunRequest, agent: AgentOrder, brain: str, model: str, choices: Choices) -> tuple[str, ...]:
    """What has to be asked where somebody else's definition has another service think than the person's own choice.

    That service is told all that the run reads, and may be paid.
    """
    wanted, settings = agent.agent.definition, choices.settings
    if agent.agent.trusted or request.replay is not None or not (wanted.brain or wanted.model):
        return ()
    service = _service(brain, model, settings)
    try:
        usual = choices.choose_brain(_brain_name(request, "", settings))[0].name
        own = _service(usual, _usual_model(request, usual, choices), settings)
    except BrainNotConfigured:
        own = ""
    return () if service == own or stays_here(service, settings) else (f"{THINKS_AT}{service}",)


def _service(brain: str, model: str, settings: Settings) -> str:
    return service_of(CLAUDE if brain == SEALED else brain, model, settings)


def _brain_name(request: RunRequest, wanted: str, settings: Settings) -> str:
    if not request.seal:
        if request.brain is None and wanted == SEALED:
            # There redaction does not stand between files and the model, and a definition may be somebody else's.
            raise UsageError(
                "The agent's definition wants the sealed brain, which is for you to say: add `--seal`, or name another "
                "with `--brain`."
            )
        return request.brain or wanted or settings.brain
    if request.brain not in (None, AUTO, CLAUDE, SEALED):
        raise UsageError(
            f"`--seal` lets the Claude program think in the box, and `--brain {request.brain}` is another brain. Use "
            "one of them."
        )
    return SEALED


def check_name(what: str, name: str, redactor: Redactor) -> None:
    """Refuse a name that is a secret: names are kept, and shown, as they are.

    Raises:
        UsageError: it is one.
        RedactionUnavailable: secrets cannot be looked for.
    """
    if without_secret(name, lambda text: redactor.redact(text).text) != name:
        raise UsageError(
            f"{what} looks like a secret, and names are kept in the journal as they are: use another name. What is "
            "secret is lent to a run with `--grant`. If it was a live one, replace it where it was issued."
        )


def session_name(name: str, redactor: Redactor) -> str:
    """A session's name, checked.

    Raises:
        UsageError: it looks like a secret, or is not 1 to 64 letters, digits, dots, dashes and underscores, beginning
            with a letter or digit.
        RedactionUnavailable: secrets cannot be looked for.
    """
    check_name("The session's name", name, redactor)
    if not SESSION_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot name a session: use 1 to 64 letters, digits, dots, dashes and underscores, "
            "beginning with a letter or digit."
        )
    return name


def check_seconds(option: str, value: float | None) -> None:
    """Raises `UsageError` for what is no limit of time."""
    if value is not None and not 0 <= value < 10**7:
        raise UsageError(f"{option} takes seconds, 0 or more (0 lifts the limit), not {value:g}.")


def _check_numbers(request: RunRequest) -> None:
    check_seconds("--timeout", request.command_timeout)
    check_seconds("--idle", request.idle_timeout)
    if not request.language:
        if request.budget_usd is not None and not 0 < request.budget_usd < 10**6:
            raise UsageError(f"--budget takes an amount in USD above 0, not {request.budget_usd:g}.")
        if request.max_turns is not None and request.max_turns < 1:
            raise UsageError(f"--max-turns takes a whole number from 1, not {request.max_turns}.")


def _check_text(what: str, text: str) -> None:
    if not is_whole(text):
        raise UsageError(f"{what} holds bytes or half characters that are no text in UTF-8. Type it anew.")


def _check_words(request: RunRequest) -> None:
    if request.verify is not None and not request.verify.strip():
        # Taken for none, it would end as `done` what was meant to be tried out.
        raise UsageError(
            "--verify is empty, so that nothing would be verified: give a command, such as `--verify 'pytest -q'`, or "
            "leave the option out."
        )
    if request.remember and request.replay is None:
        raise UsageError("`--remember` belongs to `--replay`: every other run leaves a summary by itself.")


def _check_variables(request: RunRequest, settings: Settings) -> None:
    size, room = sum(len(packed.data) for packed in request.inputs), settings.variables_mib * 2**20
    if size > room:
        largest = max(request.inputs, key=lambda packed: len(packed.data))
        raise VariableRefused(
            largest.name,
            f"The variables of this cell have {size:,} bytes, and {room:,} may cross (the setting "
            f"`variables_mib`). The largest is {largest.name}.",
        )


def _command_limits(request: RunRequest, settings: Settings) -> CommandLimits:
    total = settings.command_timeout if request.command_timeout is None else request.command_timeout
    idle = settings.idle_timeout if request.idle_timeout is None else request.idle_timeout
    return CommandLimits(total or None, idle or None)


def _most_limits(settings: Settings) -> CommandLimits:
    """What an administrator has locked, which no call of a tool lifts either."""
    total = settings.command_timeout if "command_timeout" in settings.locked else 0
    idle = settings.idle_timeout if "idle_timeout" in settings.locked else 0
    return CommandLimits(total or None, idle or None)


def _box_limits(settings: Settings) -> BoxLimits:
    return BoxLimits(
        memory_bytes=settings.memory_mib * 2**20,
        processes=settings.processes,
        workspace_bytes=settings.workspace_mib * 2**20,
    )


def login_name() -> str:
    """Who this process runs as: JupyterHub's word where it has started it, for there all may have one account."""
    if named := os.environ.get("JUPYTERHUB_USER"):
        return named
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
