"""Commands of the terminal alone: the machine, the journal's file, images; and options that every log shares."""

from __future__ import annotations

from kagura_kernel.domain.grammar import BOTH, NOTEBOOK, TERMINAL, Argument, Command, Kind, Option

JSON = Option(("--json",), "print JSON", surfaces=TERMINAL)
PLACE = (
    Option(
        ("--dir",),
        "the directory of a journal, instead of the one in use",
        Kind.DIRECTORY,
        excludes=("--url",),
        surfaces=TERMINAL,
    ),
    Option(
        ("--url",),
        "a PostgreSQL journal, postgresql://user@host/database",
        Kind.URL,
        excludes=("--dir",),
        surfaces=TERMINAL,
    ),
)
LOG = (
    Option(("--run",), "only this run’s: its id, the end of it, or `last`", Kind.RUN),
    Option(("--since",), "an age (90s, 15m, 2h, 7d) or a time in ISO 8601", Kind.TIME),
    Option(("--limit",), "how many, the newest first", Kind.COUNT, default=100, otherwise="100"),
    JSON,
    *PLACE,
)

_PREFIX = Option(
    ("--tag-prefix",),
    "what stands before each name",
    Kind.TEXT,
    metavar="PREFIX",
    default="kagura/",
    otherwise="kagura/",
)

