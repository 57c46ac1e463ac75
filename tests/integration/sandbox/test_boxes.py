"""All back-ends of a process: which are made, and which boxes wait behind one."""

from __future__ import annotations

from pathlib import Path

import pytest

from kagura_kernel.assembly.boxes import Boxes
from kagura_kernel.domain.errors import UnknownName
from kagura_kernel.domain.settings import Settings
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.pool import WarmPool
from tests.support.kernel import kernel_environ


def boxes_of(folder: Path, *, one_run: bool) -> Boxes:
    return Boxes(kernel_environ(folder / "home"), Settings(), "me", one_run=one_run)


@pytest.mark.parametrize(("one_run", "waiting", "others"), [(True, 0, set()), (False, 1, {"docker"})])
async def test_a_process_for_one_run_makes_what_that_needs(tmp_path, one_run, waiting, others):
    boxes = boxes_of(tmp_path, one_run=one_run)
    started = await boxes.start("bubblewrap", BoxSpec(workspace=tmp_path))
    assert started.reason == "asked for; a bubblewrap box started and ran a command"
    made = boxes._backends.made
    assert set(made) == {"bubblewrap"} | others
    pool = made["bubblewrap"]
    assert isinstance(pool, WarmPool)
    await pool.settled()
    assert pool.waiting == waiting
    await boxes.close()


async def test_a_name_that_is_none_makes_nothing(tmp_path):
    boxes = boxes_of(tmp_path, one_run=True)
    with pytest.raises(UnknownName):
        await boxes.start("shed", BoxSpec())
    assert boxes._backends.made == {}
    await boxes.close()
