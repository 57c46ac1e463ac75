"""Which rule an import, or a reference to something inside a module, falls under.

A module that stands in none of these tables is refused: a new one is safe only once somebody has looked at it.
"""

from __future__ import annotations

import sys

from .known import PRIVATE, READ, is_known

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

_ALLOWED = {
    SAFE: """
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
""",
    FILES: """
configparser dbm dbm.dumb filecmp fileinput glob json.tool linecache mailbox mmap netrc plistlib shutil
importlib.metadata importlib.resources
sqlite3 tarfile tempfile zipfile wave fcntl xml.dom.expatbuilder xml.dom.pulldom xml.etree.ElementInclude
""",
    NETWORK: """
asyncore ftplib http.client http.cookiejar http.server imaplib logging.handlers nntplib poplib select selectors smtpd
smtplib socket socketserver ssl telnetlib urllib.request urllib.response urllib.robotparser wsgiref
wsgiref.simple_server xmlrpc xmlrpc.client xmlrpc.server asynchat
""",
    ENVIRONMENT: "getpass grp pwd sysconfig",
    BACKGROUND: "atexit signal resource",
    PATHS: "os.path pathlib posixpath ntpath genericpath stat",
}

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


MODULES = {word: rule for rule, words in {**_ALLOWED, **_FORBIDDEN}.items() for word in words.split()}
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
            # A part of a known module that nobody has looked at: only where the whole is refused, or is known.
            known = name == module or MODULES[name] in FORBIDDEN
            return MODULES[name] if known else _part(module)
        name = name.rpartition(".")[0]
    top = module.partition(".")[0]
    return ESCAPE if top in STANDARD and top.startswith("_") else OUTSIDE


def _part(module: str) -> str:
    top, _, rest = module.partition(".")
    if top == SDK:
        return OUTSIDE if any(part.lstrip("_") in STANDARD for part in rest.split(".")) else SAFE
    if any(part.startswith("_") for part in rest.split(".")):
        return ESCAPE
    if top in ("asyncio", "concurrent", "importlib", "logging"):
        return ESCAPE
    return MODULES.get(top, OUTSIDE)


THROUGH = "module-through-module"
ATTRIBUTE = "hidden-attribute"
UNFOLLOWED = "unfollowed-attribute"
COMPUTED = "computed-attribute"

