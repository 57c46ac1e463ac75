"""The cell magics and their options: the part of the one list that stands at the top of a cell."""

from __future__ import annotations

from kagura_kernel.cockpit.grammar import NOTEBOOK, Argument, CellMagic, Kind, Option

_SHARED = (
    Option(
        ("--box",),
        "the box to work in: `bubblewrap`, `docker`, `gvisor`, or what an extension adds; `%kagura status` lists them",
        Kind.BOX,
        metavar="NAME",
        otherwise="Docker when its daemon answers and the image is built, else bubblewrap",
    ),
    Option(
        ("--image",),
        "an image, for boxes that have images",
        Kind.IMAGE,
        metavar="NAME",
        otherwise="`kagura/python:latest`",
    ),
    Option(
        ("--session",),
        "go on with the session of this name, wherever it was begun",
        Kind.SESSION,
        metavar="NAME",
        excludes=("--new",),
        otherwise="the notebook’s own goes on",
    ),
    Option(
        ("--new",),
        "start a fresh session",
        excludes=("--session",),
        dest="new_session",
        otherwise="the notebook’s own goes on",
    ),
    Option(
        ("-i", "--in"),
        "give it a copy of a variable, or of what a Python expression gives; several names with commas, or the option "
        "again",
        Kind.EXPRESSION,
        many=True,
        commas=True,
        dest="inputs",
        otherwise="it sees none of your variables",
        surfaces=NOTEBOOK,
    ),
    Option(
        ("-o", "--out"),
        "bring a variable of this name back; several with commas, or the option again",
        Kind.VARIABLE,
        many=True,
        commas=True,
        dest="outputs",
        otherwise="it changes none of your variables",
        surfaces=NOTEBOOK,
    ),
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
    Option(
        ("--grant",),
        "let it hold a credential, PROVIDER:SCOPE, under a budget that you allow; several with commas, or the option "
        "again",
        Kind.GRANT,
        many=True,
        commas=True,
        dest="grants",
        otherwise="none",
    ),
    Option(
        ("--writable-root",),
        "let it change its whole system, as apt does; gone with the box",
        otherwise="only the workspace",
    ),
    Option(
        ("--timeout",),
        "how long each command may take, not the whole run; 0 lifts the limit",
        Kind.SECONDS,
        setting="command_timeout",
    ),
    Option(
        ("--idle",),
        "how long each command may print nothing, not the whole run; 0 lifts the limit",
        Kind.SECONDS,
        setting="idle_timeout",
    ),
    Option(
        ("--write",),
        "ask: changes wait for you; through: they are applied as they are made, but for files that run by themselves; "
        "none: they are only shown",
        Kind.CHOICE,
        choices=("ask", "through", "none"),
        otherwise="ask",
    ),
    Option(
        ("--fmt",),
        "fill in `{name}` and `{expression}` in these lines; `{{` is a brace",
        otherwise="braces and dollar signs are left alone",
        surfaces=NOTEBOOK,
    ),
    Option(
        ("--bg",),
        "return at once; await the cell’s value for the outcome",
        dest="background",
        otherwise="the cell waits",
        surfaces=NOTEBOOK,
    ),
)

AGENT = (
    Option(
        ("--brain",),
        "the brain that thinks; `%kagura status` lists them",
        Kind.BRAIN,
        metavar="NAME",
        otherwise="the first that is configured; the card says which and why",
    ),
    Option(
        ("--seal",),
        "let the Claude program think in the box itself, with its own tools and its key outside",
        excludes=("--record", "--replay"),
        otherwise="the brain thinks on this machine, and only its tools act in the box",
    ),
    Option(("--model",), "its model", Kind.MODEL, metavar="NAME", otherwise="the brain’s own choice"),
    Option(
        ("--agent",),
        "who does it: a definition’s file, a name, an `https://` address, or `oci://HOST/NAME@sha256:DIGEST`; "
        "`kit plan` shows what comes with it",
        Kind.AGENT,
        metavar="AGENT",
        otherwise="`default`: AGENTS.md, CLAUDE.md and the project’s skills",
    ),
    Option(
        ("--mcp-config",),
        "start the MCP servers of this file as well, in its box; one of a name that the agent has takes its place",
        Kind.FILE,
        otherwise="those of its agent",
    ),
    Option(
        ("--strict-mcp-config",),
        "start no MCP server but those of `--mcp-config`",
        dest="strict_mcp",
        otherwise="those of its agent too",
    ),
    Option(
        ("--budget",),
        "stop the run before it costs more, by at most one turn",
        Kind.USD,
        dest="budget_usd",
        otherwise="no limit",
    ),
    Option(
        ("--plan",),
        "show what similar tasks have cost, what went wrong in them, and a budget, and wait for your word",
        otherwise="only a task that is expected to cost much; the setting `plan_above_usd`",
    ),
    Option(
        ("--verify",),
        "try the finished work out with this command, in a fresh box that the agent never touches; "
        "`--verify 'pytest -q'`; files that the agent may change, tests among them, are its own word",
        Kind.TEXT,
        metavar="COMMAND",
        otherwise="nobody says whether the work is good but you",
    ),
    Option(
        ("--resume",),
        "go on from where a run stopped: an id, the end of one, or `last`; the cell may add a few words, or be empty",
        Kind.RUN,
        excludes=("--replay", "--record"),
        dest="resume",
        otherwise="a fresh run",
    ),
    Option(
        ("--workers",),
        "run what the agent hands on there, at a Dask scheduler such as tcp://10.0.0.5:8786",
        Kind.URL,
        otherwise="in this process, or where the setting `workers` says",
    ),
    Option(("--max-turns",), "how often the brain may go round", Kind.COUNT, otherwise="no limit"),
    Option(
        ("--record",),
        "write a cassette, which can be played without a model",
        Kind.FILE,
        excludes=("--replay", "--resume", "--seal"),
    ),
    Option(
        ("--replay",),
        "play a cassette instead of asking a brain: recorded words, real tools",
        Kind.FILE,
        excludes=("--record", "--resume", "--seal"),
    ),
    Option(
        ("--remember",),
        "with --replay: leave a summary and lessons in the memory, as the run did that was recorded",
        otherwise="a replay leaves nothing there by itself",
    ),
)

KAGURA = CellMagic(
    "kagura",
    "send a task to an agent, which works in a box",
    "task",
    options=(*AGENT, *_SHARED),
    examples=(
        "kagura --budget 0.50",
        "kagura --net python-packages --write through",
        "kagura -i df -i 'top=df.head(20)' -o summary",
        "kagura --agent ./reviewer.yaml --mcp-config servers.json",
        "kagura --replay tour.jsonl --new",
    ),
)

SANDBOX = CellMagic(
    "sandbox",
    "run the cell’s own code in a box, without any model",
    "program",
    arguments=(
        Argument(
            "language",
            Kind.CHOICE,
            "the language of the program; python when none is named",
            required=False,
            choices=("python", "bash"),
            default="python",
        ),
    ),
    options=_SHARED,
    examples=("sandbox", "sandbox bash --net debian --writable-root", "sandbox -i df -o result --timeout 10"),
)

CELL_MAGICS = (KAGURA, SANDBOX)