TERMINAL_COMMANDS = (
    Command(
        "doctor",
        "say what works and what does not: brain, memory, chats, boxes, secrets, Jupyter, clock, disk, journal, runs",
        TERMINAL,
        options=(
            Option(
                ("--since",),
                "how far back to count: an age (2h, 7d) or a time",
                Kind.TIME,
                default="1d",
                otherwise="1d",
            ),
            Option(("--full",), "check every row of the journal", otherwise="what was written since it last held"),
            JSON,
            *PLACE,
        ),
        examples=("doctor", "doctor --since 7d", "doctor --full"),
        detail="Each row is OK, WARN (it works without, but less, or somebody waits) or FAIL, with what mends it; the "
        "last line says the one thing to do next. "
        "Starts a box of every back-end, checks the journal, and counts what waits, is owed and was refused; changes "
        "nothing, but notes up to where the journal held. Exit code 0 if nothing failed, 4 if something did, 2 on "
        "wrong usage or configuration.",
    ),
    Command(
        "setup",
        "choose what thinks; in a terminal also where memories are kept, the box, and a chat",
        BOTH,
        (
            Argument(
                "part",
                Kind.CHOICE,
                "this part alone",
                required=False,
                choices=("brain", "memory", "sandbox", "transport"),
                surfaces=TERMINAL,
            ),
            Argument("part", Kind.CHOICE, "what thinks", required=False, choices=("brain",), surfaces=NOTEBOOK),
        ),
        (
            Option(
                ("--yes",),
                "ask nothing: set back what nothing could make right, and say what else to do",
                surfaces=TERMINAL,
            ),
        ),
        ("setup", "setup brain"),
        detail="Writes to your settings file; a key or a token goes into the keychain, never into a file. Without a "
        "terminal nobody is asked. Exit code 0 if runs can begin with it, 3 if something still has to be done.",
    ),
    Command(
        "serve",
        "listen to the chats of your settings, until Ctrl-C or SIGTERM",
        TERMINAL,
        options=(
            Option(
                ("--drain",),
                "how long runs may go on once it is told to stop",
                Kind.SECONDS,
                default=30.0,
                otherwise="30",
            ),
            Option(
                ("--container",),
                "have every chat's runs think with the sealed brain, in a container: Docker's, or gVisor's where the "
                "settings name it",
                otherwise="with the brain and in the box of the settings",
            ),
        ),
        examples=("serve", "serve --drain 300", "serve --container"),
        detail="A chat is a table of the settings, `[transports.slack]` or `[transports.discord]`; "
        "`kagura-kernel setup transport` writes one. Each thread is a session, and many go on at once. Told to stop, "
        "it takes no new task, waits for the runs, stops those that are still there and says so in their threads; a "
        "second signal ends it at once. Exit code 0 once it was stopped in good order, 2 where no chat is set up or "
        "lets us in, and where another process serves this data directory, 3 where what it needs is not installed or "
        "set up: a chat's library, and for `--container` a key and containers.",
    ),
    Command(
        "route",
        "explain where a shell command would run, by the settings as they are",
        TERMINAL,
        (Argument("command", Kind.TEXT, "a shell line, best after `--`", many=True, metavar="COMMAND"),),
        (
            JSON,
            Option(("--strict",), "what is not on the safe list leaves the sandbox"),
            Option(("--escalated",), "the command asks for the host"),
            Option(
                ("--mode",),
                "how much was handed over",
                Kind.CHOICE,
                choices=("default", "full_control"),
                otherwise="as the settings say",
            ),
            Option(("--no-sandbox",), "as if no sandbox could be had", Kind.TEXT, metavar="WHY"),
            Option(
                ("--preapproved",),
                "a further program that is pre-approved, beside those of the settings",
                Kind.TEXT,
                metavar="NAME",
                many=True,
            ),
            Option(
                ("--safe",),
                "a further program that is called safe, beside those of the settings",
                Kind.TEXT,
                metavar="NAME",
                many=True,
            ),
        ),
        ("route -- git push", "route --escalated -- ls -la"),
    ),
    Command(
        "leases log",
        "what was asked of whom with leased credentials, and what came back",
        TERMINAL,
        options=LOG,
        examples=("leases log --since 2h",),
        detail="Lists the requests to which the membrane added a leased credential, the newest first, from the "
        "journal. Programs that were given a credential itself, in a file or a variable, send it on their own: their "
        "connections stand in `kagura-kernel egress log`.",
    ),
    Command(
        "leases sweep",
        "revoke what processes that are gone have left",
        TERMINAL,
        options=(JSON, *PLACE),
        detail="Does what every start does: revokes what processes that are gone have left, and what is owed and due. "
        "Exit code 0 if nothing stays owed, 1 if something does, 2 on wrong usage.",
    ),
    Command(
        "journal verify",
        "check every row and every table",
        TERMINAL,
        options=(JSON, *PLACE),
        detail="Exit code 0 if all are as they were written, 2 if one does not fit.",
    ),
    Command(
        "journal rebuild",
        "make the tables of the views anew from the rows",
        TERMINAL,
        options=(JSON, *PLACE),
        detail="Only if the chain holds; for when no run is going.",
    ),
    Command(
        "journal share",
        "share a PostgreSQL journal among people who each see their own runs, and auditors who see all",
        TERMINAL,
        options=(
            Option(
                ("--users",),
                "the role whose members keep their runs in it",
                Kind.TEXT,
                metavar="ROLE",
                otherwise="the one before, or kagura_users",
            ),
            Option(
                ("--auditors",),
                "the role whose members see everything and change nothing",
                Kind.TEXT,
                metavar="ROLE",
                otherwise="the one before, or kagura_auditors",
            ),
            JSON,
            *PLACE,
        ),
        examples=("journal share --url postgresql://kagura@db.example.org/kagura",),
        detail="For the role that owns the journal’s tables; it may be done again at any time. The two roles are made "
        "if they are missing. docs/auditing.md says what each person sees, and what is no secret.",
    ),
    Command("journal path", "print where the journal lies", TERMINAL, options=(JSON, *PLACE)),
    Command(
        "journal backup",
        "copy the journal while it is in use, and check the copy; 1 when it does not hold",
        TERMINAL,
        (Argument("to", Kind.DIRECTORY, "where the copy goes, without a journal yet; made when it is missing"),),
        (JSON, *PLACE),
        ("journal backup ~/kagura-copy",),
    ),
    Command(
        "journal export",
        "write rows as JSON lines that an auditor can check without this program",
        TERMINAL,
        (
            Argument(
                "file", Kind.FILE, "where to; it must not be there yet. Printed when none is named", required=False
            ),
        ),
        (
            Option(("--since",), "from the first row of this time on: an age (2h, 7d) or a time", Kind.TIME),
            Option(("--until",), "to the last row of this time: an age or a time", Kind.TIME),
            Option(("--run",), "only this run’s rows, and where others were left out", Kind.RUN),
            *PLACE,
        ),
        ("journal export audit.jsonl", "journal export --since 7d --run last"),
        detail="Rows are written as they lie there, each with its hash, between two lines that say where the part "
        "begins and ends in the chain; docs/auditing.md has the script that checks it. Of a journal that does not hold "
        "nothing is written. The file is readable for you alone; `-` prints, too. Whatever is written is JSON.",
    ),
    Command(
        "images build",
        "build images of Docker boxes and what they are built on",
        TERMINAL,
        (
            Argument(
                "name", Kind.RECIPE, "base, python, node, aws, agent, rust, gcloud, server", required=False, many=True
            ),
        ),
        (
            Option(("--base",), "stands in for the pinned Debian image", Kind.TEXT, metavar="IMAGE", default=""),
            Option(
                ("--lock",),
                "Debian packages: the lock’s versions or newer (floor), exactly them (strict), or no lock (fresh)",
                Kind.CHOICE,
                choices=("floor", "strict", "fresh"),
                default="floor",
                otherwise="floor",
            ),
            Option(("--network",), "Docker’s network while building, e.g. host", Kind.TEXT, metavar="MODE", default=""),
            Option(("--build-arg",), "an argument that a recipe asks for", Kind.PAIR, many=True),
            _PREFIX,
        ),
        ("images build", "images build python"),
        detail="Builds the images named (base, python, node, aws and agent when none is) in the order of their chain; "
        "what is up to date is left alone. Fetches packages by the certificate, index, registry and proxy that the "
        "environment names; none of these gets into an image.",
    ),
    Command("images list", "show the recipes and which of their images are there", TERMINAL, options=(JSON, _PREFIX)),
    Command(
        "images verify",
        "prove that images hold no credential and no code of ours",
        TERMINAL,
        (
            Argument(
                "image",
                Kind.IMAGE,
                "a recipe’s name, or any image by name or id",
                required=False,
                many=True,
                metavar="NAME|IMAGE",
            ),
        ),
        (JSON, _PREFIX),
        ("images verify", "images verify python"),
        detail="Looks through every layer and the configuration of the images named (all that are built, when none "
        "is), deleted files too, and says where something is that may not be there, never what. Exit code 0 if all are "
        "clean, 1 if not.",
    ),
    Command(
        "completion",
        "print what a shell needs to complete commands, options and ids",
        TERMINAL,
        (Argument("shell", Kind.CHOICE, "which shell", choices=("bash", "zsh", "fish")),),
        examples=("completion bash", "completion zsh"),
        detail='For bash: `eval "$(kagura-kernel completion bash)"` in ~/.bashrc; for zsh the same in ~/.zshrc, below '
        "`compinit`; for fish: `kagura-kernel completion fish > ~/.config/fish/completions/kagura-kernel.fish`.",
    ),
)
