"""What a container is made of: flags that no spec can change."""

import json
from dataclasses import astuple, replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.domain.errors import SandboxUnsupported
from kagura_kernel.domain.policy import BoxLimits, SandboxPolicy, SandboxPolicyType
from kagura_kernel.sandbox.backend import BoxSpec, ShownPath
from kagura_kernel.sandbox.box import sizes
from kagura_kernel.sandbox.docker.flags import (
    Volume,
    command_environment,
    create_body,
    filling_body,
    refuse_unsupported,
    with_volumes,
)

LABELS = {"kagura.box": "box-1", "kagura.owner": "host:1:2", "kagura.holder": "abc"}
MIB = 2**20


def body(spec: BoxSpec | None = None) -> dict:
    return create_body(spec or BoxSpec(), "sha256:1", ["python3", "-c", "stub"], LABELS, cpus_there=2)


specs = st.builds(
    BoxSpec,
    workspace=st.sampled_from([None, Path("/project")]),
    image=st.sampled_from([None, "other"]),
    policy=st.builds(SandboxPolicy, type=st.sampled_from(list(SandboxPolicyType)), network_access=st.booleans()),
    env=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
)


@given(specs)
def test_no_spec_opens_the_walls(spec: BoxSpec):
    made = body(spec)
    host = made["HostConfig"]
    assert made["User"] == "65532:65532"
    assert made["NetworkDisabled"] is True
    assert host["NetworkMode"] == "none"
    assert host["CapDrop"] == ["ALL"]
    assert host["CapAdd"] == host["Binds"] == host["Devices"] == host["GroupAdd"] == []
    assert host["ReadonlyRootfs"] is True
    assert host["Privileged"] is False
    assert host["IpcMode"] == "private"
    assert host["AutoRemove"] is True
    assert host["LogConfig"] == {"Type": "none"}
    assert "no-new-privileges:true" in host["SecurityOpt"]
    assert any(option.startswith("seccomp={") for option in host["SecurityOpt"])
    assert not {"Mounts", "PidMode", "UTSMode", "UsernsMode", "VolumesFrom"} & set(host)


@given(specs)
def test_neither_variables_nor_the_project_stand_in_the_containers_record(spec: BoxSpec):
    made = body(spec)
    assert made["Env"] == []
    assert "/project" not in json.dumps(made)
    assert made["Labels"] == LABELS


def test_limits_become_limits():
    limits = BoxLimits(memory_bytes=256 * MIB, processes=17, cpus=0.5, open_files=99, file_bytes=5 * MIB)
    host = body(BoxSpec(limits=limits))["HostConfig"]
    assert host["Memory"] == host["MemorySwap"] == 256 * MIB
    assert host["PidsLimit"] == 17
    assert host["NanoCpus"] == 500_000_000
    assert host["CpuShares"] == 512
    ulimits = {limit["Name"]: (limit["Soft"], limit["Hard"]) for limit in host["Ulimits"]}
    assert ulimits == {"core": (0, 0), "fsize": (5 * MIB, 5 * MIB), "nofile": (99, 99)}


def test_more_cores_than_there_are_cannot_be_asked_for():
    assert body(BoxSpec(limits=BoxLimits(cpus=64)))["HostConfig"]["NanoCpus"] == 2_000_000_000


def test_what_can_be_written_is_neither_setuid_nor_a_device():
    assert body()["HostConfig"]["Tmpfs"].keys() == {"/workspace", "/tmp", "/home/agent", "/dev/shm", "/dev/mqueue"}
    for options in body()["HostConfig"]["Tmpfs"].values():
        assert {"nosuid", "nodev"} <= set(options.split(","))
        assert "size=" in options


