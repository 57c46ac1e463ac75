"""More plugins as honest authors write them: other corners of the standard library, other habits."""

from __future__ import annotations

from tests.support.plugin_corpus.sample import Sample, sample


def _h(name: str, use: str, code: str | bytes, **permissions: list[str]) -> Sample:
    return sample(name, None, use, code, permissions=permissions)


HARMLESS_MORE: tuple[Sample, ...] = (
    _h(
        "text-tools",
        "texts",
        'import difflib, string, textwrap, unicodedata\ndef run(a, b):\n    return "\\n".join(difflib.unified_diff(a.splitlines(), b.splitlines())), textwrap.dedent(a), unicodedata.normalize("NFC", a), string.capwords(a), string.Template("$x").safe_substitute(x=a), a.translate(str.maketrans("", "", string.punctuation))',
    ),
    _h(
        "xml",
        "XML",
        'import xml.etree.ElementTree as ET\nfrom xml.sax.saxutils import escape\ndef run(a):\n    root = ET.fromstring(a)\n    return [(e.tag, e.attrib, escape(e.text or "")) for e in root.iter()]',
    ),
    _h(
        "config-file",
        "configuration files",
        "import configparser, tomllib\ndef run(a, b):\n    parser = configparser.ConfigParser()\n    parser.read_string(a)\n    return {s: dict(parser[s]) for s in parser.sections()}, tomllib.loads(b)",
    ),
    _h(
        "cache",
        "a cache with a lock",
        "import threading\nfrom collections import OrderedDict\nclass Cache:\n    def __init__(self, size=10):\n        self._lock = threading.Lock()\n        self._data = OrderedDict()\n        self._size = size\n    def get(self, key, make):\n        with self._lock:\n            if key not in self._data:\n                self._data[key] = make(key)\n                if len(self._data) > self._size:\n                    self._data.popitem(last=False)\n            return self._data[key]\nCACHE = Cache()\ndef run(a):\n    return CACHE.get(a, str.upper)",
    ),
    _h(
        "state-machine",
        "a table of functions",
        'def start(x): return x + 1\ndef stop(x): return x - 1\nTABLE = {"start": start, "stop": stop}\ndef run(name, x):\n    if name not in TABLE:\n        raise KeyError(name)\n    return TABLE[name](x)',
    ),
    _h(
        "context",
        "contexts and errors",
        'import contextlib, traceback, types\nclass DemoError(Exception):\n    """Something of this plugin failed."""\n@contextlib.contextmanager\ndef guarded(name):\n    try:\n        yield name\n    except ZeroDivisionError as error:\n        raise DemoError(f"{name}: {type(error).__name__}") from error\nclass Session:\n    def __enter__(self) -> "Session":\n        return self\n    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None) -> None:\n        self.closed = True\ndef run(a):\n    try:\n        with guarded("x"), Session():\n            return 1 / a\n    except DemoError:\n        return traceback.format_exc().splitlines()[-1]',
    ),
    _h(
        "generators",
        "generators and itertools",
        'import itertools, heapq, bisect, random, operator\ndef windows(a, n):\n    it = iter(a)\n    head = tuple(itertools.islice(it, n))\n    yield head\n    for x in it:\n        head = (*head[1:], x)\n        yield head\ndef run(a):\n    rng = random.Random(1)\n    rows = sorted(({"k": x, "v": rng.random()} for x in a), key=operator.itemgetter("k"))\n    return list(windows(a, 2)), heapq.nlargest(2, a), bisect.bisect(a, 3), [k for k, _ in itertools.groupby(rows, key=lambda r: r["k"])]',
    ),
    _h(
        "attrgetter",
        "sorting by attributes",
        'import operator\nfrom dataclasses import dataclass, asdict, replace\n@dataclass(frozen=True, order=True)\nclass Item:\n    name: str\n    price: float = 0.0\n    def __post_init__(self):\n        object.__setattr__(self, "name", self.name.strip())\ndef run(rows):\n    items = [Item(**row) for row in rows]\n    return [asdict(replace(i, price=1.0)) for i in sorted(items, key=operator.attrgetter("price", "name"))]',
    ),
    _h(
        "registry",
        "a registry by a decorator",
        'REGISTRY = {}\ndef register(name):\n    def inner(function):\n        REGISTRY[name] = function\n        return function\n    return inner\n@register("double")\ndef double(x):\n    return x * 2\n@register("half")\ndef half(x):\n    return x / 2\ndef create_host_functions(config):\n    return {"demo": dict(REGISTRY)}\nSCHEMA = {}',
    ),
    _h(
        "base-class",
        "classes that register themselves",
        "import abc\nclass Unit(abc.ABC):\n    known = {}\n    def __init_subclass__(cls, **kwargs):\n        super().__init_subclass__(**kwargs)\n        Unit.known[cls.__name__.lower()] = cls\n    @abc.abstractmethod\n    def factor(self): ...\n    @property\n    def label(self):\n        return type(self).__qualname__\nclass Meter(Unit):\n    def factor(self):\n        return 1\ndef run(name):\n    unit = Unit.known[name]()\n    return unit.factor(), unit.label",
    ),
    _h(
        "singleton",
        "a metaclass",
        'class Meta(type):\n    def __call__(cls, *args, **kwargs):\n        if not hasattr(cls, "_one"):\n            cls._one = super().__call__(*args, **kwargs)\n        return cls._one\nclass Store(metaclass=Meta):\n    def __init__(self):\n        self.rows = []\n    def __getattr__(self, name):\n        raise AttributeError(f"no {name!r}")\n    def __len__(self):\n        return len(self.rows)\ndef run(a):\n    Store().rows.append(a)\n    return len(Store())',
    ),
    _h(
        "markdown",
        "a table as text",
        'def run(rows):\n    head = list(rows[0])\n    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]\n    lines += ["| " + " | ".join(str(row.get(k, "")) for k in head) + " |" for row in rows]\n    return "\\n".join(lines)',
    ),
    _h(
        "coding-utf8",
        "a cookie that says UTF-8",
        "# -*- coding: utf-8 -*-\ndef run(a):\n    return a + ' größer'\n".encode(),
    ),
    _h("windows-lines", "line ends of Windows", b"def run(a):\r\n    return a\r\n"),
    _h(
        "japanese",
        "other languages",
        '"""挨拶を返すプラグイン。"""\nGREETING = "こんにちは　世界 👩‍💻 ❤️"\nΔt = 1.5\ngröße = 2\ndef run(a):\n    return GREETING + a, Δt, größe\n',
    ),
    _h("page-breaks", "page breaks between parts", "import json\n\f\ndef run(a):\n    return json.dumps(a)\n"),
    _h(
        "environment-facts",
        "facts on where it runs",
        'import os, sys, platform\ndef run(a):\n    return {"python": sys.version_info[:2], "os": os.name, "machine": platform.machine(), "cpus": os.cpu_count(), "sep": os.sep, "max": sys.maxsize, "null": os.devnull}',
    ),
    _h(
        "optional-flag",
        "a constant that some systems lack",
        'import os\nFLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)\ndef run(a):\n    handle = os.open(a, FLAGS)\n    try:\n        return os.read(handle, 100).decode()\n    finally:\n        os.close(handle)',
        read=["/data"],
    ),
    _h(
        "vars-of-args",
        "an object as a dictionary",
        "from types import SimpleNamespace\ndef run(a):\n    n = SimpleNamespace(x=1, y=a)\n    return vars(n), n.__dict__, sorted(vars(n))",
    ),
    _h(
        "setattr-loop",
        "options set by their names",
        'class Options:\n    size = 1\n    color = "red"\n    def __init__(self, **given):\n        for name, value in given.items():\n            if not hasattr(self, name):\n                raise TypeError(name)\n            setattr(self, name, value)\ndef run(a):\n    return Options(size=a).size',
    ),
    _h(
        "types-checked",
        "checks by types",
        'import types, inspect, functools\ndef run(a):\n    if isinstance(a, (types.FunctionType, types.ModuleType, types.GeneratorType)):\n        raise TypeError("no")\n    return str(inspect.signature(run)), inspect.isfunction(run), functools.reduce(lambda x, y: x + y, [1, 2])',
    ),
    _h(
        "tables",
        "long tables of data",
        "CODES = {\n"
        + "".join(f'    "{n:04}": "item {n}",\n' for n in range(400))
        + "}\nSQUARES = ("
        + ", ".join(str(n * n) for n in range(300))
        + ")\ndef run(a):\n    return CODES[a], SQUARES[3]",
    ),
    _h(
        "small-image",
        "a small picture in the source",
        'import base64\nPIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="\ndef run(a):\n    return len(base64.b64decode(PIXEL))',
    ),
    _h(
        "retry",
        "retries with a deadline",
        'import time, random, uuid, secrets\ndef retry(function, times=3):\n    for attempt in range(times):\n        try:\n            return function()\n        except (ValueError, KeyError) as error:\n            if attempt == times - 1:\n                raise RuntimeError(f"gave up: {error}") from None\n            time.sleep(0.01 * 2 ** attempt + random.random() / 100)\ndef run(a):\n    return retry(lambda: int(a)), str(uuid.uuid4()), secrets.token_hex(4)',
    ),
    _h(
        "sdk",
        "our own library",
        'from kagura_plugin.arguments import Config\nfrom kagura_plugin.reading import ReadJail\nfrom kagura_plugin import note\ndef create_host_functions(config):\n    note("made")\n    return {"demo": {"run": lambda name: name}}\nSCHEMA = {"base": {"type": "string", "description": "Folder"}}',
        read=["{base}"],
    ),
    sample(
        "two-files",
        None,
        "a plugin of several files",
        "from . import shapes\nfrom .shapes import area\nfrom .units.metric import to_cm\ndef run(a):\n    return shapes.NAME, area(a), to_cm(a)",
        files={
            "shapes.py": b'import math\nNAME = "circle"\ndef area(r):\n    return math.pi * r * r\n',
            "units/__init__.py": b'"""Units."""\n',
            "units/metric.py": b"from ..shapes import NAME\ndef to_cm(m):\n    return m * 100, NAME\n",
            "data/table.json": b'{"a": 1}\n',
        },
        permissions={},
    ),
    _h(
        "zip-in-memory",
        "an archive in memory",
        'import gzip, io, zipfile, bz2\ndef run(a):\n    out = io.BytesIO()\n    with zipfile.ZipFile(out, "w") as z:\n        z.writestr("a.txt", a)\n    return len(out.getvalue()), len(gzip.compress(a.encode())), len(bz2.compress(a.encode()))',
    ),
    _h(
        "sockets-for-names",
        "helpers of network modules",
        'import http, socket\nfrom http import HTTPStatus\nfrom urllib.request import pathname2url\ndef run(a):\n    return HTTPStatus(404).phrase, socket.inet_aton("127.0.0.1").hex(), pathname2url(a)',
        read=["/data"],
    ),
    _h(
        "lambda-entry",
        "an entry as a lambda",
        'SCHEMA: dict = {}\ncreate_host_functions = lambda config: {"demo": {"run": lambda a: a}}',
    ),
    _h(
        "os-field",
        "fields that are called like modules",
        'class Agent:\n    def __init__(self, os, sys):\n        self.os = os\n        self.sys = sys\ndef run(a):\n    agent = Agent("linux", "metric")\n    return agent.os.upper(), agent.sys.title(), a.os, a.io',
    ),
    _h(
        "sandwich",
        "a template engine of its own",
        'import re\nFIELD = re.compile(r"\\{\\{\\s*([a-z_]+)\\s*\\}\\}")\ndef render(template, values):\n    return FIELD.sub(lambda m: str(values.get(m.group(1), "")), template)\ndef run(template, **values):\n    return render(template, values)',
    ),
    _h(
        "main-block",
        "a block for trying it out",
        'def run(a):\n    return a\ndef create_host_functions(config):\n    return {"demo": {"run": run}}\nSCHEMA = {}\nif __name__ == "__main__":\n    import sys\n    print(run(" ".join(sys.argv[1:])))\n    sys.exit(0)',
    ),
)
"""None of them may be refused."""
