"""What a person at a shell waits for: help, the doctor, and a whole run of one command, from process to process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter

from kagura_kernel.brain.cassette import Called, CassetteHeader, entry_line, header_line
from kagura_kernel.brain.provider import BrainDone
from kagura_kernel.domain.tools import ToolCall
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from tests.bench.harness import Bench, Bound, Line, Measure, Missing, interleaved, milliseconds
from tests.bench.places import project

PROGRAM = Path(sys.executable).with_name("kagura-kernel")


async def commands_of_a_shell(bench: Bench) -> list[Line]:
    """Each from a fresh process to its end, beside a Python that does nothing."""
    backend = BubblewrapBackend()
    probe = await backend.probe()
    await backend.close()
    workspace = project(bench, "shelled")
    cassette = _cassette(bench.folder / "one-call.jsonl")
    home = bench.folder / "shell-home"
    home.mkdir(mode=0o700)
    environ = {**os.environ, "KAGURA_HOME": str(home), "KAGURA_CONFIG": str(home / "none.toml")}
    words = {
        "help": ["--help"],
        "doctor": ["doctor"],
        "run": ["run", "--replay", str(cassette), "--box", "bubblewrap", "--write", "none", "Go."],
    }
    if not probe.ok:
        del words["run"]
    sides = {name: _finished([str(PROGRAM), *said], workspace, environ) for name, said in words.items()}
    samples = max(3, bench.samples // 4)
    python = _finished([sys.executable, "-c", "pass"], workspace, environ)
    figures = await interleaved(samples, python=python, **sides)
    bounds = {
        "help": ("`kagura-kernel --help`", 200),
        "doctor": ("`kagura-kernel doctor`", 2000),
        "run": ("`kagura-kernel run --replay` of one command in bubblewrap", 500),
    }
    lines = []
    for name, (what, most) in bounds.items():
        bound = Bound(f"≤ {most} ms", most)
        if name in figures:
            lines.append(Line(what, figure=milliseconds(figures[name]), bound=bound, samples=samples))
        else:
            lines.append(Line(what, bound=bound, missing=probe.reason))
    return lines


def _cassette(path: Path) -> Path:
    call = Called((ToolCall("call-1", "bash", {"command": "true"}),))
    lines = [header_line(CassetteHeader(task="bench")), entry_line(call), entry_line(BrainDone(text="done"))]
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def _finished(words: list[str], folder: Path, environ: dict[str, str]) -> Measure:
    async def once() -> float:
        began = perf_counter()
        ran = await asyncio.to_thread(
            subprocess.run, words, cwd=folder, env=environ, capture_output=True, check=False, stdin=subprocess.DEVNULL
        )
        took = perf_counter() - began
        # 4 is the doctor's word for a machine on which something failed.
        if ran.returncode not in (0, 4):
            raise Missing(f"{' '.join(words[1:3])} ended with {ran.returncode}: {ran.stderr[-200:].decode()}")
        return took

    return once