@given(st.builds(BoxLimits, memory_bytes=st.integers(16 * MIB, 2**40), workspace_bytes=st.integers(MIB, 2**40)))
def test_files_without_content_are_bounded_like_those_with_some(limits: BoxLimits):
    places = body(BoxSpec(limits=limits))["HostConfig"]["Tmpfs"]
    for place in ("/workspace", "/tmp", "/home/agent", "/dev/shm"):
        options = dict(option.partition("=")[::2] for option in places[place].split(","))
        assert int(options["nr_inodes"]) == max(4096, int(options["size"]) // 4096)


def test_a_read_only_workspace_belongs_to_root():
    spec = BoxSpec(policy=SandboxPolicy(type=SandboxPolicyType.READ_ONLY))
    assert "uid=0,gid=0,mode=0755" in body(spec)["HostConfig"]["Tmpfs"]["/workspace"]
    assert "uid=65532" in body()["HostConfig"]["Tmpfs"]["/workspace"]


@given(st.builds(BoxLimits, memory_bytes=st.integers(16 * MIB, 2**40), workspace_bytes=st.integers(MIB, 2**40)))
def test_a_full_disk_is_never_more_than_three_quarters_of_the_memory(limits: BoxLimits):
    size = sizes(limits)
    assert size.workspace + size.temporary + size.home <= 0.75 * limits.memory_bytes + 3 * 65536
    assert size.shared <= limits.memory_bytes / 8
    assert size.workspace <= max(limits.workspace_bytes, 65536)
    assert size.sendable * 2 <= size.workspace


def test_the_usual_limits_are_not_cut():
    size = sizes(BoxLimits())
    assert (size.workspace, size.temporary + size.home) == (BoxLimits().workspace_bytes, BoxLimits().scratch_bytes)


def test_directories_of_the_host_are_volumes_that_a_box_reads_and_the_filling_container_writes():
    volume = Volume("kagura-1", "/kagura/kit")
    (mount,) = with_volumes(body(), [volume])["HostConfig"]["Mounts"]
    assert (mount["Type"], mount["Source"], mount["Target"], mount["ReadOnly"]) == ("volume", *astuple(volume), True)
    filling = filling_body("sha256:1", volume, {"whose": "ours"})
    (mount,) = filling["HostConfig"]["Mounts"]
    assert (mount["Source"], mount["ReadOnly"], mount["VolumeOptions"]) == ("kagura-1", False, {"NoCopy": True})
    assert (filling["Labels"], filling["HostConfig"]["NetworkMode"]) == ({"whose": "ours"}, "none")


def test_files_of_the_host_as_they_are_are_refused():
    with pytest.raises(SandboxUnsupported, match=r"showing /data.* use bubblewrap"):
        refuse_unsupported(BoxSpec(shown=(ShownPath(Path("/data"), "/plugin/read/0"),)))


@pytest.mark.parametrize("root", ["/", "/etc", "/tmpfoo", "/workspaces"])
def test_other_writable_places_are_refused(root: str):
    with pytest.raises(SandboxUnsupported):
        refuse_unsupported(BoxSpec(policy=SandboxPolicy(writable_roots=("/workspace", root))))


@pytest.mark.parametrize("roots", [(), ("/workspace/out",), ("/tmp",)])
def test_a_workspace_of_which_parts_alone_may_be_written_is_refused(roots: tuple[str, ...]):
    policy = SandboxPolicy(writable_roots=roots)
    with pytest.raises(SandboxUnsupported, match="parts alone"):
        refuse_unsupported(BoxSpec(policy=policy))
    refuse_unsupported(BoxSpec(policy=replace(policy, type=SandboxPolicyType.READ_ONLY)))


def test_writable_places_that_are_there_anyway_are_fine():
    refuse_unsupported(BoxSpec(policy=SandboxPolicy(writable_roots=("/workspace", "/workspace/out", "/tmp"))))


def test_commands_see_the_images_variables_and_the_specs_and_ours():
    env = command_environment(["PATH=/opt/venv/bin:/usr/bin", "A=1=2", "broken"], {"B": "3"})
    assert env["PATH"] == "/opt/venv/bin:/usr/bin"
    assert (env["A"], env["B"], env["HOME"]) == ("1=2", "3", "/home/agent")
    assert "broken" not in env
