"""How much is tried: dear tests and long tables in full where their code has changed, and a fixed sample elsewhere.

What is tried again and again by chance (examples of a property, moments of a kill) has its full number only with
`make test-all`, which sets KAGURA_TEST_EVERYTHING; where the code has changed its chances are new ones. Whoever names
tests to pytest gets all of these: only `make test` sets KAGURA_TEST_SAMPLE, which leaves tests out.
"""

from __future__ import annotations

import os
import subprocess
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Dear:
    """Tests that start programs, boxes, daemons or pages, and the code whose promises they hold."""

    tests: tuple[str, ...]  # What their paths begin with
    sources: tuple[str, ...]  # Paths of that code; the tests themselves are known
    one_in: int = 3  # Of so many, one is the sample


_BOXES = ("kagura_kernel/sandbox/", "kagura_kernel/testing/conformance/", "images/")
_MEMORY = ("kagura_kernel/memory/", "kagura_kernel/testing/conformance/")
_CHATS = ("kagura_kernel/cockpit/transports/", "kagura_kernel/testing/conformance/")
_JUPYTER = ("kagura_kernel/jupyter/", "kagura_kernel/render/", "kagura_kernel/views/", "labextension/")

DEAR = (
    Dear(("tests/conformance/test_gvisor_", "tests/conformance/test_docker_"), _BOXES, one_in=4),
    Dear(
        ("tests/conformance/test_remapped_", "tests/conformance/test_scrubbed_", "tests/integration/sandbox/"), _BOXES
    ),
    Dear(("tests/conformance/test_memory_cloud", "tests/conformance/test_memory_postgres"), _MEMORY),
    Dear(("tests/integration/memory/",), _MEMORY),
    Dear(("tests/conformance/test_slack", "tests/conformance/test_discord", "tests/integration/serve/"), _CHATS),
    Dear(("tests/integration/membrane/", "tests/conformance/test_credential_"), ("kagura_kernel/membrane/",)),
    Dear(("tests/integration/journal/",), ("kagura_kernel/journal/",)),
    Dear(("tests/integration/plugins/", "tests/unit/plugins/"), ("kagura_kernel/plugins/", "plugins/")),
    Dear(("tests/integration/dispatch/",), ("kagura_kernel/patterns/", "kagura_kernel/assembly/")),
    Dear(("tests/integration/runs/",), ("kagura_kernel/runs/", "kagura_kernel/runtime/", "kagura_kernel/tools/")),
    Dear(("tests/integration/brain/",), ("kagura_kernel/brain/",)),
    Dear(("tests/integration/server/",), ("kagura_kernel/jupyter/server/",)),
    Dear(("tests/integration/jail/",), ("kagura_kernel/plugins/", "kagura_kernel/sandbox/")),
    Dear(("tests/unit/kit/",), ("kagura_kernel/kit/",)),
    Dear(("tests/unit/runs/test_installing",), ("kagura_kernel/runs/",)),
    Dear(("tests/unit/testing/", "tests/integration/extending/"), ("kagura_kernel/testing/", "tests/support/")),
    Dear(("tests/integration/jupyter/",), _JUPYTER),
    Dear(("tests/browser/",), _JUPYTER, one_in=2),
    Dear(("tests/integration/house/",), ("kagura_kernel/cockpit/", "kagura_kernel/assembly/")),
)
"""A sample of each runs in every check: what a change far away breaks is mostly broken in many of them."""


def left_out(test: str) -> bool:
    """Whether a test, named by its id, is not in the sample that is tried now."""
    if not SAMPLE or EVERYTHING:
        return False
    path = test.partition("::")[0]
    for dear in DEAR:
        if path.startswith(dear.tests):
            return zlib.crc32(test.encode()) % dear.one_in != 0 and not thorough(path, *dear.sources)
    return False


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def base() -> str:
    """The commit that the change at hand began from; empty where nobody can tell.

    On the main branch itself there is no merge base that says it: there the six hours before its newest commit are the
    change.
    """
    if named := os.environ.get(BASE):
        return named
    head = _git("rev-parse", "HEAD")
    for branch in ("origin/main", "main"):
        found = _git("merge-base", "HEAD", branch)
        if found and found != head:
            return found
    newest = _git("show", "--no-patch", "--format=%ct", "HEAD")
    return _git("rev-list", "-1", f"--before={int(newest) - 6 * 3600}", "HEAD") if newest else ""


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
    differing = changed()
    return EVERYTHING or differing is None or any(path.startswith(paths) for path in differing)


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
