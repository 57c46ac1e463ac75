"""The two cell magics, and the terminal commands that send tasks with the same options, so that none can drift."""

from __future__ import annotations

from kagura_kernel.domain.grammar import TERMINAL, Argument, CellMagic, Command, Kind, Option, Surface
from kagura_kernel.runs.request import LANGUAGE, OPTIONS, SHARED_OPTIONS

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
    "box": "the box to work in: `bubblewrap`, `docker`, `gvisor`, or what an extension adds; `kagura-kernel doctor` "
    "tries them out",
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
