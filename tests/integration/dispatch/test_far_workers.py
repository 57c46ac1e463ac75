"""Workers in another network and under the name of another machine; journal and memory on a real PostgreSQL."""

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.dispatch.far import HERE, THERE
from tests.support import postgres_network

pytest.importorskip("distributed")

ROOT = Path(__file__).parents[3]


def why_not() -> str:
    """Why there can be no networks of our own here; empty where there can."""
    if os.geteuid() != 0:
        return "networks of one's own need root"
    missing = [program for program in ("ip", "nsenter", "unshare", "bwrap") if shutil.which(program) is None]
    return f"{', '.join(missing)} is not installed" if missing else postgres_network.why_not()


pytestmark = [pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"), pytest.mark.timeout(300)]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def networks() -> Iterator[tuple[str, str]]:
    """Two namespaces that are joined to each other and to nothing else."""
    mark = secrets.token_hex(3)
    here, there = f"kagura-here-{mark}", f"kagura-there-{mark}"
    made = []
    try:
        for name in (here, there):
            ip("netns", "add", name)
            made.append(name)
            ip("-n", name, "link", "set", "lo", "up")
        # Made inside, so that the machine's own network never has it.
        ip("-n", here, "link", "add", "joined", "type", "veth", "peer", "name", "joined", "netns", there)
        for name, address in ((here, HERE), (there, THERE)):
            ip("-n", name, "address", "add", f"{address}/30", "dev", "joined")
            ip("-n", name, "link", "set", "joined", "up")
        yield here, there
    finally:
        for name in made:
            ip("netns", "delete", name)


def test_work_is_handed_to_another_network_and_a_killed_worker_leaves_nothing(networks, project, tmp_path):
    here, there = networks
    for folder in (project, tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    done = subprocess.run(
        ["ip", "netns", "exec", here, sys.executable, "-m", "tests.integration.dispatch.far", str(tmp_path), there],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "far": True,
        "in a worker": True,
        "handed": 1,
        "lost": {"held": 1, "seen from here": True, "first": "lost", "again": True, "elsewhere": True},
        "boxes": 5,
    }