_WORDS: dict[str, dict[str, str]] = {
    "os": {
        PROCESS: "abort execl execle execlp execlpe execv execve execvp execvpe _execvpe fork forkpty fork1 kill "
        "killpg openpty login_tty popen posix_spawn posix_spawnp register_at_fork setpgid setpgrp setsid spawnl "
        "spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe startfile system tcsetpgrp _exit pidfd_open P_DETACH "
        "POSIX_SPAWN_OPEN POSIX_SPAWN_DUP2 POSIX_SPAWN_CLOSE P_NOWAIT P_OVERLAY _spawnvef",
        ESCAPE: "chroot memfd_create setegid seteuid setgid setgroups initgroups setns setregid setresgid setresuid "
        "setreuid setuid unshare ptsname eventfd",
        NATIVE: "add_dll_directory",
        ENVIRONMENT: "environ environb getenv getenvb putenv unsetenv get_exec_path getlogin uname getuid geteuid "
        "getgid getegid getgroups confstr sysconf getresuid getresgid ctermid",
        MUTATION: "chdir fchdir umask nice setpriority sched_setaffinity sched_setparam sched_setscheduler sched_yield",
        PATHS: "path fspath fsencode fsdecode PathLike sep altsep curdir pardir extsep devnull",
        MITIGATION: "O_NOFOLLOW O_CLOEXEC O_EXCL",
        SAFE: "cpu_count error getloadavg getpid getppid get_terminal_size linesep name pathsep stat_result "
        "strerror supports_dir_fd supports_fd supports_follow_symlinks terminal_size times times_result urandom "
        "getrandom process_cpu_count sched_getaffinity WEXITSTATUS WIFEXITED waitstatus_to_exitcode",
    },
    "sys": {
        ESCAPE: "_getframe _current_frames _current_exceptions _getframemodulename modules settrace setprofile "
        "gettrace getprofile call_tracing addaudithook audit breakpointhook __breakpointhook__ unraisablehook "
        "excepthook __unraisablehook__ __excepthook__ last_traceback set_asyncgen_hooks get_asyncgen_hooks "
        "activate_stack_trampoline set_coroutine_origin_tracking_depth setdlopenflags getdlopenflags monitoring "
        "_xoptions _debugmallocstats _clear_type_cache getobjects remote_exec",
        IMPORT: "meta_path path path_hooks path_importer_cache pycache_prefix dont_write_bytecode",
        MUTATION: "exit setrecursionlimit setswitchinterval displayhook __displayhook__ set_int_max_str_digits",
        ENVIRONMENT: "argv orig_argv executable prefix base_prefix exec_prefix base_exec_prefix flags platlibdir",
        SAFE: "version version_info maxsize maxunicode byteorder float_info int_info hash_info hexversion platform "
        "implementation api_version copyright getsizeof getdefaultencoding getfilesystemencoding getrecursionlimit "
        "getrefcount intern stdin stdout stderr __stdout__ __stderr__ __stdin__ exc_info exception float_repr_style "
        "stdlib_module_names builtin_module_names getfilesystemencodeerrors get_int_max_str_digits "
        "getswitchinterval is_finalizing thread_info warnoptions",
    },
    "builtins": {
        CODE: "eval exec compile breakpoint help execfile",
        IMPORT: "__import__ __loader__ __spec__ __build_class__ reload",
        ESCAPE: "__builtins__ license credits copyright __cached__ get_ipython",
        FILES: "open file",
        MUTATION: "exit quit input",
        PATHS: "__file__ __path__",
    },
    "io": {FILES: "open FileIO open_code OpenWrapper"},
    "codecs": {FILES: "open", MUTATION: "register register_error unregister"},
    "tokenize": {FILES: "open"},
    "asyncio": {
        PROCESS: "create_subprocess_exec create_subprocess_shell subprocess SubprocessProtocol SubprocessTransport "
        "get_child_watcher set_child_watcher SafeChildWatcher ThreadedChildWatcher PidfdChildWatcher FastChildWatcher "
        "AbstractChildWatcher MultiLoopChildWatcher base_subprocess unix_events base_events",
        NETWORK: "open_connection start_server open_unix_connection start_unix_server StreamReader StreamWriter "
        "DatagramProtocol Protocol StreamReaderProtocol Server BufferedProtocol Transport DatagramTransport",
        BACKGROUND: "to_thread",
        ESCAPE: "capture_call_graph",
    },
    "concurrent.futures": {
        PROCESS: "ProcessPoolExecutor process",
        CODE: "InterpreterPoolExecutor interpreter",
        BACKGROUND: "ThreadPoolExecutor thread",
    },
    "enum": {MUTATION: "global_enum"},
    "gzip": {FILES: "open GzipFile main"},
    "bz2": {FILES: "open BZ2File"},
    "lzma": {FILES: "open LZMAFile"},
    "http.server": {PROCESS: "CGIHTTPRequestHandler"},
    "imaplib": {PROCESS: "IMAP4_stream"},
    "resource": {PROCESS: "prlimit"},
    "socketserver": {
        PROCESS: "ForkingMixIn ForkingTCPServer ForkingUDPServer ForkingUnixStreamServer ForkingUnixDatagramServer"
    },
    "xml.dom": {IMPORT: "getDOMImplementation registerDOMImplementation domreg"},
    "xmlrpc.server": {COMPUTED: "resolve_dotted_attribute"},
    "zipfile": {CODE: "PyZipFile"},
    "threading": {
        BACKGROUND: "Thread Timer current_thread main_thread enumerate stack_size",
        ESCAPE: "settrace setprofile settrace_all_threads setprofile_all_threads gettrace getprofile excepthook",
    },
    "types": {
        CODE: "CodeType FunctionType LambdaType ModuleType new_class prepare_class",
        ESCAPE: "FrameType CellType",
    },
    "typing": {CODE: "get_type_hints ForwardRef evaluate_forward_ref", THROUGH: "io re"},
    "inspect": {
        ESCAPE: "currentframe stack trace getouterframes getinnerframes getframeinfo getmodule "
        "getmembers_static getattr_static getclosurevars getcallargs getgeneratorlocals getcoroutinelocals "
        "getargvalues getasyncgenlocals getmro getgeneratorstate unwrap getclasstree walktree modulesbyfile",
        UNFOLLOWED: "getmembers classify_class_attrs",
        CODE: "get_annotations",
        FILES: "getsource getsourcefile getsourcelines getfile getabsfile findsource getcomments",
    },
    "gc": {
        ESCAPE: "get_objects get_referrers get_referents callbacks garbage set_debug get_debug DEBUG_SAVEALL",
        MUTATION: "disable enable freeze unfreeze set_threshold",
        SAFE: "collect isenabled get_count get_stats get_threshold is_tracked is_finalized",
    },
    "traceback": {ESCAPE: "walk_stack walk_tb"},
    "logging": {
        FILES: "FileHandler basicConfig",
        MUTATION: "setLoggerClass setLogRecordFactory captureWarnings disable addLevelName shutdown",
        CODE: "config",
        ESCAPE: "currentframe",
    },
    "operator": {CODE: "call"},
    "xml.sax": {IMPORT: "make_parser", FILES: "InputSource parse"},
    "xml.etree.ElementTree": {FILES: "ElementTree iterparse parse"},
    "xml.dom.minidom": {FILES: "parse", IMPORT: "domreg"},
    "shutil": {PATHS: "get_terminal_size"},
    "sqlite3": {CODE: "enable_callback_tracebacks", SAFE: "Row Error PARSE_DECLTYPES PARSE_COLNAMES"},
    "mimetypes": {FILES: "MimeTypes init read_mime_types"},
    "pathlib.Path": {ENVIRONMENT: "home", FILES: "cwd"},
    "pathlib": {FILES: "Path PosixPath WindowsPath"},
    "ast": {MITIGATION: "literal_eval", UNFOLLOWED: "iter_fields"},
    "importlib.metadata": {
        IMPORT: "EntryPoint EntryPoints entry_points SelectableGroups DistributionFinder MetadataPathFinder "
        "MetaPathFinder import_module"
    },
    "hmac": {MITIGATION: "compare_digest"},
    "html": {MITIGATION: "escape"},
    "shlex": {MITIGATION: "quote"},
    "os.path": {
        MITIGATION: "commonpath realpath",
        ENVIRONMENT: "expandvars expanduser",
        FILES: "exists lexists isfile isdir islink getsize getmtime getatime getctime ismount samefile sameopenfile",
    },
    "platform": {
        ENVIRONMENT: "node uname platform libc_ver freedesktop_os_release",
        PROCESS: "architecture processor",
        SAFE: "system machine release",
    },
    "locale": {MUTATION: "setlocale", ENVIRONMENT: "getlocale getdefaultlocale"},
    "time": {MUTATION: "tzset clock_settime clock_settime_ns"},
    "warnings": {MUTATION: "showwarning formatwarning"},
    "copy": {CODE: "dispatch_table"},
    "contextlib": {MUTATION: "chdir redirect_stderr redirect_stdout"},
    "argparse": {FILES: "FileType"},
    "random": {MUTATION: "seed"},
    "decimal": {MUTATION: "setcontext"},
    "signal": {PROCESS: "pthread_kill raise_signal pidfd_send_signal"},
    "fcntl": {ESCAPE: "ioctl"},
    "mmap": {NATIVE: "PROT_EXEC"},
    "socket": {ESCAPE: "SCM_RIGHTS AF_NETLINK AF_PACKET AF_VSOCK send_fds recv_fds SOCK_RAW"},
    "uuid": {SAFE: "getnode uuid1"},
}

