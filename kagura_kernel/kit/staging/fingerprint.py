"""Whether a plan would give what it gave before: one value over all that a kit depends on."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.kit import redaction
from kagura_kernel.kit.staging.planned import PlannedFile

if TYPE_CHECKING:
    from kagura_kernel.kit.staging.plan import KitPlan

_LAYOUT = 1
"""Of kits and of what is kept beside them; another number makes every kit anew."""

# File systems count time in ticks: what was written within one of them looks the same as what was there before.
_TICK = 50_000_000


def fingerprint(plan: KitPlan) -> str:
    """SHA-256 over the plan, the state of each file of it, and the rules of redaction."""
    whole = {
        "layout": _LAYOUT,
        "redaction": redaction_version(),
        "agent": [plan.agent, plan.definition],
        "skills": [
            [one.name, one.written, one.description, one.place, one.root, _states(one.files)] for one in plan.skills
        ],
        "prompts": [[one.name, one.place, one.path, one.own, _states((one.file,))] for one in plan.prompt_files],
        "agents": [[one.name, one.text] for one in plan.agents],
        "left_out": [[one.target, one.reason] for one in plan.left_out],
    }
    return hashlib.sha256(json.dumps(whole, ensure_ascii=True).encode()).hexdigest()


def is_settled(plan: KitPlan, began: int) -> bool:
    """Whether every file was last changed so long before that a later change cannot look the same.

    Args:
        plan: What was staged.
        began: When staging began, nanoseconds since 1970.
    """
    files = (*plan.staged, *(prompt.file for prompt in plan.prompt_files))
    return all(max(file.stamp.modified, file.stamp.changed) < began - _TICK for file in files)


@cache
def redaction_version() -> str:
    """What is known of secrets here: the scanner's version and the state of our own rules."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        scanner = version("kingfisher-secret-scanner")
    except PackageNotFoundError:
        scanner = ""
    rules = Path(redaction.__file__ or "").parent
    found = sorted(
        (path.relative_to(rules).as_posix(), path.stat().st_size, path.stat().st_mtime_ns)
        for path in rules.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    return hashlib.sha256(json.dumps([scanner, found]).encode()).hexdigest()


def _states(files: tuple[PlannedFile, ...]) -> list[list[object]]:
    return [[file.target, file.executable, *file.stamp.values()] for file in files]
