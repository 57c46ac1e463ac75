import os
import signal
from pathlib import Path

import pytest

from kagura_kernel.sandbox.supervisor.cgroups import Group, Tree, find_tree, group_name, make_group, set_limits, sweep

HERE = 4026531836


def first_version(root: Path) -> tuple[str, str]:
    """Mounts and membership of a machine with three hierarchies, two of them ours to use."""
    for name in ("memory/mine", "pids", "cpu"):
        (root / name).mkdir(parents=True)
    mounts = "".join(
        f"cgroup {root}/{name} cgroup rw,relatime,{name} 0 0\n" for name in ("memory", "pids", "cpu", "freezer")
    )
    return f"proc /proc proc rw 0 0\n{mounts}", "4:memory:/mine\n3:pids:/\n2:cpu:/\n1:name=systemd:/\n0::/\n"


def unified(root: Path, path: str, controllers: dict[str, str]) -> tuple[str, str]:
    for name, enabled in controllers.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name / "cgroup.subtree_control").write_text(enabled)
        (root / name / "cgroup.procs").write_text("")
    return f"cgroup2 {root} cgroup2 rw,nosuid 0 0\n", f"0::{path}\n"


def test_the_first_version_gives_each_controller_its_own_place(tmp_path: Path) -> None:
    tree = find_tree(*first_version(tmp_path))
    assert tree == Tree(1, {"memory": f"{tmp_path}/memory/mine", "pids": f"{tmp_path}/pids", "cpu": f"{tmp_path}/cpu"})
    assert tree.missing == ()


def test_what_is_not_there_is_missing() -> None:
    assert find_tree("proc /proc proc rw 0 0\n", "0::/\n") == Tree()
    assert Tree().missing == ("memory", "pids", "cpu")


def test_the_second_version_goes_up_to_where_controllers_are_handed_out(tmp_path: Path) -> None:
    tree = find_tree(
        *unified(
            tmp_path,
            "/user/app/kernel",
            {"": "memory pids", "user": "memory pids", "user/app": "", "user/app/kernel": ""},
        )
    )
    assert tree == Tree(2, {"memory": f"{tmp_path}/user", "pids": f"{tmp_path}/user"})
    assert tree.missing == ("cpu",)


def test_the_second_version_without_any_controller_is_of_no_use(tmp_path: Path) -> None:
    assert find_tree(*unified(tmp_path, "/kernel", {"": "", "kernel": "memory pids cpu"})) == Tree()


def test_the_root_of_the_second_version_is_its_own_parent(tmp_path: Path) -> None:
    assert find_tree(*unified(tmp_path, "/", {"": "memory pids cpu"})).homes["cpu"] == str(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_place_that_cannot_be_written_is_passed_over(tmp_path: Path) -> None:
    texts = first_version(tmp_path)
    (tmp_path / "pids").chmod(0o555)
    assert find_tree(*texts).missing == ("pids",)


def test_limits_are_written_in_each_versions_words(tmp_path: Path) -> None:
    tree = find_tree(*first_version(tmp_path))
    group = make_group(tree, "kagura-1-1")
    for directory in group.directories:
        for name in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "pids.max", "cpu.cfs_quota_us"):
            Path(directory, name).touch()
    set_limits(tree, group, memory_bytes=1000, processes=5, cpus=1.5)
    assert (tmp_path / "memory/mine/kagura-1-1/memory.limit_in_bytes").read_text() == "1000"
    assert (tmp_path / "memory/mine/kagura-1-1/memory.memsw.limit_in_bytes").read_text() == "1000"
    assert (tmp_path / "pids/kagura-1-1/pids.max").read_text() == "5"
    assert (tmp_path / "cpu/kagura-1-1/cpu.cfs_quota_us").read_text() == "150000"


def test_the_second_versions_limits(tmp_path: Path) -> None:
    tree = find_tree(*unified(tmp_path, "/", {"": "memory pids cpu"}))
    group = make_group(tree, "kagura-1-1")
    for name in ("memory.max", "memory.swap.max", "pids.max", "cpu.max"):
        (tmp_path / "kagura-1-1" / name).touch()
    set_limits(tree, group, memory_bytes=1000, processes=5, cpus=0.5)
    written = {path.name: path.read_text() for path in (tmp_path / "kagura-1-1").iterdir()}
    assert written == {"memory.max": "1000", "memory.swap.max": "0", "pids.max": "5", "cpu.max": "50000 100000"}


def test_no_tree_means_an_empty_group_that_can_do_everything() -> None:
    group = make_group(Tree(), "kagura-1-1")
    assert group == Group()
    set_limits(Tree(), group, memory_bytes=1, processes=1, cpus=1)
    group.enter()
    assert group.remove()
    assert not group.out_of_memory()


def test_a_group_that_is_half_made_is_removed(tmp_path: Path) -> None:
    tree = find_tree(*first_version(tmp_path))
    (tmp_path / "pids/kagura-1-1").mkdir()
    with pytest.raises(FileExistsError):
        make_group(tree, "kagura-1-1")
    assert not (tmp_path / "memory/mine/kagura-1-1").exists()


@pytest.mark.parametrize(
    ("file", "text", "killed"),
    [
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", True),
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n", False),
        ("memory.events", "low 0\nmax 9\noom 1\noom_kill 1\n", True),
        ("memory.events", "low 0\nmax 9\noom 0\noom_kill 0\n", False),
    ],
)
def test_a_lack_of_memory_is_remembered(tmp_path: Path, file: str, text: str, killed: bool) -> None:
    (tmp_path / file).write_text(text)
    assert Group((str(tmp_path),)).out_of_memory() is killed


def test_nothing_that_has_no_number_here_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = []
    monkeypatch.setattr("os.kill", lambda pid, number: killed.append((pid, number)))
    lost = tmp_path / group_name(HERE, 999999999, 1)
    lost.mkdir()
    (lost / "cgroup.procs").write_text("0\n0\n4194305\n")
    (lost / "cgroup.kill").write_text("")
    sweep(Tree(2, {"memory": str(tmp_path)}), HERE)
    assert killed == [(4194305, signal.SIGKILL)]
    assert (lost / "cgroup.kill").read_text() == "1"


def test_groups_of_supervisors_that_are_gone_are_swept_and_no_others(tmp_path: Path) -> None:
    """A process id says nothing in another namespace: containers may share a tree."""
    ours, elsewhere = group_name(HERE, os.getpid(), 1), "kagura-1-999999999-1"
    for name in (group_name(HERE, 999999999, 1), ours, elsewhere, "kagura-x-1", "other"):
        (tmp_path / name).mkdir()
    sweep(Tree(2, {"memory": str(tmp_path), "pids": str(tmp_path)}), HERE)
    assert {path.name for path in tmp_path.iterdir()} == {ours, elsewhere, "kagura-x-1", "other"}


def test_a_group_that_went_in_part_is_gone_once_the_rest_is(tmp_path: Path) -> None:
    group = Group((f"{tmp_path}/memory", f"{tmp_path}/pids"))
    for directory in group.directories:
        Path(directory).mkdir()
    # What is not empty cannot be removed, like a group with a process in it.
    (tmp_path / "pids" / "process").mkdir()
    assert not group.remove()
    assert not (tmp_path / "memory").exists()
    (tmp_path / "pids" / "process").rmdir()
    assert group.remove()
    assert group.remove()
