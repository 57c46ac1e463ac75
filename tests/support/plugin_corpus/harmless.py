"""Plugins as honest authors write them; some hold words, names and shapes that a careless scan takes for an attack."""

from __future__ import annotations

from tests.support.plugin_corpus.harmless_more import HARMLESS_MORE
from tests.support.plugin_corpus.sample import Sample, sample

_FULL = '''
"""Counts words.

Never uses eval(), exec() or os.system(): the words stand here to be read.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

SCHEMA = {
    "limit": {"type": "number", "description": "How many words", "default": 10, "minimum": 1, "maximum": 100},
}

log = logging.getLogger(__name__)
_WORD = re.compile(r"[A-Za-z]+")


@dataclass
class Settings:
    limit: int = 10
    stop: list[str] = field(default_factory=list)

    def shown(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}


def count(texts: Iterable[str], settings: Settings) -> list[tuple[str, int]]:
    found: Counter[str] = Counter()
    for text in texts:
        found.update(word.lower() for word in _WORD.findall(text) if word not in settings.stop)
    return found.most_common(settings.limit)


def create_host_functions(config: Mapping[str, Any]) -> dict[str, dict[str, Callable[..., Any]]]:
    settings = Settings(limit=int(config.get("limit", 10)))
    log.debug("made with %s", settings.shown())

    def count_words(text: str) -> list[tuple[str, int]]:
        if not isinstance(text, str) or len(text) > 100_000:
            raise ValueError("text must be a string of at most 100,000 characters")
        return count([text], settings)

    return {"demo": {"count_words": count_words}}
'''


def _h(name: str, use: str, code: str, **permissions: list[str]) -> Sample:
    return sample(name, None, use, code, permissions=permissions)


