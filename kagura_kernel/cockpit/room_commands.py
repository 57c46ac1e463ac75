"""Commands about agents and their kits, memories and lessons, plugins and earned trust, for every surface."""

from __future__ import annotations

from kagura_kernel.cockpit.terminal_commands import JSON, PLACE
from kagura_kernel.domain.categories import CATEGORIES
from kagura_kernel.domain.grammar import BOTH, NOTEBOOK, TERMINAL, Argument, Command, Kind, Option
from kagura_kernel.runs.request import AGENT_OPTIONS

_AGENT = Argument(
    "agent",
    Kind.AGENT,
    "whose: a definition’s file, a name, an `https://` address, or `oci://HOST/NAME@sha256:DIGEST`; the settings’ own "
    "when none is named",
    required=False,
)
_PROJECT = Option(
    ("--project",), "in which project", Kind.DIRECTORY, otherwise="the working directory", surfaces=TERMINAL
)

KIT_COMMANDS = (
    Command(
        "kit agents", "the agents that have a name: yours, and those that come with the package", BOTH, options=(JSON,)
    ),
    Command(
        "kit add",
        "write an agent for a cloud among yours, with the lease that it asks for and the hosts that it may reach",
        BOTH,
        (Argument("name", Kind.CHOICE, "which cloud", choices=("aws", "cloudflare", "gcp")),),
        (JSON,),
        ("kit add aws", "kit add cloudflare"),
        detail="Says where it is, what it will ask for, and what credentials.toml has to say for that. One that you "
        "have of this name is left as it is.",
    ),
    Command(
        "kit plan",
        "what a run of an agent would be given, why, and from where; nothing is staged",
        BOTH,
        (_AGENT,),
        (_PROJECT, JSON),
        ("kit plan", "kit plan ./reviewer.yaml"),
        detail="Skills, prompt files, sub-agents, what would be left out, what it asks for, and the hosts that its "
        "toolsets are installed from. In a terminal the exit code is 1 when something stands against this kit.",
    ),
    Command(
        "kit build",
        "stage an agent’s kit, as its next run would",
        BOTH,
        (_AGENT,),
        (_PROJECT, JSON),
        ("kit build", "kit build ./reviewer.yaml"),
        detail="Copies what the plan says into a directory of its own, without secrets. A kit that is as it would be "
        "is left alone.",
    ),
    Command(
        "kit show",
        "what is staged for an agent, file by file, with what was redacted",
        BOTH,
        (_AGENT,),
        (
            Option(("--run",), "what this run was given: its id, the end of it, or `last`", Kind.RUN),
            Option(("--file",), "open this file of the kit", Kind.KIT_FILE),
            _PROJECT,
            JSON,
        ),
        ("kit show", "kit show --run last", "kit show default --file skills/csv-tools/SKILL.md"),
        detail="Stages the kit first when it is not as it would be now. In a notebook a click opens a file; what was "
        "redacted stands there as a block.",
    ),
    Command(
        "kit redact",
        "show a file without its secrets, as a kit would hold it",
        BOTH,
        (Argument("file", Kind.FILE, "which; in a terminal `-` is its input"),),
        (JSON,),
        ("kit redact notes.md",),
        detail="Writes nothing but what it prints. In a terminal --json gives "
        "{findings: [{kind, line, start, end}], encoding, left_out}, never what was found.",
    ),
)


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
    *(
        Command(
            f"memory {verb}", summary, BOTH, (_SOME,), (JSON,), (f"memory {verb} mem-1m81echt94r94f",), detail=detail
        )
        for verb, summary, detail in (
            (
                "promote",
                "say that memories may be trusted",
                "Trusted memories are shown to agents without being asked for. Read them first: `memory show`.",
            ),
            ("demote", "trust memories no longer; they go back into quarantine", ""),
            (
                "pin",
                "let every run that they concern start with these memories",
                "Only a trusted memory is shown; one in quarantine waits until it is promoted.",
            ),
            ("unpin", "let runs start without them", ""),
        )
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
    Command("memory restore", "undo `memory forget`", BOTH, (_SOME,), (JSON,), ("memory restore mem-1m81echt94r94f",)),
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
        ("memory explore mem-1m81echt94r94f", "memory explore --type came-from mem-1m81echt94r94f"),
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
        "memory counts", "how much is remembered, where, and how much of it is in quarantine", BOTH, options=(JSON,)
    ),
)


_NAME = Argument("name", Kind.PLUGIN, "its name, as `plugin list` shows it")
_SESSION = Option(
    ("--session",),
    "the session that this is about",
    Kind.SESSION,
    metavar="NAME",
    otherwise="a notebook’s own; in a terminal the one that is going on, if it is the only one",
)
_BRAIN = ("--brain", "--record", "--replay")
_STATIC = "--static"
_AUDITOR = (
    *(
        option._replace(excludes=(*(one for one in option.excludes if one in _BRAIN), _STATIC))
        if option.flags[-1] in _BRAIN
        else option
        for option in AGENT_OPTIONS
        if option.flags[-1] in {*_BRAIN, "--model", "--budget"}
    ),
    Option((_STATIC,), "scan it only: no brain reads it", excludes=_BRAIN),
)

