"""Plugins that start or control processes, or load native code and modules."""

from __future__ import annotations

from kagura_kernel.domain.plugins import Severity
from tests.support.plugin_corpus.sample import Sample, sample

_D = Severity.DANGER


def _d(name: str, trick: str, code: str) -> Sample:
    return sample(name, _D, trick, code)


PROCESSES: tuple[Sample, ...] = (
    _d(
        "plain-subprocess",
        "starts a program",
        "import subprocess\ndef run(a):\n    return subprocess.run(a, shell=True)",
    ),
    _d("os-system", "os.system", "import os\ndef run(a):\n    return os.system(a)"),
    _d("from-os-renamed", "a renamed import", "from os import system as tidy\ndef run(a):\n    return tidy(a)"),
    _d("os-popen-alias", "a module alias", "import os as o\np = o.popen\ndef run(a):\n    return p(a).read()"),
    _d("os-exec", "replaces the process", 'import os\ndef run(a):\n    os.execvp("sh", ["sh", "-c", a])'),
    _d("os-fork", "forks", "import os\ndef run(a):\n    if not os.fork():\n        os.setsid()"),
    _d("posix-spawn", "posix_spawn", 'import os\ndef run(a):\n    os.posix_spawn("/bin/sh", ["sh"], {})'),
    _d("posix-module", "the module behind os", "import posix\ndef run(a):\n    posix.system(a)"),
    _d("private-posixsubprocess", "the module behind subprocess", "from _posixsubprocess import fork_exec as run"),
    _d("pty-spawn", "a terminal of its own", "import pty\ndef run(a):\n    pty.spawn(a)"),
    _d(
        "multiprocessing",
        "a process of Python",
        "from multiprocessing import Process\ndef run(a):\n    Process(target=print).start()",
    ),
    _d(
        "process-pool",
        "a pool of processes",
        "from concurrent.futures import ProcessPoolExecutor\ndef run(a):\n    with ProcessPoolExecutor() as pool:\n        return list(pool.map(str, a))",
    ),
    _d(
        "process-pool-attribute",
        "a pool through its package",
        "import concurrent.futures as cf\ndef run(a):\n    return cf.ProcessPoolExecutor().submit(print)",
    ),
    _d(
        "asyncio-subprocess",
        "asyncio's subprocess",
        "import asyncio\nasync def go(a):\n    return await asyncio.create_subprocess_shell(a)\ndef run(a):\n    return asyncio.run(go(a))",
    ),
    _d(
        "loop-subprocess",
        "a loop's subprocess",
        "import asyncio\nasync def run(a):\n    loop = asyncio.get_running_loop()\n    await loop.subprocess_exec(asyncio.Protocol, a)",
    ),
    _d("webbrowser", "a browser as a program", "import webbrowser\ndef run(a):\n    webbrowser.open(a)"),
    _d("kill-parent", "kills its parent", "import os\ndef run(a):\n    os.kill(os.getppid(), 9)"),
    _d("os-exit", "ends the process", "import os\ndef run(a):\n    os._exit(0)"),
    _d("ctypes-libc", "libc through ctypes", "import ctypes\ndef run(a):\n    return ctypes.CDLL(None).system(a)"),
    _d("ctypes-util", "a part of ctypes", "from ctypes.util import find_library as run"),
    _d(
        "numpy-ctypes",
        "ctypes through numpy",
        'import numpy as np\ndef run(a):\n    return np.ctypeslib.load_library(a, "/tmp")',
    ),
    _d("cffi", "native code through cffi", "from cffi import FFI\ndef run(a):\n    return FFI().dlopen(None)"),
    _d(
        "sqlite-extension",
        "a native extension of SQLite",
        'import sqlite3\ndef run(a):\n    c = sqlite3.connect(":memory:")\n    c.enable_load_extension(True)\n    c.load_extension(a)',
    ),
    _d("importlib", "an import by name", "import importlib\ndef run(a):\n    return importlib.import_module(a)"),
    _d("dunder-import", "__import__", 'def run(a):\n    return __import__("os").system(a)'),
    _d("runpy", "runs a file", "import runpy\ndef run(a):\n    return runpy.run_path(a)"),
    _d(
        "pkgutil",
        "resolves a name",
        'from pkgutil import resolve_name\ndef run(a):\n    return resolve_name("os:system")(a)',
    ),
    _d("zipimport", "an import from an archive", "import zipimport\ndef run(a):\n    return zipimport.zipimporter(a)"),
    _d("sys-path", "another place for modules", 'import sys\nsys.path.insert(0, "/tmp")\ndef run(a):\n    return a'),
    _d("sys-modules", "a loaded module by name", 'import sys\ndef run(a):\n    return sys.modules["os"].system(a)'),
    _d(
        "sys-modules-get",
        "a loaded module by a method",
        'from sys import modules as m\ndef run(a):\n    return m.get("subprocess")',
    ),
    _d(
        "meta-path",
        "an import hook",
        "import sys\nclass Finder:\n    def find_spec(self, *a): ...\nsys.meta_path.append(Finder())\ndef run(a):\n    return a",
    ),
    _d("loader-name", "the module's own loader", 'def run(a):\n    return __loader__.load_module("os")'),
    _d("spec-loader", "the module's own spec", "def run(a):\n    return __spec__.loader"),
    _d("foreign-package", "a package from outside", "import requests\ndef run(a):\n    return requests.get(a).text"),
    _d(
        "foreign-in-try",
        "a package in a try",
        "try:\n    import yaml\nexcept ImportError:\n    yaml = None\ndef run(a):\n    return yaml.load(a)",
    ),
    _d(
        "late-import",
        "an import in a function",
        "def run(a):\n    from subprocess import getoutput\n    return getoutput(a)",
    ),
    _d(
        "import-in-class",
        "an import in a class",
        "class A:\n    import subprocess as s\ndef run(a):\n    return A.s.run(a)",
    ),
    _d(
        "import-when-odd",
        "an import under a condition",
        "import time\nif time.time() > 1e12:\n    import pty\ndef run(a):\n    return a",
    ),
    _d(
        "import-our-kernel",
        "the kernel's own package",
        "from kagura_kernel.assembly import load_settings\ndef run(a):\n    return load_settings({})",
    ),
    _d("sibling-absolute", "an import that the path may answer", "import helper\ndef run(a):\n    return helper.go(a)"),
    _d(
        "relative-above",
        "an import from above its directory",
        "from .. import secrets_of_others\ndef run(a):\n    return a",
    ),
    _d("os-star", "everything of os", "from os import *\ndef run(a):\n    return system(a)"),
    _d("dotted-star", "everything of posix", "from posix import *\ndef run(a):\n    return system(a)"),
    _d(
        "signal-kill",
        "a signal to a thread",
        "import signal, threading\ndef run(a):\n    signal.pthread_kill(threading.get_ident(), 9)",
    ),
    _d(
        "ld-preload-exec",
        "a program with variables",
        'import os\ndef run(a):\n    os.execve("/bin/ls", ["ls"], {"LD_PRELOAD": a})',
    ),
    _d(
        "unshare",
        "namespaces",
        'import os\nif hasattr(os, "unshare"):\n    os.unshare(0x10000000)\ndef run(a):\n    return a',
    ),
)
"""Each starts or controls processes, or loads what nobody has read."""
