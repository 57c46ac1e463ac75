import asyncio
import errno
import json
import os
import resource
import stat
from datetime import timedelta

import pytest

from kagura_kernel.domain.errors import KitRefused, KitUnwritable, RedactionUnavailable
from kagura_kernel.kit.staging import home_files, plan, stage, versions as state
from kagura_kernel.kit.staging.stage import FEW, build_kit
from kagura_kernel.testing.clock import FakeClock
from tests.support.kit_rig import KIND, SECRET, HomeRig, KnownWords

DAY = 24 * 3600


@pytest.fixture
def build(rig):
    """Builds a plan and closes the kit at the end."""
    kits = []

    def make(plan=None, **options):
        kit = build_kit(plan or rig.plan(), rig.root, options.pop("redactor", rig.redactor), **options)
        kits.append(kit)
        return kit

    make.kits = kits
    yield make
    for kit in kits:
        kit.close()


def settled(monkeypatch) -> None:
    """Let the time of a file's inode not count either, which nobody can set back."""
    monkeypatch.setattr("kagura_kernel.kit.staging.stage.is_settled", lambda *_: True)


def contents(directory) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


def test_a_kit_holds_what_was_planned_without_its_secrets(rig, build):
    rig.skill("csv-tools", {"scripts/run.sh": f"TOKEN={SECRET}\n", "logo.png": b"\x89PNG" + SECRET.encode()})
    (rig.home / ".agents/skills/csv-tools/scripts/run.sh").chmod(0o700)
    rig.write(rig.project / "AGENTS.md", f"live: {SECRET}\n")
    rig.write(rig.home / "CLAUDE.md", f"global: {SECRET} {SECRET}\n".encode("utf-16"))
    kit = build(rig.plan(agents={"reviewer": {"name": "reviewer", "system_prompt": f"use {SECRET}"}}))
    held = contents(kit.directory)
    assert sorted(held) == [
        "agents/reviewer.yaml",
        "manifest.json",
        "prompt_files/CLAUDE.md",
        "skills/csv-tools/SKILL.md",
        "skills/csv-tools/logo.png",
        "skills/csv-tools/scripts/run.sh",
    ]
    assert held["skills/csv-tools/scripts/run.sh"] == b"TOKEN=[REDACTED:password]\n"
    assert held["prompt_files/CLAUDE.md"].decode("utf-16") == "global: [REDACTED:password] [REDACTED:password]\n"
    assert b"[REDACTED:password]" in held["agents/reviewer.yaml"]
    assert SECRET in (rig.project / "AGENTS.md").read_text()
    assert kit.prompt_texts == (
        ("AGENTS.md", "live: [REDACTED:password]\n"),
        ("CLAUDE.md", "global: [REDACTED:password] [REDACTED:password]\n"),
    )
    [skill] = kit.skills
    assert (skill.name, skill.description, skill.root) == (
        "csv-tools",
        "What csv-tools is for.",
        "/kagura/kit/skills/csv-tools",
    )
    assert [(file.target, file.redactions, file.kinds) for file in skill.files] == [
        ("skills/csv-tools/SKILL.md", 0, ()),
        ("skills/csv-tools/logo.png", 0, ()),
        ("skills/csv-tools/scripts/run.sh", 1, ("password",)),
    ]
    assert [(prompt.place, prompt.path, prompt.redactions) for prompt in kit.prompt_files] == [
        ("workspace", "/workspace/AGENTS.md", 1),
        ("kit", "/kagura/kit/prompt_files/CLAUDE.md", 2),
    ]
    assert kit.agents == ("reviewer",)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in kit.directory.rglob("*")}
    assert (modes["run.sh"], modes["logo.png"], modes["scripts"]) == (0o755, 0o644, 0o755)
    assert kit.link.resolve() == kit.directory
    assert SECRET not in repr(kit)