PLUGIN_COMMANDS = (
    Command(
        "plugin list",
        "the plugins there are, their state, their risk, and which are approved",
        BOTH,
        options=(_SESSION, JSON),
    ),
    Command(
        "plugin enable",
        "audit a plugin, configure it, and let this session’s boxes call it",
        BOTH,
        (_NAME, Argument("values", Kind.PAIR, "configuration, as `plugin config` lists it", required=False, many=True)),
        (
            Option(
                ("--accept-risk",),
                "do not ask when the audit’s risk is not above this",
                Kind.CHOICE,
                choices=("low", "medium", "high"),
                otherwise="you are asked",
            ),
            *_AUDITOR,
            _SESSION,
            JSON,
        ),
        ("plugin enable fs-read base_dir=./data", "plugin enable fetch allowed_domains=example.org --accept-risk low"),
        detail="An approved plugin is enabled without another audit. A plugin in which the scan finds a danger is "
        "never enabled. It is off again when the session ends.",
    ),
    Command(
        "plugin disable",
        "take a plugin away from this session’s boxes",
        BOTH,
        (_NAME,),
        (_SESSION, JSON),
        ("plugin disable fs-read",),
    ),
    Command(
        "plugin approve",
        "trust these very files of a plugin in later sessions, after an audit",
        BOTH,
        (_NAME,),
        (JSON,),
        ("plugin approve fs-read",),
        detail="One changed character in any file of the plugin takes the approval back.",
    ),
    Command("plugin unapprove", "take an approval back", BOTH, (_NAME,), (JSON,), ("plugin unapprove fs-read",)),
    Command(
        "plugin audit",
        "examine a plugin anew, and let it out of quarantine",
        BOTH,
        (_NAME,),
        (*_AUDITOR, JSON),
        ("plugin audit fs-read", "plugin audit fs-read --static"),
        detail="In a terminal the exit code is 1 when the audit found a danger.",
    ),
    Command(
        "plugin scan",
        "what the static scan finds in files or directories, which need not be installed",
        BOTH,
        (Argument("path", Kind.FILE, "a Python file or a plugin’s directory", many=True),),
        (JSON,),
        ("plugin scan plugins/my-plugin",),
        detail="With --json a line for each path: {path, severity, findings: [{severity, rule, message, file, line}]}. "
        "In a terminal the exit code is 1 when any finding is a danger.",
    ),
    Command(
        "plugin config",
        "what a plugin can be told, and what it was told in this session",
        BOTH,
        (_NAME,),
        (_SESSION, JSON),
        ("plugin config fs-read",),
    ),
    Command(
        "plugin logs",
        "what happened to a plugin: audits, decisions, failed calls, what it printed",
        BOTH,
        (_NAME,),
        (Option(("--limit",), "how many, the newest first", Kind.COUNT, default=100, otherwise="100"), JSON),
        ("plugin logs fs-read", "plugin logs fs-read --limit 20"),
    ),
    Command(
        "plugin install",
        "copy a plugin from a directory, an archive, an HTTPS address or a repository into your own plugins; enables "
        "nothing",
        BOTH,
        (
            Argument(
                "source",
                Kind.SOURCE,
                "a directory, a .zip or .tar.gz file, an https:// address, or NAME[@VERSION] of a repository",
            ),
        ),
        (
            Option(("--sha256",), "what the archive’s SHA-256 must be; needed for archives", Kind.TEXT, metavar="HASH"),
            Option(("--repository",), "the repository that has it", Kind.TEXT, metavar="NAME", otherwise="any of them"),
            Option(("--replace",), "put it in the place of the one that is there"),
            JSON,
        ),
        ("plugin install ./my-plugin", "plugin install my-plugin@1.2.0"),
    ),
    Command(
        "plugin search",
        "the plugins that the repositories have that you trust, and what of them is installed",
        BOTH,
        (
            Argument(
                "words",
                Kind.TEXT,
                "that stand in name, description or author; all plugins when none is named",
                required=False,
                many=True,
                metavar="WORD",
                options=True,
            ),
        ),
        (JSON,),
        ("plugin search", "plugin search calendar"),
        detail="Author, risk and permissions are the repository’s words; your own audit counts.",
    ),
    Command(
        "plugin update",
        "newer versions of what was installed from a repository, with what they ask for that yours does not",
        BOTH,
        (Argument("source", Kind.PLUGIN, "which; all when none is named", required=False, metavar="NAME[@VERSION]"),),
        (
            Option(("--yes",), "put them in the place of yours; else a terminal asks, and a notebook shows them"),
            JSON,
        ),
        ("plugin update", "plugin update my-plugin --yes"),
        detail="Nothing is enabled. What is enabled and has other files now is off, and is asked about anew. In a "
        "terminal the exit code is 1 when something newer was left.",
    ),
    Command("plugin repository list", "the repositories of plugins that you trust", BOTH, options=(JSON,)),
    Command(
        "plugin repository add",
        "trust a repository of plugins, by its first root",
        BOTH,
        (Argument("source", Kind.SOURCE, "its https:// address, or a folder"),),
        (
            Option(("--root",), "the file of its first root, as its owner gave it to you", Kind.FILE),
            Option(("--sha256",), "in place of that, the SHA-256 of its first root", Kind.TEXT, metavar="HASH"),
            Option(("--name",), "what it is called here", Kind.TEXT, metavar="NAME", otherwise="by its host or folder"),
            JSON,
        ),
        ("plugin repository add https://plugins.example.org --sha256 HASH",),
        detail="What its keys have not signed, or what is older than what was seen before, is refused from then on.",
    ),
    Command(
        "plugin repository remove",
        "trust a repository no longer; what was installed from it stays",
        BOTH,
        (Argument("name", Kind.TEXT, "what it is called", metavar="NAME"),),
        (JSON,),
        ("plugin repository remove our-plugins",),
    ),
    Command(
        "plugin publish",
        "add plugins to the repository in a folder, which is made when it is not there; without any, sign it anew",
        TERMINAL,
        (
            Argument("folder", Kind.DIRECTORY, "the repository’s, to be served as it is"),
            Argument("plugins", Kind.FILE, "directories, .zip or .tar.gz files", required=False, many=True),
        ),
        (
            Option(("--key",), "the file of its Ed25519 key; made when it is not there", Kind.FILE),
            Option(("--days",), "how long its index holds", Kind.COUNT, default=90, otherwise="90"),
            JSON,
        ),
        ("plugin publish ./site ./my-plugin --key ~/repository.key", "plugin publish ./site --key ~/repository.key"),
    ),
    Command(
        "plugin remove",
        "delete one of your own plugins, and its approval",
        BOTH,
        (_NAME,),
        (JSON,),
        ("plugin remove my-plugin",),
    ),
    Command(
        "plugin sign",
        "sign a plugin’s directory with your key, for those who trust you",
        TERMINAL,
        (Argument("path", Kind.DIRECTORY, "the plugin’s directory"),),
        (
            Option(("--key",), "the file of your Ed25519 key; made when it is not there", Kind.FILE),
            Option(("--author",), "your name, as those who trust you will see it", Kind.TEXT, metavar="NAME"),
            JSON,
        ),
        ("plugin sign ./my-plugin --key ~/my.key --author 'Ada L.'",),
    ),
    Command(
        "plugin trust",
        "trust an author’s key, or list those you trust",
        BOTH,
        (
            Argument("author", Kind.TEXT, "the author’s name", required=False, metavar="AUTHOR"),
            Argument("key", Kind.TEXT, "the public key, as `plugin sign` prints it", required=False, metavar="KEY"),
        ),
        (Option(("--remove",), "trust this author no longer"), JSON),
        ("plugin trust", "plugin trust 'Ada L.' --remove"),
        detail="A trusted signature says who wrote a plugin. It replaces neither the scan nor your decision.",
    ),
)


