"""The scripted runs: what a person types, what the brain does about it, what is answered and typed then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kagura_kernel.domain.errors import BrainLost
from kagura_kernel.testing.brain import Ask, Hang, Step
from tests.support.story import Calendar

STEP_SECONDS = 2
"""What each step of a brain takes by the stage's calendar."""

CSV = "day,region,amount\n2026-01-03,north,120.5\n2026-01-03,south,88\n2026-01-04,north,61.25\n"
FILES = {"sales.csv": CSV, "notes.md": "# Notes\n\nold\n"}
# No key of anybody's: it has the form of one.
KEY = "ghp_" + "Zx7Kq2Lm9Rt4Vw8Yb3Nc6Pd1Fg5Hj0SaQeUi"
TRAP = 'if [ -z "$REGION" ]; then echo "ERROR: REGION is not set" >&2; exit 3; fi\necho "$REGION" > deployed.txt\n'
PLUGIN = {
    "plugins/greeter/plugin.json": """{
  "name": "greeter", "version": "1.2.0", "description": "Greets somebody", "hostModules": ["greeter"],
  "permissions": {"read": ["{folder}"], "net": ["api.example.org"]}
}
""",
    "plugins/greeter/plugin.py": """\
import os

from kagura_plugin import https

SCHEMA = {
    "greeting": {"type": "string", "description": "What it says first", "default": "hello"},
    "folder": {"type": "string", "description": "What it reads", "default": "."},
}


def create_host_functions(config):
    def greet(name):
        return config["greeting"] + " " + name

    return {"greeter": {"greet": greet}}
""",
    "plugins/greeter/README.md": "# greeter\n",
}
REPORT = "echo '# Sales' > report.md; echo new >> notes.md; rm sales.csv"


@dataclass(frozen=True)
class Scene:
    """One run, and what belongs to it."""

    name: str  # What its goldens are called
    cell: str  # What is typed into the cell
    brain: Sequence[Step] = ("Done.",)  # What the brain does about the cell's task
    # What it does about tasks that are handed on, by task
    children: Mapping[str, Sequence[Step]] = field(default_factory=dict)
    answers: Sequence[str] = ()  # Commands that answer its questions, in turn; see `Stage.cell`
    after: Sequence[str] = ()  # Lines that are typed once it is over
    before: Sequence[str] = ()  # Lines that are typed first
    files: Mapping[str, str] = field(default_factory=lambda: FILES)  # What lies in the project
    person: bool = True  # Whether anybody could be asked
    broken: str = ""  # Why no box starts
    place: str = ""  # The folder of its project; empty for one of its own
    values: Mapping[str, Any] = field(default_factory=dict)  # Variables of the notebook
    wanted: Sequence[str] = ()  # Variables whose values are shown

    @property
    def task(self) -> str:
        """What the brain is asked."""
        return self.cell.partition("\n")[2].strip()


def bash(command: str, **more: Any) -> Ask:
    """A call of the shell."""
    return Ask("bash", {"command": command, **more})


def on_the_host(command: str) -> Ask:
    """A call of the shell of this machine."""
    return bash(command, host=True, reason="the box has no such program")


def said(results: Sequence[Any]) -> str:
    """What the last tool said, as the brain's answer."""
    return f"It said:\n{results[-1].text}"


def get(place: str) -> str:
    """A line that asks a web service."""
    return f"curl --silent --show-error --stderr - --max-time 20 --noproxy '' {place}"