def test_the_manifest_says_nothing_of_the_host_and_equal_kits_are_equal_bytes(rig, build, tmp_path):
    rig.skill("one", {"a.txt": "a"})
    rig.write(rig.home / "code/AGENTS.md", "above")
    (rig.home / ".agents/skills/one/away").symlink_to(tmp_path / "outside")
    first = build()
    text = (first.directory / "manifest.json").read_text()
    assert json.loads(text)["left_out"] == [
        {"target": "skills/one/away", "reason": "it is a link that leads out of its directory"}
    ]
    for word in (str(tmp_path), str(rig.home), rig.home.name + "/", "tester.yaml", "~", "code/project"):
        assert word not in text
    other = HomeRig(tmp_path / "another")
    other.skill("one", {"a.txt": "a"})
    other.write(other.home / "code/AGENTS.md", "above")
    (other.home / ".agents/skills/one/away").symlink_to("/somewhere/else")
    second = build(other.plan())
    assert second.digest == first.digest
    assert contents(second.directory) == contents(first.directory)
    assert {path.stat().st_mtime_ns for path in second.directory.rglob("*")} == {315_532_800_000_000_000}


def test_an_unchanged_kit_is_not_built_again_and_a_changed_one_has_another_place_under_the_same_link(
    rig, build, monkeypatch
):
    settled(monkeypatch)
    rig.skill("one", {"a.txt": "first"})
    rig.write(rig.project / "AGENTS.md", "live")
    first = build()
    asked = rig.redactor.asked
    again = build()
    assert again.unchanged
    assert rig.redactor.asked == asked
    assert (again.directory, again.skills, again.prompt_texts) == (first.directory, first.skills, first.prompt_texts)
    rig.write(rig.home / ".agents/skills/one/a.txt", "later")
    changed = build()
    assert (changed.unchanged, changed.link) == (False, first.link)
    assert changed.directory != first.directory
    assert (first.directory / "skills/one/a.txt").read_text() == "first"
    assert (first.link / "skills/one/a.txt").read_text() == "later"
    rig.write(rig.home / ".agents/skills/one/a.txt", "first")
    back = build()
    assert (back.digest, back.unchanged) == (first.digest, True)
    assert (first.link / "skills/one/a.txt").read_text() == "first"


def test_what_was_written_a_moment_ago_is_read_again_since_its_times_cannot_tell(rig, build, monkeypatch):
    # A busy machine may take longer than the real moment to come to the first look.
    monkeypatch.setattr("kagura_kernel.kit.staging.stage._TICK", 3_600_000_000_000)
    rig.skill("one", {"a.txt": "a"})
    build()
    asked = rig.redactor.asked
    assert build().unchanged
    assert rig.redactor.asked > asked


def test_other_rules_of_redaction_make_another_kit(rig, build, monkeypatch):
    settled(monkeypatch)
    rig.skill("one", {"a.txt": "another word"})
    first = build()
    monkeypatch.setattr("kagura_kernel.kit.staging.stage.redaction_version", lambda: "new rules")
    second = build(redactor=KnownWords("another"))
    assert second.digest != first.digest
    assert (second.directory / "skills/one/a.txt").read_text() == "[REDACTED:password] word"


@pytest.mark.parametrize("damage", ["content", "size", "missing", "more", "link", "manifest"])
def test_a_version_that_somebody_altered_is_staged_anew(rig, build, monkeypatch, damage):
    settled(monkeypatch)
    rig.skill("one", {"a.txt": "whole"})
    first = build()
    file = first.directory / "skills/one/a.txt"
    if damage == "content":
        file.write_text("wrong")
    elif damage == "size":
        file.write_text("")
    elif damage == "missing":
        file.unlink()
    elif damage == "more":
        (file.parent / "more.txt").write_text("more")
    elif damage == "link":
        file.unlink()
        file.symlink_to(rig.home / ".agents/skills/one/a.txt")
    else:
        (first.directory / "manifest.json").write_text("{}")
    second = build()
    assert (second.unchanged, second.digest) == (False, first.digest)
    assert sorted(contents(second.directory)) == ["manifest.json", "skills/one/SKILL.md", "skills/one/a.txt"]
    assert (second.directory / "skills/one/a.txt").read_text() == "whole"
    assert not (second.directory / "skills/one/a.txt").is_symlink()


