"""The one list of commands: what can be typed, where, with which arguments and options.

Pure data. `jupyter/steering/__init__.py` says who carries a command out in a notebook, `cli/main.py` in a terminal. The
terminal commands that send tasks have the options of the cell magics, so that none can drift.
"""

from __future__ import annotations

from kagura_kernel.cockpit.room_commands import KIT_COMMANDS, MEMORY_COMMANDS, PLUGIN_COMMANDS, TRUST_COMMANDS
from kagura_kernel.cockpit.terminal_commands import JSON, LOG, PLACE, TERMINAL_COMMANDS
from kagura_kernel.domain.grammar import BOTH, NOTEBOOK, TERMINAL, Argument, CellMagic, Command, Kind, Option, Surface
from kagura_kernel.runs.request import LANGUAGE, OPTIONS, SHARED_OPTIONS

__all__ = ["CELL_MAGICS", "COMMANDS", "GROUPS", "HELP", "KAGURA", "SANDBOX"]

KAGURA = CellMagic(
    "kagura",
    "send a task to an agent, which works in a box",
    "task",
    options=OPTIONS,
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
    arguments=(LANGUAGE,),
    options=SHARED_OPTIONS,
    examples=("sandbox", "sandbox bash --net debian --writable-root", "sandbox -i df -o result --timeout 10"),
)

CELL_MAGICS = (KAGURA, SANDBOX)


_HELP = {
    "brain": "the brain that thinks; `kagura-kernel brain` lists them",
    "resume": "go on from where a run stopped: an id, the end of one, or `last`; a task may add a few words",
}
_OTHERWISE = {
    "session": "a fresh one",
    "new_session": "a fresh one, unless `--session` names one",
    "brain": "the first that can think",
}


def _in_a_terminal(option: Option) -> Option:
    """The same option without a word of cards and cells, and naming commands that there are in a terminal."""
    return option._replace(
        help=_HELP.get(option.name, option.help), otherwise=_OTHERWISE.get(option.name, option.otherwise)
    )


OF_A_RUN: tuple[Option, ...] = tuple(
    _in_a_terminal(option)
    for option in KAGURA.options
    if option.surfaces is None or Surface.TERMINAL in option.surfaces
)
"""The options of a `%%kagura` cell that do not speak of a notebook's variables."""

_ONCE = frozenset({"pictures", "record", "resume"})
"""Options that are about one run, not about all of a conversation."""


def _without(names: frozenset[str], options: tuple[Option, ...]) -> tuple[Option, ...]:
    gone = {flag for option in options if option.name in names for flag in option.flags}
    return tuple(
        option._replace(excludes=tuple(flag for flag in option.excludes if flag not in gone))
        for option in options
        if option.name not in names
    )


RUN_COMMANDS = (
    Command(
        "run",
        "send a task to an agent, which works in a box, and print its answer",
        TERMINAL,
        (
            Argument(
                "task",
                Kind.TEXT,
                "the task, in as many words as you like; `-` alone reads it from standard input, and before or behind "
                "words it adds what comes there, as material",
                required=False,
                many=True,
                metavar="TASK",
                options=True,
            ),
        ),
        (
            Option(("--prompt-file",), "read the task from this file", Kind.FILE),
            *OF_A_RUN,
            Option(("--json",), "print one JSON document with the outcome instead of the answer"),
        ),
        (
            "run 'Fix the failing test' --budget 0.50",
            "run --prompt-file task.md --json",
            "run 'Review this change' - --write none",
            "run --replay tour.jsonl --box bubblewrap",
        ),
        detail="The answer goes to standard output. What happens meanwhile goes to standard error, where that is a "
        "terminal. Approvals are asked for at the keyboard, and can be answered from anywhere else too; where standard "
        "input is no terminal they are denied. Ctrl-C stops the run calmly, a second one at once. Exit code 0 if it "
        "is done, 2 if it was not or its verification did not pass, 3 if the machine is not set up for it, 130 if it "
        "was interrupted, 129 if its terminal closed.",
    ),
    Command(
        "repl",
        "talk to an agent: each line is a task of one session, `/word` is a command",
        TERMINAL,
        options=_without(_ONCE, OF_A_RUN),
        examples=("repl", "repl --session refactoring --budget 2"),
        detail="A line that begins with a slash is a command as in a notebook: `/runs`, `/changes last`; `\\/` begins "
        "a task with a slash. Ctrl-C stops the run that goes on, Ctrl-D ends. Lines are remembered, without secrets, "
        "in a file that only you can read.",
    ),
)


LOOK, ANSWER, WORK = "look at what happened", "answer and stop", "runs and their files"
LEARNED, KITS, PLUGINS, MACHINE = "memory and trust", "agents and their kits", "plugins", "the machine"
GROUPS = (LOOK, ANSWER, WORK, LEARNED, KITS, PLUGINS, MACHINE)
"""Headings, in the order of the help."""