EXACT: dict[str, str] = {
    f"{module}.{word}": rule
    for module, rules in _WORDS.items()
    for rule, words in rules.items()
    for word in words.split()
}
"""Rule by dotted name."""

REACHABLE = frozenset(
    "os sys subprocess builtins importlib ctypes posix pty socket shutil bltns signal pickle marshal multiprocessing "
    "threading runpy inspect".split()
)
"""Modules that are looked for behind whatever a chain of attributes leads through."""

_LEGITIMATE = frozenset(
    "datetime.time datetime.datetime time.time copy.copy glob.glob random.random fnmatch.fnmatch pprint.pprint "
    "bisect.bisect calendar.calendar select.select platform.platform array.array queue.queue signal.signal "
    "collections.abc html.parser html.entities json.decoder json.encoder xml.parsers http.cookies http.client "
    "http.server urllib.parse concurrent.futures os.path logging.handlers email.message email.parser email.policy "
    "sched.scheduler tokenize.tokenize tokenize.token struct.struct locale.locale secrets.secrets stat.stat os.stat "
    "os.statvfs statistics.statistics inspect.signature zipfile.zipfile tempfile.tempfile fractions.fractions "
    "asyncio.queue hashlib.new ast.keyword ast.operator shutil.copy ssl.socket sys.platform unicodedata.decimal "
    "logging.warning operator.index xml.sax pathlib.Path contextlib.contextmanager mailbox.mailbox math.math "
    "unicodedata.name token.tok_name operator.abc itertools.chain tarfile.copyfileobj".split()
)
"""Names in a module that are also the name of a module, and are not that module."""

