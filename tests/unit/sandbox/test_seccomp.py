"""The filter, read by a small machine of our own for both architectures, and run by the real kernel for this one."""

import errno
import itertools
import json
import platform
import struct
import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.sandbox.docker.seccomp import allowed_names
from kagura_kernel.sandbox.supervisor.seccomp import MACHINES, filter_program

ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS, NO_FAMILY = (0x00050000 | number for number in (errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT))

NEW_NAMESPACES = 0x7E020000
FAMILIES = {1, 2, 10}
PERSONALITIES = {0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF}
BY_ARGUMENTS = {"socket", "socketpair", "clone", "ioctl", "personality"}

machines = st.sampled_from(sorted(MACHINES))
words = st.integers(0, 2**64 - 1)


def verdict(
    machine: str,
    number: int,
    arguments: tuple[int, ...] = (),
    *,
    audit: int | None = None,
    counted: bool = True,
    shares_files: bool = False,
) -> int:
    """What the program answers: a classic BPF machine with one register and no memory."""
    program = filter_program(machine, counted=counted, shares_files=shares_files)
    known = MACHINES[machine].audit if audit is None else audit
    data = struct.pack("<iIQ6Q", number, known, 0, *arguments, *[0] * (6 - len(arguments)))
    register = at = 0
    while True:
        code, if_true, if_false, value = struct.unpack_from("=HBBI", program, at * 8)
        at += 1
        match code:
            case 0x20:
                (register,) = struct.unpack_from("<I", data, value)
            case 0x54:
                register &= value
            case 0x06:
                return value
            case 0x15:
                at += if_true if register == value else if_false
            case 0x25:
                at += if_true if register > value else if_false
            case _:
                raise AssertionError(code)


@given(machines, st.integers(0, 500), st.tuples(words, words, words))
def test_every_call_is_answered_as_the_tables_say(machine: str, number: int, arguments: tuple[int, ...]) -> None:
    calls = {number: name for name, number in MACHINES[machine].calls.items()}
    name = calls.get(number)
    answer = verdict(machine, number, arguments)
    if name in BY_ARGUMENTS:
        assert answer in (ALLOW, EPERM, NO_FAMILY)
    elif number > MACHINES[machine].newest or name == "clone3":
        assert answer == ENOSYS
    else:
        assert answer == (ALLOW if name is None else EPERM)


@given(machines, st.integers(0, 500))
def test_where_nobody_counts_memory_none_can_be_had_that_belongs_to_no_process(machine: str, number: int) -> None:
    answer = verdict(machine, number, counted=False)
    if number in MACHINES[machine].uncounted.values():
        assert (verdict(machine, number), answer) == (ALLOW, EPERM)
    else:
        assert answer == verdict(machine, number)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", ["memfd_create", "shmget"])
def test_memory_of_no_process_is_named_for_every_machine(machine: str, name: str) -> None:
    assert verdict(machine, MACHINES[machine].uncounted[name], counted=False) == EPERM


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    "name", ["memfd_secret", "lsm_get_self_attr", "lsm_set_self_attr", "lsm_list_modules", "io_setup", "modify_ldt"]
)
def test_what_a_docker_box_refuses_is_refused(machine: str, name: str) -> None:
    assert name not in allowed_names()
    if (machine, name) != ("aarch64", "modify_ldt"):
        assert verdict(machine, MACHINES[machine].calls[name]) == EPERM


@given(machines, words)
def test_no_flag_makes_a_namespace(machine: str, flags: int) -> None:
    answer = verdict(machine, MACHINES[machine].calls["clone"], (flags,))
    assert answer == (EPERM if flags & NEW_NAMESPACES else ALLOW)


@given(machines, st.sampled_from(["socket", "socketpair"]), st.integers(0, 50), words, st.integers(0, 30))
def test_only_local_and_internet_sockets_and_routes_exist(
    machine: str, call: str, family: int, kind: int, protocol: int
) -> None:
    answer = verdict(machine, MACHINES[machine].calls[call], (family, kind, protocol))
    fine = family in FAMILIES or (family == 16 and protocol == 0)
    assert answer == (ALLOW if fine else NO_FAMILY)


@given(machines, st.integers(0, 500), st.tuples(words, words, words, words))
def test_a_box_that_shares_files_makes_none_that_run_as_their_owner(
    machine: str, number: int, arguments: tuple[int, ...]
) -> None:
    usual, answer = (verdict(machine, number, arguments, shares_files=shared) for shared in (False, True))
    modes = dict(MACHINES[machine].modes.values())
    if number == 437:
        # A call whose mode lies in memory is as good as unknown; programs fall back to the older one.
        assert answer == ENOSYS
    elif number in modes and arguments[modes[number]] & 0o6000:
        assert answer == EPERM
    elif number != MACHINES[machine].calls["socket"]:
        assert answer == usual


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("mode", [0o644, 0o1777, 0o4755, 0o2755, 0o6000, 0o100644])
def test_the_mode_of_a_file_that_is_opened_or_changed_is_looked_at(machine: str, mode: int) -> None:
    for number, place in MACHINES[machine].modes.values():
        arguments = (*[0] * place, mode)
        expected = EPERM if mode & 0o6000 else ALLOW
        assert verdict(machine, number, arguments, shares_files=True) == expected