_BOOKS = (JSON, *PLACE)
_RUN = Argument(
    "run",
    Kind.RUN,
    "its id or the end of it; `last` is this notebook’s newest, in a terminal the folder’s, and `last everywhere` the "
    "newest of all",
)
_RUNS = Argument("run", Kind.RUN, "only these: an id, the end of one, or `last`", required=False, many=True)
_PATHS = Argument(
    "paths",
    Kind.CHANGED_PATH,
    "only these files, or all below a folder (`src/`); all that wait when none is named",
    required=False,
    many=True,
)
_HUNK = Option(
    ("--hunk",),
    "only this part of the one file that is named, by its number in `changes`; several with commas",
    Kind.COUNT,
    many=True,
    commas=True,
)
_CONFLICT = Option(
    ("--conflict",),
    "of the one file that is named and in conflict: what the run made, both changes in one text, or both with markers "
    "where they overlap; `discard` keeps the project’s",
    Kind.CHOICE,
    # Those of `domain.outcome`, which help does not wait for.
    choices=("theirs", "merge", "markers"),
)
_COMMITS = Option(
    ("--commits",), "instead of files, the commits that the run made in its box; further words are names of branches"
)
_BRANCH = Option(
    ("--branch",),
    "with `--commits`: make a new branch of them, and touch no file",
    Kind.TEXT,
    metavar="NEW",
    default="",
)
_APPROVAL = Argument(
    "approval",
    Kind.APPROVAL,
    "of an approval, as `approvals` shows it, or the end of one; `last`: this notebook’s only one that waits, in a "
    "terminal the folder’s",
)
_LIMIT = Option(("--limit",), "how many, the newest first", Kind.COUNT, otherwise="20, in a notebook 100")

HELP = Command(
    "help",
    "list the commands, or say more about one",
    BOTH,
    (Argument("word", Kind.COMMAND, "a command, or `%%kagura` or `%%sandbox`", required=False, many=True),),
    examples=("help", "help kill"),
)

_LOOK_COMMANDS = (
    HELP,
    Command(
        "status",
        "what runs, what waits, what there is to run on, and what today cost",
        BOTH,
        options=_BOOKS,
        detail="In a terminal it tells what the journal knows; `kagura-kernel doctor` tries the boxes out.",
    ),
    Command(
        "runs",
        "the latest runs of every process, or some of them",
        BOTH,
        (_RUNS,),
        (_LIMIT, *_BOOKS),
        ("runs", "runs last", "runs --limit 5"),
    ),
    Command(
        "sessions",
        "the sessions of every process, and how each stands",
        BOTH,
        options=(_LIMIT, *_BOOKS),
        examples=("sessions", "sessions --limit 5"),
        detail="A session is a thread of runs: a notebook’s, or one that was named with `--session`. The one with the "
        "newest run comes first.",
    ),
    Command(
        "new",
        "begin a new conversation: the next run knows nothing of those before it",
        NOTEBOOK,
        examples=("new",),
        detail="`--new` in a cell’s first line does the same with that cell.",
    ),
    Command(
        "box end",
        "end the box that cells with `--keep` have left in place; the next such cell has a fresh one",
        NOTEBOOK,
        examples=("box end",),
        detail="It ends by itself when no cell goes on with it for a while, and with the kernel.",
    ),
    Command(
        "model",
        "have further runs here think with another model, until the kernel ends; or say which it is",
        NOTEBOOK,
        (Argument("model", Kind.MODEL, "its name; `auto` for the usual one again", required=False, metavar="NAME"),),
        examples=("model", "model claude-opus-5-5", "model auto"),
        detail="A cell’s `--model` counts for that cell.",
    ),
    Command(
        "models",
        "the models that runs here can name with `--model`, and what each costs",
        BOTH,
        options=_BOOKS,
        examples=("models",),
        detail="They are those that the brain has names for, those that the services in your settings and on this "
        "machine tell, and those that answered lately. Each service is asked with its own key, for a second or two. "
        "An unknown price is never 0.",
    ),
    Command(
        "approvals",
        "the latest approvals, or those that wait",
        BOTH,
        options=(Option(("--pending",), "only those that wait"), _LIMIT, *_BOOKS),
        examples=("approvals", "approvals --pending"),
    ),
    Command(
        "cost",
        "what the latest runs used and cost; unknown is never 0",
        BOTH,
        (_RUNS,),
        (
            Option(("--calibration",), "instead, what runs were expected to need beside what they needed"),
            _LIMIT._replace(otherwise="20, in a notebook 1000"),
            *_BOOKS,
        ),
        ("cost", "cost last", "cost --calibration"),
        detail="An estimate is good when the run stays within it and the buffer of 30 %; only runs that came to their "
        "end count.",
    ),
    Command(
        "leases",
        "credentials that runs hold, with their time left",
        BOTH,
        options=(
            Option(("--all",), "those that are gone as well, the newest first", surfaces=TERMINAL),
            Option(
                ("--limit",), "how many, with `--all`", Kind.COUNT, default=1000, otherwise="1000", surfaces=TERMINAL
            ),
            *_BOOKS,
        ),
    ),
    Command(
        "egress log",
        "what boxes asked to connect to, what was decided, and what went through",
        BOTH,
        options=(Option(("--refused",), "only what was refused"), *LOG),
        examples=("egress log", "egress log --refused --run last"),
        detail="The newest first. A refusal that a run got again and again is listed the 1st, 2nd, 4th, 8th time.",
    ),
    Command(
        "egress check",
        "explain whether a box could reach a host, and why",
        BOTH,
        (Argument("target", Kind.TARGET, "HOST:PORT or a URL; a host alone means port 443", many=True),),
        (
            Option(
                ("--net",),
                "what is granted: a host (port 443), HOST:PORT, a host set, or `ask`; several with commas; `none` "
                "takes back those before it",
                Kind.HOST,
                metavar="HOST[:PORT]|SET|ask",
                many=True,
                commas=True,
            ),
            Option(("--no-resolve",), "look no name up; addresses are then not judged"),
            JSON,
        ),
        ("egress check --net python-packages example.org",),
        detail="Looks the names up on this machine and connects to nothing. In a terminal the exit code is 0 if all "
        "are allowed, 1 if not.",
    ),
    Command("watch", "all runs that go on, live below the cell", NOTEBOOK),
    Command("chart cost", "what runs cost over time, by brain and model", NOTEBOOK),
    Command(
        "chart timeline",
        "one run over time, and what waited for whom",
        NOTEBOOK,
        (_RUN,),
        examples=("chart timeline last",),
    ),
    Command(
        "chart egress",
        "connections by host, of one run or of all",
        NOTEBOOK,
        (_RUN._replace(required=False),),
        examples=("chart egress", "chart egress last"),
    ),
)

