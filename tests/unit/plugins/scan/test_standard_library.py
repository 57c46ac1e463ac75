"""What the standard library of 3.11 to 3.13 has that starts programs, makes code or opens the interpreter."""

# ruff: noqa: E501 - a source is one text, on one line
import pytest

from kagura_kernel.domain.plugins import Severity
from kagura_kernel.plugins.scan.reader.rules import FORBIDDEN, STANDARD, rule_of_import
from tests.support.plugin_corpus.judging import severity_of

REFUSED_MODULES = (
    "antigravity bdb cProfile cgi cgitb code codeop compileall concurrent.futures.process copyreg crypt "
    "ctypes ctypes.util curses dis distutils distutils.core doctest encodings ensurepip faulthandler gettext "
    "idlelib imp importlib importlib.util importlib.machinery lib2to3 logging.config mailcap marshal "
    "modulefinder multiprocessing multiprocessing.pool multiprocessing.shared_memory "
    "multiprocessing.connection nis ossaudiodev pdb pickle pickletools pipes pkgutil posix profile pty "
    "py_compile pyclbr pydoc readline rlcompleter runpy shelve site spwd subprocess symtable syslog termios "
    "test this timeit tkinter trace tracemalloc tty turtle turtledemo unittest unittest.mock unittest.loader "
    "venv webbrowser xml.dom.domreg zipapp zipimport _thread _posixsubprocess _pickle _ctypes _io "
    "_interpreters asyncio.subprocess asyncio.unix_events builtins"
).split()
REFUSED_MEMBERS = (
    "asyncio.create_subprocess_exec asyncio.create_subprocess_shell asyncio.get_child_watcher "
    "asyncio.AbstractEventLoop.subprocess_exec asyncio.SelectorEventLoop.subprocess_shell "
    "asyncio.BaseEventLoop._make_subprocess_transport concurrent.futures.ProcessPoolExecutor "
    "concurrent.futures.InterpreterPoolExecutor enum.IntEnum._convert_ fcntl.ioctl gc.get_objects "
    "gc.get_referrers http.server.CGIHTTPRequestHandler imaplib.IMAP4_stream inspect.currentframe "
    "inspect.stack inspect.getasyncgenlocals inspect.get_annotations mmap.PROT_EXEC operator.call os.execv "
    "os.fork os.forkpty os.kill os.openpty os.pidfd_open os.popen os.posix_spawn os.register_at_fork os.setns "
    "os.spawnv os.startfile os.system os.unshare platform.architecture platform.processor resource.prlimit "
    "signal.pthread_kill signal.raise_signal socketserver.ForkingMixIn socketserver.ForkingTCPServer "
    "socketserver.ForkingUDPServer socketserver.ForkingUnixDatagramServer "
    "socketserver.ForkingUnixStreamServer sqlite3.Connection.enable_load_extension "
    "sqlite3.Connection.load_extension sys._getframe sys.addaudithook sys.last_exc sys.meta_path sys.modules "
    "sys.monitoring sys.path_hooks sys.remote_exec sys.setprofile threading._start_new_thread "
    "threading.excepthook threading.setprofile_all_threads threading.settrace traceback.walk_stack "
    "types.CodeType types.FunctionType types.ModuleType typing.ForwardRef typing.get_type_hints "
    "xml.dom.getDOMImplementation xml.dom.minidom.domreg xml.sax.make_parser "
    "xmlrpc.server.resolve_dotted_attribute zipfile.PyZipFile"
).split()
LOOKED_AT = (
    "asyncio.open_connection asyncio.start_server atexit.register dbm.open fcntl.flock ftplib.FTP "
    "getpass.getuser glob.glob grp.getgrall http.server.HTTPServer imaplib.IMAP4 logging.FileHandler "
    "logging.handlers.SocketHandler mailbox.mbox mmap.mmap netrc.netrc os.environ os.listdir pathlib.Path "
    "platform.node plistlib.load pwd.getpwall resource.setrlimit select.select shutil.rmtree signal.signal "
    "smtplib.SMTP socketserver.ThreadingMixIn socketserver.TCPServer sqlite3.connect "
    "ssl.create_default_context sysconfig.get_paths tarfile.TarFile.extractall tempfile.mkdtemp "
    "threading.Thread threading.Timer urllib.request.urlopen wsgiref.handlers.CGIHandler "
    "wsgiref.simple_server.make_server xml.etree.ElementInclude.include xmlrpc.client.ServerProxy "
    "zipfile.ZipFile.extractall enum.global_enum"
).split()
HARMLESS = (
    "import configparser\ndef run(a):\n    c = configparser.ConfigParser()\n    c.read_string(a)\n    return c.sections()",
    "import io, zipfile\ndef run(a):\n    with zipfile.ZipFile(io.BytesIO(a)) as z:\n        return z.namelist()",
    "import io, tarfile\ndef run(a):\n    with tarfile.open(fileobj=io.BytesIO(a)) as t:\n        return t.getnames()",
    "from io import BytesIO\nfrom zipfile import ZipFile, BadZipFile\ndef run(a):\n    return ZipFile(BytesIO(a)).read('x')",
    "import gzip, bz2, lzma\ndef run(a): return gzip.compress(bz2.decompress(lzma.decompress(a)))",
    "import threading\nLOCK = threading.Lock()\ndef run(a):\n    with LOCK: return a",
    "from threading import RLock, Event, local\ndef run(a): return RLock(), Event(), local()",
    "from pathlib import PurePosixPath\ndef run(a): return PurePosixPath(a).name",
    "import pathlib\ndef run(a): return pathlib.PureWindowsPath(a).parts",
    "import functools\n@functools.singledispatch\ndef run(a): return a\n@run.register\ndef _(a: 'list[int] | None'): return 1",
)
USING_FILES = (
    "import configparser\ndef run(a):\n    c = configparser.ConfigParser()\n    c.read(a)",
    "import configparser\ndef run(a): return getattr(configparser.ConfigParser(), 'read')(a)",
    "import io, zipfile\ndef run(a): zipfile.ZipFile(io.BytesIO(a)).extract('x')",
    "import io, zipfile\ndef run(a, b=io.BytesIO()): return zipfile.ZipFile(a)",
    "import zipfile\nopen_it = zipfile.ZipFile\ndef run(a): return open_it(a)",
    "import zipfile\nclass Z(zipfile.ZipFile): pass\ndef run(a): return Z(a)",
    "import io, tarfile\ndef run(a): return tarfile.open(a, fileobj=io.BytesIO())",
    "import io, tarfile\ndef run(a, **more): return tarfile.open(fileobj=io.BytesIO(), **more)",
    "from gzip import open as unpack\ndef run(a): return unpack(a)",
    "import lzma\ndef run(a): return lzma.LZMAFile(a)",
    "from pathlib import Path\ndef run(a): return Path(a).exists()",
    "from pathlib import *\ndef run(a): return Path(a).exists()",
)
CALLERS_REACH = (
    "import xmlrpc.server\ndef run(a, s): s.register_instance(a, allow_dotted_names=True)",
    "import xmlrpc.server\ndef run(a, s): s.register_instance(a, True)",
    "import functools\n@functools.singledispatch\ndef run(a): return a\n@run.register\ndef _(a: \"__import__('os')\"): pass",
    "from functools import singledispatch as s\nT = 'print(1)'\n@s\ndef run(a): return a\n@run.register\ndef _(a: T): pass",
    "import functools\nclass A:\n    @functools.singledispatchmethod\n    def go(self, a): pass\n    @go.register\n    def _(self, a: list['print(1)']): pass\ndef run(a): return A().go(a)",
)


