"""The profile: an allow-list, with nothing in it that opens a door."""

import json
from typing import Any

import pytest

from kagura_kernel.sandbox.docker.seccomp import allowed_names, oci_filter, profile
from kagura_kernel.sandbox.supervisor.seccomp import MACHINES

DOORS = """
    io_uring_setup io_uring_enter io_uring_register ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp
    process_madvise add_key keyctl request_key userfaultfd perf_event_open bpf mount umount2 umount pivot_root
    move_mount open_tree fsopen fsconfig fsmount fspick mount_setattr unshare setns chroot reboot kexec_load
    kexec_file_load init_module finit_module delete_module open_by_handle_at name_to_handle_at iopl ioperm
    swapon swapoff acct quotactl sethostname setdomainname settimeofday clock_settime adjtimex syslog mbind
    set_mempolicy move_pages migrate_pages lookup_dcookie fanotify_init modify_ldt memfd_secret
    lsm_get_self_attr lsm_set_self_attr lsm_list_modules io_setup io_submit vhangup uselib personality socket
    clone clone3
"""


@pytest.mark.parametrize("name", DOORS.split())
def test_a_door_is_not_open_unconditionally(name: str):
    assert name not in allowed_names()


def test_everything_else_is_refused_and_not_fatal():
    assert json.loads(profile())["defaultAction"] == "SCMP_ACT_ERRNO"


def test_only_judged_calls_are_allowed_with_conditions():
    rules = json.loads(profile())["syscalls"]
    conditional = {
        name for rule in rules if rule["args"] and rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]
    }
    assert conditional == {"socket", "personality", "ioctl", "clone"}


def test_clone_is_allowed_only_without_any_new_namespace():
    (rule,) = [rule for rule in json.loads(profile())["syscalls"] if rule["names"] == ["clone"]]
    (argument,) = rule["args"]
    assert (argument["index"], argument["valueTwo"], argument["op"]) == (0, 0, "SCMP_CMP_MASKED_EQ")
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert argument["value"] & flag


def test_netlink_is_allowed_for_routes_only():
    rules = [rule for rule in json.loads(profile())["syscalls"] if rule["names"] == ["socket"]]
    netlink = [rule["args"] for rule in rules if rule["args"][0]["value"] == 16]
    assert [[(one["index"], one["value"], one["op"]) for one in args] for args in netlink] == [
        [(0, 16, "SCMP_CMP_EQ"), (2, 0, "SCMP_CMP_EQ")]
    ]


def test_nothing_that_a_bubblewrap_box_refuses_is_open():
    judged = {"socketpair", "ioctl"}  # by their arguments there
    for machine in MACHINES.values():
        assert set(machine.calls) & allowed_names() <= judged


def test_clone3_does_not_exist_so_that_libraries_fall_back():
    (rule,) = [rule for rule in json.loads(profile())["syscalls"] if rule["names"] == ["clone3"]]
    assert (rule["action"], rule["errnoRet"]) == ("SCMP_ACT_ERRNO", 38)


def rules(*, gvisor: bool) -> dict[str, list[dict[str, Any]]]:
    """What each call's name is judged by."""
    found: dict[str, list[dict[str, Any]]] = {}
    for rule in json.loads(profile(gvisor=gvisor))["syscalls"]:
        for name in rule["names"]:
            found.setdefault(name, []).append({key: rule.get(key) for key in ("action", "args", "errnoRet")})
    return found


def test_gvisor_judges_as_everyone_does_but_for_clone3():
    usual, gvisor = rules(gvisor=False), rules(gvisor=True)
    assert {name for name in usual | gvisor if usual.get(name) != gvisor.get(name)} == {"clone3"}
    assert json.loads(profile(gvisor=True))["defaultAction"] == "SCMP_ACT_ERRNO"


def test_clone3_does_not_exist_for_gvisor_either():
    # A refusal with a number of its own is a word that gVisor does not know, and a tracer there is not.
    assert rules(gvisor=True)["clone3"] == [{"action": "SCMP_ACT_TRACE", "args": [], "errnoRet": None}]


def test_gvisor_alone_is_given_the_same_list_in_its_own_words():
    profiled, bundled = json.loads(profile(gvisor=True)), oci_filter()
    assert bundled["syscalls"] == profiled["syscalls"]
    assert bundled["defaultAction"] == profiled["defaultAction"]
    assert bundled["architectures"] == ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"]
    assert "archMap" not in bundled


def test_every_program_can_still_live():
    needed = {"read", "write", "execve", "mmap", "futex", "wait4", "exit_group", "rt_sigaction", "openat"}
    assert needed <= allowed_names()