NEVER = frozenset(
    "__base__ __bases__ __builtins__ __closure__ __code__ __getattribute__ __globals__ __import__ __loader__ __mro__ "
    "__reduce__ __reduce_ex__ __self__ __spec__ __subclasses__ __build_class__ __objclass__ __getstate__ __func__ "
    "__cached__ __path__ ag_await ag_code ag_frame co_code co_consts co_names co_varnames cr_await cr_code cr_frame "
    "cr_origin f_back f_builtins f_code f_globals f_lasti f_lineno f_locals f_trace f_trace_lines f_trace_opcodes "
    "func_code func_globals gi_code gi_frame gi_yieldfrom im_class im_func im_self mro tb_frame tb_lasti cell_contents "
    "_getframe __traceback_frame__".split()
)
"""Attributes through which a value leads to the interpreter's own: classes above it, frames, code, globals."""

NEVER_SET = NEVER | frozenset(
    "__class__ __dict__ __annotations__ __defaults__ __kwdefaults__ __getattr__ __setattr__ __init__ __call__ __new__ "
    "__del__ __enter__ __exit__ __iter__ __next__ __get__ __set__ __hash__ __eq__ __len__ __getitem__ "
    "__class_getitem__ __init_subclass__ __set_name__ __prepare__ __mro_entries__ __match_args__ __slots__".split()
)
"""Attributes that change what an object is when they are set from outside."""

GRAVE_METHODS = {
    **dict.fromkeys(
        "popen popen2 popen3 execv execve execvp execvpe execlp execlpe spawnl spawnle spawnlp spawnv spawnve spawnvp "
        "spawnvpe posix_spawn posix_spawnp fork_exec forkpty subprocess_exec subprocess_shell create_subprocess_exec "
        "create_subprocess_shell _make_subprocess_transport check_output check_call getoutput getstatusoutput "
        "Popen".split(),
        PROCESS,
    ),
    **dict.fromkeys("load_extension enable_load_extension LoadLibrary CDLL dlopen".split(), NATIVE),
    **dict.fromkeys(
        "exec_module load_module find_loader import_module run_module run_path entry_points".split(), IMPORT
    ),
    **dict.fromkeys("_evaluate evaluate runcode runsource eval_str writepy".split(), CODE),
    **dict.fromkeys(("_convert_", "_get_kwargs", "get_stack"), ESCAPE),
}
"""Methods that mean the same whatever object they are of, unless the plugin has such a method itself."""

NETWORK_METHODS = frozenset(
    "create_connection create_server create_datagram_endpoint create_unix_connection create_unix_server sock_connect "
    "sock_sendall sock_accept urlopen urlretrieve start_tls getaddrinfo gethostbyname".split()
)
"""Methods that reach others, which hardly anything else has."""

FILE_METHODS = frozenset(
    "read_text read_bytes write_text write_bytes unlink rmdir mkdir touch iterdir rglob symlink_to hardlink_to "
    "link_to lchmod chmod is_file is_dir is_symlink extractall".split()
)
"""Methods of a path or an archive, which hardly anything else has."""

NOT_CONNECTING = frozenset(
    "socket.gethostname socket.inet_aton socket.inet_ntoa socket.inet_pton socket.inet_ntop socket.htons socket.htonl "
    "socket.ntohs socket.ntohl socket.AF_INET socket.AF_INET6 socket.error socket.timeout socket.gaierror "
    "socket.herror socket.has_ipv6 http.client.responses http.client.HTTPException urllib.request.pathname2url "
    "urllib.request.url2pathname urllib.request.Request urllib.request.parse_http_list xmlrpc.client.dumps "
    "xmlrpc.client.loads xmlrpc.client.Fault ssl.SSLError ssl.CertificateError ssl.OPENSSL_VERSION "
    "asyncio.StreamReader asyncio.StreamWriter asyncio.Protocol".split()
)
"""Parts of network modules that reach nobody."""

WRITING = frozenset(
    "write_text write_bytes unlink rmdir mkdir touch symlink_to hardlink_to link_to chmod lchmod extractall makedirs "
    "remove removedirs rename renames replace truncate rmtree copy copy2 copyfile copytree move mkfifo mknod link "
    "symlink write writev pwrite".split()
)
"""What changes files."""


