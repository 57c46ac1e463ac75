from dataclasses import replace
from pathlib import Path

import pytest

from kagura_kernel.sandbox.supervisor.arguments import Staged, bwrap_arguments

STAGED = Staged(etc="/s/etc", empty="/s/empty", scratch="/s/scratch")


def line(staged: Staged, **more: object) -> str:
    return " ".join(bwrap_arguments(staged, ["prog", "--arg"], seccomp_fd=7, **more))


def test_every_wall_is_asked_for() -> None:
    words = line(STAGED)
    for wall in ("--unshare-all", "--die-with-parent", "--new-session", "--as-pid-1", "--clearenv", "--cap-drop ALL"):
        assert wall in words
    assert "--seccomp 7" in words
    assert "--uid 1000 --gid 1000" in words
    assert "--share-net" not in words
    assert "--dev-bind" not in words


def test_the_root_is_closed_before_the_command_and_after_everything_else() -> None:
    words = bwrap_arguments(STAGED, ["prog"], seccomp_fd=7)
    closed = ["--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/"]
    assert words[-10:] == [*closed, "--chdir", "/", "--", "prog"]


def test_what_is_bound_writable_is_scratch_and_workspace_only() -> None:
    staged = replace(STAGED, workspace="/s/merged", lower="/s/low", upper="/s/up")
    words = bwrap_arguments(staged, ["prog"], seccomp_fd=7)
    writable = [words[at + 2] for at, word in enumerate(words) if word == "--bind"]
    assert writable == ["/tmp", "/home/agent", "/dev/shm", "/workspace"]


def test_files_of_the_host_are_bound_as_they_may_be_used() -> None:
    shown = (("/s/shown0", "/plugin/read/0", False), ("/s/shown1", "/plugin/write/0", True))
    words = line(replace(STAGED, shown=shown))
    assert "--ro-bind /s/shown0 /plugin/read/0 --bind /s/shown1 /plugin/write/0 --remount-ro /proc" in words


def test_a_read_only_workspace_is_bound_so_with_its_writable_parts() -> None:
    staged = replace(STAGED, workspace="/s/m", writable=False, writable_parts=("out",))
    words = line(staged)
    assert "--ro-bind /s/m /workspace" in words
    assert "--bind /s/m/out /workspace/out" in words


def test_protected_parts_come_from_the_project_itself_over_the_workspace() -> None:
    staged = replace(STAGED, workspace="/s/m", lower="/s/l", upper="/s/u", protected=(".git",))
    words = line(staged)
    assert words.index("--bind /s/m /workspace") < words.index("--ro-bind /s/l/.git /workspace/.git")
    assert "--ro-bind /s/u /run/kagura/upper --ro-bind /s/l /run/kagura/lower" in words


def test_the_interpreter_is_shown_linked_and_its_secrets_covered(tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text("")
    (tmp_path / "etc/jupyter").mkdir(parents=True)
    hidden = (f"{tmp_path}/pip.conf", f"{tmp_path}/etc/jupyter", f"{tmp_path}/gone")
    staged = replace(
        STAGED,
        python=(("/s/p/0", "/opt/py"),),
        python_links=(("/shims/python", "/opt/py/bin/python"),),
        python_hidden=hidden,
        shims=(("python", "/opt/py/bin/python"),),
    )
    words = line(staged)
    covered = (
        f"--ro-bind /s/empty {tmp_path}/pip.conf --tmpfs {tmp_path}/etc/jupyter --remount-ro {tmp_path}/etc/jupyter"
    )
    assert words.index("--ro-bind /s/p/0 /opt/py") < words.index(covered)
    assert f"{tmp_path}/gone" not in words
    assert "--symlink /opt/py/bin/python /shims/python" in words
    assert "--symlink /opt/py/bin/python /run/kagura/bin/python" in words


@pytest.mark.parametrize("merged", [True, False])
def test_system_directories_are_links_or_binds_as_on_the_host(tmp_path: Path, merged: bool) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    if merged:
        (tmp_path / "bin").symlink_to("usr/bin")
    else:
        (tmp_path / "bin").mkdir()
    words = line(STAGED, system=str(tmp_path))
    assert ("--symlink usr/bin /bin" if merged else f"--ro-bind {tmp_path}/bin /bin") in words
    assert "/lib64" not in words
    assert "/nix/store" not in words


def test_nothing_else_of_the_host_is_named() -> None:
    words = bwrap_arguments(STAGED, ["prog"], seccomp_fd=7)
    sources = [words[at + 1] for at, word in enumerate(words) if word in ("--bind", "--ro-bind")]
    system = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
    assert [source for source in sources if not source.startswith("/s/") and source not in system] == []


@pytest.mark.parametrize("place", ["/tmp/clone/.venv", "/workspace/.venv", "/home/agent/python"])
def test_an_interpreter_below_a_place_of_the_box_is_bound_over_it(place: str) -> None:
    staged = replace(STAGED, workspace="/m", python=((f"/staged{place}", place),))
    words = bwrap_arguments(staged, ["prog"], seccomp_fd=7)
    assert words.index(place) > max(words.index(box_place) for box_place in ("/tmp", "/workspace", "/home/agent"))


ROOTED = replace(
    STAGED, workspace="/s/merged", root="/s/tree", overlays=(("/s/usr", "/usr"), ("/s/db", "/var/lib/dpkg"))
)


def test_a_writable_root_is_of_the_users_that_bubblewrap_is_started_with_and_keeps_every_other_wall() -> None:
    words = line(ROOTED)
    for wall in ("ipc", "pid", "net", "uts", "cgroup"):
        assert f"--unshare-{wall}" in words
    for wall in ("--die-with-parent", "--new-session", "--as-pid-1", "--clearenv", "--cap-drop ALL", "--seccomp 7"):
        assert wall in words
    assert "--unshare-user" not in words
    assert "--unshare-all" not in words
    assert "--uid" not in words


def test_a_writable_root_and_its_overlays_come_before_everything_that_lies_on_them() -> None:
    words = line(ROOTED)
    assert words.index("--bind /s/tree /") < words.index("--bind /s/usr /usr") < words.index("--proc /proc")
    assert "--bind /s/db /var/lib/dpkg" in words
    assert "--remount-ro / " not in words
    assert "--remount-ro /proc --remount-ro /dev --chdir /" in words
    assert "/etc" not in words.split()


def test_a_root_in_the_box_can_never_gain_more_than_packages_need() -> None:
    words = bwrap_arguments(ROOTED, ["prog"], seccomp_fd=7)
    starter = words[words.index("--") + 1 :]
    only = "-all,+chown,+dac_override,+fowner,+fsetid,+setuid,+setgid,+setfcap,+kill"
    assert starter[0] == "/usr/bin/setpriv"
    assert [starter[at + 1] for at, word in enumerate(starter) if word.endswith(("-set", "-caps"))] == [only] * 3
    assert starter[-1] == "prog"


def test_a_layer_over_the_interpreter_is_writable_and_on_top_of_what_is_shown_of_it() -> None:
    staged = replace(
        STAGED,
        python=(("/s/p/1", "/opt/base"),),
        python_layers=(("/s/x/python/0/merged", "/opt/env"), ("/s/x/python/own0", "/home/someone/own/bin")),
    )
    words = line(staged)
    layers = "--bind /s/x/python/0/merged /opt/env --bind /s/x/python/own0 /home/someone/own/bin"
    assert words.index("--ro-bind /s/p/1 /opt/base") < words.index(layers) < words.index("--remount-ro /proc")
