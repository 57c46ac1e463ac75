"""How much is tried: `make test` tries a fixed sample of dear tests and long tables, the same on every machine.

Whoever names tests to pytest gets all of them, and long tables in full where their code has changed. What is tried
again and again by chance (examples of a property, moments of a kill) has its full number only with `make test-all`,
which sets KAGURA_TEST_EVERYTHING; where the code has changed its chances are new ones. Only `make test` sets
KAGURA_TEST_SAMPLE, which leaves tests out.
"""

from __future__ import annotations

import os
import subprocess
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings

ROOT = Path(__file__).resolve().parents[2]
BASE = "KAGURA_TEST_BASE"
"""Names the commit that the change began from, where the merge base is not it."""

PARTS = 3
"""How many names the path of a test file has at least, when one of them is a room's: tests, the kind, the room."""

EVERYTHING = bool(os.environ.get("KAGURA_TEST_EVERYTHING"))

SAMPLE = bool(os.environ.get("KAGURA_TEST_SAMPLE"))

T = TypeVar("T")


DEAR = {
    3: (
        "tests/browser/",
        "tests/conformance/test_credential_",
        "tests/conformance/test_discord",
        "tests/conformance/test_memory_cloud",
        "tests/conformance/test_memory_postgres",
        "tests/conformance/test_remapped_",
        "tests/conformance/test_scrubbed_",
        "tests/conformance/test_slack",
    ),
    4: (
        "tests/conformance/test_docker_",
        "tests/conformance/test_gvisor_",
        "tests/conformance/test_kubernetes_",
        "tests/conformance/test_ssh_",
        "tests/integration/",
    ),
}
"""Beginnings of paths of tests that start programs, boxes, daemons or pages: of so many, one is the sample.

What a change far away breaks is mostly broken in many of them.
"""


def left_out(tests: Iterable[str]) -> set[str]:
    """Those of these tests, named by their ids, that are not in the sample: of each dear file one at least is in it."""
    if not SAMPLE or EVERYTHING:
        return set()
    dear: dict[str, list[str]] = defaultdict(list)
    for test in tests:
        dear[test.partition("::")[0]].append(test)
    out: set[str] = set()
    for path, those in dear.items():
        if one_in := next((one_in for one_in, paths in DEAR.items() if path.startswith(paths)), 0):
            by_chance = {test: zlib.crc32(test.encode()) for test in those}
            first = min(those, key=by_chance.__getitem__)
            out |= {test for test in those if by_chance[test] % one_in}
            if out.issuperset(those):
                out.remove(first)
    return out


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def base() -> str:
    """The commit that the change at hand began from; empty where nobody can tell.

    On the main branch itself that is its newest commit: what came there was tried in full on its own branch, and only
    what is not committed yet is the change.
    """
    if named := os.environ.get(BASE):
        return named
    for branch in ("origin/main", "main"):
        if found := _git("merge-base", "HEAD", branch):
            return found
    return ""


@cache
def changed() -> tuple[str, ...] | None:
    """Paths that differ from the base, uncommitted and new ones too; None where nobody can tell."""
    begun = base()
    if not begun:
        return None
    # A base that is not there must not look as if nothing had changed.
    if not _git("rev-parse", "--verify", f"{begun}^{{commit}}"):
        return None
    told = _git("diff", "--name-only", begun), _git("ls-files", "--others", "--exclude-standard")
    return tuple(path for text in told for path in text.splitlines())


def thorough(*paths: str) -> bool:
    """Whether what lies at these paths of the repository is to be tried in full."""
    if EVERYTHING or SAMPLE:
        return EVERYTHING
    differing = changed()
    return differing is None or any(path.startswith(paths) for path in differing)


def sources_of(test: Path) -> tuple[str, ...]:
    """Paths of what a test file is about: itself, and the folder of the package that its own is named for."""
    path = test.relative_to(ROOT)
    room = path.parts[2] if len(path.parts) > PARTS else ""
    return (str(path), *((f"kagura_kernel/{room}/",) if room else ()))


def sample(cases: Sequence[T], most: int, *paths: str) -> list[T]:
    """All cases where `paths` have changed, otherwise `most` of them, spread evenly and the same each time."""
    if thorough(*paths) or len(cases) <= most:
        return list(cases)
    return [cases[number * len(cases) // most] for number in range(most)]


def examples(few: int, many: int, *paths: str, **others: Any) -> settings:
    """For a property: `few` examples, new ones where `paths` have changed; `many` where everything is asked for."""
    return settings(max_examples=many if EVERYTHING else few, derandomize=not thorough(*paths), **others)
