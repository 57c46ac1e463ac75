"""A key on its whole way: given as the first run's form hands it over, kept by a real keychain, used by runs."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.model_script import says
from tests.support.model_server import ModelServer

KEY = "sk-ant-test-0123456789-never-real"
MISSING = [name for name in ("dbus-run-session", "gnome-keyring-daemon") if shutil.which(name) is None]
PASTED = f"import os; from kagura_kernel.assembly.brain_choice import use_claude; use_claude(os.environ, {KEY!r})"
PROGRAM = f"{sys.executable} -m kagura_kernel.cli.main"

# A session of its own, whose keychain has a password of its own; both end with it.
SESSION = """
printf password | gnome-keyring-daemon --unlock --components=secrets >keychain.log 2>&1
"$1" -c "$2" || exit 9
shift 2
for way in --brain=claude --seal; do
  "$@" run "$way" "Say hello." || exit $?
done
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real_clock,
    pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)}: install dbus and gnome-keyring"),
]


@pytest.fixture
def home() -> Iterator[Path]:
    """Short: a socket's path has little room."""
    with tempfile.TemporaryDirectory(prefix="kg-") as path:
        yield Path(path)


def test_a_key_is_kept_in_the_keychain_alone_and_signs_in_on_the_host_and_outside_of_a_box(home):
    project, data = home / "project", home / "data"
    project.mkdir()
    environ = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    environ |= {"HOME": str(home), "XDG_RUNTIME_DIR": str(home), "KAGURA_HOME": str(data)}
    with ModelServer([says("Hello."), says("Hello.")], key=KEY) as server:
        ran = subprocess.run(
            ["dbus-run-session", "--", "sh", "-c", SESSION, "sh", sys.executable, PASTED, *PROGRAM.split()],
            cwd=project,
            env=environ | {"ANTHROPIC_BASE_URL": server.url},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert (ran.returncode, ran.stdout) == (0, "Hello.\nHello.\n"), ran.stderr
    assert "claude_key_keyring" in (home / ".config" / "kagura-kernel" / "config.toml").read_text()
    assert [path for path in home.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()] == []
