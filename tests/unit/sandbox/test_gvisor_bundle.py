"""What a gVisor box without Docker is made of, as its keeper and runsc are told."""

from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.domain.policy import BoxLimits, SandboxPolicy, SandboxPolicyType
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.gvisor import guest_config_for, job_for, notes_for
from kagura_kernel.sandbox.python_view import PythonView
from kagura_kernel.sandbox.supervisor.arguments import NO_LAYER

VIEW = PythonView(
    python="/opt/env/bin/python",
    directories=("/opt/env", "/tmp/other"),
    links=(("/srv/python", "/opt/env/bin/python"),),
    hidden=("/usr",),
)
RUNSC = ["/usr/bin/runsc", "--network=none"]


def job(**spec: Any) -> dict[str, Any]:
    return job_for(BoxSpec(**spec), VIEW, RUNSC)


def mount(made: dict[str, Any], place: str) -> dict[str, Any]:
    (found,) = (entry for entry in made["bundle"]["mounts"] if entry["destination"] == place)
    return dict(found)


def test_the_first_process_is_nobody_without_any_power():
    process = job()["bundle"]["process"]
    assert process["user"] == {"uid": 1000, "gid": 1000}
    assert process["capabilities"] == {}
    assert process["noNewPrivileges"] is True
    assert process["env"] == []
    assert process["args"][0] == VIEW.python


def test_the_root_is_read_only_and_without_network():
    bundle = job()["bundle"]
    assert bundle["root"]["readonly"] is True
    assert {"type": "network"} in bundle["linux"]["namespaces"]
    assert bundle["linux"]["seccomp"]["defaultAction"] == "SCMP_ACT_ERRNO"


def test_nothing_of_the_project_is_shown(tmp_path: Path):
    assert str(tmp_path) not in str(job(workspace=tmp_path))


def test_a_box_sees_the_systems_programs_and_its_python():
    steps = job()["steps"]
    assert ("show", "/usr", "/usr") in steps
    assert ("show", "/opt/env", "/opt/env") in steps
    assert ("link", "/opt/env/bin/python", "/srv/python") in steps
    assert ("link", "/opt/env/bin/python", "/run/kagura/bin/python3") in steps


def test_further_directories_are_shown_last():
    steps = job(extra_read_only=((Path("/data/kit"), "/kagura/kit"),))["steps"]
    assert steps[-1] == ("further", "/data/kit", "/kagura/kit")


def test_what_is_private_is_covered():
    covered = [source for action, source, target in job()["steps"] if (action, target) == ("show", "/usr")]
    assert covered[0] == "/usr"
    assert covered[1].endswith("/hollow")


def test_an_environment_below_a_place_of_the_boxs_own_is_shown_on_top_of_it():
    made = job()
    assert not [step for step in made["steps"] if step[2] == "/tmp/other"]
    assert mount(made, "/tmp/other")["options"] == ["ro", "rbind"]


def test_everything_that_can_be_written_has_a_size():
    limits = BoxLimits(workspace_bytes=8 * 2**20, scratch_bytes=4 * 2**20)
    made = job(limits=limits)
    for place in ("/workspace", "/home/agent", "/tmp", "/dev/shm"):
        sizes = [int(option[5:]) for option in mount(made, place)["options"] if option.startswith("size=")]
        assert len(sizes) == 1, place
        assert 0 < sizes[0] <= 8 * 2**20, place


def test_a_read_only_workspace_belongs_to_root_who_is_nobody():
    policy = SandboxPolicy(type=SandboxPolicyType.READ_ONLY)
    assert "uid=0" in mount(job(policy=policy), "/workspace")["options"]
    assert "uid=1000" in mount(job(), "/workspace")["options"]


@pytest.mark.parametrize("kind", [SandboxPolicyType.READ_ONLY, SandboxPolicyType.WORKSPACE_WRITE])
def test_the_guest_compares_with_what_was_sent_and_knows_whether_it_may_write(kind: SandboxPolicyType, tmp_path: Path):
    config = guest_config_for(BoxSpec(workspace=tmp_path, policy=SandboxPolicy(type=kind)), VIEW)
    assert config.upper is None
    assert config.lower is None
    assert config.writable is (kind is SandboxPolicyType.WORKSPACE_WRITE)


def test_a_box_that_may_fetch_packages_says_where_they_can_be_installed():
    granted = BoxSpec(policy=SandboxPolicy(network_access=True))
    layered = PythonView(python="/opt/env/bin/python", layered=("/opt/env",))
    assert notes_for(granted, layered) == (NO_LAYER,)
    assert notes_for(BoxSpec(), layered) == ()
    # The system's own Python installs into the box's home.
    assert notes_for(granted, PythonView(python="/usr/bin/python3")) == ()
