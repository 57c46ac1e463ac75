import os
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from kagura_kernel.testing.false_home import TOKEN
from kagura_kernel.testing.guards import Process, Refused, expected_refusals, select, wait_until_gone


def test_the_home_of_a_test_is_its_own_and_empty(private_home):
    assert Path.home() == private_home
    assert not (private_home / ".claude").exists() or not list((private_home / ".claude").iterdir())
    assert str(private_home).startswith(os.environ[TOKEN])


@pytest.mark.parametrize(
    "name",
    [
        "HOME",
        "XDG_DATA_HOME",
        "XDG_RUNTIME_DIR",
        "KAGURA_HOME",
        "CLAUDE_CONFIG_DIR",
        "JUPYTER_DATA_DIR",
        "IPYTHONDIR",
        "DOCKER_CONFIG",
    ],
)
def test_everything_that_says_where_things_lie_points_below_the_false_home(name):
    assert os.environ[name].startswith(os.environ[TOKEN])


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1"])
def test_leaving_the_machine_is_refused_and_the_marker_is_named(host):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as sock, expected_refusals(), pytest.raises(Refused, match=r"@pytest\.mark\.network"):
        sock.connect((host, 443))


def test_a_datagram_is_refused_like_a_connection():
    with (
        socket.socket(type=socket.SOCK_DGRAM) as sock,
        expected_refusals(),
        pytest.raises(Refused, match=r"192\.0\.2\.1"),
    ):
        sock.sendto(b"?", ("192.0.2.1", 53))


def test_looking_up_a_name_is_refused():
    with expected_refusals() as seen, pytest.raises(Refused):
        socket.getaddrinfo("example.org", 443)
    assert len(seen) == 1


def test_loopback_and_unix_sockets_are_open(private_home):
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(("localhost", server.getsockname()[1])).close()
    path = str(private_home / "plain.sock")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(path)
        server.listen()
        client.connect(path)


@pytest.mark.parametrize("path", ["/var/run/docker.sock", "/run/docker.sock", "/tmp/anybody/docker.sock"])
def test_a_docker_daemon_is_refused(path):
    with socket.socket(socket.AF_UNIX) as sock, expected_refusals(), pytest.raises(Refused, match=r"(?i)daemon"):
        sock.connect(path)


@pytest.mark.docker
def test_the_marker_opens_a_daemon_of_ones_own_and_never_the_machine_s(private_home):
    with socket.socket(socket.AF_UNIX) as sock, pytest.raises(FileNotFoundError):
        sock.connect(str(private_home / "docker.sock"))
    with socket.socket(socket.AF_UNIX) as sock, expected_refusals(), pytest.raises(Refused, match="of your own"):
        sock.connect("/var/run/docker.sock")


def test_waiting_by_the_clock_on_the_wall_is_refused():
    with expected_refusals(), pytest.raises(Refused, match=r"@pytest\.mark\.real_clock"):
        time.sleep(1.5)


def test_no_keychain_can_be_had():
    # In a process of its own: keyring chooses its back-end once.
    code = "import keyring; print(type(keyring.get_keyring()).__module__)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "keyring.backends.fail"


@pytest.mark.keychain
def test_the_marker_opens_the_keychain():
    assert "PYTHON_KEYRING_BACKEND" not in os.environ


def inner_session(folder: Path, code: str, *options: str) -> tuple[dict[str, str], str]:
    """Outcomes by test, and all that was printed, of a pytest session under the guards."""
    (folder / "test_inner.py").write_text(textwrap.dedent(code))
    (folder / "pytest.ini").write_text("[pytest]\nleftovers_patience = 0.3\n")
    plugins = ["-p", "kagura_kernel.testing.guards", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *plugins, "--junitxml=result.xml", *options, "test_inner.py"]
    environment = os.environ | {"ANTHROPIC_API_KEY": "a key of the person at the machine"}
    answer = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    outcomes = {
        case.attrib["name"]: next((child.tag for child in case if child.tag in ("failure", "error")), "passed")
        for case in ET.parse(folder / "result.xml").iter("testcase")
    }
    return outcomes, f"exit {answer.returncode}\n{answer.stderr}{answer.stdout}"


def test_a_refusal_that_the_code_swallowed_still_fails_the_test(tmp_path):
    outcomes, _ = inner_session(
        tmp_path,
        """
        import os, socket, time, pytest

        def swallow():
            try:
                socket.create_connection(("192.0.2.1", 443), timeout=0.01)
            except OSError:
                pass

        def test_without_marker():
            swallow()

        @pytest.mark.network
        def test_with_marker():
            swallow()

        @pytest.fixture(scope="session")
        def reaches():
            swallow()

        def test_by_a_wider_fixture(reaches):
            pass

        def test_keys_are_forgotten():
            assert not [name for name in os.environ if name.startswith("ANTHROPIC_")]

        @pytest.mark.real_clock
        def test_may_wait():
            time.sleep(1.1)
        """,
    )
    assert outcomes == {
        "test_without_marker": "failure",
        "test_with_marker": "passed",
        "test_by_a_wider_fixture": "failure",
        "test_keys_are_forgotten": "passed",
        "test_may_wait": "passed",
    }


