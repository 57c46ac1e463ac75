"""The commits of one run, out of its box: git in the box makes a bundle of them, and the host takes that as data."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import replace

from kagura_kernel.domain.commands import Command, CommandResult
from kagura_kernel.domain.commits import AGENT_ADDRESS, AGENT_NAME, CommittedBranch
from kagura_kernel.domain.errors import BoxFileError, JournalUnwritable, SandboxCommandTimeout, SandboxIdleTimeout
from kagura_kernel.domain.events import CommitsTold, Noted
from kagura_kernel.domain.policy import CommandLimits, WriteMode
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.commits import MAX_BRANCHES, MAX_BUNDLE, told_commits
from kagura_kernel.membrane.credentials.scrub import Scrubber
from kagura_kernel.membrane.git import GitFailed, Repository, repository_of
from kagura_kernel.runs.git_places import environment_of_git
from kagura_kernel.runs.order import RunOrder
from kagura_kernel.runs.recorder import Recorder
from kagura_kernel.sandbox.backend import Box

_LIMITS = CommandLimits(60.0, None)
_HEADS = """
[ -d .git ] || exit 0
git for-each-ref --format='%(objectname) %(refname)' refs/heads
git symbolic-ref -q HEAD >/dev/null || echo "$(git rev-parse -q --verify HEAD) HEAD"
"""
# What the host changes in its own repository meanwhile must not show through: names of branches, and the index, are
# the box's from here on. There is no key to sign with.
_BEGIN = f"""
[ -d .git ] || exit 0
find .git -maxdepth 1 -type f -exec touch -c {{}} + && find .git/refs -type f -exec touch -c {{}} +
git config user.name '{AGENT_NAME}' && git config user.email '{AGENT_ADDRESS}' && git config commit.gpgsign false
{_HEADS}
"""
_BUNDLE = """
file=$(mktemp -d -p "$HOME")/commits && git bundle create -q "$file" --ignore-missing --stdin >&2 && echo "$file"
"""
_PLACE = re.compile(r"(/[\w./-]+)\n", re.ASCII)
_HEAD = re.compile(r"([0-9a-f]{40,64}) (HEAD|refs/heads/.{1,250})")
_NOTHING_NEW = "empty bundle"


class RunCommits:
    """Brings one run's commits out of its box."""

    def __init__(self, order: RunOrder, blobs: BlobStore, recorder: Recorder, scrubber: Scrubber | None) -> None:
        self._is_on = ".git" in order.spec.policy.own_subpaths
        self._order, self._blobs, self._recorder, self._scrubber = order, blobs, recorder, scrubber
        self._before: Mapping[str, str] = {}

    async def begin(self, box: Box, *, goes_on: bool) -> None:
        """Note which branches the box has, and say who commits there, unless a run before in it has been told."""
        if self._is_on:
            self._before = _heads(await self._said(box, _HEADS if goes_on else _BEGIN))

    async def settle(self, box: Box, mode: WriteMode) -> None:
        """Bring out and tell what was committed since.

        Raises:
            JournalError: it could not be stored.
            SandboxUnavailable: the box is gone.
        """
        if not self._is_on:
            return
        heads = _heads(await self._said(box, _HEADS))
        wanted = [ref for ref, commit in heads.items() if self._before.get(ref) != commit][:MAX_BRANCHES]
        if not wanted:
            return
        try:
            branches = await self._brought(box, wanted)
        except (GitFailed, BoxFileError, JournalUnwritable) as error:
            why = f"The commits that were made in the box could not be brought out: {error}"
            self._recorder.record(Noted, text=f"{why}. Their files are among the changes.")
            return
        if mode is WriteMode.NONE:
            branches = [replace(one, state="discarded") for one in branches]
        for one in branches:
            self._recorder.record(CommitsTold, branches=(one,))

    async def _brought(self, box: Box, wanted: list[str]) -> list[CommittedBranch]:
        environment = environment_of_git(os.environ, self._order.project)
        repository = await asyncio.to_thread(repository_of, self._order.project, environment)
        if repository is None:
            raise GitFailed("the project has no repository of its own that git on this machine reads")
        tips = await asyncio.to_thread(repository.tips)
        asked = "\n".join([*wanted, *(f"^{tip}" for tip in tips), ""])
        made = await self._ran(box, _BUNDLE, os.fsencode(asked))
        if made is None or not made.ok:
            said = made.stderr.text.strip().rpartition("\n")[2] if made is not None else "it took too long"
            if _NOTHING_NEW in said:
                return []
            raise GitFailed(said)
        if (place := _PLACE.fullmatch(made.stdout.text)) is None:
            raise GitFailed("the box does not say where they are")
        bundle = await box.files.read(place[1], limit=MAX_BUNDLE + 1)
        await self._ran(box, f"rm -r {place[1].rpartition('/')[0]}")
        if len(bundle) > MAX_BUNDLE:
            raise GitFailed(f"they are more than {MAX_BUNDLE // 2**20} MiB")
        return await asyncio.to_thread(self._read, bundle, wanted, repository)

    def _read(self, bundle: bytes, wanted: list[str], repository: Repository) -> list[CommittedBranch]:
        names = {"" if ref == "HEAD" else ref.removeprefix("refs/heads/") for ref in wanted}
        packages = self._order.git.packages if self._order.git is not None else frozenset()
        return told_commits(bundle, names, repository, self._blobs, self._scrubber, packages.__contains__)

    async def _said(self, box: Box, line: str) -> str:
        result = await self._ran(box, line)
        if result is None or not result.ok or result.stdout.truncated:
            return ""
        return os.fsdecode(result.stdout.data)

    async def _ran(self, box: Box, line: str, stdin: bytes = b"") -> CommandResult | None:
        """What a line in the box comes to; None where it took too long."""
        try:
            return await box.run(Command(("sh", "-c", line), stdin=stdin, limits=_LIMITS))
        except (SandboxCommandTimeout, SandboxIdleTimeout):
            return None


def _heads(told: str) -> dict[str, str]:
    found = (_HEAD.fullmatch(line) for line in told.splitlines())
    return {one[2]: one[1] for one in found if one is not None}
