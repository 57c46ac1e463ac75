"""What nobody has looked at is told: names of the library, classes to derive from, hooks, private attributes."""

# ruff: noqa: E501 - a source is one text, on one line
import builtins
import importlib
import keyword
import types

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.domain.plugins import Severity
from kagura_kernel.plugins.scan.reader import known, rules
from tests.support.plugin_corpus.judging import severity_of

LOUD = (Severity.DANGER, Severity.WARNING)
NAMES = st.from_regex(r"[a-z][a-z_]{0,12}[a-z]", fullmatch=True).filter(
    lambda name: not keyword.iskeyword(name) and name not in dir(builtins)
)
QUIET = sorted(
    module
    for module, rule in rules.MODULES.items()
    if rule in (rules.SAFE, rules.PATHS) and module.partition(".")[0] != rules.SDK
)

REFUSED = (
    'import contextlib\nclass R(contextlib.redirect_stdout):\n    _stream = "modules"\ndef run(a):\n    with R({}): return a',
    "from contextlib import redirect_stderr as R\nclass S(R): pass\ndef run(a): return S(a)",
    'import contextlib\ndef run(a):\n    r = contextlib.redirect_stdout(a)\n    r._stream = "modules"\n    return r',
    'import contextlib\ndef run(a):\n    r = contextlib.redirect_stdout(a)\n    setattr(r, "_stream", "modules")\n    return r',
    "import codecs\ndef run(f, n): return codecs.StreamReader(f).__getattr__(n)",
    "import codecs\ndef run(f, n): return codecs.getreader('utf-8')(f).__getattr__(n)",
    "def run(f, n): return f.__getattr__(n)",
    "import functools\ndef run(c, owner, name): return functools.cached_property.__set_name__(c, owner, name)",
    "import functools\ndef run(f, name): return functools.cached_property(f).__set_name__(None, name)",
    "import functools\nclass C(functools.cached_property): pass\ndef run(f): return C(f)",
    "import argparse\ndef run(f): return argparse.Namespace._get_kwargs(f)",
    "import argparse\nclass N(argparse.Namespace): pass\ndef run(f): return N._get_kwargs(f)",
    'import operator\ndef run(f, text): return operator.methodcaller("format", f)(text)',
    'import operator\nrun = operator.attrgetter("format_map")',
    "def run(texts, f): return list(map(str.format, texts, [f]))",
    "import copy\nclass A:\n    def __reduce_ex__(self, version): return list, (), {}\ndef run(a): return copy.copy(A())",
    "import copy\nclass A:\n    def __reduce_ex__(self, version): return self.made\ndef run(a): return copy.copy(A())",
    "import copy\ndef made(f): return lambda self: (list, (), {})\nclass A:\n    @made\n    def __reduce__(self): raise TypeError\ndef run(a): return copy.copy(A())",
    "import copy\nclass A:\n    __reduce__ = lambda self: self.made\ndef run(a): return copy.copy(A())",
    "import copy, types\ndef run(f): return copy.copy(types.SimpleNamespace(__reduce_ex__=f))",
    'import copy, types\ndef run(f): return copy.copy(types.SimpleNamespace(**{"__reduce_ex__": f}))',
    "import enum\nclass P(enum.property): pass\ndef run(a): return P(a)",
    "import types\nclass P(types.DynamicClassAttribute): pass\ndef run(a): return P(a)",
    "import functools\ndef run(f, codes):\n    def g(): pass\n    functools.wraps(f, assigned=(''.join(map(chr, codes)),))(g)\n    return vars(g)",
    "import string\nclass F(string.Formatter):\n    def parse(self, text): return [('', text, '', None)]\ndef run(t, f): return F().format(t, f)",
    "def run(codes, x): return ('{0.' + ''.join(map(chr, codes)) + '}').format(x)",
    "def run(codes, x): return ('{x.' + ''.join(map(chr, codes)) + '}').format_map({'x': x})",
    "def run(a): return get_ipython()",
    "class A:\n    __text_signature__ = '(a=x.y)'\ndef run(a): return A",
    "from dataclasses import dataclass\n@dataclass\nclass A:\n    __annotations__ = {'x': int}\ndef run(a): return A",
    "from dataclasses import dataclass\n@dataclass\nclass A:\n    __annotations__['x'] = int\ndef run(a): return A",
    "def run(a): return type('A', (), {'__annotations__': a})",
    "class A:\n    __dataclass_fields__ = {}\ndef run(a): return A",
    "run = object.__setattr__",
    "import contextlib\nrun = type('S', (contextlib.redirect_stdout,), {'_stream': 'modules'})",
    "import contextlib\ndef base(): return contextlib.redirect_stdout\nclass S(base()): pass\ndef run(a): return S",
    "import copy\nD = {'__reduce_' + 'ex__': print}\ndef run(a): return copy.copy(type('A', (), D)())",
    "import dataclasses\ndef run(c, f, n):\n    d = dataclasses.fields(c)[0]\n    d.name = n\n    return dataclasses.astuple(f)",
    "import dataclasses\ndef run(c, n):\n    for d in dataclasses.fields(c): object.__setattr__(d, 'name', n)",
    "import warnings\ndef run(a): return warnings.catch_warnings()._module.sys.modules",
    "import typing\ndef run(a): return typing.get_args(typing.Optional[a])[0].evaluate()",
    "import typing\ndef run(a): return typing.List[a].__args__[0]._evaluate({}, {}, frozenset())",
)
LOOKED_AT = (
    "import shlex\ndef run(a):\n    s = shlex.shlex('include x')\n    s.source = 'include'\n    return list(s)",
    "import shlex\nclass S(shlex.shlex):\n    source = 'include'\ndef run(a): return list(S(a))",
    "import xml.etree.ElementTree as E\ndef run(a): return E.ElementTree(file=a).getroot()",
    "import xml.sax\ndef run(a): return xml.sax.InputSource(a)",
    "import enum\nrun = enum.property",
    "import types\nrun = types.DynamicClassAttribute",
    "import codecs\nclass R(codecs.StreamReader): pass\ndef run(a): return R(a)",
    "import functools\ndef run(g, f, name): return vars(functools.update_wrapper(g, f, assigned=(name,)))",
    "import string\nclass F(string.Formatter): pass\ndef run(a): return F()",
    "def run(text, f): return text.format(f)",
    "def run(text, f): return text.format_map({'f': f})",
    "import string\ndef run(text, f): return string.Formatter().vformat(text, (f,), {})",
    "import contextlib, io\ndef run(a):\n    with contextlib.redirect_stdout(io.StringIO()): return a",
    "class A:\n    def __reduce__(self): return A, ()\ndef run(a): return A()",
    "class A:\n    def __reduce__(self): return type(self), (), self.__dict__\ndef run(a): return A()",
    "class A:\n    def __reduce__(self): return 'MISSING'\ndef run(a): return A()",
    "class A:\n    def __reduce_ex__(self, version): raise TypeError(version)\ndef run(a): return A()",
    "class A:\n    def __instancecheck__(self, one): return True\ndef run(a): return A()",
    "class A:\n    def __subclasshook__(self, one): return True\ndef run(a): return A()",
    "class A:\n    def __prepare__(self, one): return {}\ndef run(a): return A()",
    "class A:\n    def __mro_entries__(self, bases): return ()\ndef run(a): return A()",
    "class A:\n    def __getattribute__(self, name): return 1\ndef run(a): return A()",
    "import argparse\ndef run(a): return argparse.ArgumentParser()._actions",
    "import argparse\ndef run(a): return argparse.ArgumentParser().parse_args(a, namespace=run)",
    "import logging\nclass H(logging.Handler):\n    def at(self): return self._closed\ndef run(a): return H()",
    "def run(a): return a._hidden",
    "def run(a): return a.__defaults__",
    "def run(a): return getattr(a, '_hidden')",
    "def run(base):\n    class A(base): pass\n    return A",
    "import importlib.metadata\ndef run(a): return importlib.metadata.version(a)",
    "import importlib.resources\ndef run(a): return importlib.resources.files(__package__)",
    "import gzip\nrun = gzip.write32u",
    "import types\ndef run(f): return types.coroutine(f)",
    "class A:\n    def __getattr__(self, n): return 1\ndef run(f, n): return f.__getattr__(n)",
    "class A: pass\ndef run(f, n): return super(A, f).__getattr__(n)",
    "class A: pass\ndef run(a): return A().__dataclass_fields__",
    "import queue\nrun = queue.deque",
    "import argparse\ndef run(a): return argparse.ArgumentParser(fromfile_prefix_chars='@').parse_args(a)",
    "import traceback\ndef run(e): return traceback.TracebackException.from_exception(e, capture_locals=True)",
    "import mimetypes\ndef run(a): return mimetypes.MimeTypes(a)",
    "def run(f, n): return vars(f)[n]",
    "def run(f, n): return f.__dict__[n]",
)
READ_CLEAN = (
    "import abc, bisect, collections, contextlib, copy, csv, dataclasses, datetime, decimal, difflib, enum, functools\nclass A(abc.ABC): pass\nclass C(enum.Enum):\n    X = enum.auto()\n@dataclasses.dataclass\nclass P:\n    x: int = 0\ndef run(a): return copy.deepcopy(a), bisect.bisect(a, 1), dataclasses.asdict(P()), functools.reduce(max, a), difflib.unified_diff(a, a)",
    "import hashlib, heapq, html, io, itertools, json, logging, math, operator, pathlib, random, re, statistics\ndef run(a):\n    logging.getLogger('x').info('%s', a)\n    return heapq.nlargest(1, a), html.unescape(a), io.StringIO(a), itertools.pairwise(a), math.tau, operator.add, pathlib.PurePath(a).name, random.choice(a), re.split('x', a), statistics.mean(a)",
    "import string, textwrap, time, types, typing, unicodedata, urllib.parse, uuid, base64\nclass N(typing.NamedTuple):\n    x: int\ndef run(a): return N(1)._replace(x=2)._asdict(), string.Template(a).substitute(), textwrap.dedent(a), time.time(), types.SimpleNamespace(x=1), urllib.parse.urlsplit(a), uuid.uuid4()",
    "class Meta(type):\n    _made = {}\n    def __call__(cls, *a):\n        if cls not in cls._made: cls._made[cls] = super().__call__(*a)\n        return cls._made[cls]\nclass A(metaclass=Meta): pass\ndef run(a): return A()",
    "class Slot:\n    def __init__(self, name): self.slot = '_' + name\n    def __get__(self, o, owner=None): return getattr(o, self.slot)\n    def __set__(self, o, value): setattr(o, self.slot, value)\nclass A:\n    x = Slot('x')\ndef run(a): return A().x",
    "import json, html.parser, collections.abc\nclass E(json.JSONEncoder): pass\nclass H(html.parser.HTMLParser): pass\nclass M(collections.abc.Mapping): pass\nclass X(ValueError): pass\nclass I(int): pass\ndef run(a): return E, H, M, X, I",
)


