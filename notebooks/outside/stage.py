"""What the notebook about the outside needs: a shop's folder, settings of its own, a model, and a chat.

The model is a script behind a real OpenAI-compatible API on the loopback, so the brain that asks it is the real one.
The chat has no service behind it; what is done about what is said in it is what `kagura-kernel serve` does.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from kagura_kernel import assembly
from kagura_kernel.cockpit.transports.actions import terms_of
from kagura_kernel.cockpit.transports.conversations import Conversations
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.testing.chat import FakeChat, Shown
from kagura_kernel.testing.false_home import share_rules
from kagura_kernel.testing.patience import eventually
from tests.support.model_script import by_conversation, calls, says
from tests.support.openai_server import OpenAIServer

SETTINGS = """\
brain = "pydantic_ai"
endpoint = "work"

[endpoints.work]
url = "{url}"
model = "shop-assistant-8b"
context_tokens = 32768
input_usd = 0.10    # for a million tokens
output_usd = 0.40
"""

TALK = [
    calls(
        "bash",
        {"command": "cat ../inbox/april.csv", "host": True, "reason": "The inbox lies outside of the project."},
        first="The inbox is not in my box, so I ask for one command outside of it.",
        input_tokens=2100,
        output_tokens=60,
    ),
    says("In April we sold for **581.50**: tea for 456.00, cups for 125.50.", input_tokens=2300, output_tokens=40),
]
"""What the model says when it is asked about April."""

_folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
"""Where all of it lies, until the notebook's kernel ends."""

_open = ExitStack()
_model = OpenAIServer(by_conversation({"April": TALK}), models=("shop-assistant-8b",))


def begin() -> None:
    """Make the project, go there, and let this notebook have settings and a journal that nobody else has."""
    home = Path(_folder.name)
    # Whatever kagura and the brains know of this machine's user stays out of the story.
    for name in list(os.environ):
        if name.startswith(("KAGURA_", "ANTHROPIC_", "CLAUDE_", "OPENAI_")) and name != "KAGURA_BOX":
            del os.environ[name]
    os.environ |= {"HOME": str(home), "KAGURA_HOME": str(home / "data"), "KAGURA_CONFIG": str(home / "config.toml")}
    # The shell's `kagura-kernel` is the one of this kernel's environment.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    share_rules(home / "data")
    project = shutil.copytree("outside", home / "shop", ignore=shutil.ignore_patterns("stage.py", "__pycache__"))
    (home / "inbox").mkdir()
    (home / "inbox" / "april.csv").write_text("2026-04,tea,76,456.00\n2026-04,cups,15,125.50\n")
    (home / "config.toml").write_text(SETTINGS.format(url=_open.enter_context(_model).url))
    os.chdir(project)


async def serve(chat: FakeChat, *operators: str) -> Conversations:
    """Do for a chat what `kagura-kernel serve` does for those that the settings name."""
    conversations = Conversations(assembly.get_cockpit(), chat, terms_of(operators), SystemClock())
    await conversations.open()
    return conversations


async def question(chat: FakeChat, thread: str) -> Shown:
    """The post that asks something, once it is there."""

    def found() -> list[Shown]:
        return [post for post in chat.shown(thread) if "Allow" in dict(post.buttons)]

    await eventually(found)
    return found()[0]


def read(*posts: Shown) -> str:
    """What a person sees of posts, without folders, ids and seconds, which differ every time."""
    shown = [f"{post.text}\n{' '.join(f'[{label}]' for label, _ in post.buttons)}".rstrip() for post in posts]
    text = "\n---\n".join(shown).replace(str(Path.cwd().parent), "…")
    text = re.sub(r"\b(run|app)-[0-9a-z]+", r"\1-…", text)
    return re.sub(r"\d+(\.\d+)? s\b", "… s", text)