HARMLESS: tuple[Sample, ...] = (
    _h("word-count", "a whole plugin", _FULL),
    _h(
        "json-tools", "JSON", "import json\ndef run(a):\n    return json.dumps(json.loads(a), indent=2, sort_keys=True)"
    ),
    _h(
        "calculator",
        "an expression by its tree",
        'import ast, operator\nOPS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}\ndef evaluate(node):\n    if isinstance(node, ast.Expression):\n        return evaluate(node.body)\n    if isinstance(node, ast.Constant):\n        return node.value\n    if isinstance(node, ast.BinOp):\n        return OPS[type(node.op)](evaluate(node.left), evaluate(node.right))\n    raise ValueError(type(node).__name__)\ndef run(a):\n    return evaluate(ast.parse(a, mode="eval"))',
    ),
    _h(
        "regex",
        "patterns",
        'import re\nPATTERN = re.compile(r"(?P<year>\\d{4})-(?P<month>\\d\\d)")\ndef run(a):\n    return [m.groupdict() for m in PATTERN.finditer(a)]',
    ),
    _h(
        "dates",
        "dates and zones",
        'from datetime import datetime, timedelta, timezone\nfrom zoneinfo import ZoneInfo\nimport time\ndef run(a):\n    return (datetime.fromisoformat(a).astimezone(ZoneInfo("Asia/Tokyo")) + timedelta(days=1)).isoformat(), time.time(), datetime.now(timezone.utc).isoformat()',
    ),
    _h(
        "csv",
        "tables",
        "import csv, io\ndef run(a):\n    rows = list(csv.DictReader(io.StringIO(a)))\n    out = io.StringIO()\n    w = csv.DictWriter(out, fieldnames=sorted(rows[0]))\n    w.writeheader()\n    w.writerows(rows)\n    return out.getvalue()",
    ),
    _h(
        "hashes",
        "hashes",
        'import hashlib, hmac\ndef run(a, b=None):\n    digest = hashlib.new("sha256", a.encode()).hexdigest()\n    return {"same": b is not None and hmac.compare_digest(digest, b), "digest": digest}',
    ),
    _h(
        "encodings",
        "encodings",
        'import base64, binascii, codecs, zlib\ndef run(a):\n    return {"b64": base64.b64encode(a.encode()).decode(), "hex": binascii.hexlify(a.encode()).decode(), "rot": codecs.encode(a, "rot13"), "crc": zlib.crc32(a.encode()), "back": base64.b64decode("aGVsbG8=").decode("utf-8")}',
    ),
    _h(
        "read-notes",
        "files of a configured folder",
        'from pathlib import Path\nSCHEMA = {"base": {"type": "string", "description": "Folder", "promptKey": True}}\ndef create_host_functions(config):\n    base = Path(config["base"]).resolve()\n    def read(name):\n        path = (base / name).resolve()\n        if not path.is_relative_to(base):\n            raise ValueError("outside")\n        return path.read_text(encoding="utf-8")\n    def names():\n        return sorted(one.name for one in base.iterdir() if one.is_file())\n    return {"demo": {"read": read, "names": names}}',
        read=["{base}"],
    ),
    _h(
        "write-notes",
        "files that are written",
        'import json, os\nSCHEMA = {"base": {"type": "string", "description": "Folder", "promptKey": True}}\ndef create_host_functions(config):\n    base = config["base"]\n    def save(name, value):\n        place = os.path.join(base, os.path.basename(name))\n        os.makedirs(base, exist_ok=True)\n        with open(place, "w", encoding="utf-8") as file:\n            json.dump(value, file)\n        os.replace(place, place + ".json")\n        return True\n    return {"demo": {"save": save}}',
        write=["{base}"],
    ),
    _h(
        "scratch",
        "temporary files",
        'import tempfile, os\ndef run(a):\n    with tempfile.TemporaryDirectory() as folder:\n        path = os.path.join(folder, "x.txt")\n        with open(path, "w") as f:\n            f.write(a)\n        return os.path.getsize(path)',
    ),
    _h(
        "memory-database",
        "a database in memory",
        'import sqlite3\ndef run(rows):\n    db = sqlite3.connect(":memory:")\n    db.row_factory = sqlite3.Row\n    db.execute("create table t (a int)")\n    db.executemany("insert into t values (?)", [(r,) for r in rows])\n    return [dict(r) for r in db.execute("select sum(a) as total from t")]',
    ),
    _h(
        "statistics",
        "numbers",
        'import math, statistics, fractions, decimal\ndef run(a):\n    decimal.getcontext().prec = 10\n    return {"mean": statistics.fmean(a), "pi": math.pi, "half": str(fractions.Fraction(1, 2)), "d": str(decimal.Decimal("1.1"))}',
    ),
    _h(
        "own-exec",
        "methods that are called exec, run and fork",
        'class Query:\n    def __init__(self, text):\n        self.text = text\n    def exec(self):\n        return self.text.upper()\n    def run(self):\n        return self.exec()\n    def fork(self):\n        return Query(self.text)\n    def system(self):\n        return "metric"\ndef run(a):\n    q = Query(a).fork()\n    return q.exec() + q.run() + q.system()',
    ),
    _h(
        "odd-names",
        "names with alarming parts",
        'def execute(query): return query\ndef compile_report(rows): return list(rows)\nsystem_name = "demo"\nopen_count = 3\nimport_path = "a.b"\nevaluation = {"eval": 1, "exec": 2}\nsubprocess_count = 0\ndef run(a):\n    return execute(a), compile_report([a]), system_name, open_count, evaluation["eval"], import_path, subprocess_count',
    ),
    _h(
        "own-compile",
        "a function of its own called compile",
        "def compile(source):\n    return source.split()\ndef eval(tokens):\n    return len(tokens)\ndef run(a):\n    return eval(compile(a))",
    ),
    _h(
        "words-in-texts",
        "alarming words in texts",
        'HELP = "Do not use eval(), exec() or os.system(); import subprocess is refused."\nKEYWORDS = {"eval", "exec", "import", "os.system", "__import__"}\n# subprocess.run([...]) would be refused here\ndef run(a):\n    return [w for w in a.split() if w in KEYWORDS] or HELP',
    ),
    _h(
        "visitor",
        "dispatch by a method's name",
        'class Visitor:\n    def visit(self, node):\n        method = getattr(self, f"visit_{type(node).__name__}", self.generic)\n        return method(node)\n    def visit_int(self, node):\n        return node + 1\n    def generic(self, node):\n        return node\ndef run(a):\n    return Visitor().visit(a)',
    ),
    _h(
        "getattr-constant",
        "getattr with a constant name",
        'def run(a):\n    return getattr(a, "name", None), hasattr(a, "items")',
    ),
    _h(
        "self-class",
        "an object's own class",
        'class Vector:\n    __slots__ = ("x", "y")\n    def __init__(self, x, y):\n        self.x, self.y = x, y\n    def __add__(self, other):\n        if not isinstance(other, self.__class__):\n            return NotImplemented\n        return self.__class__(self.x + other.x, self.y + other.y)\n    def __repr__(self):\n        return f"{self.__class__.__name__}({self.x}, {self.y})"\n    def __eq__(self, other):\n        return type(self) is type(other) and self.x == other.x\n    def __hash__(self):\n        return hash((self.x, self.y))\ndef run(a):\n    return repr(Vector(1, 2) + Vector(3, 4))',
    ),
    _h(
        "formatting",
        "str.format",
        'TEMPLATE = "{name:>10} {value:.2f} {0!r} {item[price]} {point.x}"\ndef run(a):\n    return "Hello {}".format(a), "%s: %d" % ("a", 1), f"{a!r:>10}", "{0.real}".format(1)',
    ),
    _h(
        "decorators",
        "decorators with functools",
        "import functools, time\ndef timed(function):\n    @functools.wraps(function)\n    def inner(*args, **kwargs):\n        start = time.perf_counter()\n        try:\n            return function(*args, **kwargs)\n        finally:\n            inner.last = time.perf_counter() - start\n    inner.__doc__ = function.__doc__\n    return inner\n@timed\n@functools.lru_cache(maxsize=128)\ndef run(a):\n    return a * 2",
    ),
    _h(
        "html-parser",
        "HTML",
        'from html.parser import HTMLParser\nimport html\nclass Links(HTMLParser):\n    def __init__(self):\n        super().__init__(convert_charrefs=True)\n        self.found = []\n    def handle_starttag(self, tag, attrs):\n        if tag == "a":\n            self.found += [value for name, value in attrs if name == "href"]\ndef run(a):\n    parser = Links()\n    parser.feed(a)\n    return [html.unescape(x) for x in parser.found]',
    ),
    _h(
        "urls",
        "addresses",
        'from urllib.parse import urlsplit, urlencode, quote, parse_qs\nimport ipaddress\ndef run(a):\n    parts = urlsplit(a)\n    return {"host": parts.hostname, "query": parse_qs(parts.query), "quoted": quote(a), "made": urlencode({"q": a}), "ip": ipaddress.ip_address("10.0.0.1").is_private}',
    ),
    _h(
        "wiki-fetch",
        "the network, declared",
        'import json\nimport urllib.request\nfrom urllib.parse import quote\ndef run(title):\n    request = urllib.request.Request(f"https://en.wikipedia.org/w/{quote(title)}", headers={"User-Agent": "demo"})\n    with urllib.request.urlopen(request, timeout=10) as answer:\n        return json.load(answer)',
        net=["en.wikipedia.org"],
    ),
    _h(
        "async",
        "async functions",
        "import asyncio\nasync def work(a):\n    await asyncio.sleep(0)\n    return a\nasync def both(a, b):\n    async with asyncio.Lock():\n        return await asyncio.gather(work(a), work(b))\ndef run(a, b):\n    return asyncio.run(both(a, b))",
    ),
    _h(
        "match",
        "match statements",
        'def run(command):\n    match command:\n        case {"kind": "add", "values": [first, *rest]}:\n            return first + sum(rest)\n        case ["move", int(x), int(y)] if x > 0:\n            return x + y\n        case str() as text:\n            return text\n        case _:\n            raise ValueError("unknown")',
    ),
    _h(
        "enums",
        "enums, named tuples, typed dicts",
        'from enum import Enum, auto\nfrom typing import NamedTuple, TypedDict, Protocol, Generic, TypeVar, Literal\nT = TypeVar("T")\nMode = Literal["eval", "exec"]\nclass Color(Enum):\n    RED = auto()\nclass Point(NamedTuple):\n    x: int\n    y: int = 0\nclass Row(TypedDict, total=False):\n    name: str\nclass Shape(Protocol):\n    def area(self) -> float: ...\nclass Box(Generic[T]):\n    def __init__(self, value: T) -> None:\n        self.value = value\ndef run(a: Mode) -> list:\n    return [c.name for c in Color], Point(1)._asdict(), Box(a).value',
    ),
    *HARMLESS_MORE,
)
"""None of them may be refused."""