@given(machines, st.integers(0, 50), words)
def test_a_box_that_shares_files_has_no_sockets_with_names_and_pairs_all_the_same(
    machine: str, family: int, kind: int
) -> None:
    calls = MACHINES[machine].calls
    answer = verdict(machine, calls["socket"], (family, kind, 0), shares_files=True)
    assert answer == (NO_FAMILY if family == 1 else verdict(machine, calls["socket"], (family, kind, 0)))
    assert verdict(machine, calls["socketpair"], (1, kind, 0), shares_files=True) == ALLOW


@given(machines, words, words)
def test_nothing_is_typed_into_a_terminal(machine: str, descriptor: int, request: int) -> None:
    call = MACHINES[machine].calls["ioctl"]
    assert verdict(machine, call, (descriptor, 0x5412)) == EPERM
    # The kernel takes the lower half of a request only, so the upper half must not hide it.
    assert verdict(machine, call, (descriptor, (request << 32 | 0x5412) % 2**64)) == EPERM
    assert verdict(machine, call, (descriptor, 0x541C)) == EPERM
    if request % 2**32 not in (0x5412, 0x541C):
        assert verdict(machine, call, (descriptor, request)) == ALLOW


@given(machines, st.one_of(st.sampled_from(sorted(PERSONALITIES)), st.integers(0, 2**32 - 1)))
def test_personalities_are_the_harmless_ones(machine: str, persona: int) -> None:
    answer = verdict(machine, MACHINES[machine].calls["personality"], (persona,))
    assert answer == (ALLOW if persona in PERSONALITIES else EPERM)


@given(machines, st.integers(0, 2**32 - 1), st.integers(0, 500))
def test_another_architecture_ends_the_process(machine: str, audit: int, number: int) -> None:
    if audit != MACHINES[machine].audit:
        assert verdict(machine, number, audit=audit) == KILL


@given(st.integers(0, 500))
def test_the_other_abi_of_x86_64_does_not_exist(number: int) -> None:
    assert verdict("x86_64", 0x40000000 | number) == ENOSYS


def test_no_jump_leaves_the_program() -> None:
    for machine, shares_files in itertools.product(MACHINES, (False, True)):
        program = filter_program(machine, shares_files=shares_files)
        count = len(program) // 8
        for at in range(count):
            code, if_true, if_false, _ = struct.unpack_from("=HBBI", program, at * 8)
            if code in (0x15, 0x25):
                assert at + 1 + max(if_true, if_false) < count
        assert struct.unpack_from("=H", program, (count - 1) * 8) == (0x06,)
        assert count <= 4096


def test_an_unknown_machine_has_no_filter() -> None:
    with pytest.raises(KeyError):
        filter_program("m68k")


UNDER_THE_FILTER = """
import ctypes, errno, json, os, subprocess, sys, threading
program, calls = bytes.fromhex(sys.argv[1]), json.loads(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Program(len(program) // 8, program)), 0, 0) == 0
answers = {}
for name, number in calls.items():
    # Impossible arguments: a call that is let through complains of them and does no harm.
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(-1)] * 6)
    answers[name] = errno.errorcode[ctypes.get_errno()] if result < 0 else "let through"
# What ordinary programs need goes on: threads, processes, sockets, files, pipes.
threading.Thread(target=lambda: None).start()
answers["echo"] = subprocess.run(["/bin/echo", "well"], capture_output=True, text=True).stdout
import socket
socket.socketpair()
socket.socket(socket.AF_INET6)
answers["names"] = bool(socket.if_nameindex())
print(json.dumps(answers))
"""


@pytest.mark.skipif(platform.machine() not in MACHINES, reason="there is no filter for this machine")
def test_the_real_kernel_refuses_what_the_tables_name() -> None:
    calls = {
        name: number
        for name, number in MACHINES[platform.machine()].calls.items()
        if name not in BY_ARGUMENTS - {"socket"}
    }
    result = subprocess.run(
        [sys.executable, "-I", "-c", UNDER_THE_FILTER, filter_program().hex(), json.dumps(calls)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    answers = json.loads(result.stdout)
    assert answers.pop("echo") == "well\n"
    assert answers.pop("names") is True
    assert answers.pop("socket") == "EAFNOSUPPORT"
    assert answers.pop("clone3") == "ENOSYS"
    assert set(answers.values()) == {"EPERM"}
