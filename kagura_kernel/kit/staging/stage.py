"""Stages a plan: copies, redacts, and swaps the finished kit in."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors import KitRefused
from kagura_kernel.kit.staging.copying import copy_plan
from kagura_kernel.kit.staging.fingerprint import fingerprint, is_settled
from kagura_kernel.kit.staging.holding import Hold
from kagura_kernel.kit.staging.manifest import MANIFEST
from kagura_kernel.kit.staging.plan import KitPlan
from kagura_kernel.kit.staging.reaping import reap, reap_forgotten
from kagura_kernel.kit.staging.state import Built, State, boot, forget_state, read_state, write_state
from kagura_kernel.kit.staging.versions import Shelf
from kagura_kernel.kit.staging.writing import settle_tree, told_as_unwritable, write_file

if TYPE_CHECKING:
    from kagura_kernel.kit.redaction.redactor import Redactor


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit(Built):
    """A kit that is staged, and held: while it is, nobody takes its directory away. A context manager.

    Attributes:
        directory: The version that was staged, on the host; never changed once it is there. What a box mounts.
        link: The path that stays the same for the agent and the project, and leads to the newest version.
        digest: SHA-256 over everything staged; empty for an empty kit.
        unchanged: Whether an earlier build could be used as it was.
        release: Lets go of the directory.
    """

    directory: Path
    link: Path
    unchanged: bool
    release: Callable[[], None] = field(repr=False, compare=False, default=lambda: None)

    def close(self) -> None:
        """Let go of the directory; may be called twice."""
        self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def build_kit(plan: KitPlan, root: Path, redactor: Redactor, *, clock: Clock | None = None) -> Kit:
    """The kit of a plan, staged below `root`; the caller closes it. Blocks; any number may build at once.

    Args:
        plan: What to stage.
        root: The folder of kits, `<data home>/kits`; made as 0700.
        redactor: Takes the secrets out; not asked when an earlier build can be used as it is.
        clock: Says how old versions are that nobody needs any more.

    Raises:
        KitRefused: The plan has problems.
        KitUnwritable: There is no room, or somebody else may write there.
        RedactionUnavailable: Secrets cannot be looked for, so nothing may be staged.
    """
    if plan.problems:
        raise KitRefused(plan.agent, plan.problems)
    clock = clock or SystemClock()
    # A box is shown a directory by a path without links; the person's own home may be behind one.
    shelf = Shelf(root.parent.resolve() / root.name, plan.key)
    with told_as_unwritable(root):
        shelf.prepare()
        mark = fingerprint(plan)
        kit = _as_before(shelf, mark, clock) or _anew(plan, shelf, mark, redactor, clock)
        reap(shelf, clock.now())
    return kit


def _as_before(shelf: Shelf, mark: str, clock: Clock) -> Kit | None:
    """The kit of an earlier build of the very same plan, if it is still there as it was."""
    state = read_state(shelf.folder)
    if state is None or state.fingerprint != mark:
        return None
    held = shelf.take(state.digest, clock.now(), thorough=state.boot != boot())
    if held is None:
        return None
    if state.boot != boot():
        with shelf.turn():
            write_state(shelf.folder, replace(state, boot=boot()))
    return _kit(shelf, state, held, clock, unchanged=True)


def _anew(plan: KitPlan, shelf: Shelf, mark: str, redactor: Redactor, clock: Clock) -> Kit:
    began = time.time_ns()
    with shelf.making() as making:
        copied = copy_plan(plan, making, redactor)
        manifest = copied.manifest
        write_file(making / MANIFEST, manifest.encoded())
        settle_tree(making)
        held, unchanged = shelf.publish(making, manifest.digest, clock.now())
    state = State(
        fingerprint=mark,
        boot=boot(),
        digest=manifest.digest,
        empty=not manifest.files,
        skills=manifest.skills,
        prompt_files=manifest.prompt_files,
        agents=manifest.agents,
        left_out=manifest.left_out,
        omitted=manifest.omitted,
        prompt_texts=copied.prompt_texts,
    )
    try:
        # In turn, so that nobody takes for left over what is being written.
        with shelf.turn():
            if is_settled(plan, began):
                write_state(shelf.folder, state)
            else:
                forget_state(shelf.folder)
    except BaseException:
        held.let_go()
        raise
    reap_forgotten(shelf.root, clock.now(), but=plan.key)
    return _kit(shelf, state, held, clock, unchanged=unchanged)


def _kit(shelf: Shelf, state: State, held: Hold, clock: Clock, *, unchanged: bool) -> Kit:
    built = {one.name: getattr(state, one.name) for one in fields(Built)}
    return Kit(
        **built | {"digest": "" if state.empty else state.digest},
        directory=shelf.version(state.digest),
        link=shelf.link,
        unchanged=unchanged,
        release=partial(_release, shelf, state.digest, held, clock),
    )


def _release(shelf: Shelf, digest: str, held: Hold, clock: Clock) -> None:
    # Where the note cannot be made, the version only counts as unused for longer than it was.
    with contextlib.suppress(OSError):
        if held.locked:
            shelf.touch(digest, clock.now())
    held.let_go()
