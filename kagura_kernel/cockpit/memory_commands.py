"""Commands about memories and lessons, for every surface."""

from __future__ import annotations

from kagura_kernel.cockpit.terminal_commands import JSON
from kagura_kernel.domain.grammar import BOTH, NOTEBOOK, TERMINAL, Argument, Command, Kind, Option

_ONE = Argument("memory", Kind.MEMORY, "its id, as `recall` shows it")
_SOME = Argument("memory", Kind.MEMORY, "their ids, as `recall` shows them", many=True)
_MANY = Option(("--k",), "how many at most", Kind.COUNT, metavar="N", default=10, otherwise="10")
_SCOPE = Option(
    ("--scope",),
    "of this scope, as `memory show` tells it; `project` is this project’s, `everybody` what concerns all",
    Kind.TEXT,
    metavar="SCOPE",
    many=True,
    otherwise="of any",
)
_WHICH = (
    Option(
        ("--type",),
        "of this type: note, lesson, fix, outcome, task, decision, or one of your own",
        Kind.TEXT,
        metavar="TYPE",
        many=True,
        commas=True,
    ),
    Option(("--tag",), "with this tag; with any of several", Kind.TEXT, metavar="TAG", many=True, commas=True),
    Option(("--all-tags",), "with every one of the tags"),
    Option(
        ("--tier",),
        "trusted alone, or what an agent left and nobody has promoted",
        Kind.CHOICE,
        choices=("trusted", "quarantine"),
        otherwise="both; what is in quarantine is marked",
    ),
    Option(("--since",), "that happened since: an age (90s, 15m, 2h, 7d) or a time in ISO 8601", Kind.TIME),
    _SCOPE,
)

