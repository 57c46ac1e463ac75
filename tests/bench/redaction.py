"""What redaction costs: a text, one line, hostile input, and the start, with and without rules compiled before."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from kagura_kernel.domain.kit import MARKER
from kagura_kernel.kit.redaction.redactor import Redactor
from tests.bench.harness import Bench, Bound, Line, Measure, Missing, interleaved, milliseconds
from tests.support.redaction_corpus import LOOK_ALIKES, SECRETS

SIZE = 4 * 2**20
HOSTILE_SIZE = 2**20
LINES = 500
KINDS = frozenset(
    {".py", ".pyi", ".md", ".rst", ".txt", ".json", ".toml", ".yaml", ".cfg", ".js", ".css", ".html", ".csv"}
)
NAMES = frozenset({"METADATA", "RECORD"})
LONGEST = 64 * 1024
"""Characters of one file."""
PLAIN = "2026-03-04 11:02:51 INFO  worker 7 took order 48211 from the queue in 14 ms and wrote 3 rows\n"
SECRET = "2026-03-04 11:02:51 INFO  connecting with password=Kd83!jskQ9z to the queue\n"
TALKING = "the password is checked by the server; a token that has expired is refused with 401\n"
HOSTILE = (
    "a",
    "password=\"'",
    '"',
    "password=",
    "-----BEGIN RSA PRIVATE KEY-----\n",
    "https://a:",
    "ghp_",
    "the password is ",
    "\n",
    "a\n",
    "login: ",
    "recovery codes: ",
    "A",
    "0",
    " ",
    "-----END RSA PRIVATE KEY-----\n",
)
"""What is repeated; each was chosen against one way of looking."""
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
START = (
    "import sys; from pathlib import Path; from kagura_kernel.kit.redaction.redactor import Redactor; "
    "Redactor(Path(sys.argv[1])).redact('password = Zeta-kilo-4711!')"
)


def mixed(size: int) -> str:
    """Source code as it is, logs and prose, and in each hundred lines a look-alike and a text with a secret."""
    sources = sorted(Path(os.__file__).parent.glob("[a-l]*.py"))
    lines = [line for source in sources for line in source.read_text("utf-8").splitlines(keepends=True)]
    parts: list[str] = []
    length = 0
    for step, start in enumerate(range(0, len(lines), 60)):
        part = "".join(lines[start : start + 60]) + PLAIN * 37 + TALKING
        part += LOOK_ALIKES[step % len(LOOK_ALIKES)].text + SECRETS[step % len(SECRETS)].text
        parts.append(part)
        length += len(part)
        if length >= size:
            return "".join(parts)[:size]
    raise Missing(f"the sources of this Python have less than {size} characters")


def files(size: int) -> str:
    """Files as they lie on this machine: sources, documents, data and lists of what is installed."""
    roots = {Path(os.__file__).parent, *map(Path, sysconfig.get_paths().values())}
    found = sorted(path for root in roots for path in root.rglob("*") if path.suffix in KINDS or path.name in NAMES)
    random.Random(7).shuffle(found)
    parts: list[str] = []
    length = 0
    for path in found:
        try:
            text = path.read_text("utf-8")[:LONGEST]
        # Test data of other projects may be in any encoding, and a folder may be named like a file.
        except (UnicodeDecodeError, OSError):
            continue
        parts.append(text)
        length += len(text)
        if length >= size:
            return "".join(parts)[:size]
    raise Missing(f"what is installed here has less than {size} characters of text")


def hostile_texts(size: int) -> dict[str, str]:
    """Texts of about that many bytes that would make a careless search slow, by what they are."""
    chance = random.Random(7)
    lines = ["".join(chance.choices(LETTERS, k=64)) for _ in range(size // 65 + 1)]
    framed = "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n"
    notes = [{"id": number, "note": f'says "hi"\nand token {number}'} for number in range(size // 64 + 1)]
    repeated = {f"{unit!r} again and again": (unit * (size // len(unit) + 1))[:size] for unit in HOSTILE}
    return repeated | {
        "lines of 64 columns of base64": "\n".join(lines),
        "lines of 64 columns of base64 that end as on Windows": "\r\n".join(lines),
        "base64 without line ends": "".join(lines),
        "one key of that size": framed.format("\n".join(lines)),
        "one key of that size in one line": framed.format("".join(lines)),
        "JSON in one line": json.dumps(notes),
        "JSON with a line for each value": json.dumps(notes, indent=1),
        "lists in lists": "[" * (size // 2) + "]" * (size // 2),
        "mappings in mappings": '{"a":' * (size // 6) + "1" + "}" * (size // 6),
        "brackets in brackets": "(" * (size // 2) + ")" * (size // 2),
        "a row of literals with secrets in two pieces": '"Password=Zk4!" "mp9QqLw ; " ' * (size // 29) + '""',
        "a sum of literals with secrets in two pieces": '"Password=" + "Zk4!mp9QqLw " + ' * (size // 31) + '""',
    }


async def redaction(bench: Bench) -> list[Line]:
    """Throughput on four kinds of text and on hostile ones, one line, and the start."""
    redactor = Redactor(bench.folder / "compiled")
    redactor.redact("password = Zeta-kilo-4711!")
    plain = (PLAIN * (SIZE // len(PLAIN) + 1))[:SIZE]
    text = mixed(SIZE)
    clean = _without_secrets(redactor, text)
    real = files(SIZE)
    hostile = list(hostile_texts(HOSTILE_SIZE).values())
    figures = await interleaved(
        max(3, bench.samples // 4),
        mixed=_seconds(lambda: redactor.redact(text)),
        clean=_seconds(lambda: redactor.redact(clean)),
        real=_seconds(lambda: redactor.redact(real)),
        plain=_seconds(lambda: redactor.redact(plain)),
        hostile=_slowest(redactor, hostile),
        line=_seconds(lambda: [redactor.redact(PLAIN) for _ in range(LINES)]),
        talking=_seconds(lambda: [redactor.redact(TALKING) for _ in range(LINES)]),
        stream=_seconds(lambda: _streamed(redactor, PLAIN)),
        talk=_seconds(lambda: _streamed(redactor, TALKING)),
        secrets=_seconds(lambda: _streamed(redactor, SECRET)),
    )
    start = await interleaved(
        3, warm_up=0, cold=lambda: _start(bench.folder, fresh=True), cached=lambda: _start(bench.folder, fresh=False)
    )
    samples = max(3, bench.samples // 4)
    return [
        _speed("redaction of mixed text", SIZE / figures["mixed"], samples, Bound("≥ 20 MB/s", 20, "least")),
        _speed("redaction of mixed text without secrets", len(clean) / figures["clean"], samples),
        _speed("redaction of files as they lie on a disk", len(real.encode()) / figures["real"], samples),
        _speed("redaction of a log without secrets", SIZE / figures["plain"], samples),
        _speed(f"redaction of the slowest of {len(hostile)} hostile texts", HOSTILE_SIZE / figures["hostile"], samples),
        _micro("redaction of one line of a log", figures["line"] / LINES, samples),
        _micro("redaction of one line that talks of passwords", figures["talking"] / LINES, samples),
        _micro("one line through a stream", figures["stream"] / LINES, samples, Bound("5,000 lines/s", 200)),
        _micro("one line that talks of passwords through a stream", figures["talk"] / LINES, samples),
        _micro("one line with a secret through a stream", figures["secrets"] / LINES, samples),
        Line("first redaction in a fresh process, nothing compiled", figure=start["cold"], unit="s", samples=3),
        Line("first redaction in a fresh process, rules compiled before", figure=start["cached"], unit="s", samples=3),
    ]


def _without_secrets(redactor: Redactor, text: str) -> str:
    return MARKER.sub("-", redactor.redact(text).text)


def _speed(what: str, bytes_a_second: float, samples: int, bound: Bound | None = None) -> Line:
    return Line(what, figure=bytes_a_second / 1e6, unit="MB/s", bound=bound or Bound("", 0), samples=samples)


def _micro(what: str, seconds: float, samples: int, bound: Bound | None = None) -> Line:
    return Line(what, figure=milliseconds(seconds) * 1000, unit="µs", bound=bound or Bound("", 0), samples=samples)


def _seconds(work: Callable[[], object]) -> Measure:
    async def once() -> float:
        began = perf_counter()
        work()
        return perf_counter() - began

    return once


def _slowest(redactor: Redactor, texts: list[str]) -> Measure:
    async def once() -> float:
        return max([await _seconds(lambda text=text: redactor.redact(text))() for text in texts])

    return once


def _streamed(redactor: Redactor, line: str) -> None:
    stream = redactor.stream()
    for _ in range(LINES):
        stream.feed(line)
    stream.finish()


async def _start(folder: Path, *, fresh: bool) -> float:
    place = tempfile.mkdtemp(dir=folder) if fresh else str(folder / "compiled")
    began = perf_counter()
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", START, place)
    if await process.wait():
        raise RuntimeError("the process failed")
    return perf_counter() - began