_ANSWER_COMMANDS = (
    Command(
        "approve",
        "allow what an approval asks for; a TEXT answers a question, or says for how long: `this session`",
        BOTH,
        (
            _APPROVAL,
            Argument("answer", Kind.TEXT, "the answer, in as many words as you like", required=False, many=True),
        ),
        _BOOKS,
        ("approve app-1", "approve app-1 this session"),
    ),
    Command(
        "deny",
        "say no to what an approval asks for; `never` says it for the session",
        BOTH,
        (_APPROVAL, Argument("answer", Kind.TEXT, "a remark, in as many words as you like", required=False, many=True)),
        _BOOKS,
        ("deny app-1", "deny app-1 never"),
    ),
    Command(
        "kill",
        "stop runs, of any process",
        BOTH,
        (
            Argument(
                "run",
                Kind.RUN,
                "an id or the end of one; `last` is this notebook’s newest that goes on",
                many=True,
                surfaces=NOTEBOOK,
            ),
            Argument(
                "run",
                Kind.RUN,
                "an id or the end of one; `last` is this folder’s newest that goes on",
                required=False,
                many=True,
                surfaces=TERMINAL,
            ),
        ),
        (
            Option(("--all",), "every run that has not ended, of every process", surfaces=TERMINAL),
            Option(
                ("--wait",), "how long to wait for them", Kind.SECONDS, default=60.0, otherwise="60", surfaces=TERMINAL
            ),
            *_BOOKS,
        ),
        ("kill last",),
        detail="In a terminal the exit code is 0 when all are over, 1 when one goes on.",
    ),
    Command(
        "say",
        "say something to a run, which hears it at its next turn",
        BOTH,
        (
            _RUN._replace(help="an id or the end of one; `last` is this place’s newest that goes on"),
            Argument("text", Kind.TEXT, "what it is to know, in as many words as you like", many=True),
        ),
        (
            Option(("--instead",), "stop the run, and go on in the same conversation with this as its task"),
            *_BOOKS,
        ),
        ("say last use the second sheet, not the first", "say --instead last begin with the second sheet"),
        detail="It stands in the journal and in the run’s card. It allows nothing: it is your word, like a task.",
    ),
    Command(
        "revoke",
        "give a credential back at once",
        BOTH,
        (
            Argument("lease", Kind.LEASE, "an id, the end of one, or PROVIDER:SCOPE", surfaces=NOTEBOOK),
            Argument(
                "lease",
                Kind.LEASE,
                "an id, the end of one, or PROVIDER:SCOPE: every lease of that scope",
                required=False,
                many=True,
                surfaces=TERMINAL,
            ),
        ),
        (
            Option(("--all",), "every lease there is", dest="every", surfaces=TERMINAL),
            Option(
                ("--provider",),
                "every lease of this provider; where none is called so, of all that are of this kind",
                Kind.PROVIDER,
                metavar="NAME",
                surfaces=TERMINAL,
            ),
            *_BOOKS,
        ),
        ("revoke github:read",),
        aliases=("leases revoke",),
        detail="In a terminal credentials end at their providers, whichever process holds them; the exit code is 0 if "
        "all are dead, 1 if one may still open something.",
    ),
    Command(
        "extend",
        "ask for a fresh budget for a credential",
        NOTEBOOK,
        (Argument("lease", Kind.LEASE, "an id, the end of one, or PROVIDER:SCOPE"),),
        examples=("extend github:read",),
    ),
)