def test_after_the_machine_was_off_every_byte_is_looked_at(rig, build, monkeypatch):
    settled(monkeypatch)
    rig.skill("one", {"a.txt": "whole"})
    first = build()
    file = first.directory / "skills/one/a.txt"
    found = file.stat()
    file.write_text("\0\0\0\0\0")
    os.utime(file, ns=(found.st_mtime_ns, found.st_mtime_ns))
    assert build().unchanged
    monkeypatch.setattr("kagura_kernel.kit.staging.stage.boot", lambda: "another boot")
    assert not build().unchanged
    assert file.read_text() == "whole"


def test_an_agent_that_needs_nothing_gets_an_empty_kit_and_still_its_prompts(rig, build):
    rig.write(rig.project / "AGENTS.md", "live")
    kit = build(rig.plan(skills=False))
    assert (kit.empty, kit.digest, kit.prompt_texts) == (True, "", (("AGENTS.md", "live"),))
    assert list(contents(kit.directory)) == ["manifest.json"]


def test_a_plan_with_problems_is_refused_with_all_of_them(rig, build):
    with pytest.raises(KitRefused, match="'nothing' is asked for") as raised:
        build(rig.plan(skills=["nothing", "none"]))
    assert len(raised.value.problems) == 2
    assert not rig.root.exists()


def test_what_cannot_be_redacted_is_left_out_and_a_skill_without_its_first_file_whole(rig, build):
    rig.skill("zipped", {"data.zip": b"PK\x03\x04" + SECRET.encode()})
    rig.skill("hollow", {"SKILL.md": b"PK\x03\x04", "a.txt": "a"})
    rig.skill("named", {f"{SECRET}.txt": "its name says it"})
    rig.write(rig.home / "AGENTS.md", b"\x89PNG")
    kit = build()
    assert [skill.name for skill in kit.skills] == ["named", "zipped"]
    assert [(one.target, one.reason) for one in kit.left_out] == [
        ("prompt_files/AGENTS.md", "it is no text"),
        ("skills/hollow/SKILL.md", "it is an archive"),
        ("skills/named/[REDACTED:password].txt", "its name holds what looks like a secret"),
        ("skills/zipped/data.zip", "it is an archive"),
    ]
    assert sorted(contents(kit.directory)) == ["manifest.json", "skills/named/SKILL.md", "skills/zipped/SKILL.md"]


def test_a_secret_in_a_skills_name_is_found_before_the_name_is_changed(rig, build):
    token = "Swordfish_4711_Ab"
    rig.skill(token)
    rig.skill("plain", {"SKILL.md": f"---\nname: {token}\ndescription: d\n---\n"})
    rig.skill("other")
    rig.write(rig.project / f".agents/skills/{token}/SKILL.md", "---\nname: here\ndescription: d\n---\n")
    kit = build(redactor=KnownWords(token))
    assert [skill.name for skill in kit.skills] == ["other"]
    assert {(one.target, one.reason) for one in kit.left_out} >= {
        (f"skills/[REDACTED:{KIND}]", "its name holds what looks like a secret"),
        ("skills/here", "its name holds what looks like a secret"),
    }
    told = json.dumps([str(kit.skills), str(kit.left_out)]) + "".join(map(str, contents(kit.directory)))
    assert "swordfish" not in told.lower()
    assert b"ordfish" not in b"".join(contents(kit.directory).values())


def test_of_much_that_is_left_out_the_first_is_told_and_the_rest_counted(rig, build, monkeypatch):
    monkeypatch.setattr(plan, "MAX_LEFT_OUT", 3)
    rig.skill("one", {f"{number}.zip": b"PK\x03\x04" for number in range(5)})
    kit = build()
    assert ([one.target[-5:] for one in kit.left_out], kit.omitted) == (["0.zip", "1.zip", "2.zip"], 2)


