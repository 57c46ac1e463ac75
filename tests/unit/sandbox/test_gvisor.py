"""Which way a gVisor box takes: through Docker where that works, else runsc alone, else a readable no."""

from pathlib import Path

import pytest

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.sandbox import gvisor
from kagura_kernel.sandbox.backend import BoxSpec, Probe
from kagura_kernel.sandbox.gvisor import GVisorBackend, RunscBackend, Way
from tests.support.backends import IdleBackend

WORKS = Probe(ok=True, reason="it works")
NO_DAEMON = Probe(ok=False, reason="no daemon answers", install="Install Docker.")
NO_RUNSC = Probe(ok=False, reason="runsc is not installed", install="Install runsc.")


def ways(docker: Probe = WORKS, alone: Probe = WORKS) -> tuple[GVisorBackend, IdleBackend, IdleBackend]:
    through, by_itself = IdleBackend("through", probe=docker), IdleBackend("alone", probe=alone)
    return GVisorBackend(through, by_itself), through, by_itself


async def test_docker_comes_first_because_it_has_images():
    backend, through, alone = ways()
    box = await backend.start(BoxSpec(image="some"))
    assert (box.backend, through.probed, alone.probed) == ("through", ["some"], [])


async def test_alone_it_says_why_not_through_docker():
    backend, through, alone = ways(docker=NO_DAEMON)
    probe = await backend.probe()
    assert (probe.ok, probe.reason) == (True, "it works (not through Docker: no daemon answers)")
    assert (await backend.start(BoxSpec())).backend == "alone"
    assert (len(through.probed), len(alone.probed)) == (1, 1)


async def test_where_neither_works_both_reasons_and_both_cures_are_told():
    backend, through, alone = ways(NO_DAEMON, NO_RUNSC)
    probe = await backend.probe()
    assert probe.reason == "runsc is not installed; through Docker: no daemon answers"
    assert probe.install == "Install runsc. Or through Docker: Install Docker."
    with pytest.raises(SandboxUnavailable, match="runsc is not installed"):
        await backend.start(BoxSpec())
    with pytest.raises(SandboxUnavailable, match="no daemon answers"):
        await backend.park(BoxSpec())
    assert through.started + alone.started == 0


async def test_a_way_that_has_gone_is_not_taken_after_the_next_look():
    backend, through, alone = ways()
    await backend.start(BoxSpec())
    through.answer = NO_DAEMON
    await backend.probe()
    await backend.start(BoxSpec())
    assert (through.started, alone.started) == (1, 1)


async def test_further_directories_of_the_host_go_either_way(tmp_path: Path):
    spec = BoxSpec(extra_read_only=((tmp_path, "/opt/kit"),))
    for docker, expected in ((WORKS, (1, 0)), (NO_DAEMON, (0, 1))):
        backend, through, alone = ways(docker)
        await backend.start(spec)
        assert (through.started, alone.started) == expected


async def test_a_parked_box_waits_on_the_way_that_works():
    backend, through, alone = ways(docker=NO_DAEMON)
    assert (await (await backend.park(BoxSpec())).take(BoxSpec())).warm
    assert (through.parked, len(alone.parked)) == ([], 1)


async def test_closing_closes_both():
    backend, through, alone = ways()
    await backend.close()
    assert through.closed
    assert alone.closed


async def test_a_runsc_of_the_project_is_never_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    planted = tmp_path / "project" / ".venv" / "bin" / "runsc"
    planted.parent.mkdir(parents=True)
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o755)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(gvisor, "_PROGRAMS", ())
    monkeypatch.setenv("PATH", f"{planted.parent}:{tmp_path}/elsewhere")
    # The kernel's own directory says nothing about which project a box is for.
    monkeypatch.chdir(tmp_path / "elsewhere")
    backend = RunscBackend(way=Way("systrap"))
    spec = BoxSpec(workspace=tmp_path / "project")
    with pytest.raises(SandboxUnavailable, match="not installed"):
        await backend.start(spec)
    (tmp_path / "elsewhere" / "runsc").symlink_to(planted)
    with pytest.raises(SandboxUnavailable, match="lies in the project"):
        await backend.start(spec)
    await backend.close()