MEMORY_COMMANDS: tuple[Command, ...] = (
    Command(
        "recall",
        "what is remembered about something, the best first, with why it was found",
        BOTH,
        (
            Argument(
                "query",
                Kind.TEXT,
                "what about, in words; in a terminal `-` is its input",
                many=True,
                metavar="WORD",
                options=True,
            ),
        ),
        (_MANY, *_WHICH, JSON),
        ("recall quarterly sales", "recall --tier trusted --k 3 deploy", "recall deploy --type lesson --since 30d"),
        aliases=("memory recall",),
        detail="A word finds its other forms too. What an agent left stays in quarantine until you promote it.",
    ),
    Command(
        "lessons",
        "what went wrong before, what mended it, and what it prevents",
        BOTH,
        (
            Argument(
                "query",
                Kind.TEXT,
                "about what; all of them when it is left out",
                required=False,
                many=True,
                options=True,
            ),
        ),
        (_MANY._replace(default=50, otherwise="50"), JSON),
        ("lessons", "lessons pandas"),
        aliases=("memory lessons",),
    ),
    Command(
        "memory list",
        "the newest memories; in a notebook with buttons to promote, pin and forget them",
        BOTH,
        options=(_MANY._replace(default=50, otherwise="50"), *_WHICH, JSON),
        examples=("memory list", "memory list --tier quarantine"),
    ),
    Command(
        "memory show",
        "one memory as a whole, a forgotten one too",
        BOTH,
        (_ONE,),
        (JSON,),
        ("memory show mem-1m81echt94r94f",),
    ),
    Command(
        "memory add",
        "remember something yourself; it is trusted",
        BOTH,
        (Argument("text", Kind.TEXT, "what; in a terminal `-` is its input", many=True),),
        (
            Option(
                ("--type",), "what kind of memory it is", Kind.TEXT, metavar="TYPE", default="note", otherwise="note"
            ),
            Option(("--tag",), "what to find it by", Kind.TEXT, metavar="TAG", many=True, commas=True),
            Option(
                ("--scope",),
                "whom it concerns: `project` for this project alone, or a scope as `memory show` tells it",
                Kind.TEXT,
                metavar="SCOPE",
                default="",
                otherwise="everybody",
            ),
            Option(("--pin",), "let every run start with it"),
            Option(
                ("--expires",),
                "when it is forgotten by itself: after this long (12h, 30d), or at a time in ISO 8601",
                Kind.TIME,
                otherwise="never",
            ),
            JSON,
        ),
        (
            "memory add The sales files are in EUR since 2025.",
            "memory add --tag deploy --pin Migrations run before the app starts.",
        ),
        detail="What looks like a secret is taken out before it is kept.",
    ),
    Command(
        "memory promote",
        "say that memories may be trusted",
        BOTH,
        (_SOME,),
        (JSON,),
        ("memory promote mem-1m81echt94r94f",),
        detail="Trusted memories are shown to agents without being asked for. Read them first: `memory show`.",
    ),
    Command(
        "memory demote",
        "trust memories no longer; they go back into quarantine",
        BOTH,
        (_SOME,),
        (JSON,),
        ("memory demote mem-1m81echt94r94f",),
    ),
    Command(
        "memory pin",
        "let every run that they concern start with these memories",
        BOTH,
        (_SOME,),
        (JSON,),
        ("memory pin mem-1m81echt94r94f",),
        detail="Only a trusted memory is shown; one in quarantine waits until it is promoted.",
    ),
    Command(
        "memory unpin",
        "let runs start without them",
        BOTH,
        (_SOME,),
        (JSON,),
        ("memory unpin mem-1m81echt94r94f",),
    ),
    Command(
        "memory forget",
        "take memories out of what is recalled, or erase them with all that grew from them",
        BOTH,
        (_SOME,),
        (
            Option(("--erase",), "remove them for good, with their edges and the checkpoints that name them"),
            Option(("--cascade",), "likewise everything that came from them: summaries, lessons, results"),
            Option(("--yes",), "do it; without this an erasure only shows what would go"),
            JSON,
        ),
        (
            "memory forget mem-1m81echt94r94f",
            "memory forget --cascade mem-1m81echt94r94f",
            "memory forget --cascade --yes mem-1m81echt94r94f",
        ),
        detail="What is forgotten can be restored; what is erased cannot. The journal keeps that it was erased, by "
        "whom and when, and never what it said. In a terminal the exit code is 1 when an erasure was only shown.",
    ),
    Command(
        "memory restore",
        "undo `memory forget`",
        BOTH,
        (_SOME,),
        (JSON,),
        ("memory restore mem-1m81echt94r94f",),
    ),
    Command(
        "memory explore",
        "what a memory has to do with others: what it came from, prevents, fixes, supports",
        BOTH,
        (_ONE,),
        (
            Option(("--depth",), "how many edges away", Kind.COUNT, metavar="N", default=1, otherwise="1"),
            Option(
                ("--type",),
                "over edges of this type alone",
                Kind.CHOICE,
                choices=("prevents", "fixes", "supports", "contradicts", "follows", "came-from", "related"),
                many=True,
            ),
            JSON,
        ),
        (
            "memory explore mem-1m81echt94r94f",
            "memory explore --type came-from mem-1m81echt94r94f",
        ),
    ),
    Command(
        "memory import",
        "take memories in from a file of JSON lines, all or none",
        BOTH,
        (Argument("file", Kind.FILE, "which; in a terminal `-` is its input"),),
        (Option(("--trust",), "believe what the file says of who may trust them"), JSON),
        ("memory import notes.jsonl", "memory import --trust my-backup.jsonl"),
        detail="What comes from a file is in quarantine, unless --trust says otherwise. What is there already stays as "
        "it is. What looks like a secret is taken out.",
    ),
    Command(
        "memory export",
        "write all memories and what joins them as JSON lines",
        BOTH,
        (
            Argument("file", Kind.FILE, "where to; it must not be there yet", surfaces=NOTEBOOK),
            Argument(
                "file",
                Kind.FILE,
                "where to; it must not be there yet. Printed when none is named",
                required=False,
                surfaces=TERMINAL,
            ),
        ),
        options=(JSON,),
        examples=("memory export my-backup.jsonl",),
        detail="What was forgotten is left out. The file is readable for you alone. What is printed is JSON anyway.",
    ),
    Command(
        "memory counts",
        "how much is remembered, where, and how much of it is in quarantine",
        BOTH,
        options=(JSON,),
        examples=("memory counts",),
    ),
)
