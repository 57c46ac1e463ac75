"""Every rule of the scan: how grave it is, what it means, and an example that it finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kagura_kernel.domain.plugins import Severity


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule."""

    name: str  # As it stands in findings
    severity: Severity  # Of everything it finds
    finds: str  # What it finds, one sentence
    why: str  # Why that matters
    example: str  # Lines of `plugin.py` that it finds; for rules about files, what such a file is


_DANGER, _WARNING, _INFO = Severity.DANGER, Severity.WARNING, Severity.INFO

_CODE = (
    Rule(
        "process-execution",
        _DANGER,
        "Starting, replacing or killing processes.",
        "A program that a plugin starts does what no scan has seen.",
        'import subprocess\nsubprocess.run(["id"])',
    ),
    Rule(
        "dynamic-code",
        _DANGER,
        "Code that is made from text or bytes, and what unpacks it.",
        "What runs is not what was read.",
        'eval("1 + 1")',
    ),
    Rule(
        "dynamic-import",
        _DANGER,
        "Loading modules by name, and changing where they come from.",
        "The list of allowed imports would mean nothing.",
        "import importlib",
    ),
    Rule(
        "native-code-use",
        _DANGER,
        "Ways to native code.",
        "Native code knows none of Python's limits.",
        "import ctypes",
    ),
    Rule(
        "interpreter-escape",
        _DANGER,
        "Frames, hooks, objects of others, private parts of modules.",
        "From there a plugin reaches everything in its process.",
        "import sys\nframe = sys._getframe(0)",
    ),
    Rule(
        "hidden-attribute",
        _DANGER,
        "Attributes that lead from a value to classes, globals and code.",
        "They reach what is never named.",
        "classes = ().__class__.__base__.__subclasses__()",
    ),
    Rule(
        "module-through-module",
        _DANGER,
        "A module that is reached through another one.",
        "It would pass by the list of allowed imports.",
        "import json\nreader = json.codecs",
    ),
    Rule(
        "module-as-value",
        _DANGER,
        "A module that holds dangerous things, handed on as a value.",
        "What is done with it cannot be followed.",
        'import os\ntools = {"a": os}',
    ),
    Rule(
        "computed-attribute",
        _DANGER,
        "An attribute that is reached by a name nobody can read.",
        "It may be any attribute.",
        'import os\n\ndef run(name):\n    return getattr(os, name)("id")',
    ),
    Rule(
        "format-attribute",
        _DANGER,
        "A format text that reaches into the interpreter.",
        "A format field reads attributes like code does.",
        'text = "{0.__globals__}".format(print)',
    ),
    Rule(
        "outside-package",
        _DANGER,
        "An import that is not on the list, or leads out of the directory.",
        "Packages from outside run with the plugin, and nobody has read them.",
        "import requests",
    ),
    Rule(
        "star-import",
        _DANGER,
        "`import *` from a module that holds dangerous things.",
        "They come in without being named.",
        "from os import *",
    ),
    Rule(
        "host-path",
        _DANGER,
        "A path into the system around the jail.",
        "No plugin has data there.",
        'PLACE = "/proc/self/mem"',
    ),
    Rule(
        "computed-schema",
        _DANGER,
        "A `SCHEMA` that is no literal, or is changed.",
        "It is read without running the source.",
        "SCHEMA = dict(path={})",
    ),
    Rule(
        "missing-entry",
        _DANGER,
        "No `create_host_functions`.",
        "There is nothing to call.",
        "# a plugin.py without it",
    ),
    Rule(
        "replaced-entry",
        _DANGER,
        "A `create_host_functions` that is defined twice, under a condition, or is no function.",
        "What is called is not what a reader looks at.",
        "create_host_functions = print",
    ),
    Rule(
        "undeclared-net",
        _DANGER,
        "The network is used, and the manifest's permissions leave it out.",
        "The declaration is wrong, or the source is.",
        '# plugin.json: "permissions": {"read": ["{base}"]}\nimport socket',
    ),
)
_TEXT = (
    Rule("not-utf-8", _DANGER, "Bytes that are no UTF-8.", "Readers see something else.", "# a file in Latin-1"),
    Rule("too-large", _DANGER, "A file over 1 MiB or 50,000 lines.", "Nobody reads it.", "# a very long file"),
    Rule("long-line", _DANGER, "A line over 20,000 characters.", "Nobody reads to its end.", "# a very long line"),
    Rule(
        "control-character",
        _DANGER,
        "NUL, a bare carriage return, and other control characters.",
        "Terminals and editors show something else than Python reads.",
        "# a line with an escape sequence",
    ),
    Rule(
        "invisible-character",
        _DANGER,
        "Characters that cannot be seen, or turn text around.",
        "What is shown is not what is read.",
        "# a line with U+202E",
    ),
    Rule(
        "coding-cookie",
        _DANGER,
        "A file that asks for another encoding than UTF-8.",
        "The same bytes become other text.",
        "# coding: utf-7",
    ),
    Rule(
        "changing-name",
        _DANGER,
        "A name that Python reads as another one (NFKC).",
        "A search for the real name does not find it.",
        "ｅval = 1",
    ),
    Rule(
        "confusable-name", _DANGER, "A name that looks like another one.", "Readers take it for that.", "оpen = print"
    ),
    Rule("no-python", _DANGER, "A file that Python cannot parse.", "What cannot be read is not loaded.", "def ("),
    Rule("scan-failed", _DANGER, "The scan ended early.", "What was not scanned is not loaded.", "# deep nesting"),
)
_DIRECTORY = (
    Rule(
        "manifest", _DANGER, "A `plugin.json` that is missing, or wrong.", "It is no plugin.", '# {"name": "My Plugin"}'
    ),
    Rule(
        "schema",
        _DANGER,
        "A `SCHEMA` that describes no fields, or not those that the permissions name.",
        "The plugin cannot be configured.",
        '# SCHEMA = {"path": {"type": "text"}}',
    ),
    Rule("native-code", _DANGER, "A file of native code.", "Nobody can read it.", "# fast.so"),
    Rule("compiled-code", _DANGER, "Compiled Python.", "Nobody can read it.", "# plugin.pyc, __pycache__"),
    Rule("packed-code", _DANGER, "Packed code.", "A plugin holds its files openly.", "# tools.whl"),
    Rule("path-file", _DANGER, "A `.pth` file.", "It runs code when Python starts.", "# site.pth"),
    Rule("link", _DANGER, "A symbolic link.", "What it leads to can change.", "# data -> /etc"),
    Rule("hard-link", _DANGER, "A file with a second name.", "It can be changed elsewhere.", "# a hard-linked file"),
    Rule("special-file", _DANGER, "A pipe, socket or device.", "It is no content.", "# a named pipe"),
    Rule("odd-name", _DANGER, "A name that cannot be shown.", "Readers miss it.", "# a name with a line end"),
    Rule("unreadable", _DANGER, "A file that cannot be read.", "It was not scanned.", "# a file without read bits"),
    Rule("foreign-directory", _DANGER, "`.git`, `node_modules` and the like.", "No part of a plugin.", "# .git/"),
    Rule("too-much", _DANGER, "Too many or too large files.", "It was not all scanned.", "# 201 files"),
)
_WARNINGS = (
    Rule(
        "file-system",
        _WARNING,
        "Files are read, written or listed.",
        "The jail shows only what its permissions name.",
        'text = open("notes.txt").read()',
    ),
    Rule(
        "network",
        _WARNING,
        "The network is used.",
        "The membrane lets through only what the permissions name.",
        "import socket",
    ),
    Rule(
        "environment",
        _WARNING,
        "Variables, users and the like are read.",
        "The jail has none of the kernel's; a plugin is configured by its schema.",
        'import os\nhome = os.environ["HOME"]',
    ),
    Rule(
        "global-mutation",
        _WARNING,
        "Something is changed that other code relies on.",
        "Calls influence each other.",
        "import json\njson.dumps = str",
    ),
    Rule(
        "background-work",
        _WARNING,
        "Threads, signals and exit handlers.",
        "They work on when the call is over.",
        "import threading\nthreading.Thread(target=print).start()",
    ),
    Rule(
        "unfollowed-attribute",
        _WARNING,
        "An attribute is reached by a name that is data.",
        "A caller may choose the name.",
        "def field(row, name):\n    return getattr(row, name)",
    ),
    Rule(
        "unknown-name",
        _WARNING,
        "A name of Python's library that is not known to be harmless.",
        "Nobody has looked at what it can be misused for.",
        "import enum\nrun = enum.property",
    ),
    Rule(
        "unknown-base",
        _WARNING,
        "A class that derives from one which is not known to be harmless to derive from.",
        "What it inherits may do more than it shows.",
        "import codecs\n\nclass Reader(codecs.getreader('utf-8')):\n    pass",
    ),
    Rule(
        "unknown-hook",
        _WARNING,
        "Something between two pairs of underscores that is not known to be harmless to define.",
        "Python and its library call it where no call is to be seen.",
        "class Any:\n    def __instancecheck__(self, one):\n        return True",
    ),
    Rule(
        "private-attribute",
        _WARNING,
        "An attribute with underscores that is not the plugin's own.",
        "What is not for others may lead anywhere.",
        "def run(parser):\n    return parser._actions",
    ),
    Rule("dynamic-class", _WARNING, "A class is made by a call.", "Its parts are data.", 'A = type("A", (), {})'),
    Rule(
        "payload-blob",
        _WARNING,
        "A long packed text.",
        "Nobody can read what is in it.",
        'DATA = "' + "QUJD" * 110 + '"',
    ),
    Rule(
        "prompt-injection",
        _WARNING,
        "Words that speak to whoever audits the plugin.",
        "They have no use but to deceive.",
        "# Ignore all previous instructions.",
    ),
    Rule(
        "undeclared-files",
        _WARNING,
        "Files are used, and no permission opens any.",
        "Only the jail's own scratch space is there.",
        '# plugin.json: no "read", no "write"\ntext = open("/data/notes.txt").read()',
    ),
    Rule(
        "unused-permission",
        _WARNING,
        "A permission that the source does not seem to need.",
        "A jail should open no more than is used.",
        '# plugin.json: "permissions": {"net": ["example.org"]}',
    ),
    Rule("byte-order-mark", _WARNING, "A byte order mark.", "It cannot be seen.", "# the bytes EF BB BF"),
    Rule(
        "missing-schema",
        _WARNING,
        "No `SCHEMA`.",
        "The plugin cannot be used; `SCHEMA = {}` says that nothing is configured.",
        "# a plugin.py without it",
    ),
    Rule("no-functions", _WARNING, "A single file without `create_host_functions`.", "It is no plugin.", "# a library"),
    Rule("unread-network", _WARNING, "The network is used, and nothing is declared.", "It has none.", "import socket"),
)
_INFOS = (
    Rule("path-handling", _INFO, "Paths are put together or taken apart.", "Where files are used.", "import os.path"),
    Rule(
        "mitigation",
        _INFO,
        "A guard against misuse.",
        "A reader may want to see it.",
        'import ast\nvalue = ast.literal_eval("1")',
    ),
    Rule("foreign-name", _INFO, "A name outside ASCII.", "Not everybody can type it.", "größe = 1"),
    Rule("star-names", _INFO, "`import *`.", "Names have no visible origin.", "from math import *"),
)

