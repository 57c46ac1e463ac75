"""Which modules a plugin may import, and what an import of each of them means.

A module that stands in none of these tables is refused: a new one is safe only once somebody has looked at it.
"""

from __future__ import annotations

import sys

PROCESS = "process-execution"
CODE = "dynamic-code"
IMPORT = "dynamic-import"
NATIVE = "native-code-use"
ESCAPE = "interpreter-escape"
OUTSIDE = "outside-package"
FILES = "file-system"
NETWORK = "network"
ENVIRONMENT = "environment"
MUTATION = "global-mutation"
BACKGROUND = "background-work"
PATHS = "path-handling"
MITIGATION = "mitigation"
UNKNOWN_NAME = "unknown-name"
SAFE = ""

SDK = "kagura_plugin"

_SAFE = """
__future__ abc argparse array ast base64 binascii bisect calendar cmath codecs collections collections.abc colorsys
concurrent concurrent.futures contextlib contextvars copy csv dataclasses datetime decimal difflib email
email.charset email.encoders email.errors email.generator email.header email.headerregistry email.message email.mime
email.mime.application email.mime.base email.mime.image email.mime.multipart email.mime.text email.parser email.policy
email.utils enum errno fnmatch fractions functools getopt graphlib hashlib heapq hmac html html.entities html.parser
http http.cookies inspect io ipaddress itertools json json.decoder json.encoder keyword locale logging math mimetypes
numbers operator os pprint queue quopri random re reprlib sched secrets shlex statistics string stringprep
struct sys textwrap time token tokenize tomllib traceback types typing unicodedata urllib urllib.error
urllib.parse uuid warnings weakref xml xml.dom xml.dom.minidom xml.etree xml.etree.ElementTree xml.parsers
xml.parsers.expat xml.sax xml.sax.handler xml.sax.saxutils zlib zoneinfo asyncio platform gc
gzip bz2 lzma threading kagura_plugin
"""
_FILES = """
configparser dbm dbm.dumb filecmp fileinput glob json.tool linecache mailbox mmap netrc plistlib shutil
importlib.metadata importlib.resources
sqlite3 tarfile tempfile zipfile wave fcntl xml.dom.expatbuilder xml.dom.pulldom xml.etree.ElementInclude
"""
_NETWORK = """
asyncore ftplib http.client http.cookiejar http.server imaplib logging.handlers nntplib poplib select selectors smtpd
smtplib socket socketserver ssl telnetlib urllib.request urllib.response urllib.robotparser wsgiref
wsgiref.simple_server xmlrpc xmlrpc.client xmlrpc.server asynchat
"""
_ENVIRONMENT = "getpass grp pwd sysconfig"
_BACKGROUND = "atexit signal resource"
_PATHS = "os.path pathlib posixpath ntpath genericpath stat"

_FORBIDDEN = {
    PROCESS: "subprocess pty multiprocessing webbrowser commands popen2 concurrent.futures.process distutils venv "
    "ensurepip pip idlelib antigravity asyncio.subprocess asyncio.base_subprocess posix nt _posixsubprocess "
    "_winapi msvcrt winreg tty termios mailcap pipes",
    CODE: "code codeop pickle pickletools marshal shelve copyreg doctest pdb bdb cmd timeit profile cProfile trace "
    "logging.config builtins __builtin__ py_compile compileall test lib2to3 unittest dill cloudpickle rlcompleter "
    "_pickle optparse symtable opcode this concurrent.interpreters gettext cgitb cgi dis pstats xdrlib",
    IMPORT: "importlib runpy imp pkgutil zipimport modulefinder pydoc site sitecustomize usercustomize zipapp "
    "pyclbr _imp xml.dom.domreg __main__ encodings pkg_resources setuptools",
    NATIVE: "ctypes cffi _ctypes _cffi_backend cython pyximport numba numpy.ctypeslib readline curses tkinter turtle",
    ESCAPE: "faulthandler tracemalloc _thread _testcapi _testinternalcapi _xxsubinterpreters sre_compile sre_parse "
    "sre_constants kagura_kernel kagura_host spwd crypt nis ossaudiodev syslog",
}


def _table() -> dict[str, str]:
    found: dict[str, str] = {}
    for rule, words in (
        (SAFE, _SAFE),
        (FILES, _FILES),
        (NETWORK, _NETWORK),
        (ENVIRONMENT, _ENVIRONMENT),
        (BACKGROUND, _BACKGROUND),
        (PATHS, _PATHS),
        *_FORBIDDEN.items(),
    ):
        for word in words.split():
            found[word] = rule
    return found


MODULES = _table()
"""Rule by dotted module name; the empty rule is that of a module which is harmless as such."""

FORBIDDEN = frozenset(_FORBIDDEN)
"""The rules under which a module may not be imported at all."""

STANDARD = frozenset(sys.stdlib_module_names)
"""Top-level modules of Python's own."""

CAPABLE = frozenset({"os", "sys", "inspect", "types", "gc", "asyncio", "io", "codecs", "logging", "concurrent.futures"})
"""Modules that may be imported, and hold things that may not be used: they are not handed around as values."""


def rule_of_import(module: str) -> str:
    """The rule for importing a module by its dotted name; the empty one for a harmless one."""
    name = module
    while name:
        if name in MODULES:
            rule = MODULES[name]
            # A part of a known module that nobody has looked at: only where the whole is refused, or is known.
            if name == module or rule in FORBIDDEN:
                return rule
            return _part(module)
        name = name.rpartition(".")[0]
    top = module.partition(".")[0]
    if top in STANDARD:
        return ESCAPE if top.startswith("_") else OUTSIDE
    return OUTSIDE


def _part(module: str) -> str:
    top, _, rest = module.partition(".")
    if top == SDK:
        return OUTSIDE if any(part.lstrip("_") in STANDARD for part in rest.split(".")) else SAFE
    if any(part.startswith("_") for part in rest.split(".")):
        return ESCAPE
    if top in ("asyncio", "concurrent", "importlib", "logging"):
        return ESCAPE
    return MODULES.get(top, OUTSIDE)