def referring_to(dotted: str) -> str:
    """A source that hands out something of a module, by its dotted name."""
    names = dotted.split(".")
    known = [".".join(names[:length]) for length in range(len(names), 0, -1)]
    module = next(one for one in known if rule_of_import(one) not in FORBIDDEN)
    return f"import {module}\n\n\ndef run(a):\n    return {dotted}\n"


@pytest.mark.parametrize("module", REFUSED_MODULES)
def test_a_module_that_starts_programs_or_makes_code_is_refused(module):
    assert severity_of(f"import {module}\ndef run(a): return a") is Severity.DANGER


@pytest.mark.parametrize("dotted", REFUSED_MEMBERS)
def test_a_member_that_starts_programs_or_makes_code_is_refused_in_a_module_that_is_allowed(dotted):
    module, _, name = dotted.rpartition(".")
    assert severity_of(referring_to(dotted)) is Severity.DANGER
    if rule_of_import(module) not in FORBIDDEN and module in (
        "os",
        "imaplib",
        "socketserver",
        "asyncio",
        "http.server",
    ):
        assert severity_of(f"from {module} import {name} as it\ndef run(a): return it") is Severity.DANGER
        assert severity_of(f"from {module} import *\ndef run(a): return {name}") is Severity.DANGER


@pytest.mark.parametrize("dotted", LOOKED_AT)
def test_a_member_that_reaches_files_the_network_or_the_environment_is_worth_a_look(dotted):
    assert severity_of(referring_to(dotted)) is Severity.WARNING


@pytest.mark.parametrize("code", HARMLESS)
def test_what_stays_in_memory_is_at_most_a_note(code):
    assert severity_of(code) in (None, Severity.INFO)


@pytest.mark.parametrize("code", USING_FILES)
def test_what_could_open_a_file_is_worth_a_look(code):
    assert severity_of(code) is Severity.WARNING


@pytest.mark.parametrize("code", CALLERS_REACH)
def test_what_runs_texts_or_lets_callers_reach_anything_is_refused(code):
    assert severity_of(code) is Severity.DANGER


def test_every_module_of_the_standard_library_is_allowed_on_purpose_or_refused():
    unknown = [name for name in STANDARD if rule_of_import(name) in ("outside-package", "interpreter-escape")]
    assert all(severity_of(f"import {name}\ndef run(a): return a") is Severity.DANGER for name in unknown)
    assert "subprocess" not in unknown