@pytest.mark.parametrize("code", REFUSED)
def test_a_way_to_any_attribute_is_refused(code):
    assert severity_of(code) is Severity.DANGER


@pytest.mark.parametrize("code", LOOKED_AT)
def test_what_is_not_known_to_be_harmless_is_worth_a_look(code):
    assert severity_of(code) is Severity.WARNING


@pytest.mark.parametrize("code", READ_CLEAN)
def test_what_plugins_mostly_use_is_not_even_noted(code):
    assert severity_of(code) in (None, Severity.INFO)


@given(module=st.sampled_from(QUIET), name=NAMES)
def test_any_name_of_a_module_that_is_in_no_table_is_told(module, name):
    full = f"{module}.{name}"
    quiet = known.is_known(module, name) or rules.EXACT.get(full, "") or full in rules.MODULES
    if not quiet:
        assert severity_of(f"import {module}\nrun = {full}") in LOUD
        assert severity_of(f"from {module} import {name} as it\nrun = it") in LOUD
        assert severity_of(f"import {module}\nrun = getattr({module}, {name!r})") in LOUD


@given(name=NAMES)
def test_any_hook_and_any_private_name_that_is_in_no_table_is_told(name):
    hook = f"__{name}__"
    if hook not in known.HOOKS:
        assert severity_of(f"class A:\n    def {hook}(self): return 1\ndef run(a): return A()") in LOUD
    if hook not in known.READ:
        assert severity_of(f"def run(a): return a.{hook}") in LOUD
    if f"_{name}" not in known.PRIVATE:
        assert severity_of(f"def run(a): return a._{name}") in LOUD
        assert severity_of(f"import json\ndef run(a): return json.JSONDecoder._{name}") in LOUD


@pytest.mark.parametrize("module", QUIET)
def test_a_public_class_of_the_library_is_known_to_derive_from_or_told(module):
    found = {
        f"{module}.{name}"
        for name, value in vars(importlib.import_module(module)).items()
        if isinstance(value, type) and not name.startswith("_") and not isinstance(value, types.GenericAlias)
    }
    for full in sorted(found):
        if not known.is_base(full):
            assert severity_of(f"import {module}\nclass A({full}): pass\ndef run(a): return A") in LOUD, full


def test_what_is_known_to_be_harmless_is_in_no_table_of_rules_and_in_a_module_that_may_be_imported():
    assert {full for full in known.KNOWN if rules.EXACT.get(full)} == set()
    homes = {full.rpartition(".")[0] for full in known.KNOWN} - {"builtins"}
    assert homes <= rules.MODULES.keys()
    assert {home for home in homes if rules.MODULES[home] in rules.FORBIDDEN} == set()
    assert {full for full in known.BASES if rules.rule_of(full) not in ("", rules.PATHS, rules.MITIGATION)} == set()
