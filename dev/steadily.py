"""Run pytest, and once more what failed: `python dev/steadily.py ARGUMENT…`, the arguments of pytest.

A machine that does other things at the same time can make one test of thousands lose a race. What fails beside others
is run once more, by itself: if it fails again it has failed; if it passes it is named as unsteady, and is to be mended.
More than a few are no accident. A file that could not be read is another matter: nothing was tested then, and all of it
runs once more.

Exit code: that of pytest; 0 with a line that begins with "unsteady:" when the second run passed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FEW = 5
FAILED = 1
"""What pytest exits with when tests failed, and only then."""

_BOOK = "v/cache/lastfailed"
# pytest-xdist puts a test's group behind its name; a run without workers does not know it under that name.
_GROUP = re.compile(r"@[^\]@/]+$")


def main(arguments: list[str]) -> int:
    """Run pytest with `arguments`, and once more what failed of it."""
    # A cache of its own: two of these may run beside each other.
    with tempfile.TemporaryDirectory(prefix="steadily-") as cache:
        return _steadily([*arguments, "-o", f"cache_dir={cache}"], Path(cache) / _BOOK)


def _steadily(arguments: list[str], book: Path) -> int:
    code, failed = _run(arguments, book)
    if failed and any("::" not in name for name in failed):
        print("\n\033[1m-- all of it once more\033[0m: not everything could be read", flush=True)
        code, failed = _run(arguments, book)
    if not 0 < len(failed) <= FEW or any("::" not in name for name in failed):
        return code
    print("\n\033[1m-- once more, by themselves\033[0m", *failed, sep="\n  ", flush=True)
    code = _pytest([*failed, *arguments[-2:]])
    if code == 0:
        print("\nunsteady: failed beside others, passed by themselves:", *failed, sep="\n  ", flush=True)
    return code


def _run(arguments: list[str], book: Path) -> tuple[int, list[str]]:
    """Pytest's exit code, and what failed; nothing where it ended otherwise than by failing tests."""
    book.unlink(missing_ok=True)
    code = _pytest(arguments)
    return code, _failed(book) if code == FAILED else []


def _pytest(arguments: list[str]) -> int:
    return subprocess.run(  # noqa: S603 -- the caller's own arguments
        [sys.executable, "-m", "pytest", *arguments], check=False
    ).returncode


def _failed(book: Path) -> list[str]:
    """The names of what failed, as a run without workers knows them."""
    try:
        names = json.loads(book.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    return sorted({_GROUP.sub("", name) for name in names})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
