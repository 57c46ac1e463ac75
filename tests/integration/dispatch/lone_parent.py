"""The program that `test_workers` kills: a run that has handed work on, and waits for it."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.integration.dispatch.conftest import hand_on, launch
from tests.integration.dispatch.workers import cockpit_at

if __name__ == "__main__":
    home, address, folder = sys.argv[1:]
    cockpit = cockpit_at(home, {"workers": address}, {"parent": [hand_on("hang"), "."]})
    cockpit.launch(launch(Path(folder))).result()