_CELL = Argument("cell", Kind.TEXT, "its id; the one that failed last when left out", required=False, metavar="CELL")

_WORK_COMMANDS = (
    Command(
        "fix",
        "have an agent find out why a cell failed, and propose a mended one",
        NOTEBOOK,
        (_CELL,),
        examples=("fix",),
        detail="It is a run like that of a `%%kagura` cell, with the settings’ brain and limits. The mended cell is a "
        "change that waits for you; nothing of it is run.",
    ),
    Command("explain", "have an agent explain why a cell failed", NOTEBOOK, (_CELL,), examples=("explain",)),
    Command("attach", "show a run of any notebook, live or over", NOTEBOOK, (_RUN,), examples=("attach last",)),
    Command("changes", "what a run would change", BOTH, (_RUN,), _BOOKS, ("changes last",)),
    Command(
        "apply",
        "bring a run’s changes into the project",
        BOTH,
        (_RUN, _PATHS),
        (_HUNK, _CONFLICT, _COMMITS, _BRANCH, *_BOOKS),
        (
            *("apply last", "apply last README.md", "apply last a.py --hunk 2", "apply last a.py --conflict merge"),
            *("apply last --commits", "apply last --commits --branch tidied"),
        ),
        detail="In a terminal the exit code is 1 when a file was left alone because the project’s had changed, 2 when "
        "all were.",
    ),
    Command(
        "commits",
        "the commits that a run made in its box, by branch",
        BOTH,
        (_RUN._replace(required=False),),
        _BOOKS,
        ("commits", "commits last"),
        detail="The run is `last` when none is named. In a terminal the difference of each follows the table.",
    ),
    Command(
        "discard",
        "give a run’s changes up",
        BOTH,
        (_RUN, _PATHS),
        (_HUNK, _COMMITS, *_BOOKS),
        ("discard last",),
        detail="One in conflict is given up where it is named. In a terminal the exit code is 1 when one was left, 2 "
        "when all were.",
    ),
    Command(
        "undo",
        "take back what was applied: the project has again what it had before, and the change waits again",
        BOTH,
        (_RUN, _PATHS._replace(help="only these files; all that were applied when none is named")),
        (_COMMITS, *_BOOKS),
        ("undo last", "undo last README.md"),
        detail="As long as each file still is what was applied; otherwise nothing is written. What was there before "
        "is kept for 30 days. A cell of a notebook is taken back with JupyterLab’s own undo.",
    ),
    Command(
        "export",
        "write a notebook as a plain Python one, where cells for agents are `%%kagura` cells",
        BOTH,
        (Argument("notebook", Kind.NOTEBOOK, "of the kagura kernel"),),
        (
            Option(("-o", "--output"), "where it goes", Kind.FILE, otherwise="beside it, with `-python` in its name"),
            Option(("--force",), "write over a file that is there"),
            JSON,
        ),
        ("export analysis.ipynb", "export analysis.ipynb -o plain.ipynb"),
    ),
)


_BRAIN = Command(
    "brain",
    "the brains that are configured, and what a turn of each would cost",
    BOTH,
    options=(
        Option(("--model",), "as if this model were asked for", Kind.MODEL, metavar="NAME", default=""),
        *_BOOKS,
    ),
    examples=("brain", "brain --model openai:gpt-4o-mini"),
    detail="Asks no service. A turn is as large as the latest ones were; an unknown price is never 0. How to get a "
    "brain stands in docs/brains.md.",
)

COMMANDS = tuple(
    one._replace(group=group, examples=one.examples or (one.name,))
    for group, commands in (
        (LOOK, _LOOK_COMMANDS),
        (ANSWER, _ANSWER_COMMANDS),
        (WORK, _WORK_COMMANDS),
        (LOOK, (_BRAIN,)),
        (WORK, RUN_COMMANDS),
        (LEARNED, (*MEMORY_COMMANDS, *TRUST_COMMANDS)),
        (KITS, KIT_COMMANDS),
        (PLUGINS, PLUGIN_COMMANDS),
        (MACHINE, TERMINAL_COMMANDS),
    )
    for one in commands
)
"""All of them; one without an example of its own is its own."""