_CATEGORY = Argument(
    "category",
    Kind.CHOICE,
    "as `graduation` lists them",
    choices=tuple(category.name for category in CATEGORIES),
    metavar="CATEGORY",
)
_BOOKS = (JSON, *PLACE)

TRUST_COMMANDS: tuple[Command, ...] = (
    Command(
        "graduation",
        "how far each category of deeds has come towards being asked about no more",
        BOTH,
        options=_BOOKS,
        detail="Included is asked as usual, locked every single time, graduated no more. One failure takes it back.",
    ),
    Command(
        "graduation chart",
        "the verified successes of each category over time, and what set it back",
        BOTH,
        options=_BOOKS,
    ),
    Command(
        "graduation grant",
        "be asked about a category no more; it must have earned that",
        BOTH,
        (_CATEGORY,),
        _BOOKS,
        ("graduation grant git",),
    ),
    Command(
        "graduation vouch",
        "say that a run went well: evidence for the categories in which you had allowed it something",
        BOTH,
        (
            Argument(
                "run", Kind.RUN, "its id or the end of it; `last` is this notebook’s newest, in a terminal the folder’s"
            ),
        ),
        _BOOKS,
        ("graduation vouch last",),
        detail="For what neither an exit code nor a verification can tell. It counts once for a run, from today on.",
    ),
    Command(
        "graduation revoke",
        "be asked about a category every time again, and start its evidence over",
        BOTH,
        (_CATEGORY,),
        _BOOKS,
        ("graduation revoke git",),
    ),
)
