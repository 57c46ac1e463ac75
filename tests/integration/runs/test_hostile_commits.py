"""What a box may write into its `.git`, and what of it reaches the host: objects that git has checked, and no more."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import CommitsRefused
from kagura_kernel.membrane import commits
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.change_apply import OLD_HOLDS_LEASED
from kagura_kernel.membrane.credentials.scrub import Scrubber
from kagura_kernel.membrane.credentials.secret import Secret
from kagura_kernel.membrane.git import GitFailed, repository_of
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.views.commits import commits_text
from tests.support.repositories import Committing, Repository, new_repository, subjects

EVIL_TREE = """
import subprocess
def git(*words, stdin=b""):
    return subprocess.run(["git", *words], input=stdin, capture_output=True, check=True).stdout.strip().decode()
blob = git("hash-object", "-w", "--stdin", stdin=b"evil")
def tree(*entries):
    raw = b"".join(mode.encode() + b" " + name.encode() + b"\\0" + bytes.fromhex(one) for mode, name, one in entries)
    return git("hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=raw)
root = tree({entries})
commit = git("commit-tree", root, "-p", "HEAD", "-m", "evil")
git("update-ref", "refs/heads/main", commit)
"""


@pytest.fixture
def repository(project: Path) -> Repository:
    return new_repository(project)


@pytest.fixture
def committing(tmp_path: Path, repository: Repository) -> Iterator[Committing]:
    cockpit = fake_cockpit(tmp_path / "home", backend=BubblewrapBackend())
    yield Committing(cockpit, repository)
    cockpit.close()


def test_nothing_that_the_boxs_git_names_is_run_or_kept(tmp_path, committing):
    """Hooks, a file system monitor, filters, aliases, includes, and another place for objects."""
    repository, canary = committing.repository, tmp_path / "canary"
    program = f"touch {canary} 2>/dev/null; true"
    before = {path: value for path, value in repository.state().items() if path.startswith(".git/")}
    run = committing.run(
        f"""
        for hook in pre-commit post-commit post-checkout post-merge post-index-change reference-transaction; do
            printf '#!/bin/sh\\n{program}\\n' > .git/hooks/$hook; chmod +x .git/hooks/$hook
        done
        git config core.fsmonitor '{program}'; git config core.sshCommand '{program}'; git config alias.log '!{program}'
        git config core.editor '{program}'; git config diff.external '{program}'; git config gpg.program '{program}'
        git config filter.x.clean '{program}'; git config filter.x.smudge '{program}'
        git config diff.x.textconv '{program}'
        git config include.path ../evil.cfg; git config core.worktree /tmp; git config --unset core.worktree
        printf '[core]\\n\\tfsmonitor = {program}\\n' > evil.cfg
        echo '* filter=x diff=x merge=x' > .gitattributes
        ln -s / .git/objects/outside; echo /etc > .git/objects/info/alternates
        echo two > a.txt; git add -A; git commit -qm second
        """
    )
    told = committing.branches(run)["main"].commits[0]
    assert [one.path for one in told.files if one.runs] == [".gitattributes"]
    committing.settle("apply", run)
    assert not canary.exists()
    after = repository.state()
    assert {path for path in before if before[path] != after[path]} <= {
        ".git/index",
        ".git/logs/HEAD",
        ".git/logs/refs/heads/main",
        ".git/refs/heads/main",
    }
    assert not [path for path in after if path not in before and path.startswith(".git/") and "/objects/" not in path]
    assert repository.git("fsck", "--strict") == ""


def test_what_runs_by_itself_is_named_beyond_what_is_told(committing, monkeypatch):
    monkeypatch.setattr(commits, "MAX_COMMITS", 2)
    monkeypatch.setattr(commits, "MAX_FILES", 3)
    run = committing.run(
        """
        touch b c d e zz.mk; git add -A; git commit -qm second
        echo three > a.txt; git commit -qam third
        mkdir z; touch z/Makefile z/notes.md; git add -A; git commit -qm fourth
        """
    )
    branch = committing.branches(run)["main"]
    assert [(one.subject, one.files_left) for one in branch.commits] == [("second", 2), ("third", 0)]
    assert [one.path for one in branch.commits[0].files] == ["zz.mk", "b", "c"]
    assert (branch.left, branch.runs) == (1, ("z/Makefile",))
    assert "Not shown, and runs by itself: z/Makefile" in commits_text([branch])


def test_hooks_of_the_person_do_not_run_either(tmp_path, committing):
    repository, canary = committing.repository, tmp_path / "canary"
    for name in (
        "post-index-change",
        "reference-transaction",
        "post-checkout",
        "post-merge",
        "pre-commit",
        "post-commit",
    ):
        hook = repository.folder / ".git" / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {canary} || true\n")
        hook.chmod(0o755)
    run = committing.run("echo two > a.txt; git commit --no-verify -qam second")
    committing.settle("apply", run)
    committing.settle("undo", run)
    assert not canary.exists()


@pytest.mark.parametrize(
    "entries",
    [
        '("40000", ".git", tree(("40000", "hooks", tree(("100755", "x", blob)))))',
        '("40000", "..", tree(("100644", "x", blob)))',
        '("40000", ".", tree(("100644", "x", blob)))',
        '("40000", ".GIT", tree(("100644", "config", blob)))',
        '("100644", "a/b", blob)',
        '("120000", ".gitmodules", blob)',
        '("100644", "x", "00" * 20)',
        '("100644", "gone", "12" * 20)',
        '("100644", "\u0301\u0323" * 64, blob)',
    ],
)
def test_objects_that_no_repository_should_have_do_not_come_out(committing, entries):
    before = committing.repository.state()
    run = committing.run(
        f"cat > /tmp/evil.py <<'E'\n{EVIL_TREE.replace('{entries}', entries)}\nE\npython3 /tmp/evil.py"
    )
    assert (run.status, committing.branches(run)) == ("done", {})
    assert "could not be brought out" in committing.notes(run)
    assert committing.repository.state() == before


@pytest.mark.parametrize(
    "line",
    [
        "rm -rf .git",
        "rm -rf .git; ln -s / .git",
        "rm -rf .git; git init -q; echo x > x; git add -A; git commit -qm other",
        "head -c 4000 /dev/urandom > .git/index; for f in .git/objects/*/*; do chmod +w $f; echo x > $f; done",
        "mkdir -p /tmp/b; printf '#!/bin/sh\\ncat /dev/zero' > /tmp/b/git; chmod +x /tmp/b/git; rm .git/HEAD",
        "printf 'ref: refs/heads/\\xff\\n' > .git/HEAD; cat /dev/urandom | head -c 100 > .git/refs/heads/odd",
        "ln -s /etc/passwd .git/refs/heads/link",
    ],
)
def test_a_ruined_git_ruins_nothing(committing, line):
    before = committing.repository.state()
    run = committing.run(f"{line}; echo two >> a.txt")
    assert (run.status, committing.states(run)["a.txt"]) == ("done", "proposed")
    for branch in committing.branches(run).values():
        assert [one.subject for one in branch.commits] == ["other"]
    assert {path: value for path, value in committing.repository.state().items() if path in before} == before


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("ln -s /etc/passwd leak; git add leak", "leak"),
        ("ln -s ../../outside leak; git add leak", "leak"),
        ("echo 'touch /tmp/x' > .envrc; git add .envrc", ".envrc"),
        ("mkdir -p x/_darcs; echo x > x/_darcs/y; git add x", "x/_darcs/y"),
        ("mkdir bare; echo x > bare/HEAD; mkdir bare/objects bare/refs; echo > bare/refs/x; git add bare", "bare/HEAD"),
    ],
)
def test_what_no_run_writes_is_not_written_by_commits_either(committing, line, path):
    run = committing.run(f"{line}; git commit -qm second")
    before = committing.repository.state()
    with pytest.raises(CommitsRefused, match="no run ever changes"):
        committing.settle("apply", run)
    assert committing.repository.state() == before
    committing.settle("apply", run, as_branch="to-look-at")
    assert path in committing.repository.git("ls-tree", "-r", "--name-only", "to-look-at").splitlines()


def test_what_git_runs_only_since_the_run_is_not_written_by_commits_either(committing):
    run = committing.run("mkdir tools; echo evil > tools/pre-commit; git add tools; git commit -qm second")
    committing.repository.git("config", "core.hooksPath", "tools")
    with pytest.raises(CommitsRefused, match="no run ever changes"):
        committing.settle("apply", run)
    assert not (committing.repository.folder / "tools").exists()


def test_words_of_a_commit_cannot_pose_as_others(committing):
    run = committing.run(
        "echo two > a.txt; git commit -qam $'ok\\x1b[2Jgone \\u202eevil' --author $'A\\u202e \\x07 <x@x>';"
        " git branch $'odd\\u202ename'"
    )
    told = commits_text(committing.branches(run).values())
    assert told.isprintable() or all(char.isprintable() or char == "\n" for char in told)
    assert "⟨U+202E⟩evil" in told
    assert "⟨U+001B⟩" in told


def test_commits_of_other_branches_that_a_branch_would_get_are_told_with_its_own(committing):
    repository = committing.repository
    first = repository.git("rev-parse", "HEAD")
    repository.git("switch", "-qc", "theirs")
    repository.commit("unreviewed", evil__py="evil\n")
    repository.git("switch", "-q", "main")
    repository.commit("mine", b__txt="b\n")
    run = committing.run("git merge -q --no-edit theirs; git commit -q --allow-empty -m 'mend a word'")
    branch = committing.branches(run)["main"]
    assert subjects(branch) == ["unreviewed", "Merge branch 'theirs'", "mend a word"]
    repository.git("reset", "-q", "--hard", first)
    before = repository.state()
    with pytest.raises(CommitsRefused, match="has no more"):
        committing.settle("apply", run)
    assert repository.state() == before


def test_what_a_merge_leaves_out_is_told(committing):
    """A tree of old may stand for a merge: from its first parent nothing differs."""
    repository = committing.repository
    repository.commit("mended", a__txt="mended\n")
    run = committing.run("git reset -q --hard $(git commit-tree HEAD~1^{tree} -p HEAD~1 -p HEAD -m merge)")
    (merge,) = committing.branches(run)["main"].commits
    assert [(one.path, one.diff.splitlines()[-2:]) for one in merge.files] == [("a.txt", ["-mended", "+one"])]


BOMB = """
import subprocess
def git(*words, stdin=b""):
    return subprocess.run(["git", *words], input=stdin, capture_output=True, check=True).stdout.strip().decode()
mode, one = "100644", git("hash-object", "-w", "--stdin", stdin=b"evil")
for _ in range({levels}):
    raw = b"".join(mode.encode() + b" f%d\\0" % number + bytes.fromhex(one) for number in range(10))
    mode, one = "40000", git("hash-object", "-t", "tree", "-w", "--stdin", stdin=raw)
git("update-ref", "refs/heads/main", git("commit-tree", one, "-p", "HEAD", "-m", "evil"))
"""


@pytest.mark.parametrize("levels", [6, 10])
def test_a_few_objects_that_stand_for_very_many_files_fill_no_memory(committing, levels):
    run = committing.run(f"cat > /tmp/e.py <<'E'\n{BOMB.format(levels=levels)}\nE\npython3 /tmp/e.py")
    assert (run.status, committing.branches(run)) == ("done", {})
    assert "could not be brought out" in committing.notes(run)


def test_an_author_of_very_many_characters_is_told_in_few(committing):
    run = committing.run("git commit -q --allow-empty -m x --author \"$(printf 'A%.0s' {1..9000}) <x@x>\"")
    assert [len(one.author) for one in committing.branches(run)["main"].commits] == [201]


def test_an_author_whose_name_has_a_separator_of_lines_is_told_with_all_of_it(committing):
    run = committing.run("git commit -q --allow-empty -m x --author $'Ada\\u2028 Lovelace <a@b>'")
    assert [one.author for one in committing.branches(run)["main"].commits] == ["Ada\u2028 Lovelace <a@b>"]


def bundle_of(folder: Path, repository: Repository, **files: str) -> bytes:
    """What a box would send: a clone, in which files were committed."""
    repository.git("clone", "-q", str(repository.folder), str(folder))
    box = Repository(folder)
    base = box.git("rev-parse", "HEAD")
    box.commit("second", **files)
    words = ["git", "bundle", "create", "-q", "-", "main", f"^{base}"]
    return subprocess.run(words, cwd=folder, capture_output=True, check=True).stdout


def test_what_holds_a_leased_credential_stays_in_the_box(tmp_path, repository):
    found = repository_of(repository.folder, os.environ)
    blobs, secret = BlobStore(tmp_path / "blobs"), Secret("kx9-secret-of-a-lease-77")
    bundle = bundle_of(tmp_path / "box", repository, key__txt="key = kx9-secret-of-a-lease-77\n")
    (told,) = commits.told_commits(bundle, {"main"}, found, blobs, Scrubber(lambda: [secret]))
    assert (told.commits, told.bundle, told.reason) == ((), "", "it holds a leased credential")
    assert not list((tmp_path / "blobs").iterdir())
    repository.commit("there already", key__txt="key = kx9-secret-of-a-lease-77\n")
    bundle_without = bundle_of(tmp_path / "other", repository, key__txt="none\n")
    (told,) = commits.told_commits(bundle_without, {"main"}, found, blobs, Scrubber(lambda: [secret]))
    assert [one.diff for one in told.commits[0].files] == [OLD_HOLDS_LEASED]
    (told,) = commits.told_commits(bundle, {"main"}, found, blobs, Scrubber(list))
    assert [one.subject for one in told.commits] == ["second"]


def test_what_came_beside_the_commits_is_not_kept(tmp_path, repository):
    """Nobody has looked there for a leased credential."""
    found, blobs = repository_of(repository.folder, os.environ), BlobStore(tmp_path / "blobs")
    bundle_of(tmp_path / "box", repository, b__txt="new\n")
    box = Repository(tmp_path / "box")
    head = box.git("rev-parse", "HEAD")
    further = box.git("hash-object", "-w", "--stdin", stdin=b"kx9-secret-of-a-lease-77")
    objects = [line.split(" ")[0] for line in box.git("rev-list", "--objects", "HEAD", "^HEAD~1").splitlines()]
    words = ["git", "pack-objects", "--stdout", "-q"]
    stdin = "\n".join([*objects, further]).encode()
    pack = subprocess.run(words, cwd=box.folder, input=stdin, capture_output=True, check=True)
    bundle = f"# v2 git bundle\n{head} refs/heads/main\n\n".encode() + pack.stdout
    secrets = Scrubber(lambda: [Secret("kx9-secret-of-a-lease-77")])
    (told,) = commits.told_commits(bundle, {"main"}, found, blobs, secrets)
    with commits.quarantine(blobs, found) as place:
        assert place.take(blobs.get(told.bundle)) == {"main": head}
        assert list(place.git.sizes([head, further])) == [head]


def test_a_bundle_is_not_believed(tmp_path, repository):
    found = repository_of(repository.folder, os.environ)
    blobs = BlobStore(tmp_path / "blobs")
    bundle = bundle_of(tmp_path / "box", repository, b__txt="new\n")
    head, _, pack = bundle.partition(b"\n\n")
    oid = head.rsplit(b"\n", 1)[1][:40]
    others = repository.git("hash-object", "-t", "tree", "-w", "--stdin")
    for evil in (
        b"",
        b"\n\n" + pack,
        head + b"\n\n" + pack[:-30],
        head + b"\n\n" + pack[:40] + b"\0" + pack[41:],
        head.replace(oid, b"12" * 20) + b"\n\n" + pack,
        head.replace(oid, others.encode()) + b"\n\n" + pack,
    ):
        with pytest.raises(GitFailed):
            commits.told_commits(evil, {"main"}, found, blobs)
    assert not list((tmp_path / "blobs").glob("*/*"))
    assert (
        commits.told_commits(
            head.replace(b"refs/heads/main", b"refs/heads/../../x") + b"\n\n" + pack, {"main"}, found, blobs
        )
        == []
    )


def test_a_small_pack_of_large_things_is_not_unpacked(tmp_path, repository, monkeypatch):
    monkeypatch.setattr(commits, "MAX_UNPACKED", 2**20)
    found = repository_of(repository.folder, os.environ)
    bundle = bundle_of(tmp_path / "box", repository, b__txt="\0" * 2**21)
    assert len(bundle) < 10_000
    with pytest.raises(GitFailed, match="unpacked"):
        commits.told_commits(bundle, {"main"}, found, BlobStore(tmp_path / "blobs"))
