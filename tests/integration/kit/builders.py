"""Builds kits in processes of their own: many at once, one that never ends, one without room. Run by the tests.

python builders.py MODE FOLDER
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path

from kagura_kernel.domain.errors import KitUnwritable
from kagura_kernel.kit.definitions.references import ResolvedAgent
from kagura_kernel.kit.staging.plan import plan_kit
from kagura_kernel.kit.staging.stage import build_kit
from kagura_kernel.kit.staging.versions import is_whole
from kagura_kernel.testing.clock import FakeClock
from tests.support.kit_rig import HomeRig, KnownWords

BUILDERS = 12
BUILDS = 5
PATIENCE = 90
CHANGED = "skill-0"


def many(rig: HomeRig, *, reaping: bool) -> None:
    """Twelve builders that begin together, and one more that changes what they build from until they are done."""
    agent = rig.agent()
    changer = fork(lambda: change(rig))
    begin, go = os.pipe()

    def work(number: int) -> None:
        os.close(go)
        os.read(begin, 1)  # ends when everybody is there
        build_often(rig, agent, number, reaping=reaping)

    builders = [fork(lambda number=number: work(number)) for number in range(BUILDERS)]
    os.close(go)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in builders]
    os.kill(changer, signal.SIGTERM)
    os.waitpid(changer, 0)
    raise SystemExit(int(any(codes)))


def build_often(rig: HomeRig, agent: ResolvedAgent, number: int, *, reaping: bool) -> None:
    clock = FakeClock()
    for build in range(BUILDS):
        # Far apart, so that whatever nobody holds is old at once.
        clock._elapsed += 10_000 * (build * BUILDERS + number) if reaping else 0
        # Planned anew each time, since the files change.
        with build_kit(plan_kit(agent, rig.where), rig.root, rig.redactor, clock=clock) as kit:
            digest = hashlib.sha256((kit.directory / "manifest.json").read_bytes()).hexdigest()
            assert (digest, is_whole(kit.directory, digest, thorough=True)) == (kit.digest, True)


def change(rig: HomeRig) -> None:
    path = rig.home / ".agents/skills" / CHANGED / "data.txt"
    for text in itertools.cycle(("first", "second", "third")):
        path.with_name("data.new").write_text(text * 1000)
        path.with_name("data.new").replace(path)


def fork(work) -> int:
    pid = os.fork()
    if pid == 0:
        signal.alarm(PATIENCE)
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            sys.stderr.flush()
            os._exit(code)
    return pid


def stuck(rig: HomeRig) -> None:
    """Says so in the middle of a build, and goes no further."""

    class Stuck(KnownWords):
        def redact_file(self, data, name):
            if self.asked == 3:
                sys.stdout.write("half\n")
                sys.stdout.flush()
                signal.pause()
            return super().redact_file(data, name)

    build_kit(rig.plan(), rig.root, Stuck())


def full(rig: HomeRig) -> None:
    """Builds on a file system of its own that has no room, and tells what came of it."""
    data = rig.root.parent
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", data], check=True)
    agent = rig.agent()
    rig.skill("large", {"data.bin": "x" * (1 << 20)})
    plan = rig.plan()
    try:
        build_kit(plan, rig.root, rig.redactor).close()
        told = f"there was room for {agent.name}"
    except KitUnwritable as error:
        told = error.message
    left = sorted(path.name for path in (rig.root / plan.key / "versions").iterdir())
    sys.stdout.write(json.dumps({"told": told, "left": left}))


if __name__ == "__main__":
    signal.alarm(PATIENCE)
    mode, folder = sys.argv[1:]
    home = HomeRig(Path(folder))
    {
        "many": lambda: many(home, reaping=False),
        "reaping": lambda: many(home, reaping=True),
        "stuck": lambda: stuck(home),
        "full": lambda: full(home),
    }[mode]()