def test_a_file_that_changes_while_it_is_read_or_after_it_was_planned_is_never_half_staged(rig, build, monkeypatch):
    root = rig.skill("one", {"a.txt": "a" * 10, "b.txt": "b", "c.txt": "c", "d.txt": "d"})
    plan = rig.plan()
    (root / "b.txt").unlink()
    (root / "c.txt").unlink()
    (root / "c.txt").symlink_to("/etc/passwd")
    (root / "d.txt").unlink()
    os.mkfifo(root / "d.txt")
    real = home_files._bytes

    def grown(handle, most):
        data = real(handle, most)
        if data == b"a" * 10:
            with (root / "a.txt").open("a") as file:
                file.write("more")
        return data

    monkeypatch.setattr(home_files, "_bytes", grown)
    assert {one.target[-5:]: one.reason for one in build(plan).left_out} == {
        "a.txt": "it changed while it was read",
        "b.txt": "it is gone since it was planned",
        "c.txt": "it is a link that leads out of its directory",
        "d.txt": "it is a named pipe",
    }


def test_a_file_that_may_not_be_read_is_left_out_and_the_rest_of_its_skill_is_not(rig, build, monkeypatch):
    rig.skill("one", {"a.txt": "a", "b.txt": "b"})
    real = home_files._open_leaf

    def guarded(name, parent):
        if name == "a.txt":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(name, parent)

    monkeypatch.setattr(home_files, "_open_leaf", guarded)
    kit = build()
    assert [(one.target, one.reason) for one in kit.left_out] == [
        ("skills/one/a.txt", "it cannot be read: permission denied")
    ]
    assert [file.target for file in kit.skills[0].files] == ["skills/one/SKILL.md", "skills/one/b.txt"]


def test_nothing_half_made_stays_when_secrets_cannot_be_looked_for(rig, build):
    class Broken(KnownWords):
        def redact_file(self, *_):
            raise RedactionUnavailable("no scanner")

    rig.skill("one")
    with pytest.raises(RedactionUnavailable):
        build(redactor=Broken())
    assert list((rig.root / rig.plan().key / "versions").iterdir()) == []


def test_nothing_half_made_stays_when_the_disk_is_full(rig, build):
    rig.skill("one", {"large.bin": "x" * (1 << 20)})
    plan = rig.plan()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    import signal

    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, before[1]))
    try:
        with pytest.raises(KitUnwritable, match="file too large") as raised:
            build(plan)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert str(rig.root) in raised.value.message
    assert list((rig.root / plan.key / "versions").iterdir()) == []
    assert build(plan).skills[0].name == "one"


def test_a_place_of_kits_that_others_may_write_to_is_refused(rig, build, tmp_path):
    rig.root.mkdir()
    rig.root.chmod(0o777)
    with pytest.raises(KitUnwritable, match="others may write there"):
        build()
    rig.root.chmod(0o700)
    build().close()
    folder = rig.root / rig.plan().key
    moved = folder.rename(tmp_path / "moved")
    folder.symlink_to(moved)
    with pytest.raises(KitUnwritable, match=f"{folder.name}: a link or a file stands where a folder should"):
        build()


def test_what_stands_in_the_way_is_named(rig, build):
    build().close()
    link = rig.root / rig.plan().key / "kit"
    link.unlink()
    link.mkdir()
    with pytest.raises(KitUnwritable, match=f"staged in {link}: is a directory"):
        build()


def test_a_place_of_kits_that_cannot_be_made_is_told(rig, build):
    rig.write(rig.root, "a file")
    with pytest.raises(KitUnwritable, match="file exists"):
        build()


def test_an_old_version_is_taken_away_once_nobody_holds_it_and_a_while_has_passed(rig, build):
    clock = FakeClock()
    versions = rig.root / rig.plan().key / "versions"

    def newer(text: str):
        rig.skill("one", {"a.txt": text})
        return build(clock=clock)

    first = newer("1")
    clock_moves(clock, 3600)
    newer("2").close()
    assert first.directory.is_dir()
    first.close()
    newer("3").close()
    assert first.directory.is_dir()
    clock_moves(clock, 601)
    newest = newer("4")
    assert sorted(path.name for path in versions.iterdir()) == [newest.digest, f"{newest.digest}.lock"]
    newest.close()
    newest.close()


