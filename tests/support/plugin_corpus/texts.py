"""Plugins that are made rather than written down: whose text or directory is not what it seems, and long ones."""

from __future__ import annotations

from kagura_kernel.domain.plugins import Severity
from tests.support.plugin_corpus.sample import Sample, sample

_D = Severity.DANGER
_RUN = "def run(a):\n    return a\n"


def _d(name: str, trick: str, code: str | bytes, files: dict[str, bytes] | None = None) -> Sample:
    return sample(name, _D, trick, code, files=files)


TEXTS: tuple[Sample, ...] = (
    _d("coding-utf7", "UTF-7", b"# coding: utf-7\n" + _RUN.encode()),
    _d("coding-rot13", "a cookie in the second line", b"#!/usr/bin/python\n# -*- coding: rot13 -*-\n" + _RUN.encode()),
    _d("coding-latin", "Latin-1", b"# vim: set fileencoding=latin-1 :\n" + _RUN.encode()),
    _d("not-utf8", "bytes that are no UTF-8", b'X = "\xff\xfe"\n' + _RUN.encode()),
    _d("nul", "a NUL", _RUN.encode() + b"#\0\n"),
    _d("bare-cr", "a carriage return that hides a line", _RUN.encode() + b"# nothing\rimport subprocess\n"),
    _d("bidi", "text that is turned around", _RUN + 'X = "\u202e \u2066# a\u2069 \u2066"\n'),
    _d("bidi-comment", "a comment that is turned around", _RUN + "# \u202etpircs\u202c\n"),
    _d("zero-width", "a zero-width space", _RUN + 'X = "a\u200bb"\n'),
    _d("hangul-filler", "a name that cannot be seen", _RUN + "\u3164 = 1\n"),
    _d("tag-characters", "text in tag characters", _RUN + "# " + "".join(chr(0xE0000 + ord(c)) for c in "ok") + "\n"),
    _d("variation-selectors", "text in variation selectors", _RUN + "# a\U000e0101\U000e0102\n"),
    _d("homoglyph-open", "a Cyrillic letter in open", "def оpen(a):\n    return a\nrun = оpen\n"),
    _d(
        "homoglyph-pair",
        "two names that look the same",
        "def сheck(a):\n    return True\ndef check(a):\n    return False\nrun = сheck\n",
    ),
    _d("nfkc-attribute", "an attribute in other letters", "import os\ndef run(a):\n    return os.ｓystem(a)\n"),
    _d("escape-sequence", "a terminal's escape sequence", _RUN + "# \x1b[2K nothing here\n"),
    _d("form-feed", "a form feed in an indentation", "def run(a):\n \f    return a\n"),
    _d("line-separator", "a line end that Python does not know", _RUN + "# a\u2028import os\n"),
    _d("long-line", "a very long line", _RUN + "X = 1;" + " " * 30_000 + "Y = 2\n"),
    _d("deep-nesting", "brackets in brackets", _RUN + "X = " + "(" * 5_000 + ")" * 5_000 + "\n"),
    _d("deep-unary", "signs before signs", _RUN + "X = " + "-" * 15_000 + "1\n"),
    _d("no-python", "no Python", "def run(a:\n"),
    _d(
        "hidden-semicolon",
        "code far to the right",
        "def run(a):\n    return a\nX = 1" + " " * 300 + "; import subprocess\n",
    ),
    _d("continued-line", "an import over two lines", "import \\\n    subprocess\n" + _RUN),
    _d("tabs", "code behind tabs", "def run(a):\n\treturn a\nif 1:\n\t\t\timport subprocess\n"),
    _d("native-file", "a native library", _RUN, files={"fast.so": b"\x7fELF\x02\x01\x01\0"}),
    _d("native-disguised", "native code under another name", _RUN, files={"data.txt": b"\x7fELF\x02\x01\x01\0\0\0"}),
    _d("pth", "a .pth file", _RUN, files={"site.pth": b"import os\n"}),
    _d("pyc", "compiled Python", _RUN, files={"__pycache__/plugin.cpython-311.pyc": b"\xa7\r\r\n\0\0"}),
    _d("wheel", "packed code", _RUN, files={"tools.whl": b"PK\x03\x04"}),
    sample("link", _D, "a link out of its directory", _RUN, links={"data": "/etc"}),
    _d(
        "second-file",
        "a process in a second file",
        "from .tools import run\n",
        files={"tools.py": b"import subprocess\nrun = subprocess.run\n"},
    ),
    _d(
        "second-file-module",
        "os from a second file",
        "from . import tools\ndef run(a):\n    return tools.o.system(a)\n",
        files={"tools.py": b"import os as o\n"},
    ),
    _d(
        "second-file-name",
        "a name from a second file",
        "import os\nfrom .names import NAME\ndef run(a):\n    return getattr(os, NAME)(a)\n",
        files={"names.py": b'NAME = "sys" + "tem"\n'},
    ),
    _d(
        "second-file-star",
        "everything of a second file",
        "from .tools import *\ndef run(a):\n    return go(a)\n",
        files={"tools.py": b"from os import system as go\n"},
    ),
    _d("unused-file", "a file that nothing imports", _RUN, files={"lib/extra.py": b"import ctypes\n"}),
)
"""Each shows a reader something else than Python reads, or holds what no reader can read."""

BLOB = sample("blob", Severity.WARNING, "a packed text", 'X = "' + "QUJDRA" * 100 + '"\ndef run(a):\n    return X')


def _h(name: str, use: str, code: str | bytes) -> Sample:
    return sample(name, None, use, code, permissions={})


HARMLESS_TEXTS: tuple[Sample, ...] = (
    _h(
        "coding-utf8",
        "a cookie that says UTF-8",
        "# -*- coding: utf-8 -*-\ndef run(a):\n    return a + ' größer'\n".encode(),
    ),
    _h("windows-lines", "line ends of Windows", b"def run(a):\r\n    return a\r\n"),
    _h(
        "tables",
        "long tables of data",
        "CODES = {\n"
        + "".join(f'    "{n:04}": "item {n}",\n' for n in range(400))
        + "}\nSQUARES = ("
        + ", ".join(str(n * n) for n in range(300))
        + ")\ndef run(a):\n    return CODES[a], SQUARES[3]",
    ),
)
"""None of them may be refused."""