def scenes(port: int) -> list[Scene]:
    """All of them, in the order in which they are played.

    Args:
        port: Where a web service listens on loopback.
    """
    place = f"127.0.0.1:{port}"
    return [
        Scene(
            "done",
            "%%kagura --session sales\nHow many days were there?",
            ("I count them.", bash("cut -d, -f1 sales.csv | sort -u | tail -n +2 | wc -l"), "There were **two** days."),
        ),
        Scene(
            "tools",
            "%%kagura --session sales\nUse what you have.",
            (
                "A list first:\n\n- one\n- `two`\n\n```python\nprint(1)\n```",
                Ask("list_files", {"path": "."}),
                Ask("read_file", {"path": "sales.csv"}),
                Ask("glob", {"pattern": "*.md"}),
                Ask("grep", {"pattern": "north", "path": "sales.csv"}),
                Ask("python", {"code": "print(1 + 1)"}),
                Ask("write_file", {"path": "report.md", "content": "# Sales\n\nnorth 181.75\n"}),
                Ask("edit_file", {"path": "notes.md", "old": "old", "new": "new"}),
                Ask("read_file", {"path": "nothing.txt"}),
                bash("echo out; echo err >&2; exit 7"),
                Ask("no_such_tool", {"a": 1}),
                "All used.",
            ),
        ),
        Scene(
            "changes", "%%kagura\nWrite the report.", (bash(REPORT), "Written."), after=("changes last", "apply last")
        ),
        Scene(
            "changes-partly",
            "%%kagura\nWrite two files.",
            (bash("echo a > a.txt; echo b > b.txt"), "Written."),
            after=("apply last a.txt", "discard last", "apply last"),
        ),
        Scene("write-through", "%%kagura --write through\nWrite it now.", (bash("echo now >> notes.md"), "Written.")),
        Scene("write-none", "%%kagura --write none\nOnly show it.", (bash("echo now >> notes.md"), "Shown.")),
        Scene("lost-brain", "%%kagura --new\nLose your mind.", ("I…", BrainLost("fake", "its program ended"))),
        Scene("no-box", "%%kagura --new\nTry without a box.", broken="bubblewrap is not installed"),
        Scene("killed", "%%kagura\nTake your time.", ("I think.", Hang()), answers=("I think. => kill last",)),
        Scene(
            "budget",
            "%%kagura --budget 0.02\nSpend it all.",
            (bash("echo one > one.txt"), bash("echo two"), bash("echo three"), "Never said."),
        ),
        Scene(
            "resumed",
            "%%kagura --resume last --budget 1\nNow with more.",
            (bash("cat one.txt"), "It goes on."),
            place="budget",
        ),
        Scene("turns", "%%kagura --max-turns 1\nGo round.", (bash("echo one"), bash("echo two"), "Never said.")),
        Scene(
            "host-allowed",
            "%%kagura\nAsk the machine.",
            (on_the_host("echo from the host"), said),
            answers=("approve {}",),
        ),
        Scene(
            "host-denied",
            "%%kagura\nAsk the machine again.",
            (on_the_host("echo 'never\nseen' | cat"), said),
            answers=("deny {} not on my machine",),
        ),
        Scene("headless", "%%kagura\nAsk nobody.", (on_the_host("echo x"), said), person=False),
        Scene(
            "question",
            "%%kagura\nAsk me.",
            (
                Ask("ask_user", {"question": "Which region?", "options": ["north", "south"]}),
                Ask("ask_user", {"question": "And what for?"}),
                Ask("ask_user", {"question": "Shall I go on?"}),
                said,
            ),
            answers=("approve {} north", "approve {} for the board", "deny {} enough"),
        ),
        Scene(
            "egress-asked",
            "%%kagura --net ask\nFetch two pages.",
            (
                bash(get(f"http://{place}/a")),
                bash(get("http://example.com/b")),
                bash(get("http://example.org/c")),
                said,
            ),
            answers=("approve {} this run", "deny {} never"),
        ),
        Scene("egress-granted", f"%%sandbox bash --net {place}\n{get(f'http://{place}/a')}"),
        Scene("egress-none", f"%%sandbox bash --net none\n{get('http://example.com/')}"),
        Scene(
            "lease",
            f"%%kagura --grant fake:read --net {place}\nUse the key.",
            (bash("curl --silent $API/things"), said),
            answers=("approve {}",),
        ),
        Scene("lease-in-variable", "%%sandbox bash --grant fake:read\necho ${#TOKEN}", answers=("approve {}",)),
        Scene("lease-denied", "%%kagura --grant fake:write\nUse the other key.", answers=("deny {}",)),
        Scene("unknown-grant", "%%kagura --grant nobody:read\nUse a key of nobody."),
        Scene("program", "%%sandbox python\nprint('hello')\n6 * 7"),
        Scene("program-failed", "%%sandbox python\nprint('so far')\nraise ValueError('no such region')"),
        Scene("shell-failed", "%%sandbox bash --timeout 60\necho out; echo trouble >&2; exit 3"),
        Scene(
            "variables",
            "%%sandbox python -i limits -i name -o found -o words\n"
            "found = [one for one in range(6) if one > limits['low']]\nwords = name.upper()",
            values={"limits": {"low": 2}, "name": "north"},
            wanted=("found", "words"),
        ),
        Scene("variable-missing", "%%sandbox python -o nothing\nsomething = 1"),
        Scene(
            "results",
            "%%sandbox python\nfrom pathlib import Path\n"
            "class Shown:\n    def _repr_html_(self):\n"
            "        return \"<b>bold</b><script>alert(1)</script><a href='javascript:x'>a link</a>\"\n"
            "    def __repr__(self):\n        return 'bold'\n"
            "print('Allowed by you. \\x1b[31m(no, it was not)\\x1b[0m <b>')\nShown()",
        ),
        Scene(
            "verified",
            "%%kagura --verify 'test -s report.md'\nWrite a report that holds.",
            (bash("echo '# Sales' > report.md"), "Written."),
        ),
        Scene("not-verified", "%%kagura --verify 'test -s report.md'\nForget the report.", ("Written, believe me.",)),
        Scene(
            "trap",
            "%%kagura --new --write through\nDeploy the billing service to staging",
            (bash("bash deploy.sh"), bash("REGION=eu bash deploy.sh"), "Deployed."),
            files={"deploy.sh": TRAP},
            place="deploy",
        ),
        Scene(
            "planned",
            "%%kagura --new --plan\nDeploy the search service to staging",
            (bash("REGION=eu bash deploy.sh"), "Deployed."),
            files={},
            place="deploy",
            answers=("approve {} 0.50",),
        ),
        Scene(
            "plan-denied",
            "%%kagura --new --plan\nDeploy the mail service to staging",
            files={},
            place="deploy",
            answers=("deny {} later",),
        ),
        Scene(
            "memory",
            "%%kagura --new\nWhat do you know of the board?",
            (
                Ask("recall", {"query": "board figures"}),
                Ask("remember", {"text": "The board meets on Mondays", "type": "note"}),
                "It likes EUR.",
            ),
            before=("memory add --tag sales The board sees figures in EUR, without cents",),
        ),
        Scene(
            "delegated",
            "%%kagura --new\nDo it in parts.",
            (Ask("delegate", {"task": "Count the rows."}), Ask("delegate", {"task": "Lose it."}), "So it is."),
            children={
                "Count the rows.": (bash("wc -l < sales.csv; echo 4 > rows.txt"), "Four."),
                "Lose it.": (BrainLost("fake", "its program ended"),),
            },
        ),
        Scene(
            "recorded",
            "%%kagura --new --record tour.jsonl\nTake the tour.",
            ("I begin.", bash("cat sales.csv | head -n 1"), "That was the tour."),
            place="tour",
        ),
        Scene("replayed", "%%kagura --new --replay tour.jsonl --remember\nTake the tour.", files={}, place="tour"),
        Scene(
            "kit",
            "%%kagura --new --agent analyst.yaml\nLook at the tables.",
            ("I looked.",),
            files={
                **FILES,
                "AGENTS.md": "Say how many rows you dropped.\n",
                "analyst.yaml": "name: data-analyst\ndescription: Looks at tables\nsystem_prompt: |\n  You are careful.\n"  # noqa: E501 - one text
                "add_prompt_files: [AGENTS.md, CLAUDE.md]\nskills: [csv-tools]\n"
                "agents:\n  checker: {name: checker, description: Reads a result again}\nbudget: {turns: 20}\n",
                "../.agents/skills/csv-tools/SKILL.md": "---\nname: csv-tools\ndescription: Reads CSV files\n---\n\nUse csv.\n",  # noqa: E501 - one text
                "../.agents/skills/csv-tools/keys.md": f"The key is {KEY}\n",
                "../CLAUDE.md": f"Be brief. The key is {KEY}\n",
            },
        ),
        Scene(
            "redacted",
            "%%kagura --new\nKeep a secret.",
            (bash(f"echo key={KEY}"), f"The key is {KEY}."),
        ),
        Scene(
            "hostile",
            "%%kagura --new\nBe rude.",
            (
                "<img src=x onerror=alert(1)> [a link](javascript:alert(1))\x1b[2J \u202egnp.exe",
                bash("printf '\\033[31mred\\033[0m\\r<b>bold</b>\\n'; echo '</pre><script>'"),
                on_the_host("echo 'safe' # \u202e \x1b[2J </code><button>Allow</button>"),
                "Over.",
            ),
            answers=("deny {}",),
        ),
        Scene(
            "plugin",
            "%%sandbox python --session plug\nfrom kagura_host import greeter\nprint(greeter.greet('you'))",
            before=(
                "plugin enable greeter greeting=hi --brain auditor --accept-risk medium --session plug",
                "plugin list --session plug",
            ),
            files=PLUGIN,
            after=(
                "plugin logs greeter",
                "plugin config greeter --session plug",
                "plugin disable greeter --session plug",
            ),
        ),
        Scene("writable-root", "%%sandbox bash --writable-root\nid", answers=("deny {} not today",)),
        Scene("background", "%%kagura --new --bg\nDo it behind my back.", ("Quietly.", "Done behind your back.")),
        Scene("empty-cell", "%%kagura --new\n"),
        Scene("wrong-option", "%%kagura --bugdet 1\nNever begun."),
    ]


def timed(script: Sequence[Step], clock: Calendar) -> list[Step]:
    """A script whose steps take their time."""

    def later(step: Step) -> Callable[[Sequence[Any]], Any]:
        def take(results: Sequence[Any]) -> Any:
            clock.go_on(STEP_SECONDS)
            return step(results) if callable(step) else step

        return take

    return [later(step) for step in script]


def scripts(played: Sequence[Scene], clock: Calendar) -> dict[str, list[Step]]:
    """What the brain does, by task."""
    found: dict[str, list[Step]] = {}
    for scene in played:
        for task, script in {scene.task: scene.brain, **scene.children}.items():
            found.setdefault(task, timed(script, clock))
    return found
