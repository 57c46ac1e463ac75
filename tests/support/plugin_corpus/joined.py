"""Plugins that put a name together from a text in the source and data, to hide what it is."""

from __future__ import annotations

from kagura_kernel.domain.plugins import Severity
from tests.support.plugin_corpus.sample import Sample, sample


def _d(name: str, trick: str, code: str) -> Sample:
    return sample(name, Severity.DANGER, trick, code)


JOINED: tuple[Sample, ...] = (
    _d(
        "joined-descriptor",
        "a descriptor whose attribute is called _class__",
        'class Field:\n    def __set_name__(self, owner, name):\n        self.name = "_" + name\n    def __get__(self, instance, owner=None):\n        return getattr(instance, self.name)\nclass Row:\n    _class__ = Field()\ndef run(a):\n    return Row()._class__',
    ),
    _d(
        "joined-slots",
        "names of slots, each with a line before it",
        'class Row:\n    __slots__ = ("_globals__", "size")\ndef run(a):\n    return [getattr(a, "_" + name) for name in Row.__slots__]',
    ),
    _d(
        "joined-cut",
        "a piece of a longer text",
        'NOTE = "first_class__seats"\ndef run(a, start, end):\n    return getattr(a, "_" + NOTE[start:end])',
    ),
    _d(
        "joined-docstring",
        "a piece of what documents a function, backwards",
        'def run(a, start):\n    """Reads __ssalc_ backwards."""\n    return getattr(a, "_" + run.__doc__[start:5:-1])',
    ),
    _d(
        "joined-keywords",
        "the names of arguments",
        'def reach(a, **more):\n    return [getattr(a, "_" + name) for name in more]\ndef run(a):\n    return reach(a, _subclasses__=1)',
    ),
    _d(
        "joined-suffix",
        "two lines behind data, and the rest in a text",
        'PARTS = {"a": "__mro"}\ndef run(a, table):\n    return getattr(a, table[a] + "__")',
    ),
    _d(
        "joined-json",
        "data that stands in the source with escapes",
        'import json\nDATA = json.loads(r\'{"key": "\\u005fclass\\u005f_"}\')\ndef run(a):\n    return getattr(a, "_" + DATA["key"])',
    ),
    _d(
        "joined-two-holes",
        "two halves, each of them data",
        'def run(a, words):\n    return getattr(a, "_" + words.pop() + words.pop())',
    ),
    _d(
        "joined-letters",
        "letter by letter out of an alphabet",
        'LETTERS = "_abcdeglmoru"\ndef run(a, places):\n    name = ""\n    for place in places:\n        name += LETTERS[place]\n    return getattr(a, name)',
    ),
    _d(
        "joined-module",
        "the beginning of system, the rest is data",
        'import os\ndef run(a, rest):\n    return getattr(os, "sys" + rest)(a)',
    ),
    _d(
        "joined-own-text",
        "a text that grows out of itself",
        'class Name:\n    def __init__(self):\n        self.text = "_"\n    def add(self, part):\n        self.text = self.text + part\n        return self\ndef run(a, parts):\n    name = Name()\n    for part in parts:\n        name.add(part)\n    return getattr(a, name.text)',
    ),
    _d(
        "joined-operator",
        "joined by a function",
        'import operator\nREST = "_code__"\ndef run(a, rest):\n    return getattr(run, operator.add("_", rest))',
    ),
    _d(
        "joined-cleaned",
        "a letter in front that is stripped again",
        'def run(a, rest):\n    return getattr(a, ("x_" + rest).lstrip("x"))',
    ),
    _d(
        "joined-set",
        "an attribute that is set by a joined name",
        'REST = "_code__"\ndef run(a, rest):\n    setattr(a, "_" + rest, run)',
    ),
    _d(
        "imap-stream",
        "a mail client that starts a program",
        "import imaplib\ndef run(a):\n    return imaplib.IMAP4_stream(a)",
    ),
    _d(
        "forking-server",
        "a server that forks",
        "import socketserver\nclass Server(socketserver.ForkingMixIn, socketserver.TCPServer):\n    pass\ndef run(a):\n    return Server(a, socketserver.BaseRequestHandler)",
    ),
    _d(
        "dispatch-annotation",
        "an annotation that singledispatch runs",
        "import functools\n@functools.singledispatch\ndef run(a):\n    return a\n@run.register\ndef _(a: \"print('hello')\"):\n    return 1",
    ),
    _d(
        "enum-convert",
        "an enumeration that writes into another module",
        'import enum\ndef run(a):\n    return enum.IntEnum._convert_("Names", "os", str.isupper)',
    ),
)
"""Each makes a hidden name of halves, or reaches a program through something ordinary."""
