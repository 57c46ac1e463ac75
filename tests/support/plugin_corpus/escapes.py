"""Plugins that reach around the interpreter's walls."""

from __future__ import annotations

from kagura_kernel.domain.plugins import Severity
from tests.support.plugin_corpus.sample import Sample, sample

_D = Severity.DANGER


def _d(name: str, trick: str, code: str) -> Sample:
    return sample(name, _D, trick, code)


ESCAPES: tuple[Sample, ...] = (
    _d("subclasses", "all classes", "def run(a):\n    return ().__class__.__base__.__subclasses__()"),
    _d("mro", "classes above", 'def run(a):\n    return "".__class__.__mro__[1]'),
    _d("mro-method", "classes above by a method", "def run(a):\n    return str.mro()[-1]"),
    _d(
        "code-swap",
        "another function's code",
        "def run(a):\n    return a\ndef other(a):\n    return 1\nrun.__code__ = other.__code__",
    ),
    _d("closure-cells", "a function's cells", "def run(a):\n    return run.__closure__"),
    _d("frame", "the caller's frame", "import sys\ndef run(a):\n    return sys._getframe(1).f_globals"),
    _d(
        "frame-inspect",
        "the caller's frame by inspect",
        "import inspect\ndef run(a):\n    return inspect.currentframe().f_back",
    ),
    _d(
        "frame-traceback",
        "a frame from an error",
        "def run(a):\n    try:\n        1 / 0\n    except ZeroDivisionError as error:\n        return error.__traceback__.tb_frame.f_back",
    ),
    _d(
        "frame-generator",
        "a frame of a generator",
        "def run(a):\n    g = (x for x in a)\n    return g.gi_frame.f_builtins",
    ),
    _d("frame-coroutine", "a frame of a coroutine", "async def c(): ...\ndef run(a):\n    return c().cr_frame"),
    _d("gc-objects", "all objects", "import gc\ndef run(a):\n    return gc.get_objects()"),
    _d("settrace", "a trace function", "import sys\ndef run(a):\n    sys.settrace(lambda *a: None)"),
    _d(
        "threading-settrace",
        "a trace function for threads",
        "import threading\ndef run(a):\n    threading.settrace(print)",
    ),
    _d("module-in-json", "a module in another", "import json\ndef run(a):\n    return json.codecs.builtins.eval(a)"),
    _d(
        "module-in-random", "a private module in another", "import random\ndef run(a):\n    return random._os.system(a)"
    ),
    _d("module-in-logging", "os in logging", "import logging\ndef run(a):\n    return logging.os.popen(a)"),
    _d("from-textwrap-re", "a module by from", "from textwrap import re\ndef run(a):\n    return re.enum.sys"),
    _d("module-in-path", "os in os.path", "import os.path as p\ndef run(a):\n    return p.os.system(a)"),
    _d("module-in-tempfile", "os in tempfile", "import tempfile\ndef run(a):\n    return tempfile._os.system(a)"),
    _d(
        "module-on-object",
        "sys through an object",
        "import warnings\ndef run(a):\n    return warnings.catch_warnings()._module.sys.modules",
    ),
    _d("module-in-tuple", "os in a tuple", "import os\n_, tool = (1, os)\ndef run(a):\n    return tool.system(a)"),
    _d("module-in-dict", "os in a dictionary", 'import os\nT = dict(x=os)\ndef run(a):\n    return T["x"].system(a)'),
    _d("module-default", "os as a default", "import os\ndef run(a, m=os):\n    return m.system(a)"),
    _d(
        "module-returned",
        "os from a function",
        "import os\ndef tool():\n    return os\ndef run(a):\n    return tool().system(a)",
    ),
    _d(
        "module-on-self",
        "os on an object",
        "import os\nclass A:\n    def __init__(self):\n        self.m = os\n    def go(self, a):\n        return self.m.system(a)\ndef run(a):\n    return A().go(a)",
    ),
    _d(
        "module-in-namespace",
        "os in a namespace",
        "import os, types\nN = types.SimpleNamespace(m=os)\ndef run(a):\n    return N.m.system(a)",
    ),
    _d(
        "module-nullcontext",
        "os through a context",
        "import os, contextlib\ndef run(a):\n    with contextlib.nullcontext(os) as m:\n        return m.system(a)",
    ),
    _d("module-loop", "os through a loop", "import os\ndef run(a):\n    for m in [os]:\n        return m.system(a)"),
    _d(
        "proxy-getattr",
        "a proxy for os",
        "import os\nclass P:\n    def __getattr__(self, n):\n        return getattr(os, n)\ndef run(a):\n    return P().system(a)",
    ),
    _d("format-class", "a format field", 'def run(a):\n    return "{0.__class__.__init__.__globals__}".format(a)'),
    _d(
        "format-map",
        "a format field by name",
        'def run(a):\n    return "{x.__class__.__mro__[1]}".format_map({"x": a})',
    ),
    _d(
        "format-computed",
        "a format field in parts",
        'def run(a):\n    return ("{0." + "__globals__" + "}").format(run)',
    ),
    _d(
        "formatter-field",
        "Formatter.get_field",
        'import string\ndef run(a):\n    return string.Formatter().get_field("0.__globals__", (run,), {})',
    ),
    _d("getattribute", "object.__getattribute__", 'def run(a):\n    return object.__getattribute__(a, "x")'),
    _d("reduce-ex", "the copy protocol", "def run(a):\n    return a.__reduce_ex__(2)"),
    _d(
        "class-assignment",
        "another class for an object",
        "class A: ...\ndef run(a):\n    a.__class__ = A\n    return a",
    ),
    _d(
        "bases-assignment",
        "other bases for a class",
        "class A: ...\nclass B: ...\nB.__bases__ = (A,)\ndef run(a):\n    return a",
    ),
    _d(
        "wrapper-code",
        "code of a decorator's function",
        'def run(a):\n    f = getattr(run, "__code__")\n    return f.co_consts',
    ),
    _d(
        "proc-mem",
        "its own memory",
        'def run(a):\n    with open("/proc/self/mem", "r+b", 0) as f:\n        return f.read(1)',
    ),
    _d("proc-root", "the root of another process", 'def run(a):\n    return open("/proc/1/root/etc/shadow").read()'),
    _d(
        "docker-socket",
        "the Docker socket",
        'import socket\ndef run(a):\n    s = socket.socket(socket.AF_UNIX)\n    s.connect("/var/run/docker.sock")',
    ),
    _d(
        "computed-schema",
        "a computed SCHEMA",
        'import json\nSCHEMA = json.loads("{}")\ndef create_host_functions(config):\n    return {}',
    ),
    _d(
        "changed-schema",
        "a SCHEMA that is changed",
        'SCHEMA = {}\nSCHEMA["x"] = {"type": "string"}\ndef create_host_functions(config):\n    return {}',
    ),
    _d(
        "missing-entry",
        "no create_host_functions",
        "SCHEMA = {}\ndef create_host_function(config):  # not create_host_functions\n    return {}",
    ),
    _d(
        "replaced-entry",
        "two create_host_functions",
        "SCHEMA = {}\ndef create_host_functions(config):\n    return {}\ndef _other(config):\n    return {}\ncreate_host_functions = _other",
    ),
    _d(
        "global-entry",
        "create_host_functions from a function",
        "SCHEMA = {}\ndef _set():\n    global create_host_functions\n    create_host_functions = lambda config: {}\ndef create_host_functions(config):\n    return {}\n_set()",
    ),
    sample(
        "undeclared-net",
        _D,
        "the network, left out of its permissions",
        "import urllib.request\ndef run(a):\n    return urllib.request.urlopen(a).read()",
        permissions={"read": ["/data"]},
    ),
)
"""Each reaches what is never named, or hides what is loaded."""
