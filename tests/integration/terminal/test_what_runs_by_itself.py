"""Nothing that a run leaves in a project is run on the host by a person's next ordinary step."""

import json
import shutil
import subprocess

import pytest

from tests.integration.terminal.conftest import bash

pytestmark = [pytest.mark.real_clock, pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")]

PLANT = """
mkdir -p .husky tools template/hooks
for hook in .husky/pre-commit tools/watch.sh template/hooks/post-checkout; do
  rm -f $hook; printf '#!/bin/sh\\ntouch ran\\n' > $hook; chmod +x $hook
done
printf '[core]\\n\\tfsmonitor = touch ran; true\\n' >> .gitconfig
echo done > new.txt
"""


def git(shell, *words: str) -> None:
    who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com")
    subprocess.run(["git", *who, *words], cwd=shell.project, env=shell.environ, check=True, capture_output=True)


@pytest.mark.parametrize("mode", ["through", "ask"])
@pytest.mark.parametrize("there", [True, False], ids=["there", "not there yet"])
def test_what_git_runs_or_reads_of_the_project_stays_as_it_is(shell, mode, there):
    git(shell, "init", "--quiet")
    for name, value in {
        "core.hooksPath": ".husky",
        "include.path": "../.gitconfig",
        "core.fsmonitor": "tools/watch.sh",
        "init.templateDir": str(shell.project / "template"),
    }.items():
        git(shell, "config", name, value)
    if there:
        for name in (".husky/pre-commit", "tools/watch.sh", "template/hooks/post-checkout", ".gitconfig"):
            (shell.project / name).parent.mkdir(parents=True, exist_ok=True)
            (shell.project / name).write_text("" if name == ".gitconfig" else "#!/bin/sh\n")
    ran = shell.run("run", "--replay", shell.cassette(bash(PLANT)), "--write", mode, "--json", "Go.")
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert [change["path"] for change in told["changes"]] == ["new.txt"]
    if mode == "ask":
        assert shell.run("apply", told["run_id"]).returncode == 0
    assert (shell.project / "new.txt").read_text() == "done\n"
    git(shell, "status")
    git(shell, "commit", "--allow-empty", "-m", "One.")
    git(shell, "init", "--quiet", "other")
    git(shell, "-C", "other", "commit", "--allow-empty", "-m", "One.")
    git(shell, "-C", "other", "checkout", "-b", "two")
    assert not list(shell.project.rglob("ran"))


def test_what_runs_by_itself_waits_while_the_rest_is_written_through_and_is_named_first(shell):
    line = "mkdir .vscode; echo x | tee a.txt .vscode/tasks.json conftest.py kagura_kernel.py book.ipynb"
    ran = shell.run("run", "--replay", shell.cassette(bash(line)), "--write", "through", "--json", "Go.")
    told = json.loads(ran.stdout)
    assert [(change["path"], change["state"]) for change in told["changes"]] == [
        (".vscode/tasks.json", "proposed"),
        ("book.ipynb", "proposed"),
        ("conftest.py", "proposed"),
        ("kagura_kernel.py", "proposed"),
        ("a.txt", "applied"),
    ]
    assert {path.name for path in shell.project.iterdir()} == {"a.txt", "c.jsonl"}
    said = shell.run("changes", told["run_id"]).stdout
    assert "A conftest.py  +1 -0  [runs by itself: pytest runs it before any test]" in said
    assert shell.run("apply", told["run_id"], "conftest.py").returncode == 0
    assert (shell.project / "conftest.py").read_text() == "x\n"