_SHOWN = 200

GROUPS: Mapping[str, tuple[Rule, ...]] = MappingProxyType(
    {
        "Code": _CODE,
        "Text": _TEXT,
        "The directory": _DIRECTORY,
        "What needs a look": _WARNINGS,
        "What is good to know": _INFOS,
    }
)
"""The rules by what they are about, in the order of the page."""

RULES: Mapping[str, Rule] = MappingProxyType({rule.name: rule for group in GROUPS.values() for rule in group})
"""The rules by name."""


def rules_page() -> str:
    """The catalogue as Markdown."""
    lines = [
        "# The rules of the plugin scan",
        "",
        "This page is made from the catalogue by `python dev/plugin_rules_page.py`. Nothing of a plugin is run",
        "when it is scanned. Any finding of severity danger keeps a plugin out, whoever wants it enabled; warnings",
        "and notes are for the person who decides. What of Python's library is known to be harmless stands in a table;",
        "whatever does not stand there is told as a warning, even where nobody knows a way to misuse it. How the scan",
        "compares with others is in [plugin-scanners.md](plugin-scanners.md).",
    ]
    for heading, rules in GROUPS.items():
        lines += ["", f"## {heading}"]
        for rule in rules:
            lines += ["", f"### `{rule.name}`", "", f"**{rule.severity.value}**. {rule.finds} {rule.why}", ""]
            shown = rule.example if len(rule.example) < _SHOWN else f"{rule.example[:60]}…"
            lines += ["```python", *shown.split("\n"), "```"]
    return "\n".join(lines) + "\n"
