from pathlib import Path

import pytest

from kagura_kernel.sandbox.bubblewrap.backend import advise_root
from kagura_kernel.sandbox.namespaces import MachineFacts, advise, advise_there, read_facts

REFUSED = "bwrap: No permissions to create new namespace"


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        (MachineFacts(userns_clone=0), "kernel.unprivileged_userns_clone=1"),
        (MachineFacts(max_namespaces=0), "user.max_user_namespaces"),
        (MachineFacts(apparmor=1), "AppArmor"),
        (MachineFacts(container=True), "--box docker"),
        (MachineFacts(container=True, userns_clone=0), "kernel.unprivileged_userns_clone=1"),
    ],
)
def test_the_setting_that_stands_in_the_way_is_named(facts: MachineFacts, word: str) -> None:
    assert word in advise(REFUSED, facts)


def test_nothing_is_advised_where_nothing_is_known() -> None:
    assert advise(REFUSED, MachineFacts(userns_clone=1, max_namespaces=1000, apparmor=0)) == ""
    assert advise("bwrap: execvp python: no such file", MachineFacts(container=True)) == ""


def test_facts_are_read_from_the_machine(tmp_path: Path) -> None:
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/user").mkdir()
    (tmp_path / "proc/sys/kernel/unprivileged_userns_clone").write_text("0\n")
    (tmp_path / "proc/sys/user/max_user_namespaces").write_text("not a number")
    (tmp_path / ".dockerenv").touch()
    assert read_facts(tmp_path) == MachineFacts(container=True, userns_clone=0)
    assert read_facts(tmp_path / "nowhere") == MachineFacts()


@pytest.mark.parametrize(
    ("why", "advice"),
    [
        ("only root of the whole machine may map the users that packages need", "--box docker"),
        ("a writable root is made of a Debian system, and this machine has no dpkg database", "--box docker"),
        ("the system cannot be shown as the box's own (a layer: No space left on device)", ""),
    ],
)
def test_a_root_that_cannot_be_writable_is_mended_by_another_way(why: str, advice: str) -> None:
    assert advice in advise_root(why)
    assert bool(advise_root(why)) == bool(advice)


def test_of_another_machine_it_is_told_where_the_setting_lies() -> None:
    assert advise_there(REFUSED, MachineFacts(userns_clone=0), "far") == (
        "On far: Allow user namespaces: `sysctl -w kernel.unprivileged_userns_clone=1`."
    )
    assert advise_there(REFUSED, MachineFacts(container=True), "far").startswith("far seems to be a container")
    assert advise_there(REFUSED, MachineFacts(), "far") == ""
