"""Two texts that were made from a third one, made into one: by git, which reads no settings and no repository here."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from kagura_kernel.domain.errors import NotThisTime

_SECONDS = 20.0
_MOST_OVERLAPS = 127
"""What git answers with at most, where it answers with how many parts overlap."""


def can_merge() -> bool:
    """Whether git is there."""
    return shutil.which("git") is not None


def merged(base: bytes, ours: bytes, theirs: bytes) -> tuple[bytes, bool]:
    """Both changes in one text, and whether they overlap: there both stand, between markers of conflict.

    Raises:
        NotThisTime: git is not there, or cannot do it.
    """
    program = shutil.which("git")
    if program is None:
        raise NotThisTime("Two changes of one file are merged by git, which is not installed.")
    with tempfile.TemporaryDirectory(prefix="kagura-merge-") as name:
        folder = Path(name)
        texts = {"ours": ours, "base": base, "theirs": theirs}
        for one, text in texts.items():
            (folder / one).write_bytes(text)
        labels = [word for label in ("the project", "before", "the run") for word in ("-L", label)]
        # Nothing of this machine's settings, nor of a repository above the folder, says how it is done.
        nowhere = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CEILING_DIRECTORIES": str(folder)}
        surroundings = {"PATH": os.defpath, "HOME": name, "LC_ALL": "C", **nowhere}
        try:
            done = subprocess.run(  # noqa: S603 - git with files of ours
                [program, "merge-file", "-p", "-q", *labels, *texts],
                cwd=folder,
                env=surroundings,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise NotThisTime("git could not merge the two changes; take one of them.") from error
    if not 0 <= done.returncode <= _MOST_OVERLAPS:
        raise NotThisTime("git could not merge the two changes; take one of them.")
    return done.stdout, done.returncode > 0
