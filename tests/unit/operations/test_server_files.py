"""The unit, the compose file and the settings of docs/operations: alike where they have to be, and as the page says."""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from kagura_kernel.assembly import check_settings_text
from kagura_kernel.cockpit.lines.parser import parse_words
from kagura_kernel.domain.grammar import Surface

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "docs/operations"
UNIT = (FOLDER / "kagura-kernel.service").read_text("utf-8")
SETTINGS = (FOLDER / "config.toml").read_text("utf-8")
COMPOSED = yaml.safe_load((FOLDER / "compose.yaml").read_text("utf-8"))
PAGE = (FOLDER / "README.md").read_text("utf-8")
DRAIN, ENDING = 30, 40
"""What it is told to drain, and what a server needs after that to end runs and tell their threads."""


def lines(name: str) -> list[str]:
    """The values that a field of the unit has, one for each of its lines."""
    return re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)


def test_the_settings_are_right_and_their_secrets_are_those_that_unit_and_compose_file_bring():
    check_settings_text(SETTINGS, "config.toml")
    named = set(re.findall(r'"/run/secrets/([\w-]+)"', SETTINGS))
    assert named == {"slack-bot-token", "slack-app-token", "model-key"}
    assert {line.partition(":")[0] for line in lines("LoadCredential")} == named
    assert set(COMPOSED["secrets"]) == set(COMPOSED["services"]["kagura"]["secrets"]) == named


def test_the_unit_waits_longer_than_the_server_drains_and_tells_it_alone():
    assert f"--drain {DRAIN}" in lines("ExecStart")[0]
    assert int(lines("TimeoutStopSec")[0]) >= DRAIN + ENDING
    assert lines("KillMode") == ["mixed"]
    assert lines("Type") == ["notify"]
    assert lines("Restart") == ["on-failure"]
    assert "2" in lines("RestartPreventExitStatus")[0].split()
    assert lines("OOMPolicy") == ["continue"]


def test_the_unit_closes_what_boxes_do_not_need_and_leaves_what_they_are_made_of():
    assert lines("NoNewPrivileges") == ["yes"]
    assert lines("CapabilityBoundingSet") == [""]
    assert lines("ProtectSystem") == ["strict"]
    for name in ("RestrictNamespaces", "ProtectKernelTunables", "ProtectProc", "ProtectHostname", "RestrictSUIDSGID"):
        assert not lines(name)
        assert re.search(rf"^#.*\b{name}\b", UNIT, re.MULTILINE), f"the unit does not say why it has no {name}"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="install it with `apt-get install systemd`")
def test_systemd_takes_the_unit(tmp_path):
    # Where it is installed there is no such program yet, which systemd would rightly complain about.
    there = re.sub(r"^ExecStart=\S+", f"ExecStart={sys.executable}", UNIT, flags=re.MULTILINE)
    (tmp_path / "kagura-kernel.service").write_text(there)
    command = [
        "systemd-analyze",
        "verify",
        "--man=no",
        "--recursive-errors=no",
        str(tmp_path / "kagura-kernel.service"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = [line for line in done.stderr.splitlines() if "kagura-kernel" in line]
    assert (done.returncode, told) == (0, [])


def test_the_container_has_longer_than_the_server_drains_and_no_socket_of_docker():
    service = COMPOSED["services"]["kagura"]
    assert service["command"] == ["serve", "--drain", str(DRAIN)]
    assert int(service["stop_grace_period"].removesuffix("s")) >= DRAIN + ENDING
    assert "ports" not in service
    assert not any("docker.sock" in mount["source"] for mount in service["volumes"])


def test_the_profile_is_made_of_what_boxes_may_call():
    command = [sys.executable, "-c", "import server_seccomp; print(server_seccomp.server_profile(), end='')"]
    made = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT / "dev")
    assert (FOLDER / "seccomp.json").read_text("utf-8") == made.stdout, "run dev/server_seccomp.py"


def test_the_image_has_every_library_that_the_server_needs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = ("claude", "discord", "frames", "github", "openai", "otel", "postgres", "slack")
    needed = {*project["dependencies"], *(one for extra in extras for one in project["optional-dependencies"][extra])}
    listed = {line for line in (ROOT / "images/server.pip").read_text("utf-8").splitlines() if line}
    assert listed == needed | {"pip"}, "list it in images/server.pip, then dev/images.sh lock server"
    locked = set(re.findall(r"^([\w.-]+)==", (ROOT / "images/server.pip.lock").read_text("utf-8"), re.MULTILINE))
    assert {plain(Requirement(line).name) for line in listed} <= {plain(name) for name in locked}


def test_every_command_of_ours_on_the_page_exists():
    said = re.findall(r"(?:`|[#$] |exec kagura )kagura(?:-kernel)? ([a-z][^`\n]*)", PAGE)
    assert len(said) > 7
    for words in said:
        parse_words(shlex.split(words), Surface.TERMINAL)


def test_every_file_that_the_page_names_is_there():
    assert {path.name for path in FOLDER.iterdir() if path.suffix != ".md"} == set(
        re.findall(r"`([\w.-]+)`", PAGE.partition("##")[0])
    )


def plain(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()
