"""Every check: `python dev/check.py [lint|all]`.

Static checks, and the making of images, run beside the tests. What a step printed is shown when it has ended, so that
nothing is mixed, and stays in out/check. Every step runs whatever becomes of the others: one run shows everything there
is to mend. The last line counts tests and minutes.

`lint` leaves the tests out. `all` tries corpora, properties and variants in full, and measures what the tests run
through.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"
LOGS = ROOT / "out" / "check"
COVERAGE = ROOT / "out" / "coverage"
CORES = os.cpu_count() or 2

_TOLD_EVERY = 30
_COUNTS = re.compile(r"(\d+) (passed|failed|skipped|error)")
_SUMMARY = re.compile(r"^(?:\x1b\[\d+m|=| )*\d+ (?:passed|failed|skipped|error|deselected).* in [\d.]+s")
_PERCENT = re.compile(r"\[ *(\d+)%\]")
_DOTS = re.compile(r"^(?:bringing up nodes\.*|[.sxX]+ *\[ *\d+%\])$")


@dataclass
class Step:
    """One program, what it is called, and its exit code once it has ended."""

    name: str
    command: Sequence[str]
    folder: Path = ROOT
    environ: Mapping[str, str] = field(default_factory=dict)
    code: int | None = None

    @property
    def log(self) -> Path:
        """Where its output is."""
        return LOGS / f"{self.name.replace(' ', '-')}.log"

    @property
    def output(self) -> list[str]:
        """What it has printed so far, by lines."""
        return self.log.read_text("utf-8", "replace").splitlines() if self.log.exists() else []

    def run(self) -> None:
        """To its end; what it printed and how long it took is shown then."""
        begun = time.monotonic()
        environ = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"} | self.environ
        with self.log.open("wb") as log:
            self.code = subprocess.run(  # noqa: S603 - our own steps
                self.command,
                cwd=self.folder,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=False,
            ).returncode
        ended = "" if self.code == 0 else f", exit code {self.code}"
        said = "\n".join(line for line in self.output if not _DOTS.match(line))
        show(f"\033[1m== {self.name}\033[0m ({time.monotonic() - begun:.0f} s{ended})\n{said}")

    @property
    def percent(self) -> str:
        """How far a run of pytest has come; empty before and after."""
        found = _PERCENT.findall("\n".join(self.output)) if self.code is None else []
        return f"{self.name} at {found[-1]} %" if found else ""

    @property
    def counts(self) -> Counter[str]:
        """How many tests passed, failed and were skipped, as a run of pytest says; a second look counts for itself."""
        found: Counter[str] = Counter()
        summaries = [line for line in self.output if _SUMMARY.match(line)]
        for number, word in _COUNTS.findall(summaries[0]) if summaries else ():
            found[word] += int(number)
        if self.code == 0:
            found["passed"] += found.pop("failed", 0) + found.pop("error", 0)
        return found


def show(text: str) -> None:
    """On the screen, whole, with a line between it and the next."""
    with _showing:
        print(text.rstrip(), end="\n\n", flush=True)


_showing = threading.Lock()


def static() -> list[Step]:
    """Format, lint, types and contracts, of Python and of the sidebar."""
    return [
        Step("format", ["ruff", "format", "--check", "."]),
        Step("lint", ["ruff", "check", "."]),
        Step("contracts", ["lint-imports", "--no-logo"]),
        _sidebar("format", "format:check"),
        _sidebar("types", "types"),
        Step("types", ["mypy"]),
    ]


def _sidebar(name: str, script: str) -> Step:
    return Step(f"sidebar {name}", ["npm", "run", "--silent", script], ROOT / "labextension")


def images() -> list[Step]:
    """What container tests run; building takes minutes the first time, more than a single test may."""
    return [Step("images", [sys.executable, "-m", "tests.support.docker_images"])] if os.geteuid() == 0 else []


def tests(*, everything: bool) -> list[Step]:
    """The browser's are a run of their own: its driver keeps a loop running in its thread."""
    environ = {}
    # Where the checks must be whole, a Docker daemon that does not start is a failure; elsewhere its tests are skipped.
    if os.environ.get("CI") == "true":
        environ["KAGURA_TEST_REQUIRE_DOCKER"] = "1"
    measuring = []
    if not everything:
        environ["KAGURA_TEST_SAMPLE"] = "1"
    if everything:
        # Programs that the tests start lie anywhere, so what they measure has a place that does not depend on it.
        environ |= {"KAGURA_TEST_EVERYTHING": "1", "COVERAGE_FILE": str(COVERAGE / "data")}
        measuring = ["--cov", "--cov-report="]
    pytest = [sys.executable, "dev/steadily.py"]
    # Both go on at once: a page keeps its core busy, the others wait for boxes and kernels part of the time.
    many = os.environ.get("WORKERS") or str(CORES)
    few = str(max(1, int(many) // 2))
    return [
        Step(
            "tests",
            [
                *pytest,
                "-n",
                many,
                "--dist=loadgroup",
                "--no-loadscope-reorder",
                *measuring,
                "--ignore=tests/browser",
                "tests",
            ],
            environ=environ,
        ),
        Step(
            "browser",
            [
                *pytest,
                "-n",
                few,
                "--dist=loadfile",
                *measuring,
                *(["--cov-append"] if everything else []),
                "tests/browser",
            ],
            environ=environ,
        ),
    ]


def coverage() -> list[Step]:
    """How much of the package the tests ran through, and the lines that they did not."""
    environ = {"COVERAGE_FILE": str(COVERAGE / "data")}
    return [
        Step("coverage combined", ["coverage", "combine", "--append", "--quiet"], environ=environ),
        Step("coverage", ["coverage", "report", "--show-missing", "--skip-covered"], environ=environ),
    ]


def in_turn(steps: Sequence[Step]) -> threading.Thread:
    """One after the other, in a thread of their own."""
    thread = threading.Thread(target=lambda: [step.run() for step in steps])
    thread.start()
    return thread


def main(arguments: Sequence[str]) -> int:
    """0 when every step was content."""
    begun = time.monotonic()
    for folder in (LOGS, COVERAGE):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    everything = "all" in arguments
    beside = static()
    tested: list[Step] = []
    made: list[Step] = []
    if "lint" not in arguments:
        usual = "Every check: about twenty minutes on two cores."
        show("Every check, in full: some hours." if everything else usual)
        tested = tests(everything=everything)
        made = images()
        beside += [_sidebar("tests", "test"), _sidebar("size", "size")]
    # What they have run through is added to one file, so that has to be done in turn.
    apart = [tested] if everything else [[step] for step in tested]
    threads = [in_turn(steps) for steps in (*apart, made, beside)]
    told = ""
    while any(thread.is_alive() for thread in threads):
        until = time.monotonic() + _TOLD_EVERY
        for thread in threads:
            thread.join(max(0, until - time.monotonic()))
        percents = ", ".join(filter(None, (step.percent for step in tested)))
        if percents not in ("", told):
            show(percents)
        told = percents
    steps = [*beside, *made, *tested]
    if everything:
        in_turn(measured := coverage()).join()
        steps += measured
    return verdict(steps, tested, time.monotonic() - begun)


def verdict(steps: Sequence[Step], tested: Sequence[Step], seconds: float) -> int:
    """Say what failed, and one line that counts."""
    failed = [step.name for step in steps if step.code != 0]
    if failed:
        print(f"failed: {', '.join(failed)}")
    counts = sum((step.counts for step in tested), Counter())
    passed, lost = counts["passed"], counts["failed"] + counts["error"]
    told = f"{passed} passed, {lost} failed, {counts['skipped']} skipped" if tested else "no test was run"
    print(f"{told}; {len(steps) - len(failed)} of {len(steps)} steps were content; {seconds / 60:.1f} minutes")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
