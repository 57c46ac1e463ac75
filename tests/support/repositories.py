"""Real git repositories of a person, and runs that commit in real boxes beside them."""

import hashlib
import os
import subprocess
from pathlib import Path
from typing import Any

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.commits import CommittedBranch
from kagura_kernel.domain.events import Noted
from kagura_kernel.domain.outcome import RunOutcome
from kagura_kernel.runs.request import RunRequest

PERSON = {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org"}
PERSON |= {"GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org"}


class Repository:
    """The person's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def git(self, *words: str, stdin: bytes = b"") -> str:
        """What git prints, as the person."""
        environment = {**os.environ, **PERSON, "GIT_CONFIG_GLOBAL": os.devnull}
        done = subprocess.run(
            ["git", *words], cwd=self.folder, env=environment, input=stdin, capture_output=True, check=True
        )
        return os.fsdecode(done.stdout).strip()

    def write(self, path: str, text: str) -> None:
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def commit(self, message: str, **files: str) -> str:
        """Write files, whose dots are written as `__`, and commit all there is; the commit."""
        for name, text in files.items():
            self.write(name.replace("__", "."), text)
        self.git("add", "-A")
        self.git("commit", "-qm", message, "--allow-empty")
        return self.git("rev-parse", "HEAD")

    @property
    def subjects(self) -> list[str]:
        """Of what is checked out, the newest first."""
        return self.git("log", "--format=%s").splitlines()

    @property
    def status(self) -> str:
        return self.git("status", "--short")

    def state(self) -> dict[str, str]:
        """Each file, those of `.git` too, by the hash of what it holds."""
        files = (path for path in sorted(self.folder.rglob("*")) if path.is_file() and not path.is_symlink())
        return {str(path.relative_to(self.folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def new_repository(folder: Path) -> Repository:
    """One with a branch `main` and a commit `first` of `a.txt`, `one`."""
    repository = Repository(folder)
    repository.git("init", "-q", "-b", "main")
    repository.commit("first", a__txt="one\n")
    return repository


class Committing:
    """Runs whose code is a line for bash, in one project."""

    def __init__(self, cockpit: Cockpit, repository: Repository) -> None:
        self.cockpit, self.repository = cockpit, repository

    def run(self, line: str, **more: Any) -> RunOutcome:
        request = RunRequest(line, "bash", project=self.repository.folder, headless=True, **more)
        return self.cockpit.launch(request).result(120)

    def branches(self, run: RunOutcome) -> dict[str, CommittedBranch]:
        return self.cockpit.commits_desk.branches(run.run_id)

    def settle(self, act: str, run: RunOutcome, *names: str, as_branch: str = "") -> Any:
        return self.cockpit.commits_desk.settle(act, run.run_id, names, by="Ada", as_branch=as_branch)

    def states(self, run: RunOutcome) -> dict[str, str]:
        return {change.path: change.state for change in self.cockpit.changes(run.run_id)}

    def notes(self, run: RunOutcome) -> str:
        rows = self.cockpit.journal.events(run_id=run.run_id, kinds=("noted",))
        return "\n".join(row.event.text for row in rows if isinstance(row.event, Noted))


def subjects(branch: CommittedBranch) -> list[str]:
    """Of its commits, the first one first."""
    return [commit.subject for commit in branch.commits]