def rule_of(full: str) -> str:
    """The rule for referring to something by its full dotted name; the empty one for a harmless one."""
    if full in EXACT:
        return EXACT[full]
    if full in ("enum.bltns", "typing.stdlib_re", "os.st"):
        return THROUGH
    module, names = split(full)
    if not module:
        return SAFE
    kind = MODULES[module]
    if not names or (kind in FORBIDDEN and module != "builtins"):
        return kind
    if module == SDK and any(one.lstrip("_") in STANDARD or one.startswith("_") for one in names):
        return THROUGH
    if any(one.lstrip("_") in REACHABLE for one in names[1:]):
        return THROUGH
    grave = next((GRAVE_METHODS[one] for one in names[1:] if one in GRAVE_METHODS), "")
    if grave:
        return grave
    found = _inside(module, names[0], kind)
    return UNKNOWN_NAME if not found and module != SDK and any(is_private(one) for one in names[1:]) else found


def _inside(module: str, name: str, kind: str) -> str:
    if f"{module}.{name}" in EXACT:
        return EXACT[f"{module}.{name}"]
    if module == "builtins":
        return SAFE if is_known(module, name) else UNKNOWN_NAME
    if is_leak(module, name):
        return THROUGH
    if name.startswith("_") and module != SDK and not (name.startswith("__") and name.endswith("__")):
        return ESCAPE
    if module == "os":
        return _of_os(name)
    if module == "sys" and name.islower():
        return ESCAPE
    # What a module reaches as a whole is told for each of its names; where that is nothing, each must be known.
    harmless = kind not in (SAFE, PATHS) or module == SDK or name in READ or is_known(module, name)
    return kind if harmless else UNKNOWN_NAME


def _of_os(name: str) -> str:
    """What `os` holds beside the names that are listed is about files, or a number."""
    if name.startswith(("exec", "spawn", "posix_spawn", "fork", "pidfd", "set", "CLONE_", "PRIO_")):
        return PROCESS
    return SAFE if name.isupper() or name.startswith("W") else FILES


def is_private(name: str) -> bool:
    """Whether a name is one that only the library's own code should use."""
    return name.startswith("_") and not is_dunder(name) and name not in PRIVATE


VOUCHING = "isidentifier"
"""What the library asks a text before it makes code of it; one of the plugin's own may say yes to anything."""


def is_dunder(name: str) -> bool:
    """Whether a name stands between two pairs of underscores."""
    return name.startswith("__") and name.endswith("__") and len(name) > len("____")


def split(full: str) -> tuple[str, list[str]]:
    """The longest known module that a dotted name begins with, and the names behind it; an empty one for none."""
    parts = full.split(".")
    for length in range(len(parts), 0, -1):
        module = ".".join(parts[:length])
        if module in MODULES:
            return module, parts[length:]
    return "", parts


def is_leak(module: str, name: str) -> bool:
    """Whether a name in a module is another module, which it happens to have imported."""
    if f"{module}.{name}" in _LEGITIMATE or f"{module}.{name}" in MODULES or module == SDK:
        return False
    if module in ("asyncio", "concurrent") and name in ("queues", "events", "tasks", "locks"):
        return False
    bare = name.lstrip("_")
    return bare in STANDARD and name != module.rpartition(".")[2]


SAID = {
    "process-execution": "{} starts or controls processes.",
    CODE: "{} runs code that the scan cannot see.",
    "dynamic-import": "{} loads modules by a name that the source does not show.",
    "native-code-use": "{} leads to native code.",
    "interpreter-escape": "{} reaches into the interpreter.",
    OUTSIDE: "{} is not among the modules that a plugin may import.",
    FILES: "{} uses the file system.",
    NETWORK: "{} uses the network.",
    "environment": "{} shows the environment that the plugin runs in.",
    MUTATION: "{} changes what other code relies on.",
    BACKGROUND: "{} works on beside the call.",
    "path-handling": "{} handles paths.",
    "mitigation": "{} guards against misuse.",
    THROUGH: "{} is a module that is reached through another one.",
    UNFOLLOWED: "{} reaches attributes by names that the source does not show.",
    COMPUTED: "{} reaches attributes by a path that the source does not show.",
    UNKNOWN_NAME: "{} is not known to be harmless.",
    ATTRIBUTE: "{} leads into the interpreter.",
}
"""By rule; a finding fills in the name."""

LIBRARY = {
    "descent": {"read"},
    "reading": {"read"},
    "writing": {"write"},
    "https": {"net"},
    "database": {"read", "net"},
    "sqlite": {"read"},
    "postgres": {"net"},
    SDK: {"read", "write", "net"},
}
"""What each part of `kagura_plugin` reaches for."""
