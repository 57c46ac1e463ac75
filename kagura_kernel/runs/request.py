"""What was asked for: the one object that every front door makes of a line, a message or a call.

Each option of a cell is declared here once, beside the field that holds its value: flag, kind, help, and what holds
without it. The magic's line, the terminal's `run`, chats and programs all make a `RunRequest`; what the settings and
the agent's definition say to it is decided by `cockpit.ordering`, whose `RunOrder` holds the request.

The help of all commands reads these declarations, so this module imports nothing that takes time.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args

from kagura_kernel.domain.grammar import NOTEBOOK, Argument, InputRequest, Kind, Option

if TYPE_CHECKING:
    from pathlib import Path

    from kagura_kernel.domain.notebook import Notebook, RunsCells, WriteCells
    from kagura_kernel.domain.outcome import FileChange
    from kagura_kernel.domain.patterns import Handoff
    from kagura_kernel.domain.settings import WriteMode
    from kagura_kernel.domain.variables import CellPlace, PackedVariable

LANGUAGES = ("python", "bash")
WRITE_MODES = ("ask", "through", "none")
POLICIES = ("read_only", "workspace_write", "external_sandbox", "danger_full_access")
MODES = ("plan", "default", "acceptEdits")
"""Names by which other agents know how much a run may change by itself."""

LANGUAGE = Argument(
    "language",
    Kind.CHOICE,
    "the language of the program; python when none is named",
    required=False,
    choices=LANGUAGES,
    default="python",
)
"""What may stand in the first line of a cell whose own code runs."""


class RunRequest(NamedTuple):
    """One run, as somebody asked for it; None leaves a choice to the settings."""

    task: str = ""  # the prompt, or the cell's own code
    language: "Literal['', 'python', 'bash']" = ""  # of the cell's own code; empty sends the task to a brain

    # Options of `%%kagura` alone.
    brain: Annotated[
        "str | None",
        Option(
            ("--brain",),
            "the brain that thinks: one that `%kagura brain` lists, or what an extension adds",
            Kind.BRAIN,
            metavar="NAME",
            otherwise="the first that is configured; the card says which and why",
        ),
    ] = None
    seal: Annotated[
        "bool",
        Option(
            ("--seal",),
            "let the Claude program think in the box itself, with its own tools and its key outside",
            excludes=("--record", "--replay"),
            otherwise="the brain thinks on this machine, and only its tools act in the box",
        ),
    ] = False
    model: Annotated[
        "str | None", Option(("--model",), "its model", Kind.MODEL, metavar="NAME", otherwise="the brain’s own choice")
    ] = None
    agent: Annotated[
        "str | None",
        Option(
            ("--agent",),
            "who does it: a definition’s file, a name, an `https://` address, or `oci://HOST/NAME@sha256:DIGEST`; "
            "`kit plan` shows what comes with it",
            Kind.AGENT,
            metavar="AGENT",
            otherwise="`default`: AGENTS.md, CLAUDE.md and the project’s skills",
        ),
    ] = None
    mcp_config: Annotated[
        "Path | None",
        Option(
            ("--mcp-config",),
            "start the MCP servers of this file as well, in its box; one of a name that the agent has takes its place",
            Kind.FILE,
            otherwise="those of its agent",
        ),
    ] = None
    strict_mcp: Annotated[
        "bool",
        Option(
            ("--strict-mcp-config",),
            "start no MCP server but those of `--mcp-config`",
            otherwise="those of its agent too",
        ),
    ] = False
    pictures: Annotated[
        "tuple[Path, ...]",
        Option(
            ("--picture",),
            "show the model this PNG, JPEG, GIF or WebP file with the task, without its metadata; the option again for "
            "more",
            Kind.FILE,
            many=True,
            otherwise="it sees the images that its tools make and read",
        ),
    ] = ()
    context: Annotated[
        "str | None",
        Option(
            ("--context",),
            "what it is shown of the notebook: `none`; `names` of variables, and the last error; the `cells` above as "
            "well; `all`, those below too; or a number of tokens",
            Kind.TEXT,
            metavar="none|names|cells|all|N",
            otherwise="`cells`, in 4,000 tokens; the settings `context` and `context_tokens`; nothing with --replay",
            surfaces=NOTEBOOK,
        ),
    ] = None
    budget_usd: Annotated[
        "float | None",
        Option(
            ("--budget",),
            "stop the run before it costs more, by at most one turn",
            Kind.USD,
            otherwise="no limit",
        ),
    ] = None
    plan: Annotated[
        "bool",
        Option(
            ("--plan",),
            "show what similar tasks have cost, what went wrong in them, and a budget, and wait for your word",
            otherwise="only a task that is expected to cost much; the setting `plan_above_usd`",
        ),
    ] = False
    verify: Annotated[
        "str | None",
        Option(
            ("--verify",),
            "try the finished work out with this command, in a fresh box that the agent never touches; "
            "`--verify 'pytest -q'`; files that the agent may change, tests among them, are its own word",
            Kind.TEXT,
            metavar="COMMAND",
            otherwise="nobody says whether the work is good but you",
        ),
    ] = None
    resume: Annotated[
        "str | None",
        Option(
            ("--resume",),
            "go on from where a run stopped: an id, the end of one, or `last`; the cell may add a few words, "
            "or be empty",
            Kind.RUN,
            excludes=("--replay", "--record"),
            otherwise="a fresh run",
        ),
    ] = None
    workers: Annotated[
        "str | None",
        Option(
            ("--workers",),
            "run what the agent hands on there, at a Dask scheduler such as tcp://10.0.0.5:8786",
            Kind.URL,
            otherwise="in this process, or where the setting `workers` says",
        ),
    ] = None
    max_turns: Annotated[
        "int | None", Option(("--max-turns",), "how often the brain may go round", Kind.COUNT, otherwise="no limit")
    ] = None
    record: Annotated[
        "Path | None",
        Option(
            ("--record",),
            "write a cassette, which can be played without a model",
            Kind.FILE,
            excludes=("--replay", "--resume", "--seal"),
        ),
    ] = None
    replay: Annotated[
        "Path | None",
        Option(
            ("--replay",),
            "play a cassette instead of asking a brain: recorded words, real tools",
            Kind.FILE,
            excludes=("--record", "--resume", "--seal"),
        ),
    ] = None
    remember: Annotated[
        "bool",
        Option(
            ("--remember",),
            "with --replay: leave a summary and lessons in the memory, as the run did that was recorded",
            otherwise="a replay leaves nothing there by itself",
        ),
    ] = False

    # Options of both kinds of cells.
    box: Annotated[
        "str | None",
        Option(
            ("--box",),
            "the box to work in: `bubblewrap`, `docker`, `gvisor`, `kubernetes`, `ssh`, or what an extension adds; "
            "`kagura-kernel doctor` lists them",
            Kind.BOX,
            metavar="NAME",
            otherwise="Docker when its daemon answers and the image is built, else bubblewrap",
        ),
    ] = None
    image: Annotated[
        "str | None",
        Option(
            ("--image",),
            "an image, for boxes that have images",
            Kind.IMAGE,
            metavar="NAME",
            otherwise="`kagura/python:latest`",
        ),
    ] = None
    keep: Annotated[
        "bool",
        Option(
            ("--keep",),
            "leave the box in place, paused, for the next cell with `--keep`, which goes on with its files, its Python "
            "variables and what was installed, and with nothing that this one was granted",
            otherwise="a fresh box that ends with the run; the settings `keep` and `keep_minutes`",
            surfaces=NOTEBOOK,
        ),
    ] = False
    session: Annotated[
        "str | None",
        Option(
            ("--session",),
            "go on with the session of this name, wherever it was begun",
            Kind.SESSION,
            metavar="NAME",
            excludes=("--new",),
            otherwise="the notebook’s own goes on",
        ),
    ] = None
    new_session: Annotated[
        "bool",
        Option(
            ("--new",),
            "start a fresh session",
            excludes=("--session",),
            otherwise="the notebook’s own goes on",
        ),
    ] = False
    expressions: Annotated[
        "tuple[InputRequest, ...]",
        Option(
            ("-i", "--in"),
            "give it a copy of a variable, or of what a Python expression gives; several names with commas, "
            "or the option "
            "again",
            Kind.EXPRESSION,
            many=True,
            commas=True,
            otherwise="it sees none of your variables",
            surfaces=NOTEBOOK,
        ),
    ] = ()
    outputs: Annotated[
        "tuple[str, ...]",
        Option(
            ("-o", "--out"),
            "bring a variable of this name back; several with commas, or the option again",
            Kind.VARIABLE,
            many=True,
            commas=True,
            otherwise="it changes none of your variables",
            surfaces=NOTEBOOK,
        ),
    ] = ()
    net: Annotated[
        "tuple[str, ...]",
        Option(
            ("--net",),
            "let it connect to HOST (which means port 443), HOST:PORT, or a set such as python-packages; "
            "ask: any other host is a question to you; none: not even the hosts of the settings; "
            "several with commas, or the option again",
            Kind.HOST,
            metavar="HOST[:PORT]|SET|ask",
            many=True,
            commas=True,
            otherwise="any host is a question to you; nothing where nobody can be asked",
        ),
    ] = ()
    grants: Annotated[
        "tuple[str, ...]",
        Option(
            ("--grant",),
            "let it hold a credential, PROVIDER:SCOPE, under a budget that you allow; several with commas, "
            "or the option "
            "again",
            Kind.GRANT,
            many=True,
            commas=True,
            otherwise="none",
        ),
    ] = ()
    policy: Annotated[
        "str | None",
        Option(
            ("--policy",),
            "read_only: the project can be read and nothing changed, without a network but for `--net`; "
            "workspace_write: its copy in the box can be changed; the others take the box away, and need the setting",
            Kind.CHOICE,
            choices=POLICIES,
            otherwise="workspace_write; the setting `policy`",
        ),
    ] = None
    writable_root: Annotated[
        "bool",
        Option(
            ("--writable-root",),
            "let it change its whole system, as apt does; gone with the box",
            otherwise="only the workspace",
        ),
    ] = False
    command_timeout: Annotated[
        "float | None",
        Option(
            ("--timeout",),
            "how long each command may take, not the whole run; 0 lifts the limit",
            Kind.SECONDS,
            setting="command_timeout",
        ),
    ] = None
    idle_timeout: Annotated[
        "float | None",
        Option(
            ("--idle",),
            "how long each command may print nothing, not the whole run; 0 lifts the limit",
            Kind.SECONDS,
            setting="idle_timeout",
        ),
    ] = None
    write_mode: Annotated[
        "WriteMode | None",
        Option(
            ("--write",),
            "ask: changes wait for you; through: they are applied as they are made, but for files that run "
            "by themselves; "
            "none: they are only shown",
            Kind.CHOICE,
            choices=WRITE_MODES,
            excludes=("--mode",),
            otherwise="ask",
        ),
    ] = None
    mode: Annotated[
        "str | None",
        Option(
            ("--mode",),
            "plan: it only plans, and changes nothing until you say that it shall carry the plan out; default: as "
            "`--write ask`; acceptEdits: as `--write through`",
            Kind.CHOICE,
            choices=MODES,
            excludes=("--write",),
            otherwise="default",
        ),
    ] = None
    fmt: Annotated[
        "bool",
        Option(
            ("--fmt",),
            "fill in `{name}` and `{expression}` in these lines; `{{` is a brace",
            otherwise="braces and dollar signs are left alone",
            surfaces=NOTEBOOK,
        ),
    ] = False
    background: Annotated[
        "bool",
        Option(
            ("--bg",),
            "return at once; await the cell’s value for the outcome",
            otherwise="the cell waits",
            surfaces=NOTEBOOK,
        ),
    ] = False

    # What no option says.
    inputs: "tuple[PackedVariable, ...]" = ()  # variables that are copied into the box
    project: "Path | None" = None  # the project root; None is the working directory
    headless: bool = False  # whether nobody can be asked
    origin: str = "notebook"  # which front door
    started_by: str = ""  # who asks, as that front door has made sure, `slack:U123`; empty for the login's own person
    run_id: str = ""  # for those who have to know it before it begins; empty for a new one
    place: "CellPlace | None" = None  # the cell that asks
    notebook: "Notebook | None" = None  # what that cell stands in, as far as it is known
    write_cells: "WriteCells | None" = None  # changes cells of it at once, for `--write through`
    runs_cells: "RunsCells | None" = None  # runs cells of it where they ran before, once a person allowed it
    handoff: "Handoff | None" = None  # what it was given by the run that it works for; None for a person's own
    changes: "tuple[FileChange, ...]" = ()  # what its workspace begins with; the contents wait in the blob store

    @classmethod
    def of(cls, values: Mapping[str, Any], **more: Any) -> "RunRequest":
        """The request of options that were read from a line, by name; whatever is no option of a run is left out."""
        write = values.get("write_mode")
        if write is not None:
            from kagura_kernel.domain.settings import WriteMode

            more["write_mode"] = WriteMode(write)
        known = {option.name for option in OPTIONS}
        return cls(**{name: value for name, value in values.items() if name in known} | more)


def _declared() -> tuple[Option, ...]:
    found = {name: get_args(hint) for name, hint in RunRequest.__annotations__.items()}
    return tuple(
        parts[1]._replace(dest=name) for name, parts in found.items() if parts and isinstance(parts[-1], Option)
    )


OPTIONS = _declared()
"""The options of cells, in the order in which help shows them."""

_BOTH = OPTIONS.index(next(option for option in OPTIONS if option.name == "box"))

AGENT_OPTIONS, SHARED_OPTIONS = OPTIONS[:_BOTH], OPTIONS[_BOTH:]
"""Those of `%%kagura` alone, and those of both kinds of cells."""