def test_only_a_home_that_was_left_as_it_was_made_is_the_next_test_s_too(tmp_path):
    outcomes, printed = inner_session(
        tmp_path,
        """
        import pytest

        homes = []

        @pytest.mark.parametrize("leave", ["nothing", "a file", "nothing", "a mode", "nothing"])
        def test_home(leave, private_home):
            assert sorted(path.name for path in (private_home / ".claude").iterdir()) == []
            assert (private_home / ".claude").stat().st_mode & 0o777 == 0o700
            homes.append(private_home)
            if leave == "a file":
                (private_home / ".claude/left").touch()
            if leave == "a mode":
                (private_home / ".claude").chmod(0o755)

        def test_homes():
            assert [homes.index(home) for home in homes] == [0, 0, 2, 2, 4]
        """,
    )
    assert set(outcomes.values()) == {"passed"}, printed


def test_a_session_in_a_session_leaves_the_processes_of_the_outer_one_alone(tmp_path):
    with subprocess.Popen(["sleep", "60"]) as ours:
        _, text = inner_session(tmp_path, "def test_nothing(): pass")
        assert text.startswith("exit 0")
        assert ours.poll() is None
        ours.kill()


def test_nothing_is_wrong_where_pytest_xdist_is_not_installed(tmp_path):
    _, text = inner_session(tmp_path, "def test_nothing(): pass", "-p", "no:xdist", "--strict-markers")
    assert text.startswith("exit 0"), text


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("-n", "2", "--dist", "loadgroup")], ids=["alone", "workers"])
def test_a_process_left_behind_fails_the_session_and_is_named_and_ended(tmp_path, workers):
    outcomes, text = inner_session(
        tmp_path,
        """
        import subprocess

        def test_leaves_a_child():
            subprocess.Popen(["sleep", "4321"], start_new_session=True)
        """,
        *workers,
    )
    assert outcomes == {"test_leaves_a_child": "passed"}
    assert text.startswith("exit 1")
    assert "processes left behind by tests" in text
    assert "sleep 4321" in text
    assert "1 passed" in text.splitlines()[-1]
    assert subprocess.run(["pgrep", "-f", "sleep 4321"], check=False, capture_output=True).stdout == b""


ME = 100


def process(
    pid: int,
    parent: int,
    command: str = "sleep 9",
    *,
    started: float = 50.0,
    environment: str = "",
    zombie: bool = False,
) -> Process:
    return Process(pid, parent, started, command.replace(" ", "\0").encode(), environment.encode(), zombie=zombie)


def found(*others: Process) -> list[int]:
    tree = [process(1, 0, "init"), process(50, 1, "bash"), process(ME, 50, "pytest"), *others]
    return [one.pid for one in select(tree, token="/tmp/kagura-x", since=40.0, me=ME)]


def test_children_and_their_children_are_found():
    assert found(process(101, ME), process(102, 101)) == [101, 102]


def test_whoever_carries_the_token_is_found_wherever_it_hangs():
    assert found(process(101, 1, environment=f"A=1\0{TOKEN}=/tmp/kagura-x\0B=2")) == [101]


def test_another_session_is_left_alone():
    assert found(process(101, 1, environment=f"{TOKEN}=/tmp/kagura-xy"), process(102, 50)) == []


@pytest.mark.parametrize(
    "command",
    ["bwrap --unshare-all", "/usr/bin/runsc --network=none run", "runsc-gofer --root=/x", "runsc-sandbox --root=/x"],
)
def test_an_orphaned_box_born_meanwhile_is_found_although_its_environment_is_its_own(command):
    assert found(process(101, 1, command)) == [101]


def test_boxes_that_are_older_or_have_a_living_parent_belong_to_somebody_else():
    assert found(process(101, 1, "bwrap --unshare-all", started=30.0), process(102, 50, "bwrap --unshare-all")) == []


def test_helpers_of_python_and_ended_processes_do_not_count():
    tracker = "python -c from_multiprocessing.resource_tracker"
    assert found(process(101, ME, tracker), process(102, ME, "", zombie=True)) == []


def test_a_child_whose_program_is_only_being_started_has_no_command_yet_and_counts():
    assert found(process(101, ME, "")) == [101]


def test_the_real_table_shows_a_child_until_it_is_gone():
    began = time.time()
    with subprocess.Popen(["sleep", "60"]) as child:
        left = wait_until_gone("/no/such/token", since=began, patience=0)
        child.kill()
    (found_child,) = (one for one in left if one.pid == child.pid)
    assert found_child.description == f"{child.pid}: sleep 60"
    assert abs(found_child.started - began) < 60
    assert child.pid not in [one.pid for one in wait_until_gone("/no/such/token", since=began, patience=0)]