@pytest.mark.parametrize(("pause", "kept"), [(31, FEW), (1, 12)])
def test_of_a_kit_that_changes_all_the_time_few_versions_stay_and_those_in_use_among_them(
    rig, build, monkeypatch, pause, kept
):
    monkeypatch.setattr(stage, "_STAY", ((12, timedelta(0)), *stage._STAY[1:]))
    clock = FakeClock()
    rig.skill("one", {"count.txt": "0"})
    held = build(clock=clock)
    closed = []
    for count in range(1, 20):
        clock_moves(clock, pause)
        rig.skill("one", {"count.txt": str(count)})
        closed.append(build(clock=clock).directory)
        build(clock=clock).close()
        for kit in build.kits[1:]:
            kit.close()
    versions = {path for path in held.directory.parent.iterdir() if path.is_dir()}
    assert versions == {held.directory, *closed[-kept - 1 :]}
    assert (held.directory / "skills/one/count.txt").read_text() == "0"
    assert len(list(held.directory.parent.iterdir())) == 2 * len(versions), "each with its lock, and no other lock"


def test_kits_of_an_agent_that_was_not_used_for_a_month_are_taken_away(rig, build):
    clock = FakeClock()
    rig.skill("one")
    old = build(rig.plan(name="old"), clock=clock)
    old.close()
    kept = build(rig.plan(name="kept"), clock=clock)
    clock_moves(clock, 31 * DAY)
    build(rig.plan(name="new"), clock=clock)
    assert (old.directory.exists(), old.link.exists(), kept.directory.exists()) == (False, False, True)
    assert not (old.link.parent / state.STATE).exists()
    assert build(rig.plan(name="old"), clock=clock).directory == old.directory


def test_what_a_dead_process_was_making_is_taken_away_and_what_a_living_one_makes_is_not(rig, build):
    from kagura_kernel.kit.staging.versions import Shelf

    rig.skill("one")
    plan = rig.plan()
    shelf = Shelf(rig.root, plan.key)
    shelf.prepare()
    half = rig.write(shelf.versions / "making-1-abcd/skills/one/SKILL.md", "half").parents[2]
    aside = rig.write(shelf.versions / "dead-1234/x", "x").parent
    unfinished = [rig.write(shelf.folder / name, "x") for name in (".kit.0000.tmp", ".state.json.0000")]
    with shelf.making() as living:
        build(plan)
        assert living.is_dir()
    assert not half.exists()
    assert not aside.exists()
    assert not any(path.exists() for path in unfinished)


def test_another_process_that_does_not_let_go_is_told(rig, build, monkeypatch):
    from kagura_kernel.kit.staging import versions
    from kagura_kernel.kit.staging.versions import Shelf

    monkeypatch.setattr(versions, "PATIENCE", 0.0)
    shelf = Shelf(rig.root, rig.plan().key)
    shelf.prepare()
    with shelf.turn(), pytest.raises(KitUnwritable, match="another process does not let go of it"):
        build()


def test_a_system_that_knows_no_locks_is_told(build, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", no_locks)
    with pytest.raises(KitUnwritable, match="locks"):
        build()


def test_a_kit_lets_go_when_its_block_ends(rig):
    from kagura_kernel.kit.staging.versions import Shelf, hold_file

    rig.skill("one")
    with build_kit(rig.plan(), rig.root, rig.redactor) as kit:
        lock = Shelf(rig.root, rig.plan().key).lock_of(kit.digest)
        assert hold_file(lock, alone=True) is None
    held = hold_file(lock, alone=True)
    assert held is not None
    held.let_go()


def clock_moves(clock: FakeClock, seconds: float) -> None:
    asyncio.run(clock.advance(seconds))
