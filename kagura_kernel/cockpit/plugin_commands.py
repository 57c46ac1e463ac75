"""Commands about plugins, for every surface."""

from __future__ import annotations

from kagura_kernel.cockpit.terminal_commands import JSON
from kagura_kernel.domain.grammar import BOTH, TERMINAL, Argument, Command, Kind, Option
from kagura_kernel.runs.request import AGENT_OPTIONS

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
        examples=("plugin list",),
    ),
    Command(
        "plugin enable",
        "audit a plugin, configure it, and let this session’s boxes call it",
        BOTH,
        (
            _NAME,
            Argument("values", Kind.PAIR, "configuration, as `plugin config` lists it", required=False, many=True),
        ),
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
        "copy a plugin from a directory, an archive or an HTTPS address into your own plugins; enables nothing",
        BOTH,
        (Argument("source", Kind.SOURCE, "a directory, a .zip or .tar.gz file, or an https:// address"),),
        (
            Option(("--sha256",), "what the archive’s SHA-256 must be; needed for archives", Kind.TEXT, metavar="HASH"),
            Option(("--replace",), "put it in the place of the one that is there"),
            JSON,
        ),
        ("plugin install ./my-plugin",),
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
