"""What another machine says of itself is its word: it becomes what a box is made of, or an error that says so."""

import json
from dataclasses import asdict
from importlib.util import MAGIC_NUMBER
from typing import Any

import pytest

from kagura_kernel.sandbox.namespaces import MachineFacts
from kagura_kernel.sandbox.python_view import PythonView
from kagura_kernel.sandbox.ssh.backend import _there

VIEW = PythonView("/usr/bin/python3", ("/opt/python",), (("/a", "/b"),), env=(("A", "1"),), path=("/opt/python/bin",))
READY: dict[str, Any] = {
    "view": asdict(VIEW),
    "bwrap": "/usr/bin/bwrap",
    "machine": asdict(MachineFacts()),
    "memory": 2**30,
    "place": "/sent",
    "uncounted": ["cpu"],
    "magic": MAGIC_NUMBER.hex(),
}


def told(**wrong: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(READY | wrong))
    return found


def test_what_it_says_is_what_boxes_there_are_made_of():
    there = _there(told())
    assert (there.view, there.program, there.memory, there.place) == (VIEW, "/usr/bin/bwrap", 2**30, "/sent")
    assert there.notes == ("CPU time is not limited",)
    assert there.same_python


@pytest.mark.parametrize(
    "wrong",
    [
        *({name: value} for name in ("view", "bwrap", "machine", "memory", "place") for value in (["x"], None)),
        *({"uncounted": value} for value in ([{}], ["x"], 5, None)),
        *({"view": asdict(VIEW) | {name: value}} for name in asdict(VIEW) for value in (7, [["x"]])),
        {"view": asdict(VIEW) | {"more": ["x"]}},
        {"memory": "much"},
    ],
    ids=json.dumps,
)
def test_anything_else_is_refused(wrong: dict[str, Any]):
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        _there(told(**wrong))
