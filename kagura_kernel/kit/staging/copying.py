"""Copies what a plan lists into a directory, without its secrets, each file through one descriptor."""

from __future__ import annotations

import hashlib
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.kit import LeftOut, StagedFile, StagedPrompt, StagedSkill
from kagura_kernel.kit.staging.manifest import Manifest, ManifestFile, bounded
from kagura_kernel.kit.staging.naming import BAD_NAME, shown_name, without_secret
from kagura_kernel.kit.staging.planned import PlannedFile, PlannedPrompt, PlannedSkill
from kagura_kernel.kit.staging.prompt_files import MAX_BYTES as MAX_PROMPT_BYTES
from kagura_kernel.kit.staging.reading import Root, Unfit, open_root, why_unread
from kagura_kernel.kit.staging.skills import SKILL_FILE
from kagura_kernel.kit.staging.tree import MAX_FILE_BYTES
from kagura_kernel.kit.staging.writing import make_directory, write_file

if TYPE_CHECKING:
    from kagura_kernel.kit.redaction.redactor import RedactedFile, Redactor
    from kagura_kernel.kit.staging.plan import KitPlan

BYTE_ORDER_MARK = "\ufeff"
"""What stands before a text in some encodings and is no part of it."""

MAX_LEFT_OUT = 200
"""As many of what was left out are told one by one."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What came of a plan."""

    manifest: Manifest  # Of the directory
    # Name and redacted text of each prompt file that the agent itself asked for, in that order
    prompt_texts: tuple[tuple[str, str], ...] = field(repr=False)


def copy_plan(plan: KitPlan, into: Path, redactor: Redactor) -> Copied:
    """Everything of a plan that can be staged, in an empty directory; what cannot is told with its reason.

    Raises:
        OSError: something could not be written.
        RedactionUnavailable: secrets cannot be looked for.
    """
    with ExitStack() as stack:
        return _Copy(into, redactor, stack).all_of(plan)


class _Copy:
    def __init__(self, into: Path, redactor: Redactor, stack: ExitStack) -> None:
        self._into = into
        self._redactor = redactor
        self._stack = stack
        self._roots: dict[tuple[Path, str], Root] = {}
        self._files: list[ManifestFile] = []
        self._left_out: list[LeftOut] = []

    def all_of(self, plan: KitPlan) -> Copied:
        skills = [staged for skill in plan.skills if (staged := self._skill(skill)) is not None]
        prompts: list[StagedPrompt] = []
        texts: list[tuple[str, str]] = []
        for prompt in plan.prompt_files:
            if (read := self._prompt(prompt)) is not None:
                prompts.append(read[0])
                if prompt.own:
                    texts.append((prompt.name, read[1]))
        agents = [agent.name for agent in plan.agents if self._agent(agent.name, agent.target, agent.text)]
        hidden = [LeftOut(self._plain(one.target), one.reason) for one in plan.left_out]
        left_out, omitted = bounded((*hidden, *self._left_out), MAX_LEFT_OUT)
        manifest = Manifest(
            agent=plan.agent,
            definition=plan.definition,
            files=tuple(sorted(self._files, key=lambda file: file.staged.target)),
            skills=tuple(skills),
            prompt_files=tuple(prompts),
            agents=tuple(agents),
            left_out=left_out,
            omitted=omitted,
        )
        return Copied(manifest, tuple(texts))

    def _skill(self, skill: PlannedSkill) -> StagedSkill | None:
        written = without_secret(skill.written, self._plain)
        if written != skill.written or self._plain(skill.root) != skill.root:
            self._leave_out(f"skills/{shown_name(written)}", BAD_NAME)
            return None
        description = self._plain(skill.description)
        if skill.place == "workspace":
            return StagedSkill(skill.name, description, skill.root)
        before = len(self._files)
        # Without its SKILL.md a skill is none, so that comes first.
        for file in sorted(skill.files, key=lambda file: (file.origin.path != SKILL_FILE, file.target)):
            taken = self._file(file)
            if taken is None and file.origin.path == SKILL_FILE:
                del self._files[before:]
                return None
        files = sorted((file.staged for file in self._files[before:]), key=lambda file: file.target)
        return StagedSkill(skill.name, description, skill.root, tuple(files))

    def _prompt(self, prompt: PlannedPrompt) -> tuple[StagedPrompt, str] | None:
        redacted = self._read(prompt.file, MAX_PROMPT_BYTES)
        if redacted is None or redacted.data is None:
            return None
        if not redacted.encoding:
            self._leave_out(prompt.file.target, "it is no text")
            return None
        text = redacted.data.decode(redacted.encoding, "replace").removeprefix(BYTE_ORDER_MARK)
        if prompt.place == "kit":
            self._write(prompt.file.target, redacted, executable=False)
        staged = StagedPrompt(
            name=prompt.name,
            place=prompt.place,
            path=prompt.path,
            size=len(redacted.data),
            redactions=len(redacted.findings),
            kinds=redacted.kinds,
        )
        return staged, text

    def _agent(self, name: str, target: str, text: str) -> bool:
        redacted = self._redactor.redact_file(text.encode(), f"{name}.yaml")
        if redacted.data is None:
            self._leave_out(target, redacted.reason)
            return False
        self._write(target, redacted, executable=False)
        return True

    def _file(self, file: PlannedFile) -> ManifestFile | None:
        if self._plain(file.target) != file.target:
            self._leave_out(file.target, BAD_NAME)
            return None
        redacted = self._read(file, MAX_FILE_BYTES)
        if redacted is None or redacted.data is None:
            return None
        return self._write(file.target, redacted, executable=file.executable)

    def _read(self, file: PlannedFile, most: int) -> RedactedFile | None:
        """A file of the host without its secrets; None, and told, when it cannot be had."""
        try:
            data, _ = self._root(file).read(file.origin.path, most)
        except FileNotFoundError:
            self._leave_out(file.target, "it is gone since it was planned")
        except Unfit as error:
            self._leave_out(file.target, str(error))
        except OSError as error:
            self._leave_out(file.target, why_unread(error))
        else:
            redacted = self._redactor.redact_file(data, file.origin.path.rpartition("/")[2])
            if redacted.data is None:
                self._leave_out(file.target, redacted.reason)
            return redacted
        return None

    def _root(self, file: PlannedFile) -> Root:
        key = (file.origin.anchor, file.origin.root)
        if key not in self._roots:
            with open_root(file.origin.anchor) as anchor:
                self._roots[key] = self._stack.enter_context(anchor.below(file.origin.root))
        return self._roots[key]

    def _write(self, target: str, redacted: RedactedFile, *, executable: bool) -> ManifestFile:
        data = redacted.data or b""
        path = self._into / target
        make_directory(path.parent)
        write_file(path, data, executable=executable)
        staged = StagedFile(target, len(data), len(redacted.findings), redacted.kinds)
        written = ManifestFile(staged, hashlib.sha256(data).hexdigest(), redacted.encoding, executable)
        self._files.append(written)
        return written

    def _leave_out(self, target: str, why: str) -> None:
        self._left_out.append(LeftOut(self._plain(target), why))

    def _plain(self, text: str) -> str:
        return self._redactor.redact(text).text
