"""What the notebook about learning needs: a shop with a deploy script, an agent that heeds what it is told, and Ada.

The agent is a script, so that the notebook needs no model. It knows nothing of the trap by itself: it does the right
thing only when what it is told at its start warns it. Boxes, host commands, memory and journal are the real ones.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

from kagura_kernel.brain.provider import (
    AuthContext,
    BrainCapabilities,
    BrainDone,
    BrainEvent,
    BrainText,
    BrainUsage,
    Turn,
)
from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.identity import new_call_id
from kagura_kernel.domain.tools import ToolCall
from kagura_kernel.testing.false_home import share_rules
from tests.support.story import Calendar, Person, stage

MODEL = "claude-sonnet-4-5"
"""Whose price list the rounds of the story are counted by."""

DEPLOY = """\
#!/bin/bash
# deploy.sh SERVICE: puts a service on staging and notes it in releases.md
if [ -z "$REGION" ]; then
  echo "ERROR: REGION is not set, see regions.txt" >&2
  exit 3
fi
echo "- $1 runs on staging in $REGION" >> releases.md
"""

_folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
"""Where all of it lies, until the notebook's kernel ends."""


class Agent:
    """The brain of the story."""

    name = "scripted"

    def __init__(self, calendar: Calendar) -> None:
        """It thinks in the story's time."""
        self._calendar = calendar

    def resolve_auth(self) -> AuthContext:
        """It needs none."""
        return AuthContext(ready=True, method="none needed", reason="it is a script")

    def capabilities(self) -> BrainCapabilities:
        """It tells what it used, and no price."""
        return BrainCapabilities()

    async def run(self, turn: Turn) -> AsyncGenerator[BrainEvent, None]:
        """Deploy what the task names."""
        found = re.search(r"the (\w+) service", turn.task)
        service = found[1] if found else "shop"
        said, rounds = "", 0
        for what in deploying(service, warned="REGION is not set" in turn.system):
            self._calendar.go_on(25 + 2 * len(service))
            if isinstance(what, str):
                said = what
                yield BrainText(what)
                continue
            rounds += 1
            yield BrainUsage(usage_of(service), MODEL)
            result = await turn.call_tool(ToolCall(new_call_id(), "bash", what))
            if result.is_error and what.get("host"):
                said = "It is deployed, but I could not publish it."
                yield BrainText(said)
                break
        yield BrainDone(text=said, model=MODEL, turns=rounds)


def usage_of(service: str) -> Usage:
    """What a round uses: no two services are quite the same work."""
    read = 8_000 + 200 * len(service)
    return Usage(input_tokens=read, output_tokens=600, cache_read_tokens=read // 2, cache_write_tokens=1_000)


def deploying(service: str, *, warned: bool) -> Iterator[str | dict[str, object]]:
    """What the agent says and which commands it runs."""
    deploy = f"bash deploy.sh {service}"
    if not warned:
        yield f"I deploy {service} with `deploy.sh`."
        yield {"command": deploy}
        yield "It stopped. I look what there is, and try once more."
        yield {"command": "ls"}
        yield {"command": "cat releases.md"}
        yield {"command": deploy}
        yield f"I have run `deploy.sh` for {service}."
        return
    yield "I was told that `deploy.sh` stops where REGION is not set. I look which region staging is in."
    yield {"command": "cat regions.txt"}
    yield {"command": f"REGION=eu {deploy}"}
    yield "That went well. I note the release in git, which is on the host."
    for command in (f'git commit --quiet -am "Deploy {service}"', "git push --quiet origin main"):
        yield {"command": command, "host": True, "reason": f"{service} is deployed, and the others need to see it."}
    yield f"**{service}** runs on staging, and the release is pushed."


def answer(request: ApprovalRequest) -> str | None:
    """What Ada says: yes to what her agent does with git, and to plans and proposals too."""
    match request.kind:
        case ApprovalKind.PLAN:
            return "with lessons"
        case ApprovalKind.HOST_COMMAND | ApprovalKind.TRUST:
            return ""
        case _:
            return None


def begin() -> tuple[Person, Calendar]:
    """Make the project, go there, and let this notebook be Ada's, on the first of June."""
    home = Path(_folder.name)
    # Whatever git and kagura know of this machine's user stays out of the story.
    for name in [name for name in os.environ if name.startswith(("GIT_", "KAGURA_")) and name != "KAGURA_BOX"]:
        del os.environ[name]
    os.environ |= {"HOME": str(home), "KAGURA_HOME": str(home / "data"), "KAGURA_CONFIG": str(home / "config.toml")}
    share_rules(home / "data")
    project = home / "shop"
    project.mkdir()
    os.chdir(project)
    Path("deploy.sh").write_text(DEPLOY)
    Path("regions.txt").write_text("staging: eu\n")
    Path("releases.md").write_text("# Releases\n\n")
    remote = home / "shop.git"
    git("init", "--quiet", "--bare", "--initial-branch=main", str(remote))
    git("init", "--quiet", "--initial-branch=main")
    git("config", "user.name", "Ada")
    git("config", "user.email", "ada@example.org")
    # A relative place is the same one in every copy of this story.
    git("remote", "add", "origin", "../shop.git")
    git("add", ".")
    git("commit", "--quiet", "-m", "Begin")
    calendar, ada = Calendar(), Person("ada", answer)
    stage(Agent(calendar), ada, calendar)
    return ada, calendar


def git(*words: str) -> str:
    """Run git in the project; what it prints."""
    # The words are those of this file.
    done = subprocess.run(["git", *words], check=True, capture_output=True, text=True)  # noqa: S603, S607
    return done.stdout


def freeze_releases() -> None:
    """Somebody closes the branch: from now on the others' repository refuses every push."""
    hook = _hook()
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'Releases are frozen until Monday.'\nexit 1\n")
    hook.chmod(0o755)


def open_releases() -> None:
    """Pushes are taken again."""
    _hook().unlink()


def _hook() -> Path:
    return Path("../shop.git/hooks/pre-receive")


def words_of(request: ApprovalRequest) -> str:
    """What a question says, without the ids, which differ every time."""
    return re.sub(r"\b(run|mem-lesson|mem)-[0-9a-z]+", r"\1-…", f"{request.title}\n{request.detail}")


def subject_of(request: ApprovalRequest) -> str:
    """What a question is about, in a few words."""
    if request.kind is ApprovalKind.HOST_COMMAND:
        return " ".join(str(request.arguments["command"]).split()[:2])
    return request.title
