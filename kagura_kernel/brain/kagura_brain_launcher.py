"""One call of the package kagura-brain, in a process of its own that can be ended with everything it started.

Run by its path. A JSON object comes over standard input, so that no key stands in an argument: `backend`, `endpoint`,
`api_key`, and the arguments of `invoke`. A JSON object goes to standard output: `returncode`, `stdout`, `stderr`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(wanted: dict[str, Any]) -> dict[str, Any]:
    """What the package gives back for these arguments."""
    from kagura_brain import select

    brain = select(wanted.pop("backend"), endpoint=wanted.pop("endpoint"), api_key=wanted.pop("api_key"))
    result = brain.invoke(wanted.pop("prompt"), cwd=Path(wanted.pop("cwd")), **wanted)
    return {"returncode": result.returncode, "stdout": result.stdout, "stderr": result.stderr}


if __name__ == "__main__":
    json.dump(main(json.load(sys.stdin)), sys.stdout)
