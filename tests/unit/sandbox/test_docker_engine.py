"""What is read from a daemon's account of itself."""

from typing import Any

import pytest

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.sandbox.docker.backend import told_by
from kagura_kernel.sandbox.docker.engine import daemon_from
from kagura_kernel.sandbox.docker.flags import TOO_OLD

PLAIN = {"ServerVersion": "20.10.24", "NCPU": 2, "KernelVersion": "6.1.0", "SecurityOptions": ["name=seccomp"]}


def told(**more: Any) -> dict[str, Any]:
    return PLAIN | more


def test_a_plain_daemon_has_neither_gvisor_nor_user_namespaces():
    daemon = daemon_from(told(Runtimes={"runc": {"path": "runc"}}), "1.41")
    assert (daemon.version, daemon.api, daemon.cpus, daemon.kernel) == ("20.10.24", "1.41", 2, "6.1.0")
    assert daemon.gvisor == ""
    assert not daemon.remapped


@pytest.mark.parametrize("how", [{"path": "/usr/bin/runsc"}, {"runtimeType": "io.containerd.runsc.v1"}])
def test_gvisor_is_known_by_what_it_runs_whatever_it_is_called(how: dict[str, str]):
    runtimes = {"runc": {"path": "runc"}, "strong": how}
    assert daemon_from(told(Runtimes=runtimes), "1.41").gvisor == "strong"


def test_a_runtime_that_only_bears_the_name_is_none():
    assert daemon_from(told(Runtimes={"runsc": {"path": "/usr/bin/runc"}}), "1.41").gvisor == ""


@pytest.mark.parametrize("options", [["name=userns"], ["name=seccomp,profile=default", "name=rootless"]])
def test_user_namespaces_and_rootless_daemons_are_found(options: list[str]):
    assert daemon_from(told(SecurityOptions=options), "1.41").remapped


@pytest.mark.parametrize(
    ("answer", "why"), [("6.1.0\nSeccomp:\t2\n", "own kernel"), ("4.4.0\nSeccomp:\t0\n", "--oci-seccomp")]
)
def test_a_box_on_the_machines_own_kernel_or_without_filters_is_not_gvisors(answer: str, why: str):
    with pytest.raises(SandboxUnavailable, match=why):
        told_by(answer, "6.1.0")


def test_a_kernel_of_its_own_and_a_filter_are_gvisors_and_a_release_that_fails_for_plain_programs_is_told():
    assert told_by("4.4.0\nSeccomp:\t2\n", "6.1.0") == ()
    assert told_by("4.4.0\nSeccomp:\t2\nfails\n", "6.1.0") == (TOO_OLD,)
